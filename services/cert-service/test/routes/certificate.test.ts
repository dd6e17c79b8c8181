import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hash,
  X509Certificate,
} from 'node:crypto'
import { join } from 'node:path'
import { fromPem, parseCsr } from '@gatehouse/pki'
import t from 'tap'
import { weakPair } from '../../../../packages/auth-core/test/jwt/roca-keys.ts'
import { backup, restore } from '../../../../packages/cert-store/src/backup/backup.ts'
import { openSqliteStore } from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { newAudit, newCertificate } from '../../../../packages/cert-store/test/helpers/store.ts'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, NOW, start } from '../helpers/app.ts'

t.test('POST /api/certificate answers with a certificate and its key', async (t) => {
  const { call, service } = await start(t)
  const { status, headers, body } = await call('POST', '/api/certificate', {
    domain: 'App.Example.com.',
    names: ['*.app.example.com', '192.0.2.1', 'app.example.com'],
  })
  t.equal(status, 200)
  t.match(headers, { 'cache-control': 'no-store', 'content-type': /^application\/json/ })
  t.strictSame(Object.keys(body).sort(), [
    'cached',
    'certificate',
    'domain',
    'fingerprint256',
    'issuer',
    'issuerCert',
    'names',
    'notAfter',
    'notBefore',
    'privateKey',
    'renewAt',
    'serialNumber',
  ])
  t.match(body, {
    domain: 'app.example.com',
    names: ['app.example.com', '*.app.example.com', '192.0.2.1'],
    issuer: 'ca',
    cached: false,
    notBefore: '2029-12-31T23:55:00Z',
    notAfter: '2030-01-08T00:00:00Z',
  })
  const leaf = new X509Certificate(body.certificate)
  const issuer = new X509Certificate(body.issuerCert)
  t.ok(leaf.verify(issuer.publicKey), 'the issuer signed it')
  t.ok(issuer.verify(new X509Certificate(service.ca.root()!).publicKey), 'the root signed that')
  t.ok(leaf.checkPrivateKey(createPrivateKey(body.privateKey)), 'the key is its own')
  t.equal(leaf.checkHost('x.app.example.com'), '*.app.example.com')
  t.equal(leaf.serialNumber.toLowerCase(), body.serialNumber)

  const again = await call('POST', '/api/certificate', {
    domain: 'app.example.com',
    names: ['192.0.2.1', '*.APP.example.com'],
  })
  t.strictSame(again.body, { ...body, cached: true }, 'the same names get the same certificate')
  const other = await call('POST', '/api/certificate', {
    domain: '192.0.2.1',
    names: ['app.example.com', '*.app.example.com'],
  })
  t.strictSame(other.body, { ...body, domain: '192.0.2.1', cached: true }, 'in whatever order')
})

t.test('the answer names what a CSR asks for in vain', async (t) => {
  const { call } = await start(t)
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const post = (usage?: string) =>
    call('POST', '/api/certificate', {
      domain: 'a.test',
      csr: makeCsr({ pair, names: ['a.test'], ...(usage && { usage }) }),
    })
  const serverAuth = '2b06010505070301'
  const clientAuth = '2b06010505070302'
  const { body } = await post(clientAuth)
  t.match(body, { cached: false, ignored: ['clientAuth'] })
  t.match((await post(clientAuth)).body, { cached: true, ignored: ['clientAuth'] })
  for (const usage of [serverAuth, undefined]) {
    const { body: again } = await post(usage)
    t.equal(again.serialNumber, body.serialNumber, 'another request of the same key')
    t.notOk('ignored' in again, 'gets all that it asks for')
  }
  t.notOk('ignored' in (await call('GET', '/api/certificate/a.test')).body)
})

t.test('every key type is issued, each as a certificate of its own', async (t) => {
  const { call } = await start(t)
  const types = { p256: 'ec', p384: 'ec', ed25519: 'ed25519', rsa2048: 'rsa' }
  const serials = new Set()
  for (const [keyType, asymmetric] of Object.entries(types)) {
    const { status, body } = await call('POST', '/api/certificate', { domain: 'a.test', keyType })
    t.equal(status, 200, keyType)
    t.equal(createPublicKey(body.certificate).asymmetricKeyType, asymmetric)
    serials.add(body.serialNumber)
  }
  t.equal(serials.size, 4)
})

t.test('callers that accept PEM get one file', async (t) => {
  const { call } = await start(t)
  const json = (await call('POST', '/api/certificate', { domain: 'a.test' })).body
  const bundle = json.certificate + json.privateKey
  const wantPem = [
    'application/x-pem-file',
    'text/html, application/x-pem-file;q=0.5',
    'application/json;q=0.1, application/x-pem-file',
    '*/*;q=0.1, application/X-PEM-file',
    'application/json;q=0, */*',
  ]
  for (const accept of wantPem) {
    const { status, headers, text } = await call(
      'POST',
      '/api/certificate',
      { domain: 'a.test' },
      { accept },
    )
    t.match(
      { status, type: headers['content-type'] },
      { status: 200, type: /^application\/x-pem-file/ },
    )
    t.equal(text, bundle, accept)
  }
  const wantJson = [
    '*/*',
    'application/*',
    'application/json',
    'application/x-pem-files',
    'application/x-pem-file;q=0',
    'application/x-pem-file;q=0.1, application/json;q=0.2',
    'application/x-pem-file;q=0, */*',
    'text/html',
    '',
  ]
  for (const accept of wantJson)
    t.equal(
      (await call('POST', '/api/certificate', { domain: 'a.test' }, { accept })).body.cached,
      true,
      accept,
    )
})

t.test('GET /api/certificate/:domain', async (t) => {
  const { call, clock, service } = await start(t)
  t.match(await call('GET', '/api/certificate/a.test'), {
    status: 404,
    body: { code: 'CERT_NOT_FOUND' },
  })
  t.equal(service.issuance.flights.size, 0, 'it starts nothing')
  const { body } = await call('POST', '/api/certificate', { domain: 'a.test' })
  const got = await call('GET', '/api/certificate/A.test.')
  t.strictSame(got.body, { ...body, cached: true })

  const etag = String(got.headers.etag)
  for (const tag of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
    const same = await call('GET', '/api/certificate/a.test', undefined, { 'if-none-match': tag })
    t.match(same, { status: 304, text: '', headers: { etag } }, tag)
  }
  t.equal(
    (await call('GET', '/api/certificate/a.test', undefined, { 'if-none-match': '"x"' })).status,
    200,
  )
  const pem = await call('GET', '/api/certificate/a.test', undefined, {
    accept: 'application/x-pem-file',
    'if-none-match': etag,
  })
  t.equal(pem.status, 200, 'the two forms have tags of their own')

  await call('POST', '/api/certificate', { domain: '*.a.test', names: ['10.0.0.1'] })
  t.equal((await call('GET', '/api/certificate/%2A.a.test')).status, 200)
  t.match((await call('GET', '/api/certificate/10.0.0.1')).body, { domain: '10.0.0.1' }, 'by each')
  await call('POST', '/api/certificate', { domain: '2001:DB8::1' })
  t.equal((await call('GET', '/api/certificate/2001:db8:0::1')).body.domain, '2001:db8::1')

  await clock.advance(8 * DAY)
  t.match(
    await call('GET', '/api/certificate/a.test'),
    { status: 404 },
    'what has ended is not answered',
  )
})

t.test('the newest of several certificates of a name is answered', async (t) => {
  const { call, clock } = await start(t)
  await call('POST', '/api/certificate', { domain: 'a.test' })
  await clock.advance(1000)
  const newer = await call('POST', '/api/certificate', { domain: 'a.test', names: ['b.test'] })
  const got = await call('GET', '/api/certificate/a.test')
  t.equal(got.body.serialNumber, newer.body.serialNumber)
})

t.test('POST /api/certificate/renew', async (t) => {
  const { call, clock } = await start(t)
  t.match(await call('POST', '/api/certificate/renew', { domain: 'a.test' }), { status: 404 })
  const first = (await call('POST', '/api/certificate', { domain: 'a.test' })).body
  const early = await call('POST', '/api/certificate/renew', { domain: 'a.test' })
  const seconds = (Date.parse(first.renewAt) - NOW) / 1000
  t.match(early, { status: 429, body: { code: 'CERT_RENEW_TOO_SOON' } })
  t.equal(Number(early.headers['retry-after']), seconds)

  await clock.advance(seconds * 1000)
  const renewed = await call('POST', '/api/certificate/renew', { domain: 'a.test' })
  t.match(renewed, { status: 200, body: { cached: false } })
  t.not(renewed.body.serialNumber, first.serialNumber)
  t.not(renewed.body.privateKey, first.privateKey, 'the key is new')
  const now = await call('POST', '/api/certificate', { domain: 'a.test' })
  t.strictSame(now.body, { ...renewed.body, cached: true })
})

t.test('POST /api/certificate/revoke', async (t) => {
  const { call, service } = await start(t)
  t.match(await call('POST', '/api/certificate/revoke', { domain: 'a.test' }), { status: 404 })
  const first = (await call('POST', '/api/certificate', { domain: 'a.test' })).body
  const two = (await call('POST', '/api/certificate', { domain: 'a.test', keyType: 'p384' })).body
  const before = await call('GET', '/ca/crl.der')
  const revoked = await call('POST', '/api/certificate/revoke', {
    domain: 'A.test',
    reason: 'keyCompromise',
  })
  t.match(revoked, { status: 200, body: { domain: 'a.test', reason: 'keyCompromise' } })
  t.strictSame(revoked.body.serialNumbers.sort(), [first.serialNumber, two.serialNumber].sort())
  t.equal((await call('GET', '/api/certificate/a.test')).status, 404)

  const list = await service.store.listRevoked(service.ca.intermediate().certificate, NOW)
  t.equal(list.length, 2)
  const crl = await service.ca.crls.get(service.ca.intermediate().info.skid!)
  t.not(Buffer.from(crl).toString('hex'), Buffer.from(before.text, 'latin1').toString('hex'))
  t.ok(Buffer.from(crl).includes(Buffer.from(first.serialNumber, 'hex')), 'it is in the list')

  const next = (await call('POST', '/api/certificate', { domain: 'a.test' })).body
  t.equal(next.cached, false)
  t.not(next.privateKey, first.privateKey, 'the next one has a new key')
})

t.test('DELETE /api/certificate/:domain', async (t) => {
  const { call, service } = await start(t)
  t.match(await call('DELETE', '/api/certificate/a.test'), { status: 404 })
  await call('POST', '/api/certificate', { domain: 'a.test' })
  t.match(await call('DELETE', '/api/certificate/a.test'), { status: 204, text: '' })
  t.equal((await call('GET', '/api/certificate/a.test')).status, 404)
  t.same(await service.store.claimDue(Number.MAX_SAFE_INTEGER, 1), [], 'it is no longer renewed')
  t.equal((await call('POST', '/api/certificate', { domain: 'a.test' })).body.cached, false)
})

t.test('a key that was revoked as compromised is never certified again', async (t) => {
  expectWarnings(t, 'CERT_KEY_COMPROMISED')
  const { call, clock, service, folder, close } = await start(t)
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const csr = (name: string) => makeCsr({ pair, names: [name] })
  const revoke = (domain: string, reason: string) =>
    call('POST', '/api/certificate/revoke', { domain, reason })
  const post = (domain: string, csr: string, query = '') =>
    call('POST', `/api/certificate${query}`, { domain, csr })

  t.equal((await post('a.test', csr('a.test'))).status, 200)
  t.equal((await post('b.test', csr('b.test'))).status, 200)
  await revoke('a.test', 'superseded')
  t.equal((await post('a.test', csr('a.test'))).status, 200, 'other reasons are none')
  await revoke('a.test', 'keyCompromise')
  const refused = {
    status: 422,
    body: { code: 'CERT_KEY_COMPROMISED', errors: [{ pointer: '/csr' }] },
  }
  t.match(await post('a.test', csr('a.test')), refused)
  t.match(await post('c.test', csr('c.test')), refused, 'under another name')
  t.match(await post('c.test', csr('c.test'), '?dryRun=true'), refused, 'nor looked at')
  t.match(await post('b.test', csr('b.test')), refused, 'though one is held')
  t.notOk(
    (await post('c.test', csr('c.test'))).headers['retry-after'],
    'there is nothing to wait for',
  )

  await clock.advance(5 * DAY)
  const renewal = await call('POST', '/api/certificate/renew', { domain: 'b.test' })
  t.not(renewal.status, 200, 'nor is one of its certificates renewed')
  t.equal((await service.store.findByDomain('b.test')).length, 1)

  const ours = (await call('POST', '/api/certificate', { domain: 'd.test' })).body
  await revoke('d.test', 'keyCompromise')
  const privateKey = createPrivateKey(ours.privateKey)
  const stolen = makeCsr({
    pair: { privateKey, publicKey: createPublicKey(privateKey) },
    names: ['d.test'],
  })
  t.match(await post('d.test', stolen), refused, 'a key that was ours')
  t.equal((await call('POST', '/api/certificate', { domain: 'd.test' })).status, 200, 'a new key')

  await close()
  const again = await start(t, {}, { folder, clock })
  const body = { domain: 'a.test', csr: csr('a.test') }
  t.match(await again.call('POST', '/api/certificate', body), refused, 'after a restart')
  await clock.advance(400 * DAY)
  t.match(await again.call('POST', '/api/certificate', body), refused, 'for good')

  const file = join(folder, 'copy.db')
  await backup({ folder: again.config.storage.path, file })
  await restore({ folder: join(folder, 'elsewhere'), file, forget: true })
  const restored = await openSqliteStore({ folder: join(folder, 'elsewhere') })
  const spki = pair.publicKey.export({ type: 'spki', format: 'der' })
  t.ok(await restored.isCompromised(hash('sha256', spki)), 'and in a backup')
  await restored.close()
})

t.test('a key of the ROCA attack (CVE-2017-15361) is not certified', async (t) => {
  expectWarnings(t, 'CERT_ISSUE_FAILED', 'PKI_KEY_WEAK')
  const { call, clock, service } = await start(t)
  const csr = makeCsr({ pair: weakPair(), rsa: 2_048, names: ['a.test'] })
  const refused = {
    status: 400,
    body: { code: 'PKI_KEY_WEAK', errors: [{ pointer: '/csr', detail: /CVE-2017-15361/ }] },
  }
  for (const query of ['', '?dryRun=true'])
    t.match(await call('POST', `/api/certificate${query}`, { domain: 'a.test', csr }), refused)
  t.strictSame(await service.store.findByDomain('a.test'), [])

  const [der = Buffer.alloc(0)] = fromPem(csr, 'CERTIFICATE REQUEST')
  const requestKey = `ca|server|${parseCsr(der).spkiSha256}|a.test`
  const own = {
    requestKey,
    names: ['a.test'],
    keyType: 'rsa2048',
    csr: der,
    sealedKey: null,
  } as const
  await service.store.addCertificate(newCertificate(own), newAudit())
  await clock.advance(5 * DAY)
  const renewal = await call('POST', '/api/certificate/renew', { domain: 'a.test' })
  t.match(renewal.body.detail, /CVE-2017-15361/, 'nor is one of before renewed')

  const sound = makeCsr({ rsa: 2_048, names: ['a.test'] })
  const answer = await call('POST', '/api/certificate', { domain: 'a.test', csr: sound })
  t.equal(answer.status, 200)
})

t.test('a name is found where it is not the first of a certificate', async (t) => {
  const { call, clock } = await start(t)
  const get = async (name: string) =>
    (await call('GET', `/api/certificate/${encodeURIComponent(name)}`)).body
  const post = async (domain: string, more: object = {}) =>
    (await call('POST', '/api/certificate', { domain, ...more })).body
  const both = await post('a.test', { names: ['b.test', '*.c.test'] })
  t.match(await get('b.test'), { serialNumber: both.serialNumber, domain: 'b.test' })
  t.match(await get('*.c.test'), { serialNumber: both.serialNumber })
  t.match(await get('x.c.test'), { code: 'CERT_NOT_FOUND' }, 'no wildcard is matched')
  const csr = makeCsr({ names: ['b.test'] })
  const newer = await post('z.test', { csr })
  t.match(await get('b.test'), { serialNumber: both.serialNumber }, 'one with its key first')
  t.match(await get('z.test'), { serialNumber: newer.serialNumber })
  const own = await post('b.test')
  await clock.advance(1_000)
  await post('y.test', { names: ['b.test'] })
  t.match(await get('b.test'), { serialNumber: own.serialNumber }, 'the first name counts more')
  for (const [path, body] of [
    ['/api/certificate/renew', { domain: '*.c.test' }],
    ['/api/certificate/revoke', { domain: '*.c.test' }],
  ] as const)
    t.equal((await call('POST', path, body)).status, 404, `${path} goes by the first name`)
})

t.test('a CSR of one caller does not hide the private key from others', async (t) => {
  const { call, clock } = await start(t)
  const held = (await call('POST', '/api/certificate', { domain: 'a.test' })).body
  for (let n = 0; n < 3; n += 1) {
    await clock.advance(1_000)
    await call('POST', '/api/certificate', {
      domain: 'a.test',
      csr: makeCsr({ names: ['a.test'] }),
    })
  }
  const { body } = await call('GET', '/api/certificate/a.test')
  t.match(body, { serialNumber: held.serialNumber, privateKey: held.privateKey })
})

t.test(
  'a name of an older store with many certificates is read by the page and revoked whole',
  async (t) => {
    const { call, service } = await start(t)
    const { store } = service
    for (let n = 0; n < 300; n += 1)
      await store.addCertificate(
        newCertificate({
          requestKey: `old ${n}`,
          names: ['a.test'],
          sealedKey: null,
          notBefore: NOW,
          notAfter: NOW + DAY,
        }),
        newAudit(),
      )
    t.equal((await store.findByDomain('a.test')).length, 100)
    t.equal((await store.findByName('a.test', 200)).length, 100)
    const revoked = await call('POST', '/api/certificate/revoke', { domain: 'a.test' })
    t.equal(revoked.body.serialNumbers.length, 300)
    t.strictSame(await store.findByDomain('a.test'), [])
  },
)

t.test('deleted certificates can still be revoked', async (t) => {
  const { call } = await start(t)
  const { serialNumber } = (await call('POST', '/api/certificate', { domain: 'a.test' })).body
  await call('DELETE', '/api/certificate/a.test')
  const revoked = await call('POST', '/api/certificate/revoke', { domain: 'a.test' })
  t.match(revoked, { status: 200, body: { serialNumbers: [serialNumber] } })
  t.equal((await call('POST', '/api/certificate/revoke', { domain: 'a.test' })).status, 404)
})

t.test('GET /api/certificates gives pages', async (t) => {
  const { call } = await start(t)
  for (let n = 0; n < 5; n += 1) await call('POST', '/api/certificate', { domain: `h${n}.test` })
  const seen: string[] = []
  let after = ''
  for (let pages = 0; pages < 5; pages += 1) {
    const { body } = await call('GET', `/api/certificates?limit=2${after && `&after=${after}`}`)
    t.ok(body.certificates.length <= 2)
    seen.push(...body.certificates.map(({ domain }: { domain: string }) => domain))
    after = body.next
    if (!after) break
  }
  t.strictSame(seen, ['h0.test', 'h1.test', 'h2.test', 'h3.test', 'h4.test'])
  const [entry] = (await call('GET', '/api/certificates')).body.certificates
  t.match(entry, {
    names: ['h0.test'],
    issuer: 'ca',
    keyType: 'p256',
    serialNumber: /^[0-9a-f]{32}$/,
  })
  t.notOk('privateKey' in entry)
})

t.test('routes without authentication', async (t) => {
  const { app, call, close, service, logged } = await start(t)
  const open = async (url: string) => app.inject({ url })
  const root = await open('/ca/root.pem')
  t.equal(root.headers['content-type'], 'application/pem-certificate-chain')
  t.ok(new X509Certificate(root.payload).raw.equals(service.ca.root()!))
  const intermediate = await open('/ca/intermediate.pem')
  t.ok(new X509Certificate(intermediate.payload).raw.equals(service.ca.intermediate().certificate))
  const crl = await open('/ca/crl.der')
  t.equal(crl.headers['content-type'], 'application/pkix-crl')
  const { skid } = service.ca.intermediate().info
  t.ok(crl.rawPayload.equals((await open(`/ca/crl.der?issuer=${skid}`)).rawPayload))
  t.match((await open('/ca/crl.der?issuer=00')).json(), { status: 404, code: 'CERT_NOT_FOUND' })
  t.match((await open('/healthz')).json(), { status: 'ok' })
  t.strictSame((await open('/readyz')).json(), { status: 'ready', degraded: [] })
  t.match((await open('/openapi.json')).json(), { openapi: '3.1.0' })
  t.equal((await open('/docs')).statusCode, 200)
  t.equal((await call('GET', '/metrics')).status, 404, 'metrics have a listener of their own')

  await close()
  t.match(app.readiness(), { ready: false, reason: 'draining' })
  const lines = logged.flatMap((text) => text.trim().split('\n'))
  const paths = lines.map((line) => JSON.parse(line).path)
  t.ok(paths.includes('/ca/root.pem'))
  for (const path of ['/healthz', '/readyz', '/openapi.json', '/docs'])
    t.notOk(paths.includes(path), `${path} has no line in the log`)
})

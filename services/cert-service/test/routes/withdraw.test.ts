import { hash } from 'node:crypto'
import { generateP256, parseCertificate } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { newAudit, newCertificate } from '../../../../packages/cert-store/test/helpers/store.ts'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { AppDeps } from '../../src/app.ts'
import { post, problem, startAcme as startPublic, WAIT } from '../helpers/acme.ts'
import { startAcme } from '../helpers/acme-service.ts'
import { DAY, NOW, settle, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_')

const serialOf = (leaf: Buffer | undefined) => parseCertificate(leaf as Buffer).serialNumber
const domain = 'a.example.com'

t.test(
  'a client with a new key at each renewal: what it has replaced is revoked too',
  async (t) => {
    const { client, call, clock, service } = await startAcme(t)
    const keys = [generateP256(), generateP256(), generateP256()] as const
    const leaves: Buffer[] = []
    for (const key of keys) {
      await clock.advance(4 * DAY)
      leaves.push(...(await client.obtain([domain], {}, key)).slice(0, 1))
    }
    const [, replaced, current] = leaves.map(serialOf)
    const revoked = await call('POST', '/api/certificate/revoke', {
      domain,
      reason: 'keyCompromise',
    })
    t.strictSame(revoked.body, {
      domain,
      reason: 'keyCompromise',
      serialNumbers: [replaced, current],
    })
    const list = await service.store.listRevoked(service.ca.intermediate().certificate, clock.now())
    t.strictSame(
      list.map(({ serialNumber }) => serialNumber),
      [replaced, current],
    )
    for (const [n, key] of keys.entries()) {
      const answer = await client.finalize(await client.order([domain]), [domain], key)
      t.equal(answer.status, n === 0 ? 200 : 400, `key ${n}`)
    }
  },
)

t.test('ten machines under one account: on day 12 all that is unexpired is revoked', async (t) => {
  const { client, call, clock } = await startAcme(t)
  const leaves: Buffer[] = []
  for (let day = 0; day < 12; day += 1) {
    for (let machine = 0; machine < 10; machine += 1)
      if ((day + machine) % 4 === 0) leaves.push(...(await client.obtain([domain])).slice(0, 1))
    await clock.advance(DAY)
  }
  const unexpired = leaves.filter((leaf) => parseCertificate(leaf).notAfter >= clock.now())
  const revoked = await call('POST', '/api/certificate/revoke', { domain })
  t.strictSame(revoked.body.serialNumbers.toSorted(), unexpired.map(serialOf).sort())
  t.equal(unexpired.length, 17)
  t.equal((await call('POST', '/api/certificate/revoke', { domain })).status, 404)
})

t.test('every way to a certificate for the same names is reached, and nothing else', async (t) => {
  const { client, clientOf, call, clock, app } = await startAcme(t)
  const names = [domain, 'b.example.com']
  const body = { domain, names }
  const operator = await clientOf('operator')
  const expected = [
    serialOf((await client.obtain(names))[0]),
    serialOf((await client.obtain(names.toReversed()))[0]),
    serialOf((await operator.obtain(names))[0]),
    (await call('POST', '/api/certificate', body)).body.serialNumber,
  ]
  await call('DELETE', `/api/certificate/${domain}`)
  const csr = makeCsr({ names })
  expected.push((await call('POST', '/api/certificate', { ...body, csr })).body.serialNumber)
  await clock.advance(DAY)
  // One that begins with another name, and is for other names.
  const other = await client.obtain(['b.example.com'])
  const foreign = await operator.obtain(['b.example.com', domain, 'x.example.org'])
  const limited = await app.inject({
    method: 'POST',
    url: '/api/certificate/revoke',
    headers: { authorization: 'APIKey a-key-of-the-web-servers' },
    payload: { domain },
  })
  t.equal(limited.statusCode, 403, 'only who may revoke')
  const revoked = await call('POST', '/api/certificate/revoke', { domain })
  t.strictSame(revoked.body.serialNumbers.toSorted(), expected.toSorted())
  for (const [one] of [other, foreign]) t.notOk(revoked.body.serialNumbers.includes(serialOf(one)))
})

t.test('who may not revoke all names of a certificate leaves it', async (t) => {
  const { call, app } = await start(t, {
    auth: {
      psk: {
        keys: [
          { name: 'operator', key: 'a-key-that-may-do-everything' },
          {
            name: 'web',
            key: 'a-key-of-the-web-servers',
            domains: ['*.example.com'],
            rights: ['revoke'],
          },
        ],
      },
    },
  })
  const own = (await call('POST', '/api/certificate', { domain })).body
  await call('POST', '/api/certificate', { domain, names: ['x.example.org'] })
  const { statusCode, payload } = await app.inject({
    method: 'POST',
    url: '/api/certificate/revoke',
    headers: { authorization: 'APIKey a-key-of-the-web-servers' },
    payload: { domain },
  })
  t.equal(statusCode, 200)
  t.strictSame(JSON.parse(payload).serialNumbers, [own.serialNumber], 'and is not told of it')
  const rest = await call('POST', '/api/certificate/revoke', { domain })
  t.equal(rest.body.serialNumbers.length, 1)
})

t.test('many certificates of a name are revoked a hundred at a time', async (t) => {
  const { call, service } = await start(t)
  const { store } = service
  const total = 1_050
  const names = [domain]
  for (let n = 0; n < total; n += 1)
    await store.addCertificate(
      newCertificate({
        requestKey: `l${n}`,
        names,
        sealedKey: null,
        notBefore: NOW,
        notAfter: NOW + DAY + (n % 7),
      }),
      newAudit(),
    )
  const sizes: number[] = []
  const { revoke } = store
  Object.assign(store, {
    revoke: (...of: Parameters<typeof revoke>) => {
      sizes.push(of[0].length)
      return revoke(...of)
    },
  })
  const revoked = await call('POST', '/api/certificate/revoke', { domain, reason: 'keyCompromise' })
  t.equal(new Set(revoked.body.serialNumbers).size, total)
  t.ok(sizes.every((size) => size <= 100))
})

t.test('a CA that is away keeps nothing else from being revoked', async (t) => {
  const { ca, running, clock } = await startPublic(t)
  const { call, service } = running
  service.start()
  const { serialNumber } = (await post(running)).body
  const names = ['app.example.com']
  const own = await service.store.addCertificate(
    newCertificate({ names, notBefore: clock.now(), notAfter: clock.now() + DAY }),
    newAudit(),
  )
  ca.always('revokeCert', problem(500, 'serverInternal', 'out of order'))
  const revoke = () =>
    call('POST', '/api/certificate/revoke', { domain: names[0], reason: 'keyCompromise' })
  const detail = /app.example.com could not be revoked: .*out of order/
  t.match(await revoke(), {
    status: 202,
    body: {
      serialNumbers: [own.serialNumber],
      notRevoked: [{ serialNumber, issuer: 'acme', detail }],
    },
  })
  t.match(await post(running), { status: 200, body: { serialNumber } }, 'and it is still served')
  const [held] = await service.store.findByDomain('app.example.com')
  const { spki } = parseCertificate(held?.certificate as Uint8Array)
  t.ok(await service.store.isCompromised(hash('sha256', spki)), 'its key is refused from now on')
  ca.always('revokeCert')
  t.match(await revoke(), { status: 200, body: { serialNumbers: [serialNumber] } })
})

t.test('what is deleted while its renewal is under way is not renewed any more', async (t) => {
  const gate = Promise.withResolvers<void>()
  let presented = 0
  const createSolver: AppDeps['createSolver'] = ({ type }) => ({
    type,
    present: async () => (presented++ > 0 ? gate.promise : undefined),
    cleanUp: async () => {},
  })
  const { ca, running, clock } = await startPublic(t, {}, { createSolver })
  running.service.start()
  await post(running)
  await clock.advance(61 * DAY)
  await settle(() => presented === 2)
  const deletion = running.call('DELETE', '/api/certificate/app.example.com')
  await settle()
  await clock.advance(WAIT)
  t.equal((await deletion).status, 204)
  gate.resolve()
  await settle(() => running.service.issuance.flights.size === 0)
  t.match((await running.service.store.findByDomain('app.example.com'))[0], { renewAt: null })
  for (let day = 0; day < 80; day += 10) {
    await clock.advance(10 * DAY)
    await settle(() => running.service.issuance.flights.size === 0)
  }
  t.equal(ca.count('newOrder'), 2)
  t.match((await post(running)).body, { cached: true }, 'yet nothing issued is lost')
})

t.test('revoked at the CA first, those that it replaced as well', async (t) => {
  const { ca, running, clock } = await startPublic(t)
  running.service.start()
  await post(running)
  await clock.advance(61 * DAY)
  await settle(() => running.service.issuance.flights.size === 0)
  t.equal(ca.count('newOrder'), 2)
  const revoke = () =>
    running.call('POST', '/api/certificate/revoke', {
      domain: 'app.example.com',
      reason: 'superseded',
    })
  ca.always('revokeCert', problem(500, 'serverInternal', 'out of order'))
  t.match(await revoke(), {
    status: 503,
    body: { code: 'ACME_SERVER_INTERNAL', detail: /out of order/, action: /\w+/ },
  })
  t.equal((await post(running)).status, 200, 'what the CA did not revoke is not revoked')
  ca.always('revokeCert')
  const asked = ca.count('revokeCert')
  ca.answer('revokeCert', problem(500, 'serverInternal'))
  const revoked = await revoke()
  t.match(revoked, { status: 200, body: { serialNumbers: { length: 2 } } })
  t.notOk('unknownAtCa' in revoked.body)
  t.equal(ca.count('revokeCert') - asked, 3, 'one fault is put up with')
  t.match((await post(running)).body, { cached: false })
  t.match(await revoke(), { status: 200, body: { serialNumbers: { length: 1 } } })
})

t.test('what the CA does not know any more is revoked here, and the answer says so', async (t) => {
  const rows = [
    ['by status', problem(404, 'malformed', 'Not found'), true],
    ['in words', problem(400, 'malformed', 'Unable to find specified certificate.'), true],
    ['another fault', problem(400, 'malformed', 'The request is no JWS'), false],
    ['a page of a proxy', { status: 404, body: '' }, false],
  ] as const
  for (const [what, reply, isUnknown] of rows) {
    const { ca, running } = await startPublic(t)
    const { serialNumber } = (await post(running)).body
    ca.always('revokeCert', reply)
    const domain = 'app.example.com'
    const { status, body } = await running.call('POST', '/api/certificate/revoke', { domain })
    if (isUnknown)
      t.match({ status, body }, { status: 200, body: { unknownAtCa: [serialNumber] } }, what)
    else
      t.match(
        { status, body },
        { status: 503, body: { code: /^ACME_/, detail: /app.example.com/ } },
        what,
      )
    const held = await running.call('GET', `/api/certificate/${domain}`)
    t.equal(held.status, isUnknown ? 404 : 200, what)
  }
})

t.test('what a removed issuer issued cannot be revoked here, only deleted', async (t) => {
  const folder = testFolder(t)
  const { ca, running, clock } = await startPublic(t, {}, { folder })
  await post(running)
  await running.close()
  const again = await startPublic(t, {}, { folder, ca, clock, config: { issuers: [] } })
  const domain = 'app.example.com'
  t.match(await again.running.call('POST', '/api/certificate/revoke', { domain }), {
    status: 409,
    body: { code: 'CERT_ISSUER_ABSENT' },
  })
  t.equal((await again.running.call('DELETE', `/api/certificate/${domain}`)).status, 204)
  t.equal(ca.count('revokeCert'), 0)
})

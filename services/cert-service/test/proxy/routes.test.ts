import { createPrivateKey, X509Certificate } from 'node:crypto'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { createIdp, DAY, KEY, NOW, type Running, reload, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'CERT_NOTHING_HELD')

const PROXY_KEY = 'a-key-of-a-proxy-000'
const DOMAINS = ['*.app.test', '=*.wild.test', 'one.test', '192.0.2.1']
const HOUR = 3_600_000
const TRAEFIK = '/api/proxy/traefik'

const apiKey = (key: string) => ({ authorization: `APIKey ${key}` })
const basic = (text: string) => ({
  authorization: `Basic ${Buffer.from(text).toString('base64')}`,
})
const proxyKey = apiKey(PROXY_KEY)

function startWithProxy(t: Test, changes: object = {}) {
  const keys = [
    { name: 'all', key: KEY },
    { name: 'proxy', key: PROXY_KEY, domains: DOMAINS },
    { name: 'star', key: 'a-key-with-a-star-000', domains: ['*'] },
  ]
  return start(t, { auth: { psk: { keys } }, ...changes })
}

const obtain = ({ call }: Running, domain: string, more: object = {}) =>
  call('POST', '/api/certificate', { domain, ...more })

const poll = ({ call }: Running, headers: object = proxyKey) =>
  call('GET', TRAEFIK, undefined, headers)

const handshake = ({ call }: Running, name: string, headers: object = proxyKey) =>
  call('GET', `/api/proxy/caddy?server_name=${encodeURIComponent(name)}`, undefined, headers)

interface Entry {
  readonly certFile: string
  readonly keyFile: string
}

const firstNames = (body: { tls: { certificates: Entry[] } }) =>
  body.tls.certificates.map(({ certFile }) => new X509Certificate(certFile).subjectAltName)

async function rowsOf({ service }: Running, action: string) {
  await service.audit.close()
  const rows = await service.store.listAudit({ limit: 100 })
  return rows.filter((row) => row.action === action && row.actor === 'psk:proxy')
}

t.test('traefik gets every certificate that its key may read, whole', async (t) => {
  const running = await startWithProxy(t)
  await obtain(running, 'b.app.test')
  await obtain(running, 'a.app.test', { names: ['one.test'] })
  await obtain(running, 'other.test')
  await obtain(running, 'c.app.test', { names: ['other.test'] })
  await obtain(running, 'd.app.test', { csr: makeCsr() })
  const { status, headers, body } = await poll(running)
  t.equal(status, 200)
  t.match(headers, { 'cache-control': 'no-store', 'content-type': /^application\/json/ })
  t.same(Object.keys(body), ['tls'], 'nothing that Traefik would not know')
  t.same(Object.keys(body.tls), ['certificates'])
  t.same(firstNames(body), ['DNS:a.app.test, DNS:one.test', 'DNS:b.app.test'])
  for (const entry of body.tls.certificates) {
    t.same(Object.keys(entry), ['certFile', 'keyFile'])
    const { certFile, keyFile } = entry
    t.equal(certFile.match(/BEGIN CERTIFICATE/g).length, 2, 'the chain without its root')
    t.ok(new X509Certificate(certFile).checkPrivateKey(createPrivateKey(keyFile)))
  }
})

t.test('traefik gets the same bytes until something changes', async (t) => {
  const running = await startWithProxy(t)
  const { service, clock } = running
  for (const name of ['c', 'a', 'b']) await obtain(running, `${name}.app.test`)
  const first = await poll(running)
  const { list } = service.store
  Object.assign(service.store, { list: () => Promise.reject(new Error('read once too often')) })
  t.equal((await poll(running)).text, first.text, 'without a look into the store')
  Object.assign(service.store, { list })
  await clock.advance(HOUR)
  t.equal((await poll(running)).text, first.text, 'an hour later')

  const changes: [why: string, change: () => Promise<unknown>, count: number][] = [
    ['a new one', () => obtain(running, 'd.app.test'), 4],
    [
      'a revoked one',
      () => running.call('POST', '/api/certificate/revoke', { domain: 'a.app.test' }),
      3,
    ],
    ['one deleted', () => running.call('DELETE', '/api/certificate/b.app.test'), 2],
    [
      'a renewed one',
      async () => {
        const [record] = await service.store.findByDomain('c.app.test')
        await service.issuance.renew(record!, { actor: 'system' })
      },
      2,
    ],
    [
      'another policy',
      () => reload(running, { ...running.config, rules: [deny('c.app.test')] }),
      1,
    ],
  ]
  let before = first.text
  for (const [why, change, count] of changes) {
    await change()
    const { text, body } = await poll(running)
    t.not(text, before, why)
    t.equal(body.tls.certificates.length, count, `${why}: how many`)
    before = text
  }
})

t.test('traefik never gets an empty list', async (t) => {
  const running = await startWithProxy(t)
  await obtain(running, 'other.test')
  const empty = {
    status: 503,
    body: { code: 'CERT_NOTHING_HELD' },
    headers: { 'retry-after': '5' },
  }
  t.match(await poll(running), empty, 'nothing for this key')
  await obtain(running, 'one.test')
  t.equal((await poll(running)).status, 200, 'at once when there is one')
  await running.clock.advance(8 * DAY)
  t.match(await poll(running), empty, 'what has ended is not handed out')
})

t.test('traefik gets 503 while the store fails, and tries again', async (t) => {
  expectWarnings(t, 'INTERNAL')
  const running = await startWithProxy(t)
  await obtain(running, 'one.test')
  const { list } = running.service.store
  Object.assign(running.service.store, { list: () => Promise.reject(new Error('no')) })
  t.equal((await poll(running)).status, 500)
  Object.assign(running.service.store, { list })
  t.equal((await poll(running)).status, 200)
})

t.test('polling counts as use and is recorded once an hour', async (t) => {
  const running = await startWithProxy(t)
  await obtain(running, 'one.test')
  for (let n = 0; n < 3; n += 1) await poll(running)
  await running.clock.advance(HOUR)
  for (let n = 0; n < 3; n += 1) await poll(running)
  t.match(await rowsOf(running, 'hand-out'), [
    { names: ['one.test'], count: 1 },
    { names: ['one.test'], count: 1 },
  ])
  const [record] = await running.service.store.findByDomain('one.test')
  t.equal(record?.fetchedAt, NOW + HOUR)
})

t.test('caddy gets the certificate for a server name as one bundle', async (t) => {
  const running = await startWithProxy(t)
  const wild = { names: ['*.wild.test'] }
  for (const [domain, more] of [
    ['one.test', { names: ['www.app.test'] }],
    ['*.wild.test', {}],
    ['192.0.2.1', {}],
    ['mixed.app.test', wild],
    ['secret.test', {}],
    ['with.other.test', { names: ['both.app.test'] }],
    ['csr.app.test', { csr: makeCsr() }],
  ] as const)
    t.equal((await obtain(running, domain, more)).status, 200, domain)

  const cases: [why: string, name: string, san: string | undefined][] = [
    ['its first name', 'one.test', 'DNS:one.test, DNS:www.app.test'],
    ['another of its names', 'www.app.test', 'DNS:one.test, DNS:www.app.test'],
    ['in any spelling', 'WWW.app.test.', 'DNS:one.test, DNS:www.app.test'],
    ['a wildcard', 'x.wild.test', 'DNS:mixed.app.test, DNS:*.wild.test'],
    ['an address', '192.0.2.1', 'IP Address:192.0.2.1'],
    ['a wildcard is one label deep', 'x.y.wild.test', undefined],
    ['a wildcard does not hold its parent', 'wild.test', undefined],
    ['a name of others', 'secret.test', undefined],
    ['its own name beside one of others', 'both.app.test', undefined],
    ['a certificate whose key is elsewhere', 'csr.app.test', undefined],
    ['a name that nobody asked for yet', 'new.app.test', undefined],
    ['no name', '', undefined],
    ['no name at all', '*', undefined],
  ]
  const issued = (await running.service.store.list({ after: 0, limit: 100 })).length
  for (const [why, name, san] of cases) {
    const { status, headers, text } = await handshake(running, name)
    t.equal(status, san ? 200 : 204, why)
    t.equal(headers['cache-control'], 'no-store')
    if (!san) t.equal(text, '', `${why}: nothing`)
    else {
      t.equal(headers['content-type'], 'application/x-pem-file')
      const leaf = new X509Certificate(text)
      t.equal(leaf.subjectAltName, san, `${why}: which`)
      t.ok(leaf.checkPrivateKey(createPrivateKey(text.slice(text.indexOf('-----BEGIN PRIVATE')))))
    }
  }
  t.equal(
    (await running.service.store.list({ after: 0, limit: 100 })).length,
    issued,
    'none is new',
  )
  t.equal((await rowsOf(running, 'hand-out')).length, 3, 'written down')
})

t.test('caddy gets what is valid now, and the newest', async (t) => {
  const running = await startWithProxy(t)
  const old = await obtain(running, 'one.test')
  await running.clock.advance(6 * DAY)
  const [record] = await running.service.store.findByDomain('one.test')
  await running.service.issuance.renew(record!, { actor: 'system' })
  const { text } = await handshake(running, 'one.test')
  t.not(new X509Certificate(text).serialNumber.toLowerCase(), old.body.serialNumber)
  await running.call('POST', '/api/certificate/revoke', { domain: 'one.test' })
  t.equal((await handshake(running, 'one.test')).status, 204, 'revoked')
  await obtain(running, 'one.test')
  await running.clock.advance(8 * DAY)
  t.equal((await handshake(running, 'one.test')).status, 204, 'ended')
})

t.test('the query of caddy is validated strictly', async (t) => {
  const running = await startWithProxy(t)
  await obtain(running, 'one.test')
  const asked =
    'server_name=one.test&signature_schemes=804,403&cipher_suites=1301&local_ip=127.0.0.1'
  const ask = (query: string) =>
    running.call('GET', `/api/proxy/caddy?${query}`, undefined, proxyKey)
  t.equal((await ask(asked)).status, 200)
  t.equal((await ask('')).status, 204)
  t.match(await ask(`${asked}&force=true`), {
    status: 400,
    body: { errors: [{ pointer: '/force' }] },
  })
  t.equal((await ask('server_name=one.test&server_name=two.test')).status, 400, 'two names')
  t.match(await running.call('GET', `${TRAEFIK}?page=2`, undefined, proxyKey), {
    status: 400,
    body: { errors: [{ pointer: '/page' }] },
  })
})

t.test('access to the proxy routes', async (t) => {
  const running = await startWithProxy(t)
  await obtain(running, 'one.test')
  const cases: [why: string, headers: object, traefik: number, caddy: number, code?: string][] = [
    ['a key with domains', proxyKey, 200, 200],
    ['a key without', apiKey(KEY), 403, 403, 'CERT_KEY_UNRESTRICTED'],
    ['a key for everything', apiKey('a-key-with-a-star-000'), 403, 403, 'CERT_KEY_UNRESTRICTED'],
    ['nobody', { authorization: '' }, 401, 401, 'AUTH_SCHEME_UNSUPPORTED'],
    ['a wrong key', apiKey('a-key-of-a-proxy-001'), 401, 401, 'AUTH_KEY_INVALID'],
    ['the password of a URL', basic(`caddy:${PROXY_KEY}`), 401, 200],
    ['a wrong password', basic('caddy:a-key-of-a-proxy-001'), 401, 401],
    ['the password of a key without domains', basic(`caddy:${KEY}`), 401, 403],
    ['a user alone', basic('caddy'), 401, 401],
  ]
  for (const [why, headers, traefik, caddy, code] of cases) {
    const [polled, asked] = [
      await poll(running, headers),
      await handshake(running, 'one.test', headers),
    ]
    t.equal(polled.status, traefik, `${why}: traefik`)
    t.equal(asked.status, caddy, `${why}: caddy`)
    if (code) t.match([polled.body, asked.body], [{ code }, { code }], why)
  }
  const password = basic(`caddy:${PROXY_KEY}`)
  const elsewhere = await running.call('GET', '/api/certificate/one.test', undefined, password)
  t.match(elsewhere, { status: 401, body: { code: 'AUTH_SCHEME_UNSUPPORTED' } }, 'nowhere else')
  const secrets = new RegExp(`${PROXY_KEY}|${KEY}|${password.authorization.slice(6)}`)
  t.notMatch(running.logged.join(), secrets, 'no key is logged')
  await running.service.audit.close()
  const rows = await running.service.store.listAudit({ limit: 100 })
  t.match(
    rows.filter(({ action }) => action === 'refuse').map(({ actor, detail }) => [actor, detail]),
    [
      ['psk:star', 'CERT_KEY_UNRESTRICTED'],
      ['psk:all', 'CERT_KEY_UNRESTRICTED'],
    ],
    'refusals are written down',
  )
})

t.test('a rule that grants everything is no limit, however it is written', async (t) => {
  const cases: [domain: string, status: number][] = [
    ['*', 403],
    ['0.0.0.0/0', 403],
    ['0:0:0:0:0:0:0:0/0', 403],
    ['::/1', 403],
    ['*.invalid', 503],
    ['10.0.0.0/8', 503],
    ['fd00::/8', 503],
  ]
  const key = (n: number) => `a-key-of-its-own-000${n}`
  const keys = cases.map(([domain], n) => ({ name: `${n}`, key: key(n), domains: [domain] }))
  const running = await start(t, { auth: { psk: { keys } }, rules: [deny('*.invalid')] })
  for (const [n, [domain, status]] of cases.entries())
    t.equal((await poll(running, apiKey(key(n)))).status, status, domain)
})

t.test('tokens are accepted if something limits them', async (t) => {
  expectWarnings(t, 'every token may have every name')
  const idp = await createIdp(t, () => NOW)
  const token = (claims: object) => ({
    authorization: `Bearer ${idp.token({ sub: 'p', ...claims })}`,
  })
  const jwt = { issuerUrl: idp.issuerUrl, audience: 'certs' }
  const open = await start(t, { auth: { jwt } }, { folder: testFolder(t, { open: {} }) })
  t.equal((await poll(open, token({}))).body.code, 'CERT_KEY_UNRESTRICTED')
  await open.close()

  const keys = [{ name: 'all', key: KEY }]
  const limited = await start(t, {
    auth: { psk: { keys }, jwt: { ...jwt, domainsClaim: 'domains' } },
  })
  await obtain(limited, 'one.test')
  t.equal((await poll(limited, token({ domains: ['one.test'] }))).status, 200)
  t.equal((await handshake(limited, 'one.test', token({ domains: ['two.test'] }))).status, 204)
  t.equal((await poll(limited, token({ domains: ['*'] }))).body.code, 'CERT_KEY_UNRESTRICTED')
})

function deny(name: string) {
  return { effect: 'deny' as const, names: [name] }
}

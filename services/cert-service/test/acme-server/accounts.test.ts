import type { KeyObject } from 'node:crypto'
import { fromPem } from '@gatehouse/pki'
import t from 'tap'
import { changeKey } from '../../../../packages/acme/src/protocol/account.ts'
import { bindExternalAccount, signRequest } from '../../../../packages/acme/src/protocol/jws.ts'
import { weakPair } from '../../../../packages/auth-core/test/jwt/roca-keys.ts'
import { AcmeClient, newKey } from '../helpers/acme-client.ts'
import { startAcme } from '../helpers/acme-service.ts'
import { DAY, reload } from '../helpers/app.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'
const problem = (status: number, type: string) => ({ status, body: { type: PROBLEM + type } })

t.test('the directory says where everything is, at the host that was asked', async (t) => {
  const { app } = await startAcme(t)
  const client = new AcmeClient(app)
  const { headers, body } = await client.get(client.at('/acme/directory'))
  t.match(body, {
    newNonce: 'http://certs.example/acme/new-nonce',
    renewalInfo: 'http://certs.example/acme/renewal-info',
    meta: { externalAccountRequired: true, profiles: { server: String, client: String } },
  })
  t.equal(headers['cache-control'], 'no-store')
  for (const [method, status] of [
    ['HEAD', 200],
    ['GET', 204],
  ] as const) {
    const nonce = await client.get(body.newNonce, method)
    t.equal(nonce.status, status)
    t.match(nonce.headers, { 'replay-nonce': /^[\w-]{43}$/, 'cache-control': 'no-store' })
  }
  t.match(await client.get(body.newAccount), { status: 405, body: { type: `${PROBLEM}malformed` } })
})

t.test(
  'the directory and nonces are read by a POST-as-GET too (RFC 8555 section 6.3)',
  async (t) => {
    const { client } = await startAcme(t)
    const { body } = await client.get(client.at('/acme/directory'))
    t.strictSame((await client.post(client.at('/acme/directory'))).body, body)
    const nonce = await client.post(body.newNonce)
    t.match(nonce, { status: 204, headers: { 'replay-nonce': /^[\w-]{43}$/ } })
    t.match(await client.post(body.newNonce, {}), problem(400, 'malformed'))
    t.match(await client.send(body.newNonce, '{}'), problem(400, 'malformed'), 'not signed')
  },
)

t.test('a request is for a host of this service', async (t) => {
  const { app } = await startAcme(t, { server: { names: ['certs.example', '10.0.0.3'] } })
  const ask = async (host: string, remoteAddress = '10.9.9.9') =>
    (await app.inject({ url: '/acme/directory', headers: { host }, remoteAddress })).statusCode
  for (const [host, status] of [
    ['certs.example', 200],
    ['CERTS.example:7401', 200],
    ['10.0.0.3:7401', 200],
    ['localhost', 200],
    ['[::1]:7401', 200],
    ['evil.example', 421],
    ['certs.example.evil.example', 421],
    ['10.0.0.4', 421],
    ['certs.example@evil.example', 421],
  ] as const)
    t.equal(await ask(host), status, host)
  t.equal(await ask('certs.internal', '127.0.0.1'), 200, 'or of a trusted proxy')
})

t.test('contacts are kept as a client sends them', async (t) => {
  const { app, keyOf } = await startAcme(t)
  const key = await keyOf('web')
  const contact = [
    'mailto:ops@example.com',
    'mailto:a+b@example.org',
    'mailto:müller@bücher.example',
  ]
  const client = new AcmeClient(app)
  t.strictSame((await client.register(key, { contact })).body.contact, contact)
  t.strictSame((await client.post(client.url)).body.contact, contact)
  t.strictSame(
    (await client.register(undefined, { contact: [] })).body.contact,
    contact,
    'as they are',
  )
  for (const changed of [['mailto:new@example.com'], []]) {
    t.strictSame((await client.post(client.url, { contact: changed })).body.contact, changed)
    t.strictSame((await client.post(client.url)).body.contact, changed)
  }
  for (const [wrong, type] of [
    ['tel:+1-201-555-0123', 'unsupportedContact'],
    ['https://example.com/', 'unsupportedContact'],
    ['mailto:', 'invalidContact'],
    ['mailto:a@example.com,b@example.com', 'invalidContact'],
    ['mailto:a@example.com?subject=x', 'invalidContact'],
    ['mailto:a b@example.com', 'invalidContact'],
    [`mailto:${'a'.repeat(309)}@example.com`, 'invalidContact'],
    ['mailto:a\u202e@example.com', 'invalidContact'],
  ] as const) {
    const answers = [
      await client.post(client.url, { contact: [wrong] }),
      await new AcmeClient(app).register(key, { contact: [wrong] }),
    ]
    for (const answer of answers) t.match(answer, problem(400, type), wrong)
  }
  const many = Array.from({ length: 11 }, (_, n) => `mailto:a${n}@example.com`)
  t.match(await client.post(client.url, { contact: many }), problem(400, 'malformed'))
})

t.test('the directory names the public CAs, whatever they are called', async (t) => {
  const ca = { type: 'acme', directory: 'https://ca.example/directory' }
  const issuers = [{ name: 'ca-public', ...ca, challenges: [{ type: 'http-01' }] }]
  const { client } = await startAcme(t, { issuers, server: { plainHttp: { port: 0 } } })
  const { body } = await client.get(client.at('/acme/directory'))
  t.match(body.meta.profiles.server, /by the private CA, or by ca-public$/)
})

t.test('an account is bound to a caller by its key', async (t) => {
  const { app, keyOf, service } = await startAcme(t)
  const key = await keyOf('web')
  t.match(key, { kid: 'web-1', hmacKey: /^[\w][\w-]{42}$/, algorithm: 'HS256' })
  t.match(key, { directory: 'http://localhost:80/acme/directory' })
  const client = new AcmeClient(app, { agent: 'certbot/5.8.0 (linux)', ip: '10.1.2.3' })
  t.match(await client.register(), problem(403, 'externalAccountRequired'))
  const other = await keyOf('other')
  for (const [why, wrong] of [
    ['another secret', { ...key, hmacKey: other.hmacKey }],
    ['another caller', { ...key, kid: other.kid }],
    ['a counter of later', { ...key, kid: 'web-2' }],
    ['nobody', { ...key, kid: 'nobody-1' }],
    ['no caller', { ...key, kid: '%zz-1' }],
  ] as const)
    t.match(await client.register(wrong), problem(403, 'unauthorized'), why)
  const account = await client.register(key, { contact: ['mailto:a@example.com'] })
  t.match(account, { status: 201, body: { status: 'valid', orders: `${client.url}/orders` } })
  const again = await client.register(undefined, { onlyReturnExisting: true })
  t.match(again, { status: 200, headers: { location: account.headers.location } })
  t.match(await client.register(), { status: 200 }, 'without a binding')
  await new AcmeClient(app).register(undefined, { onlyReturnExisting: true }).then((absent) => {
    t.match(absent, problem(400, 'accountDoesNotExist'))
  })
  const all = await service.store.acme.listAccounts('web', 10)
  t.match(
    all.find(({ client }) => client !== 'test-client/1.0'),
    { client: 'certbot/5.8.0', remoteAddress: '10.1.2.3', status: 'valid' },
  )
})

t.test('all digests of a binding are taken', async (t) => {
  const { app, keyOf } = await startAcme(t)
  const { kid, hmacKey } = await keyOf('web')
  const { createHmac } = await import('node:crypto')
  for (const bits of [256, 384, 512]) {
    const client = new AcmeClient(app)
    const url = client.at('/acme/new-account')
    const bound = bindExternalAccount({ kid, hmacKey }, client.key, url)
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const protectedHeader = encode({ alg: `HS${bits}`, kid, url })
    const signature = createHmac(`sha${bits}`, Buffer.from(hmacKey, 'base64url'))
      .update(`${protectedHeader}.${bound.payload}`)
      .digest('base64url')
    const externalAccountBinding = { ...bound, protected: protectedHeader, signature }
    t.equal(
      (await client.post(url, { externalAccountBinding }, { by: 'key' })).status,
      201,
      `HS${bits}`,
    )
  }
})

t.test('a name of a caller may have any characters', async (t) => {
  const names = ['-a', 'a:b c', '$(id)', '"x"', 'a.1', '%2e', 'Zoë', "it's!~*()"]
  const keys = names.map((name, n) => ({ name, key: `a-key-of-some-length-${n}` }))
  const operator = { name: 'operator', key: 'a-key-that-may-do-everything' }
  const web = { name: 'web', key: 'a-key-of-the-web-servers' }
  const { app, keyOf, service } = await startAcme(t, {
    auth: { psk: { keys: [operator, web, ...keys] } },
  })
  for (const name of names) {
    const key = await keyOf(name)
    t.match(key.kid, /^[A-Za-z0-9_%][A-Za-z0-9_%.-]*$/, name)
    const client = new AcmeClient(app)
    t.equal((await client.register(key)).status, 201)
    t.equal((await service.store.acme.listAccounts(name, 10)).length, 1)
  }
})

t.test('renewing the key of a caller ends its accounts, but those that are kept', async (t) => {
  const { app, client, clientOf, keyOf, call } = await startAcme(t)
  const old = await keyOf('web')
  const kept = await clientOf('web')
  const other = await clientOf('other')
  const id = kept.url.split('/').at(-1)
  const renew = { caller: 'web', renew: true }
  for (const wrong of ['7', other.url.split('/').at(-1)])
    t.match(
      await call('POST', '/api/acme/key', { ...renew, keep: [id, wrong] }),
      { status: 404, body: { code: 'CERT_NOT_FOUND' } },
      'an ID that is none of its accounts changes nothing',
    )
  const renewed = await call('POST', '/api/acme/key', { ...renew, keep: [id] })
  t.match(renewed.body, { kid: 'web-2' })
  t.not(renewed.body.hmacKey, old.hmacKey)
  t.match(await client.order(['a.example.com']), problem(403, 'unauthorized'))
  t.equal((await kept.order(['a.example.com'])).status, 201)
  t.equal((await other.order(['a.example.org'])).status, 201)
  t.match(await new AcmeClient(app).register(old), problem(403, 'unauthorized'), 'and the old key')
  t.match(await client.register(), problem(403, 'unauthorized'))
  const { url } = client
  t.equal((await client.register(await keyOf('web'))).status, 201, 'it can be bound again')
  t.equal(client.url, url)
})

t.test('an account ends by its client, by its caller or by an operator', async (t) => {
  const { client, clientOf, call } = await startAcme(t)
  const web = { authorization: 'APIKey a-key-of-the-web-servers' }
  const deactivated = await client.post(client.url, { status: 'deactivated' })
  t.match(deactivated, { status: 200, body: { status: 'deactivated' } })
  const another = await clientOf('web')
  const other = await clientOf('other')
  const path = ({ url }: AcmeClient) => `/api/acme/accounts/${url.split('/').at(-1)}`
  t.equal((await call('DELETE', path(other), undefined, web)).status, 404)
  t.equal((await call('DELETE', path(another), undefined, web)).status, 204)
  t.equal((await call('DELETE', path(other))).status, 204)
  for (const ended of [client, another, other])
    t.match(await ended.post(ended.url), problem(403, 'unauthorized'))
  const listed = await call('GET', '/api/acme/accounts')
  t.strictSame(
    listed.body.accounts
      .map(({ caller, status }: Record<string, string>) => [caller, status])
      .sort(),
    [
      ['other', 'revoked'],
      ['web', 'deactivated'],
      ['web', 'revoked'],
    ],
  )
  t.equal((await call('GET', '/api/acme/accounts', undefined, web)).body.accounts.length, 2)
})

t.test('an account that is bound to another caller has nothing of the one before', async (t) => {
  const { client, keyOf, call } = await startAcme(t)
  const names = ['a.example.com']
  const { body } = await client.finalize(await client.order(names), names)
  const [leaf] = fromPem((await client.post(body.certificate)).text, 'CERTIFICATE')
  const open = await client.order(['b.example.com'])
  const { url } = client
  await call('DELETE', `/api/acme/accounts/${url.split('/').at(-1)}`)
  t.equal((await client.register(await keyOf('other'))).status, 201)
  t.not(client.url, url)
  t.match(await client.post(body.certificate), problem(404, 'malformed'))
  t.match(await client.post(String(open.headers.location)), problem(404, 'malformed'))
  const certificate = leaf?.toString('base64url')
  t.match(
    await client.post(client.at('/acme/revoke-cert'), { certificate }),
    problem(403, 'unauthorized'),
  )
  client.url = url
  t.match(await client.order(names), problem(400, 'accountDoesNotExist'))
})

t.test('keys and accounts are for those whom they concern', async (t) => {
  const { call } = await startAcme(t)
  const web = { authorization: 'APIKey a-key-of-the-web-servers' }
  t.match((await call('POST', '/api/acme/key', {}, web)).body, { kid: 'web-1' })
  for (const [headers, caller] of [
    [web, 'other'],
    [web, 'operator'],
    [{}, 'nobody'],
  ] as const)
    t.match(await call('POST', '/api/acme/key', { caller }, headers), {
      status: 404,
      body: { code: 'CERT_NOT_FOUND' },
    })
  t.equal((await call('POST', '/api/acme/key', {}, { authorization: '' })).status, 401)
})

t.test('use is noted, and an account that nobody uses is deleted after 90 days', async (t) => {
  const { app, client, service, clock } = await startAcme(t)
  const [before] = await service.store.acme.listAccounts('web', 1)
  clock.advance(DAY)
  await client.post(client.url)
  await app.acme.flush()
  const [after] = await service.store.acme.listAccounts('web', 1)
  t.equal((after?.usedAt ?? 0) - (before?.usedAt ?? 0), DAY)
  const retention = { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY }
  clock.advance(89 * DAY)
  await service.store.prune(clock.now(), retention)
  t.equal((await service.store.acme.listAccounts('web', 1)).length, 1)
  clock.advance(2 * DAY)
  await service.store.prune(clock.now(), retention)
  t.equal((await service.store.acme.listAccounts('web', 1)).length, 0)
  t.match(await client.post(client.url), problem(400, 'accountDoesNotExist'))
})

t.test('the key of an account is changed', async (t) => {
  const { client, clientOf } = await startAcme(t)
  const url = client.at('/acme/key-change')
  const inner = (next = newKey(), old = client.key, account = client.url) =>
    changeKey(account, old, next).payload?.(url) as object
  const other = await clientOf('web')
  t.match(
    await client.post(url, inner(newKey(), other.key)),
    problem(400, 'malformed'),
    'another old key',
  )
  t.match(
    await client.post(url, inner(newKey(), client.key, other.url)),
    problem(400, 'malformed'),
    'another account',
  )
  const taken = await client.post(url, inner(other.key))
  t.match(taken, { status: 409, headers: { location: other.url } })
  const next = newKey()
  t.equal((await client.post(url, inner(next))).status, 200)
  t.match(await client.post(client.url), problem(400, 'malformed'), 'the old key is none any more')
  client.key = next
  t.equal((await client.post(client.url)).status, 200)
  const both = [newKey(), newKey()]
  const changed = await Promise.all(both.map((key) => client.post(url, inner(key))))
  t.strictSame(
    changed.map(({ status }) => status).sort(),
    [200, 400],
    'of two at once, one is told',
  )
  client.key = both[changed.findIndex(({ status }) => status === 200)] as KeyObject
  t.equal((await client.post(client.url)).status, 200)
})

t.test('terms have to be agreed to, if there are any', async (t) => {
  const terms = 'https://example.com/terms'
  const running = await startAcme(t)
  await reload(running, { ...running.config, acme: { terms } })
  const client = new AcmeClient(running.app)
  t.match((await client.get(client.at('/acme/directory'))).body, {
    meta: { termsOfService: terms },
  })
  const key = await running.keyOf('web')
  t.match(await client.register(key), problem(403, 'userActionRequired'))
  t.equal((await client.register(key, { termsOfServiceAgreed: true })).status, 201)
})

t.test('a request is refused', async (t) => {
  const { client, clientOf } = await startAcme(t)
  const url = client.at('/acme/new-order')
  const signed = async (header: object = {}, by: object = { accountUrl: client.url }) =>
    signRequest({ key: client.key, ...by }, { url, nonce: await client.nonce(), ...header }, {})
  const used = await client.nonce()
  await client.post(client.url, undefined, { nonce: used })
  const other = await clientOf('other')
  for (const [why, answer, expected] of [
    ['with a nonce that was used', client.post(url, {}, { nonce: used }), problem(400, 'badNonce')],
    [
      'with a nonce of nobody',
      client.post(url, {}, { nonce: 'x'.repeat(43) }),
      problem(400, 'badNonce'),
    ],
    [
      'for another URL',
      client.send(url, await signed({ url: client.at('/acme/order/x') })),
      problem(403, 'unauthorized'),
    ],
    [
      'for another host',
      client.send(url, await signed({ url: 'http://other.example/acme/new-order' })),
      problem(403, 'unauthorized'),
    ],
    [
      'by a key instead of an account',
      client.send(url, await signed({}, {})),
      problem(400, 'malformed'),
    ],
    [
      'by the key of another account',
      client.post(url, {}, { key: other.key }),
      problem(400, 'malformed'),
    ],
    [
      'by an account that is not known',
      client.send(url, await signed({}, { accountUrl: client.at('/acme/account/x') })),
      problem(400, 'accountDoesNotExist'),
    ],
    [
      'by an account at another host',
      client.send(url, await signed({}, { accountUrl: 'http://other.example/acme/account/x' })),
      problem(400, 'accountDoesNotExist'),
    ],
    [
      'of another type',
      client.send(url, await signed(), 'application/json'),
      problem(415, 'malformed'),
    ],
    ['that is no JSON', client.send(url, 'x'), problem(400, 'malformed')],
    ['that is too large', client.send(url, 'x'.repeat(100_000)), problem(413, 'malformed')],
    [
      'of a path that is not there',
      client.post(client.at('/acme/order/x')),
      problem(404, 'malformed'),
    ],
  ] as const)
    t.match(await answer, expected, why)
})

t.test('a URL is refused that is not one of this server', async (t) => {
  const { client } = await startAcme(t)
  const { pathname } = new URL(client.url)
  for (const path of [
    '/acme/order/%00',
    '/acme/certificate/%00',
    '/acme/authorization/a/%00',
    '/acme/challenge/a/0/%00',
    `${pathname}/orders?after=%00`,
    `${pathname}/orders?after=a&after=b`,
  ])
    t.match(await client.post(client.at(path)), problem(400, 'malformed'), path)
})

t.test('a key of the ROCA attack (CVE-2017-15361) has no account', async (t) => {
  const { app, client, keyOf } = await startAcme(t)
  const key = weakPair().privateKey
  const refused = problem(400, 'badPublicKey')
  t.match(await new AcmeClient(app, { key }).register(await keyOf('web')), refused)
  const url = client.at('/acme/key-change')
  const change = changeKey(client.url, client.key, key).payload?.(url) as object
  t.match(await client.post(url, change), refused, 'nor takes an account it over')
})

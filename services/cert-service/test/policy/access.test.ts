import fc from 'fast-check'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { RIGHTS } from '../../src/config/auth.ts'
import { type Answer, createIdp, KEY, type Running, reload, start } from '../helpers/app.ts'

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** An answer to a PKI question: who gets how far with which names. */
async function tryAll({ call }: Running, headers: object, domain: string, names: string[] = []) {
  const status = async (method: 'GET' | 'POST' | 'DELETE', url: string, body?: object) =>
    (await call(method, url, body, headers)).status
  return [
    await status('POST', '/api/certificate', { domain, names }),
    await status('GET', `/api/certificate/${domain}`),
    await status('POST', '/api/certificate/renew', { domain }),
    await status('POST', '/api/certificate/revoke', { domain }),
    await status('DELETE', `/api/certificate/${domain}`),
  ]
}

t.test('tokens: claim, rules, two issuers', async (t) => {
  const now = () => Date.UTC(2030, 0, 1)
  const [one, two] = [await createIdp(t, now), await createIdp(t, now)]
  const issuer = ({ issuerUrl }: typeof one) => ({ issuerUrl, audience: 'certs' })
  const running = await start(t, {
    auth: {
      psk: { key: KEY },
      jwt: { issuers: [issuer(one), issuer(two)], domainsClaim: 'domains' },
    },
    rules: [
      { issuer: one.issuerUrl, subject: 'svc', names: ['*.one.test'] },
      {
        issuer: two.issuerUrl,
        subject: 'svc',
        names: ['*.two.test'],
        rights: ['read', 'revoke', 'delete'],
      },
      { effect: 'deny', names: ['root.one.test'] },
    ],
  })
  const svc = { sub: 'svc' }
  const cases: [
    why: string,
    headers: object,
    domain: string,
    names: string[],
    statuses: number[],
  ][] = [
    ['a rule', bearer(one.token(svc)), 'a.one.test', [], [200, 200, 429, 403, 403]],
    ['not beyond it', bearer(one.token(svc)), 'one.test', [], [403, 403, 403, 403, 403]],
    [
      'not for one name beyond it',
      bearer(one.token(svc)),
      'b.one.test',
      ['x.test'],
      [403, 404, 404, 403, 403],
    ],
    ['deny', bearer(one.token(svc)), 'root.one.test', [], [403, 403, 403, 403, 403]],
    [
      'the same subject of another issuer',
      bearer(two.token(svc)),
      'a.one.test',
      [],
      [403, 403, 403, 403, 403],
    ],
    [
      'its own names and rights',
      bearer(two.token(svc)),
      'a.two.test',
      [],
      [403, 404, 403, 404, 404],
    ],
    [
      'claim',
      bearer(one.token({ sub: 'x', domains: ['c.test'] })),
      'c.test',
      [],
      [200, 200, 429, 403, 403],
    ],
    [
      'a subject that no database stores',
      bearer(one.token({ sub: 'n\0', domains: ['d.test'] })),
      'd.test',
      [],
      [200, 200, 429, 403, 403],
    ],
    ['no claim', bearer(one.token({ sub: 'x' })), 'c.test', [], [403, 403, 403, 403, 403]],
    [
      'ill-typed claim',
      bearer(one.token({ sub: 'x', domains: 1 })),
      'c.test',
      [],
      [403, 403, 403, 403, 403],
    ],
    ['the key may', {}, 'c.test', [], [200, 200, 429, 200, 404]],
    ['deny holds for keys too', {}, 'root.one.test', [], [403, 403, 403, 403, 403]],
    ['no token', { authorization: 'Bearer x.y.z' }, 'c.test', [], [401, 401, 401, 401, 401]],
  ]
  for (const [why, headers, domain, names, statuses] of cases)
    t.strictSame(await tryAll(running, headers, domain, names), statuses, why)

  await running.service.audit.close()
  const rows = await running.service.store.listAudit({ limit: 100 })
  t.ok(rows.some(({ actor }) => actor === `jwt:${one.issuerUrl}#n\u{fffd}`))
  const refused = rows.filter(({ action }) => action === 'refuse')
  t.ok(
    refused.some(({ actor }) => actor === `jwt:${two.issuerUrl}#svc`),
    'refusals are written down',
  )
  t.ok(refused.every(({ detail }) => detail === 'CERT_NAME_NOT_ALLOWED'))
})

t.test('a caller by token is its issuer and subject, whatever else the token says', async (t) => {
  const now = () => Date.UTC(2030, 0, 1)
  const [one, two] = [await createIdp(t, now), await createIdp(t, now)]
  const issuer = ({ issuerUrl }: typeof one) => ({ issuerUrl, audience: 'certs' })
  const { call, service } = await start(t, {
    auth: { psk: { key: KEY }, jwt: { issuers: [issuer(one), issuer(two)] } },
    rules: [one, two].map(({ issuerUrl }) => ({ issuer: issuerUrl, names: ['*.test'] })),
    limits: { perCaller: { names: 1 } },
  })
  const obtain = async (idp: typeof one, claims: object, domain: string) =>
    (await call('POST', '/api/certificate', { domain }, bearer(idp.token(claims)))).status
  t.equal(await obtain(one, { sub: 'svc', name: 'a' }, 'a.test'), 200)
  t.equal(await obtain(one, { sub: 'svc', name: 'b', client_id: 'b' }, 'b.test'), 429, 'the same')
  t.equal(await obtain(two, { sub: 'svc', name: 'a' }, 'c.test'), 200, 'of another issuer')
  t.equal(await obtain(one, { sub: 'other', name: 'a' }, 'd.test'), 200)
  const actors = (await service.store.listAudit({ limit: 10 }))
    .filter(({ action }) => action === 'issue')
    .map(({ actor }) => actor)
  t.strictSame(actors.toReversed(), [
    `jwt:${one.issuerUrl}#svc`,
    `jwt:${two.issuerUrl}#svc`,
    `jwt:${one.issuerUrl}#other`,
  ])
})

t.test('all names must be allowed on every route to a certificate', async (t) => {
  const keys = [
    { name: 'all', key: KEY },
    { name: 'a', key: 'a-key-that-may-have-a-only', domains: ['a.test'], rights: [...RIGHTS] },
  ]
  const running = await start(t, { auth: { psk: { keys } } })
  const { call } = running
  const a = { authorization: 'APIKey a-key-that-may-have-a-only' }
  await call('POST', '/api/certificate', { domain: 'a.test', names: ['b.test'] })
  t.strictSame(await tryAll(running, a, 'a.test', ['b.test']), [403, 404, 404, 404, 404])
  t.strictSame((await call('GET', '/api/certificates', undefined, a)).body, { certificates: [] })

  const own = await call('POST', '/api/certificate', { domain: 'a.test' }, a)
  t.equal(
    (await call('GET', '/api/certificate/a.test', undefined, a)).body.serialNumber,
    own.body.serialNumber,
  )
  t.equal((await call('GET', '/api/certificates', undefined, a)).body.certificates.length, 1)
  const revoked = await call('POST', '/api/certificate/revoke', { domain: 'a.test' }, a)
  t.strictSame(revoked.body.serialNumbers, [own.body.serialNumber], 'only what is its own')
  t.match((await call('GET', '/api/certificate/a.test')).body, { names: ['a.test', 'b.test'] })
})

t.test('keys revoke and delete only with these rights', async (t) => {
  const keys = [
    { name: 'operator', key: KEY },
    { name: 'limited', key: 'a-key-that-is-limited', domains: ['a.test'] },
    { name: 'reader', key: 'a-key-that-may-only-read', rights: ['read'] },
    { name: 'revoker', key: 'a-key-that-may-revoke', domains: ['a.test'], rights: ['revoke'] },
    { name: 'cleaner', key: 'a-key-that-may-delete', domains: ['a.test'], rights: ['delete'] },
  ]
  const running = await start(t, { auth: { psk: { keys } } })
  const cases: [why: string, key: string, statuses: number[]][] = [
    ['limited to names', 'a-key-that-is-limited', [200, 200, 429, 403, 403]],
    ['a reader', 'a-key-that-may-only-read', [403, 200, 403, 403, 403]],
    ['a revoker', 'a-key-that-may-revoke', [403, 403, 403, 200, 403]],
    ['limited again', 'a-key-that-is-limited', [200, 200, 429, 403, 403]],
    ['a cleaner', 'a-key-that-may-delete', [403, 403, 403, 403, 204]],
    ['an operator', KEY, [200, 200, 429, 200, 404]],
  ]
  for (const [why, key, statuses] of cases) {
    const headers = { authorization: `APIKey ${key}` }
    t.strictSame(await tryAll(running, headers, 'a.test'), statuses, why)
  }
  const refused = await running.call(
    'POST',
    '/api/certificate/revoke',
    { domain: 'a.test' },
    { authorization: 'APIKey a-key-that-is-limited' },
  )
  t.match(refused.body, {
    code: 'CERT_NAME_NOT_ALLOWED',
    detail: /does not have the right `revoke`/,
  })
})

t.test('only who may issue a certificate gets its private key', async (t) => {
  const domains = ['a.test']
  const keys = [
    { name: 'operator', key: KEY },
    { name: 'limited', key: 'a-key-that-is-limited', domains },
    { name: 'reader', key: 'a-key-that-may-only-read', rights: ['read'] },
    { name: 'reads-a', key: 'a-key-that-reads-one', domains, rights: ['read'] },
    { name: 'renews-a', key: 'a-key-that-renews', domains, rights: ['read', 'renew'] },
  ]
  const running = await start(t, { auth: { psk: { keys } } })
  await running.call('POST', '/api/certificate', { domain: 'a.test' })
  const get = (key: string, url: string, headers = {}) =>
    running.app.inject({ url, headers: { authorization: `APIKey ${key}`, ...headers } })
  const pem = { accept: 'application/x-pem-file' }
  const cases: [key: string, has: boolean][] = [
    [KEY, true],
    ['a-key-that-is-limited', true],
    ['a-key-that-may-only-read', false],
    ['a-key-that-reads-one', false],
    ['a-key-that-renews', false],
    [KEY, true],
  ]
  const tags = new Map<boolean, unknown>()
  for (const [key, has] of cases) {
    const json = await get(key, '/api/certificate/a.test')
    t.equal(json.statusCode, 200, key)
    t.equal('privateKey' in json.json(), has, `${key}: JSON`)
    t.match(json.json().certificate, 'BEGIN CERTIFICATE')
    const bundle = await get(key, '/api/certificate/a.test', pem)
    t.equal(bundle.payload.includes('PRIVATE KEY'), has, `${key}: PEM`)
    tags.set(has, json.headers.etag)
    const again = await get(key, '/api/certificate/a.test', { 'if-none-match': tags.get(has) })
    t.equal(again.statusCode, 304)
  }
  t.not(tags.get(true), tags.get(false), 'and the entity tags differ')

  for (const url of ['/api/proxy/traefik', '/api/proxy/caddy?server_name=a.test']) {
    t.match((await get('a-key-that-is-limited', url)).payload, 'PRIVATE KEY', url)
    const refused = await get('a-key-that-reads-one', url)
    t.match(refused.json(), { status: 403, code: 'CERT_KEY_WITHHELD' }, url)
  }
  await running.clock.advance(6 * 86_400_000)
  const renewed = await running.call(
    'POST',
    '/api/certificate/renew',
    { domain: 'a.test' },
    { authorization: 'APIKey a-key-that-renews' },
  )
  t.equal(renewed.status, 200)
  t.notOk('privateKey' in (renewed.body as object), 'nor does who renews it')

  await running.service.audit.close()
  const rows = await running.service.store.listAudit({ limit: 100 })
  const details = rows
    .filter(({ action }) => action === 'hand-out')
    .map(({ actor, detail }) => [actor, detail === 'without the private key'])
  t.strictSame(new Map(details as [string, boolean][]).get('psk:reader'), true, 'the audit says so')
  t.strictSame(new Map(details as [string, boolean][]).get('psk:limited'), false)
})

t.test('a wildcard that covers a denied name is refused on every route', async (t) => {
  expectWarnings(t, 'CERT_NOTHING_HELD')
  const keys = [
    { name: 'operator', key: KEY },
    {
      name: 'wild',
      key: 'a-key-with-a-wildcard-0',
      domains: ['=*.a.test', '=*.b.test', '*.a.test'],
      rights: [...RIGHTS],
    },
  ]
  const auth = { psk: { keys } }
  const running = await start(t, { auth })
  const { call, config } = running
  const wild = { authorization: 'APIKey a-key-with-a-wildcard-0' }
  const path = encodeURIComponent('*.a.test')
  await call('POST', '/api/certificate', { domain: '*.a.test' })
  await call('POST', '/api/certificate', { domain: 'x.a.test', names: ['*.a.test'] })
  t.equal((await call('GET', `/api/certificate/${path}`, undefined, wild)).status, 200)

  await reload(running, {
    ...config,
    rules: [{ effect: 'deny', names: ['vault.a.test'] }],
  })
  t.strictSame(await tryAll(running, wild, '*.a.test'), [403, 403, 403, 403, 403])
  t.equal((await call('GET', '/api/certificate/x.a.test', undefined, wild)).status, 404)
  t.strictSame((await call('GET', '/api/certificates', undefined, wild)).body.certificates, [])
  for (const url of ['/api/proxy/caddy?server_name=www.a.test', '/api/proxy/traefik'])
    t.not((await call('GET', url, undefined, wild)).status, 200, url)
  const { body } = await call('POST', '/api/certificate', { domain: '*.a.test' }, wild)
  t.match(body, { code: 'CERT_NAME_NOT_ALLOWED', detail: /deny rule `vault\.a\.test`/ })
  t.equal((await call('POST', '/api/certificate', { domain: '*.b.test' }, wild)).status, 200)
})

t.test('a new policy applies at once', async (t) => {
  const running = await start(t)
  const { call, config } = running
  const next = { name: 'default', key: KEY, domains: ['b.test'] }
  await call('POST', '/api/certificate', { domain: 'a.test' })
  await reload(running, { ...config, auth: { psk: { keys: [next] } } })
  t.equal((await call('POST', '/api/certificate', { domain: 'a.test' })).status, 403)
  t.equal((await call('POST', '/api/certificate', { domain: 'b.test' })).status, 200)
})

t.test('a warning is logged while every token may have every name', async (t) => {
  expectWarnings(t, 'every token may have every name')
  const idp = await createIdp(t, () => Date.UTC(2030, 0, 1))
  const jwt = { issuerUrl: idp.issuerUrl, audience: 'certs' }
  const warned = ({ logged }: Running) =>
    logged.some((line) => line.includes('every token may have'))
  t.ok(warned(await start(t, { auth: { jwt } })))
  t.notOk(warned(await start(t, { auth: { jwt, domainsClaim: 'domains' } })))
  t.notOk(warned(await start(t)))
})

t.test('property: no request gets a name that its caller may not have', async (t) => {
  const pool = ['a.test', 'b.test', 'c.test', '*.a.test']
  const domains = fc.subarray(['a.test', 'b.test', '*.test', '=*.a.test', '=*.test'])
  const running = await start(t)
  const { call, config } = running
  const headers = { authorization: 'APIKey a-key-whose-domains-change' }
  const may = (rules: string[], name: string) =>
    name.startsWith('*')
      ? rules.includes(`=${name}`)
      : rules.includes(name) || rules.includes('*.test')
  await fc.assert(
    fc.asyncProperty(domains, fc.subarray(pool, { minLength: 1 }), async (rules, names) => {
      const keys = [
        { name: 'all', key: KEY },
        { name: 'some', key: 'a-key-whose-domains-change', domains: rules },
      ]
      await reload(running, { ...config, auth: { psk: { keys } } })
      const [domain = '', ...rest] = names
      const body = { domain, names: rest }
      await call('POST', '/api/certificate', body)
      const allowed = names.every((name) => may(rules, name))
      const posted = await call('POST', '/api/certificate', body, headers)
      const got = await call(
        'GET',
        `/api/certificate/${encodeURIComponent(domain)}`,
        undefined,
        headers,
      )
      const { certificates } = (await call('GET', '/api/certificates', undefined, headers)).body
      const seen: string[][] = certificates.map((entry: { names: string[] }) => entry.names)
      if (got.status === 200) seen.push(got.body.names)
      return (
        (posted.status === 200) === allowed &&
        (got.status === 200 || !allowed) &&
        seen.every((held) => held.every((name) => may(rules, name)))
      )
    }),
    { numRuns: 40 },
  )
})

t.test('the log line of a request has its caller, or none if it was refused', async (t) => {
  const { app, call, close, logged } = await start(t)
  await call('GET', '/api/certificates')
  await call('GET', '/api/certificates', undefined, { authorization: 'APIKey of-nobody-at-all' })
  await app.inject('/ca/root.pem')
  await close()
  const lines = logged.flatMap((text) => text.trim().split('\n')).map((line) => JSON.parse(line))
  t.strictSame(
    lines
      .filter(({ msg }) => msg === 'request')
      .map(({ path, status, caller }) => [path, status, caller]),
    [
      ['/api/certificates', 200, 'psk:default'],
      ['/api/certificates', 401, undefined],
      ['/ca/root.pem', 200, undefined],
    ],
  )
})

t.test(
  'the log has a line of each delivery that is a row of its own in the audit trail',
  async (t) => {
    const { call, clock, logged } = await start(t, {
      server: { trustedProxies: ['127.0.0.1/32'] },
    })
    const url = '/api/certificate/a.test'
    const post = () => call('POST', '/api/certificate', { domain: 'a.test' })
    const get = (headers: object = {}) => call('GET', url, undefined, headers)
    const steps: [what: string, level: 'info' | 'debug', step: () => Promise<Answer>][] = [
      ['it is issued', 'info', post],
      ['it is delivered for the first time', 'info', post],
      ['again', 'debug', post],
      ['again by GET', 'debug', get],
      ['again as PEM', 'debug', () => get({ accept: 'application/x-pem-file' })],
      ['to another address', 'info', () => get({ 'x-forwarded-for': '192.0.2.7' })],
      ['again to that address', 'debug', () => get({ 'x-forwarded-for': '192.0.2.7' })],
      ['to a caller that is not known', 'info', () => get({ authorization: 'APIKey unknown' })],
    ]
    const levels = { 20: 'debug', 30: 'info' } as Readonly<Record<number, string>>
    const check = async (what: string, level: string, step: () => Promise<Answer>) => {
      logged.length = 0
      await step()
      const lines = logged.map((text) => JSON.parse(text)).filter(({ msg }) => msg === 'request')
      t.strictSame(
        lines.map((line) => levels[line.level]),
        [level],
        what,
      )
    }
    for (const step of steps) await check(...step)
    await clock.advance(600_000)
    await check('ten minutes later', 'debug', get)
    await clock.advance(3_600_000)
    await check('in the next hour', 'info', get)
    await check('and again', 'debug', get)
  },
)

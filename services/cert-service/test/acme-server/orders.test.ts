import type { Ca, Issuer } from '@gatehouse/issuance/issuers'
import { fromPem, generateP256, keyPairFromPem, parseCertificate } from '@gatehouse/pki'
import t from 'tap'
import { renewalId } from '../../../../packages/acme/src/protocol/renewal-info.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { briskClock, issuerAt, startCa } from '../helpers/acme.ts'
import type { AcmeAnswer } from '../helpers/acme-client.ts'
import { PSK, startAcme } from '../helpers/acme-service.ts'
import { DAY, reload, settle, start } from '../helpers/app.ts'

const HOUR = 3_600_000
const PROBLEM = 'urn:ietf:params:acme:error:'

t.test('a client gets a certificate in five requests', async (t) => {
  const { client, service } = await startAcme(t)
  const names = ['a.example.com', 'b.example.com']
  const order = await client.order(names)
  t.equal(order.status, 201, order.text)
  t.match(order.body, {
    status: 'ready',
    identifiers: names.map((value) => ({ type: 'dns', value })),
    profile: 'server',
  })
  const [first] = order.body.authorizations
  t.match((await client.post(first)).body, {
    status: 'valid',
    identifier: { type: 'dns', value: 'a.example.com' },
    challenges: [{ type: 'http-01', status: 'valid' }],
  })
  const key = generateP256()
  const finalized = await client.finalize(order, names, key)
  t.equal(finalized.status, 200, finalized.text)
  t.equal(finalized.headers.location, order.headers.location)
  t.match(finalized.body, { status: 'valid', certificate: String })
  const chain = await client.post(finalized.body.certificate)
  t.match(chain.headers, { 'content-type': 'application/pem-certificate-chain' })
  const [leaf, issuer] = fromPem(chain.text, 'CERTIFICATE').map(parseCertificate)
  t.strictSame(
    leaf?.names.map(({ text }) => text),
    names,
  )
  t.ok(leaf?.spki.equals(key.spki))
  t.equal(leaf?.akid, issuer?.skid)
  const [, alternate] = [chain.headers.link].flat() as string[]
  const whole = await client.post(/<(.*)>;rel="alternate"/.exec(alternate ?? '')?.[1] ?? '')
  t.equal(fromPem(whole.text, 'CERTIFICATE').length, 3, 'or with the root')
  const polled = await client.post(String(order.headers.location))
  t.match(polled.body, { status: 'valid', certificate: finalized.body.certificate })
  const [record] = await service.store.list({ after: 0, limit: 10 })
  t.match(record, { way: 'acme', client: 'test-client/1.0', account: String })
  const [row] = await service.store.listAudit({ limit: 10 })
  t.match(row, { action: 'issue', actor: 'psk:web' })
})

t.test('an order is refused', async (t) => {
  const { client } = await startAcme(t)
  const dns = (...values: string[]) => ({
    identifiers: values.map((value) => ({ type: 'dns', value })),
  })
  for (const [why, payload, status, type] of [
    ['for a name that no rule gives', dns('a.example.org'), 403, 'rejectedIdentifier'],
    ['for one of them', dns('a.example.com', 'example.net'), 403, 'rejectedIdentifier'],
    ['for what is no name', dns('a..example.com'), 403, 'rejectedIdentifier'],
    ['without names', dns(), 400, 'malformed'],
    ['with a name twice', dns('a.example.com', 'A.example.com'), 400, 'malformed'],
    [
      'with more names than a certificate has',
      dns(...Array.from({ length: 101 }, (_, n) => `a${n}.example.com`)),
      400,
      'malformed',
    ],
    [
      'of another type',
      { identifiers: [{ type: 'permanent', value: 'x' }] },
      400,
      'unsupportedIdentifier',
    ],
    [
      'of another profile',
      { ...dns('a.example.com'), profile: 'shortlived' },
      400,
      'invalidProfile',
    ],
    ['without identifiers', {}, 400, 'malformed'],
    ['to replace nothing', { ...dns('a.example.com'), replaces: 'x' }, 400, 'malformed'],
  ] as const) {
    const answer = await client.post(client.at('/acme/new-order'), payload)
    t.match(answer, { status, body: { type: PROBLEM + type, detail: String } }, why)
    t.match(answer.headers, { 'replay-nonce': String }, `${why}: with a nonce`)
  }
})

t.test('members that a client sends with zero values are ignored', async (t) => {
  const { client } = await startAcme(t)
  const members = {
    status: '',
    expires: '0001-01-01T00:00:00Z',
    authorizations: null,
    finalize: '',
  }
  t.equal((await client.order(['a.example.com'], members)).status, 201)
})

t.test(
  'an order says when its certificate ends, and is obeyed or refused (RFC 8555 section 7.4)',
  async (t) => {
    const { client, clock } = await startAcme(t)
    const now = () => clock.now()
    const time = (at: number) => new Date(at).toISOString()
    const endOf = ([leaf]: readonly Buffer[]) => parseCertificate(leaf as Buffer).notAfter
    const names = ['a.example.com']
    const key = generateP256()
    for (const [why, notAfter, ends] of [
      ['a day', time(now() + DAY), now() + DAY],
      ['the longest there is', time(now() + 7 * DAY), now() + 7 * DAY],
      ['an hour, by a clock that is behind', time(now() + 3_540_000), now() + 3_540_000],
      ['by a clock that is ahead', time(now() + 7 * DAY + 240_000), now() + 7 * DAY + 240_000],
      ['another zone', '2030-01-02T01:00:00+01:00', Date.UTC(2030, 0, 2)],
      ['part of a second', '2030-01-02T00:00:00.999Z', Date.UTC(2030, 0, 2)],
      ['what Go sends for none', '0001-01-01T00:00:00Z', now() + 7 * DAY],
      ['null', null, now() + 7 * DAY],
      ['nothing', undefined, now() + 7 * DAY],
    ] as const) {
      const order = await client.order(names, { notAfter })
      const isAsked = typeof notAfter === 'string' && !notAfter.startsWith('0001')
      t.equal(order.body.notAfter, isAsked ? time(ends).replace('.000', '') : undefined, why)
      const finalized = await client.finalize(order, names, key)
      const chain = fromPem((await client.post(finalized.body.certificate)).text, 'CERTIFICATE')
      t.equal(endOf(chain), Math.floor(ends / 1_000) * 1_000, why)
    }
    for (const [why, members] of [
      ['longer than a certificate lives', { notAfter: time(now() + 30 * DAY) }],
      ['less than an hour', { notAfter: time(now() + 3_000_000) }],
      ['over', { notAfter: time(now() - DAY) }],
      ['no time', { notAfter: 'tomorrow' }],
      ['a date', { notAfter: '2030-01-03' }],
      ['a number', { notAfter: now() + DAY }],
      ['a beginning of later', { notBefore: time(now() + DAY) }],
      ['an end in notBefore, as win-acme sends it', { notBefore: time(now() + 6 * DAY) }],
    ] as const)
      t.match(await client.order(names, members), { status: 400, body: { detail: String } }, why)
    t.match((await client.order(names, { notAfter: time(now() + 30 * DAY) })).body, {
      detail: /`notAfter` has to be 2030-01-08T00:05:00Z at the latest/,
    })
    for (const skew of [-300_000, 0, 300_000]) {
      const notBefore = time(now() + skew)
      const both = await client.order(names, { notBefore, notAfter: time(now() + DAY) })
      t.equal(both.status, 201)
      const alone = await client.order(names, { notBefore })
      t.match(alone, { status: 400, body: { detail: /`notBefore` needs a `notAfter`/ } })
    }
  },
)

const PROFILES = {
  acme: { profiles: { short: { lifetime: '2d' }, shortlived: { lifetime: '6d' } } },
}

t.test('an order has the lifetime of its profile, and of a rule', async (t) => {
  const keys = PSK.keys.map((key) => (key.name === 'web' ? { ...key, lifetime: '6d' } : key))
  const ca = { leafLifetime: '7d', maxLifetime: '30d' }
  const { client, clock, service } = await startAcme(t, {
    ...PROFILES,
    ca,
    auth: { psk: { keys } },
  })
  const directory = await client.get(client.at('/acme/directory'))
  t.match(directory.body.meta.profiles, {
    server: String,
    client: String,
    short: 'TLS server certificates that live for 2d at most',
  })
  const inDays = (days: number) => new Date(clock.now() + days * DAY).toISOString()
  for (const [why, members, days] of [
    ['none, as the key says', {}, 6],
    ['server', { profile: 'server' }, 6],
    ['short', { profile: 'short' }, 2],
    ['the shorter of both', { profile: 'shortlived' }, 6],
    ['and earlier', { profile: 'short', notAfter: inDays(1) }, 1],
    ['an end by the key', { notAfter: inDays(5) }, 5],
  ] as const) {
    const order = await client.order([`a${days}.example.com`], members)
    const { profile = 'server' } = members as { profile?: string }
    t.match(order, { status: 201, body: { profile } }, why)
    const { body } = await client.finalize(order, [`a${days}.example.com`])
    t.match(body, { status: 'valid', profile }, why)
    const chain = fromPem((await client.post(body.certificate)).text, 'CERTIFICATE')
    t.equal(parseCertificate(chain[0] as Buffer).notAfter, clock.now() + days * DAY, why)
  }
  for (const [why, members, detail] of [
    [
      'later than the profile',
      { profile: 'short', notAfter: inDays(3) },
      /has to be 2030-01-03T00:05:00Z at/,
    ],
    ['later than the key', { notAfter: inDays(7) }, /has to be 2030-01-07T00:05:00Z at/],
    ['no profile', { profile: 'long' }, /one of `server`, `client`, `short`, `shortlived`$/],
    ['a member of objects', { profile: 'constructor' }, /has to be one of/],
  ] as const)
    t.match(await client.order(['b.example.com'], members), { status: 400, body: { detail } }, why)
  const [one] = await service.store.list({ after: 0, limit: 1 })
  t.equal(one?.lifetime, 6 * DAY)
})

t.test('a profile that asks for less has the certificate of its key replaced', async (t) => {
  const running = await startAcme(t, PROFILES)
  const { client, service, clock } = running
  const names = ['a.example.com']
  const key = generateP256()
  for (const [profile, days] of [
    ['server', 7],
    ['short', 2],
    ['short', 2],
    ['server', 2],
  ] as const) {
    const order = await client.order(names, { profile })
    t.match(await client.finalize(order, names, key), { status: 200 })
    const [record, ...more] = await service.store.list({ after: 0, limit: 2 })
    t.equal(record?.notAfter, clock.now() + days * DAY)
    t.strictSame(more, [])
  }
  t.equal((await service.store.listHistory('a.example.com')).length, 2)
  const open = await client.order(['b.example.com'], { profile: 'short' })
  const { acme: _, ...without } = running.config
  await reload(running, { ...without, acme: {} })
  t.match(await client.finalize(open, ['b.example.com']), {
    status: 400,
    body: { type: `${PROBLEM}invalidProfile` },
  })
})

t.test('a public CA decides how long certificates live, but for a profile of it', async (t) => {
  const issuer = {
    name: 'public',
    profile: 'https://ca.test/dir shortlived',
    permits: () => true,
    issue: () => Promise.reject(new Error('not here')),
  }
  const { client } = await startAcme(t, PROFILES, { issuer: () => issuer as never })
  const order = (profile: string) => client.order(['a.example.com'], { profile })
  t.equal((await order('server')).status, 201)
  t.equal((await order('shortlived')).status, 201)
  t.match(await order('short'), {
    status: 400,
    body: { type: `${PROBLEM}malformed`, detail: /the CA behind public decides.*`server`/ },
  })
})

t.test('each end has a certificate of its own, once', async (t) => {
  const { client, clock, service } = await startAcme(t)
  const notAfter = new Date(clock.now() + DAY).toISOString()
  const [one, same, whole] = await Promise.all(
    [{ notAfter }, { notAfter }, {}].map((members) => client.order(['a.example.com'], members)),
  )
  t.equal(one?.headers.location, same?.headers.location, 'one order for the same')
  t.not(one?.headers.location, whole?.headers.location)
  const key = generateP256()
  for (const order of [one, whole])
    t.match(await client.finalize(order as AcmeAnswer, ['a.example.com'], key), { status: 200 })
  const [kept, ...more] = await service.store.list({ after: 0, limit: 10 })
  t.equal(kept?.notAfter, clock.now() + 7 * DAY)
  t.strictSame(more, [], 'for one key, the one that was asked for last is in service')
})

t.test(
  'an end that was asked for holds whatever happens before the certificate is issued',
  async (t) => {
    const names = ['a.example.com']
    const limits = { perCaller: { issuancesPerMinute: 1, burst: 1 } }
    const { client, clock, call, service } = await startAcme(t, { limits })
    const endIn = (ms: number) => ({ notAfter: new Date(clock.now() + ms).toISOString() })
    await client.obtain(['b.example.com'])
    const held = await client.order(names, endIn(HOUR))
    t.equal((await client.finalize(held, names)).status, 429)
    await clock.advance(HOUR + 60_000)
    t.match((await client.post(String(held.headers.location))).body, {
      status: 'invalid',
      error: { detail: /`notAfter` is over/ },
    })
    t.equal((await client.finalize(await client.order(names, endIn(DAY)), names)).status, 200)
    await clock.advance(DAY / 2 + HOUR)
    t.match(
      await call('POST', '/api/certificate/renew', { domain: names[0] }),
      { status: 202, body: { asked: 1, renewing: 0 } },
      'its client is asked when an operator renews',
    )
    const { ends } = service.ca.intermediate()
    await clock.advance(ends - clock.now() - 2 * DAY)
    t.match(await client.order(names, endIn(2 * DAY + 60_000)), {
      status: 400,
      body: { detail: /at the latest/ },
    })
  },
)

t.test('an end that was asked for holds when another issuer is configured', async (t) => {
  const names = ['a.example.com']
  const clock = briskClock()
  const ca = await startCa(t, clock)
  const before = await startAcme(t, {}, { clock })
  const { client, folder } = before
  const order = await client.order(names, { notAfter: new Date(clock.now() + DAY).toISOString() })
  await before.close()
  const { app } = await start(
    t,
    {
      auth: { psk: PSK },
      server: { names: ['certs.example'], plainHttp: { port: 0 } },
      issuers: [issuerAt(ca, { names: ['*.example.com'] })],
    },
    { folder, clock },
  )
  Object.assign(client, { app })
  t.match(await client.finalize(order, names), {
    status: 400,
    body: { detail: /decides when a certificate ends/ },
  })
})

t.test('an authorization is deactivated (RFC 8555 section 7.5.2)', async (t) => {
  const { client } = await startAcme(t)
  const names = ['a.example.com', 'b.example.com']
  const open = await client.order(names)
  const [first, second] = open.body.authorizations
  t.match(await client.post(first, { status: 'valid' }), { status: 400 })
  t.match(await client.post(first, {}), { status: 400 })
  const given = { status: 200, body: { status: 'deactivated', identifier: { value: names[0] } } }
  for (const again of [1, 2])
    t.match(await client.post(first, { status: 'deactivated' }), given, `${again}`)
  t.match(await client.post(first), {
    body: { status: 'deactivated', challenges: [{ type: 'http-01', status: 'valid' }] },
  })
  t.match((await client.post(second)).body, { status: 'valid' })
  t.match((await client.post(String(open.headers.location))).body, { status: 'invalid' })
  t.match(await client.finalize(open, names), {
    status: 403,
    body: { type: `${PROBLEM}orderNotReady` },
  })
  const done = await client.order(names)
  const finalized = await client.finalize(done, names)
  t.match(await client.post(done.body.authorizations[1], { status: 'deactivated' }), {
    status: 200,
  })
  t.match(
    (await client.post(String(done.headers.location))).body,
    finalized.body,
    'what is issued stays',
  )
})

t.test('a CSR has another key than the account (RFC 8555 section 11.1)', async (t) => {
  const { client } = await startAcme(t)
  const names = ['a.example.com']
  const key = keyPairFromPem(String(client.key.export({ type: 'pkcs8', format: 'pem' })))
  const refused = await client.finalize(await client.order(names), names, key)
  t.match(refused, {
    status: 400,
    body: { type: `${PROBLEM}badCSR`, detail: /the key of the account/ },
  })
})

t.test('an address and a wildcard are identifiers too', async (t) => {
  const { client } = await startAcme(t, {
    auth: {
      psk: {
        keys: [
          { name: 'operator', key: 'a-key-that-may-do-everything' },
          { name: 'web', key: 'a-key-of-the-web-servers' },
        ],
      },
    },
  })
  const names = ['*.example.com', '10.0.0.7']
  const order = await client.order(names)
  const [wildcard] = order.body.authorizations
  t.match((await client.post(wildcard)).body, {
    identifier: { type: 'dns', value: 'example.com' },
    wildcard: true,
    challenges: [{ type: 'dns-01', status: 'valid' }],
  })
  t.match((await client.finalize(order, names)).body, { status: 'valid' })
})

t.test('an order that is open is given again for the same names', async (t) => {
  const { client, clientOf, clock } = await startAcme(t)
  const first = await client.order(['a.example.com', 'b.example.com'])
  const location = (answer: AcmeAnswer) => answer.headers.location
  t.equal(location(await client.order(['b.example.com', 'a.example.com'])), location(first))
  t.not(location(await client.order(['a.example.com'])), location(first))
  const another = await clientOf('web')
  t.not(location(await another.order(['a.example.com', 'b.example.com'])), location(first))
  clock.advance(DAY)
  t.not(location(await client.order(['a.example.com', 'b.example.com'])), location(first))
  t.match(
    (await client.post(String(location(first)))).body,
    { status: 'invalid' },
    'one that has expired gives way',
  )
})

t.test('a CSR is refused that is not for exactly the names of the order', async (t) => {
  const { client } = await startAcme(t)
  const names = ['a.example.com', 'b.example.com']
  const order = await client.order(names)
  for (const others of [
    ['a.example.com'],
    [...names, 'c.example.com'],
    ['a.example.com', 'x.example.org'],
  ])
    t.match(
      await client.finalize(order, others),
      { status: 400, body: { type: `${PROBLEM}badCSR` } },
      others.join(),
    )
  for (const csr of ['', 'AAAA', '*', 'x'.repeat(5_000)])
    t.match((await client.post(order.body.finalize, { csr })).status, 400)
  t.match((await client.finalize(order, names)).body, { status: 'valid' }, 'it is ready still')
})

t.test('an order is finalized once', async (t) => {
  const { client, service } = await startAcme(t)
  const names = ['a.example.com']
  const order = await client.order(names)
  const key = generateP256()
  const { buildCsr, parseName } = await import('@gatehouse/pki')
  const csr = buildCsr(key, names.map(parseName)).toString('base64url')
  const all = await Promise.all([1, 2, 3].map(() => client.post(order.body.finalize, { csr })))
  t.strictSame(
    new Set(all.map(({ body }) => body.certificate)).size,
    1,
    'whoever asks again gets it',
  )
  t.match(await client.finalize(order, names), {
    status: 403,
    body: { type: `${PROBLEM}orderNotReady` },
  })
  t.equal((await service.store.list({ after: 0, limit: 10 })).length, 1)
})

t.test('a certificate that is held is given again, until it is due or replaced', async (t) => {
  const { client, service, clock } = await startAcme(t)
  const names = ['a.example.com']
  const key = generateP256()
  const [first] = await client.obtain(names, {}, key)
  const again = await client.obtain(names, {}, key)
  t.strictSame(again[0], first)
  const replaces = renewalId(first as Buffer)
  const [second] = await client.obtain(names, { replaces }, key)
  t.notSame(second, first)
  t.match(await client.order(names, { replaces }), { status: 201, body: { replaces } })
  clock.advance(4 * DAY)
  const [third] = await client.obtain(names, {}, key)
  t.notSame(third, second, 'due')
  t.equal((await service.store.list({ after: 0, limit: 10 })).length, 1)
})

t.test(
  'a renewal for another key continues the lineage of the certificate before it',
  async (t) => {
    const { client, clientOf, service, clock } = await startAcme(t)
    const names = ['a.example.com', 'b.example.com']
    const held = () => service.store.list({ after: 0, limit: 10 })
    const [first] = await client.obtain(names)
    await client.obtain(names)
    t.equal((await held()).length, 2, 'not while it is not due: somebody else may have it')
    await client.obtain(names, { replaces: renewalId(first as Buffer) })
    t.equal((await held()).length, 2)
    await (await clientOf('web')).obtain(names)
    clock.advance(4 * DAY)
    await client.obtain(names)
    t.equal((await held()).length, 3, 'one order continues one lineage')
    const fingerprint = parseCertificate(first as Buffer).fingerprint256
    t.equal((await client.post(client.at(`/acme/certificate/${fingerprint}`))).status, 200)
  },
)

t.test('rules are asked at newOrder and again at finalize', async (t) => {
  expectWarnings(t, 'ACME accounts have ended with the API keys that have bound them')
  const running = await startAcme(t)
  const { client, config } = running
  const names = ['a.example.com']
  const order = await client.order(names)
  const keys = (config.auth.psk?.keys ?? []).map((key) => ({
    ...key,
    ...(key.name === 'web' && { domains: ['x.example'] }),
  }))
  await reload(running, { ...config, auth: { psk: { keys } } })
  t.match(await client.finalize(order, names), {
    status: 403,
    body: { type: `${PROBLEM}rejectedIdentifier` },
  })
  await reload(running, {
    ...config,
    auth: { psk: { keys: keys.filter(({ name }) => name !== 'web') } },
  })
  t.match(
    await client.order(names),
    { status: 403, body: { type: `${PROBLEM}unauthorized` } },
    'a caller that is gone',
  )
  await reload(running, config)
  t.match((await client.finalize(order, names)).body, { status: 'valid' })
})

t.test('the orders of others are not there', async (t) => {
  const { client, clientOf } = await startAcme(t)
  const order = await client.order(['a.example.com'])
  const { status, body } = await client.finalize(order, ['a.example.com'])
  t.equal(status, 200)
  const other = await clientOf('other')
  const urls = [order.headers.location, order.body.authorizations[0], body.certificate] as string[]
  for (const url of urls)
    t.match(await other.post(url), { status: 404, body: { type: `${PROBLEM}malformed` } }, url)
  t.equal((await other.finalize(order, ['a.example.com'])).status, 404)
  t.match(await other.post(`${client.url}/orders`), { status: 403 })
  const listed = await client.post(`${client.url}/orders`)
  t.strictSame(listed.body, { orders: [order.headers.location] })
})

t.test('a limit is told with the time to wait, and the order stays', async (t) => {
  const limits = { perCaller: { issuancesPerMinute: 1, burst: 1 } }
  const { client, clock } = await startAcme(t, { limits })
  await client.obtain(['a.example.com'])
  const names = ['b.example.com']
  const order = await client.order(names)
  const key = generateP256()
  const { buildCsr, parseName } = await import('@gatehouse/pki')
  const csr = buildCsr(key, names.map(parseName)).toString('base64url')
  const limited = await client.post(order.body.finalize, { csr })
  t.match(
    limited,
    { status: 429, body: { type: `${PROBLEM}rateLimited`, detail: /Try again in 60 s/ } },
    limited.text,
  )
  t.equal(limited.headers['retry-after'], '60')
  t.match(await client.post(String(order.headers.location)), {
    status: 200,
    body: { status: 'processing' },
    headers: { 'retry-after': '2' },
  })
  clock.advance(60_000)
  t.match((await client.post(order.body.finalize, { csr })).body, { status: 'valid' })
})

t.test('an order at a public CA counts once, though it is placed and finalized', async (t) => {
  const clock = briskClock()
  const ca = await startCa(t, clock)
  const changes = {
    server: { plainHttp: { port: 0 } },
    issuance: { wait: '60s' },
    limits: { perCaller: { issuancesPerMinute: 1, burst: 1 } },
    issuers: [issuerAt(ca, { names: ['*.example.com'] })],
  }
  const { client } = await startAcme(t, changes, { clock })
  const order = await client.order(['a.example.com'])
  t.match((await client.finalize(order, ['a.example.com'])).body, { status: 'valid' })
  const limited = { status: 429, body: { type: `${PROBLEM}rateLimited` } }
  t.match(await client.order(['b.example.com']), limited)
  t.equal(ca.count('newOrder'), 1)
})

t.test('an order for what is open gives that, but not with another `replaces`', async (t) => {
  const { client } = await startAcme(t)
  const names = ['a.example.com']
  const [first] = await client.obtain(names)
  const open = await client.order(names)
  const replaces = renewalId(first as Buffer)
  const replacing = await client.order(names, { replaces })
  t.match(replacing.body, { replaces })
  t.not(replacing.headers.location, open.headers.location)
  t.equal((await client.order(names, { replaces })).headers.location, replacing.headers.location)
})

t.test('names in another order are the same', async (t) => {
  const { client, service } = await startAcme(t)
  const names = ['b.example.com', 'a.example.com']
  const [first] = await client.obtain(names)
  await client.obtain(names.toReversed(), { replaces: renewalId(first as Buffer) })
  t.equal((await service.store.list({ after: 0, limit: 10 })).length, 1)
})

t.test('an order has one certificate, also after that was revoked', async (t) => {
  const { client, call, app } = await startAcme(t)
  const names = ['a.example.com']
  const { endOrder } = app.store.acme
  // The process ends when the certificate is stored.
  app.store.acme.endOrder = async () => {
    throw new Error('ended')
  }
  const order = await client.order(names)
  const key = generateP256()
  await client.finalize(order, names, key)
  app.store.acme.endOrder = endOrder
  t.equal((await call('POST', '/api/certificate/revoke', { domain: names[0] })).status, 200)
  t.match((await client.post(String(order.headers.location))).body, { status: 'valid' })
  const { length } = await app.store.listHistory('a.example.com')
  t.equal(length, 1)
})

t.test('an order that is at work ends when its rule does', async (t) => {
  const limits = { perCaller: { issuancesPerMinute: 1, burst: 1 } }
  const running = await startAcme(t, { limits })
  const { client, config } = running
  await client.obtain(['a.example.com'])
  const order = await client.order(['b.example.com'])
  t.equal((await client.finalize(order, ['b.example.com'])).status, 429)
  const keys = (config.auth.psk?.keys ?? []).map((key) => ({
    ...key,
    ...(key.name === 'web' && { domains: ['a.example.com'] }),
  }))
  await reload(running, { ...config, auth: { psk: { keys } } })
  t.match((await client.post(String(order.headers.location))).body, {
    status: 'invalid',
    error: { type: `${PROBLEM}rejectedIdentifier` },
  })
})

t.test('what a service that stops leaves of an order goes on as that of its client', async (t) => {
  const asked: (() => void)[] = []
  const first = await startAcme(t, {}, slowly(asked))
  const { client, folder, clock } = first
  const names = ['a.example.com']
  const obtaining = client.obtain(names)
  await settle(() => asked.length === 1)
  asked.shift()?.()
  const [predecessor] = await obtaining
  const order = await client.order(names, { replaces: renewalId(predecessor as Buffer) })
  const finalized = client.finalize(order, names)
  await settle(() => asked.length === 1)
  await clock.advance(60_000)
  t.match((await finalized).body, { status: 'processing' })
  const closed = first.close()
  await settle()
  await clock.advance(5_000)
  await closed

  const second = await start(t, { auth: { psk: PSK } }, { folder, clock, ...slowly(asked, true) })
  await second.app.issuance.resume()
  await settle(() => second.app.issuance.flights.size === 0)
  const records = await second.service.store.list({ after: 0, limit: 10 })
  const id = String(order.headers.location).split('/').at(-1)
  t.equal(records.length, 1, 'the one before is replaced')
  t.match(records, [{ way: 'acme', client: 'test-client/1.0', servedOrder: id }])
  t.match(await second.service.store.acme.findOrder(id ?? ''), { status: 'valid' })
})

/** An issuer that signs when it is told to, or at once. */
function slowly(asked: (() => void)[], isQuick = false) {
  return {
    issuer: (ca: Ca): Issuer => ({
      name: 'slow',
      permits: () => true,
      issue: async (request) => {
        if (!isQuick) await new Promise<void>((resolve) => asked.push(resolve))
        return ca.issue(request)
      },
    }),
  }
}

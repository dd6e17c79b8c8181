import { writeFileSync } from 'node:fs'
import { Agent } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { generateP256, parseName, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { DAY, KEY, NOW, reload, type Service, settle, start } from '../helpers/app.ts'
import {
  askOverTls,
  type ClientPair,
  foreignCa,
  issueClient,
  selfSigned,
  signBy,
} from '../helpers/client-certificates.ts'

const PATH = '/api/orders'
const AGENT = { name: 'agent', dns: 'agent.test', domains: ['*.a.test', 'agent.test'] }
const CALLERS = [
  AGENT,
  { name: 'ada', email: 'ada@a.test', operator: true },
  { name: 'job', uri: 'spiffe://a.test/job', domains: ['job.test'], rights: ['read'] },
  { name: 'twin', dns: 'twin.test', domains: ['*'], profile: 'client' },
]

/** A service of these callers that listens with TLS. */
async function listening(t: Test, mtls: object = {}, server: object = {}, folder = testFolder(t)) {
  const auth = { psk: { key: KEY }, mtls: { callers: CALLERS, ...mtls } }
  const running = await start(t, { auth, server: { port: 0, ...server } }, { tls: true, folder })
  await running.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = running.app.server.address() as AddressInfo
  return { ...running, auth, port, list: askOverTls.bind(undefined, port, PATH) }
}

/** A service behind a proxy that tells its clients by `format`. */
async function behind(t: Test, format = 'caddy', mtls: object = {}) {
  const callers = { callers: CALLERS, header: { format }, ...mtls }
  const server = { trustedProxies: ['10.0.0.1'] }
  const running = await start(t, { auth: { psk: { key: KEY }, mtls: callers }, server })
  const ask = async (headers: object, from = '10.0.0.1', url = PATH) => {
    const response = await running.app.inject({ url, headers: { ...headers }, remoteAddress: from })
    return { status: response.statusCode, headers: response.headers, body: response.json() }
  }
  return { ...running, ask }
}

const told = ({ der }: Pick<ClientPair, 'der'>) => ({
  'client-cert': `:${der.toString('base64')}:`,
})

async function issueServer({ ca }: Service): Promise<ClientPair> {
  const { spki, pkcs8 } = generateP256()
  const names = [parseName('agent.test')]
  const { certificate } = ca.issue({ names, keyType: 'p256', spki })
  const [cert, key] = [toPem('CERTIFICATE', certificate), toPem('PRIVATE KEY', pkcs8)]
  return { der: Buffer.from(certificate), cert, key }
}

t.test('a connection with a certificate is a caller', async (t) => {
  const { service, list, clock, port, logged } = await listening(t)
  const own = await issueClient(service, ['agent.test'])
  const withOther = await issueClient(service, ['agent.test', 'other.test'])
  const withChain = await issueClient(service, ['agent.test'], { withChain: true })
  const theirs = signBy(await foreignCa(NOW), ['agent.test'], NOW)
  const notKnown = await issueClient(service, ['agent.test'], { isKnown: false })
  const cases: readonly (readonly [why: string, pair: Partial<ClientPair>, detail: RegExp])[] = [
    ['without one', {}, /AUTH_CREDENTIALS_MISSING/],
    ['of a foreign CA', theirs, /no certificate authority/],
    ['self-signed', await selfSigned(NOW), /no certificate authority/],
    ['of no caller', await issueClient(service, ['other.test']), /of no caller/],
    ['of two callers', await issueClient(service, ['agent.test', 'ada@a.test']), /several/],
    ['of a server', await issueServer(service), /no certificate authority/],
    ['not in the inventory', notKnown, /not in the inventory/],
  ]
  for (const version of [{}, { maxVersion: 'TLSv1.2' as const }]) {
    for (const pair of [own, withOther, withChain])
      t.equal((await list({ ...pair, ...version })).status, 200)
    for (const [why, { cert, key }, detail] of cases) {
      const answer = await list({ ...(cert && key && { cert, key }), ...version })
      t.equal(answer.status, 401, why)
      t.match(answer.body, detail, why)
      t.equal(answer.challenge, 'APIKey realm="api"', why)
    }
  }

  const withKey = (key: string) => ({ headers: { authorization: `APIKey ${key}` } })
  t.equal((await list({ ...own, ...withKey('not-a-key-of-anybody') })).status, 401)
  t.equal((await list({ ...theirs, ...withKey(KEY) })).status, 200, 'Authorization counts')

  const refused = await askOverTls(port, '/api/certificate/b.test', { ...own, method: 'DELETE' })
  t.equal(refused.status, 403)
  const [row] = await service.store.listAudit({ limit: 1 })
  t.match(row, { actor: 'mtls:agent', action: 'refuse' })
  t.ok(logged.some((line) => line.includes('"caller":"mtls:agent"')))

  clock.advance(8 * DAY)
  t.match(await list(own), { status: 401, body: /expired|no certificate authority/ })
})

t.test('what a session resumes is judged again', async (t) => {
  for (const version of [{}, { maxVersion: 'TLSv1.2' as const }])
    t.test(`${'maxVersion' in version ? version.maxVersion : ''}`, async (t) => {
      const { service, list, clock } = await listening(t)
      const [one, two] = [
        await issueClient(service, ['agent.test']),
        await issueClient(service, ['agent.test']),
      ]
      // Without keep-alive, each request has a connection, which resumes the session of the last one.
      const ask = (agent: Agent, pair: ClientPair) => list({ ...pair, ...version, agent })
      const [first, second] = [new Agent(), new Agent()]
      for (const [agent, pair] of [
        [first, one],
        [second, two],
      ] as const) {
        t.match(await ask(agent, pair), { status: 200, isResumed: false })
        t.match(await ask(agent, pair), { status: 200, isResumed: true })
      }
      const entry = { at: NOW, action: 'revoke' as const, actor: 'system', names: ['agent.test'] }
      await service.store.revoke([one.id], NOW, 'superseded', entry)
      service.holdings.forget(['any'])
      t.match(await ask(first, one), { status: 401, isResumed: true, body: /revoked/ })
      t.match(await ask(second, two), { status: 200, isResumed: true })
      clock.advance(8 * DAY)
      t.match(await ask(second, two), { status: 401 })
    })
})

t.test(
  'a revoked certificate ends the others of its caller, unless it was superseded',
  async (t) => {
    for (const [reason, ends] of [
      ['superseded', false],
      ['unspecified', true],
      ['keyCompromise', true],
    ] as const) {
      const { service, list, clock } = await listening(t)
      const other = { ...(await issueClient(service, ['ada@a.test'])) }
      const [one, two] = [
        await issueClient(service, ['agent.test']),
        await issueClient(service, ['agent.test', 'other.test']),
      ]
      clock.advance(60_000)
      t.equal((await list(two)).status, 200)
      const entry = { at: clock.now(), action: 'revoke' as const, actor: 'system', names: [] }
      await service.store.revoke([one.id], clock.now(), reason, entry)
      service.holdings.forget(['any'])
      t.match(await list(one), { status: 401, body: /it was revoked/ })
      const kept = { status: 200 }
      t.match(await list(two), ends ? { status: 401, body: /another certificate/ } : kept, reason)
      t.match(await list(other), kept, 'of another caller')
      clock.advance(1_000)
      t.match(await list(await issueClient(service, ['agent.test'])), kept, 'from afterwards')
    }
  },
)

t.test(
  'what was revoked of a server ends no client, and is found however many came after',
  async (t) => {
    const { service, list, clock, call } = await listening(t)
    const one = await issueClient(service, ['agent.test'])
    const last = { ...one }
    for (let n = 0; n < 101; n += 1) Object.assign(last, await issueClient(service, ['agent.test']))
    await call('POST', '/api/certificate', { domain: 'agent.test' })
    clock.advance(60_000)
    const entry = { at: clock.now(), action: 'revoke' as const, actor: 'system', names: [] }
    const [server] = (await service.store.listHistory('agent.test')).filter(
      ({ issuer }) => issuer === 'ca',
    )
    await service.store.revoke([server!.id], clock.now(), 'unspecified', entry)
    service.holdings.forget(['any'])
    t.equal((await list(last)).status, 200)
    await service.store.revoke([one.id], clock.now(), 'keyCompromise', entry)
    service.holdings.forget(['any'])
    t.match(await list(last), { status: 401, body: /another certificate/ })
  },
)

t.test('a reload replaces the callers', async (t) => {
  const running = await listening(t)
  const { service, list, config, auth } = running
  const own = await issueClient(service, ['agent.test'])
  const take = (mtls: object | undefined) =>
    reload(running, { ...config, auth: { ...config.auth, mtls } as typeof config.auth })
  t.equal((await list(own)).status, 200)
  await take({ callers: [{ ...AGENT, dns: 'other.test' }] })
  t.match(await list(own), { status: 401, body: /no caller/ })
  await take(undefined)
  t.match(await list(own), { status: 401, body: /AUTH_CREDENTIALS_MISSING/ })
  await take(auth.mtls)
  t.equal((await list(own)).status, 200)
})

t.test('a connection is asked for a certificate only if there are callers with one', async (t) => {
  const running = await start(t, { server: { port: 0 } }, { tls: true })
  const { app, config } = running
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  t.equal((await askOverTls(port, PATH)).status, 401)
  const own = await issueClient(running.service, ['agent.test'])
  t.match(await askOverTls(port, PATH, own), { status: 401, body: /AUTH_CREDENTIALS_MISSING/ })
  const mtls = { callers: [AGENT] }
  await reload(running, { ...config, auth: { ...config.auth, mtls } as typeof config.auth })
  t.equal((await askOverTls(port, PATH, own)).status, 200, 'a reload begins to ask')
})

t.test('no session goes on that began before there were callers', async (t) => {
  for (const version of [{}, { maxVersion: 'TLSv1.2' as const }])
    t.test(`${'maxVersion' in version ? version.maxVersion : ''}`, async (t) => {
      const running = await start(t, { server: { port: 0 } }, { tls: true })
      const { app, config, service } = running
      await app.listen({ host: '127.0.0.1', port: 0 })
      const { port } = app.server.address() as AddressInfo
      const own = await issueClient(service, ['agent.test'])
      const agent = new Agent()
      const ask = () => askOverTls(port, PATH, { ...own, ...version, agent })
      t.match([await ask(), await ask()], [{ isResumed: false }, { isResumed: true }])
      const mtls = { callers: [AGENT] }
      await reload(running, { ...config, auth: { ...config.auth, mtls } as typeof config.auth })
      t.match(await ask(), { status: 200, isResumed: false })
      t.match(await ask(), { status: 200, isResumed: true })
    })
})

t.test('a CA of the operator', async (t) => {
  const theirs = await foreignCa(NOW)
  const folder = testFolder(t)
  const caFile = join(folder, 'ca.pem')
  const others = await foreignCa(NOW)
  writeFileSync(
    caFile,
    [theirs, others].map(({ certificate }) => toPem('CERTIFICATE', certificate)).join(''),
  )
  const { service, list, clock } = await listening(t, { caFile }, {}, folder)
  const own = signBy(theirs, ['agent.test'], NOW)
  t.equal((await list(own)).status, 200)
  t.equal((await list(signBy(others, ['agent.test'], NOW))).status, 200, 'or of another one')
  t.equal((await list(signBy(theirs, ['spiffe://a.test/job'], NOW))).status, 200)
  t.match(await list(await issueClient(service, ['agent.test'])), {
    status: 401,
    body: /no certif/,
  })
  clock.advance(DAY + 1_000)
  t.match(await list(own), { status: 401, body: /expired/ })
})

t.test('a proxy tells the certificate of its client', async (t) => {
  const { service, ask } = await behind(t)
  const own = told(await issueClient(service, ['agent.test']))
  const underscored = { client_cert: own['client-cert'] }
  const key = { authorization: `APIKey ${KEY}` }
  const PROXY = '10.0.0.1'
  const cases: readonly (readonly [
    why: string,
    headers: object,
    from: string,
    status: number,
    detail?: RegExp,
  ])[] = [
    ['of a caller', own, PROXY, 200],
    ['none', {}, PROXY, 401, /credentials/i],
    ['from anybody else', own, '10.0.0.2', 401, /is from 10.0.0.2, not from server.trustedProxies/],
    ['spelled otherwise by anybody else', underscored, '10.0.0.2', 401, /not from server.trusted/],
    ['spelled otherwise', underscored, PROXY, 401, /twice, or spelled otherwise/],
    ['in two spellings', { ...own, ...underscored }, PROXY, 401, /twice, or spelled otherwise/],
    [
      'twice in one',
      { 'client-cert': `${own['client-cert']}, ${own['client-cert']}` },
      PROXY,
      401,
      /not as caddy/,
    ],
    ['not a certificate', { 'client-cert': ':AAAA:' }, PROXY, 401, /not one X.509 certificate/],
    ['empty', { 'client-cert': '' }, PROXY, 401, /not as caddy writes it/],
    ['of another format', { 'x-ssl-client-cert': own['client-cert'] }, PROXY, 401, /credentials/i],
    ['beside a key', { ...own, ...key }, PROXY, 200],
    ['beside a key, where it does not matter', { ...own, ...key }, '10.0.0.2', 200],
    ['beside a wrong key', { ...own, authorization: 'APIKey wrong-wrong-wrong-wrong' }, PROXY, 401],
    ['from an address that the proxy tells', { ...own, 'x-forwarded-for': PROXY }, '10.0.0.2', 401],
  ]
  for (const [why, headers, from, status, detail] of cases) {
    const answer = await ask(headers, from)
    t.equal(answer.status, status, why)
    if (detail) t.match(JSON.stringify(answer.body), detail, why)
    if (status === 401) t.equal(answer.headers['www-authenticate'], 'APIKey realm="api"', why)
  }
})

t.test('of a trusted proxy, the header counts and not its own certificate', async (t) => {
  for (const [trustedProxies, expected] of [
    [['127.0.0.1'], { own: 401, told: 200, both: 200, twice: 401 }],
    [['10.0.0.1'], { own: 200, told: 401, both: 401, twice: 401 }],
  ] as const)
    t.test(`${trustedProxies} is trusted`, async (t) => {
      const { service, list } = await listening(
        t,
        { header: { format: 'caddy' } },
        { trustedProxies },
      )
      const own = await issueClient(service, ['agent.test'])
      const header = told(await issueClient(service, ['spiffe://a.test/job']))
      const twice = { 'Client-Cert': [header['client-cert'], header['client-cert']] }
      const answers = {
        own: (await list(own)).status,
        told: (await list({ headers: header })).status,
        both: (await list({ ...own, headers: header })).status,
        twice: (await list({ ...own, headers: twice })).status,
      }
      t.strictSame(answers, expected)
    })
})

t.test('callers with certificates have their rights, limits and routes', async (t) => {
  const { service, ask, app } = await behind(t)
  const [agent, ada, job, twin] = [
    told(await issueClient(service, ['agent.test'])),
    told(await issueClient(service, ['ada@a.test'])),
    told(await issueClient(service, ['spiffe://a.test/job'])),
    told(await issueClient(service, ['twin.test'])),
  ]
  const issue = async (headers: object, domain: string, profile?: 'client') => {
    const all = { 'content-type': 'application/json', ...headers }
    const payload = { domain, profile }
    const to = { method: 'POST' as const, url: '/api/certificate', remoteAddress: '10.0.0.1' }
    return (await app.inject({ ...to, headers: all, payload })).statusCode
  }
  t.equal(await issue(agent, 'b.a.test'), 200)
  t.equal(await issue(agent, 'b.test'), 403)
  t.equal(await issue(ada, 'b.test'), 200, 'an operator')
  t.equal(await issue(job, 'job.test'), 403, 'without the right')
  t.equal(await issue(agent, 'agent.test', 'client'), 200, 'a caller gets its own certificate')
  t.equal(await issue(ada, 'agent.test', 'client'), 200, 'so does an operator')
  t.equal(await issue(twin, 'agent.test', 'client'), 403, 'and nobody else')
  t.equal(await issue(twin, 'x.test', 'client'), 200)
  await settle()
  t.strictSame(
    (await service.store.listAudit({ limit: 99 }))
      .filter(({ action }) => action === 'issue' || action === 'refuse')
      .map(({ actor, names }) => `${actor} ${names}`)
      .filter((line) => line.startsWith('mtls'))
      .reverse(),
    [
      'mtls:agent b.a.test',
      'mtls:agent b.test',
      'mtls:ada b.test',
      'mtls:job job.test',
      'mtls:agent agent.test',
      'mtls:twin agent.test',
      'mtls:twin x.test',
    ],
  )
  for (const type of ['text/plain', 'application/x-www-form-urlencoded'])
    t.equal(await issue({ ...agent, 'content-type': type }, 'b.a.test'), 415, 'a form of a page')

  const get = async (headers: object, url: string) => (await ask(headers, '10.0.0.1', url)).status
  t.equal(await get(agent, '/api/proxy/traefik'), 200)
  t.equal(await get(ada, '/api/proxy/traefik'), 403, 'an operator is not limited to names')
  t.equal(await get(agent, '/api/certificate/b.a.test'), 200)
  t.equal(await get(agent, '/api/orders/none'), 404)
})

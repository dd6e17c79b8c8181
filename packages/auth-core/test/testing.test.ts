import Fastify from 'fastify'
import t, { type Test } from 'tap'
import auth, { type AuthOptions, type AuthPluginOptions } from '../src/index.ts'
import { createTestIssuers } from '../src/testing.ts'
import { AUDIENCE, caught, frozenClock, ISSUER, ORIGIN, PORTAL } from './kit.ts'

const options: AuthOptions = {
  assertion: { issuerUrl: PORTAL, audience: [ORIGIN, 'https://www.example.com'] },
  jwt: { issuerUrl: ISSUER, audience: AUDIENCE, requiredScopes: ['read'] },
}

async function startApp(t: Test, plugin: AuthPluginOptions) {
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(auth, plugin)
  if (plugin.assertion)
    app.get('/person', { onRequest: app.requirePerson() }, ({ person }) => person)
  app.get('/caller', { onRequest: app.requireCaller() }, ({ caller }) => caller)
  const ask = (url: string, headers: Record<string, string>) => app.inject({ url, headers })
  return {
    person: (assertion: string) => ask('/person', { 'x-gatehouse-assertion': assertion }),
    caller: (token: string) => ask('/caller', { authorization: `Bearer ${token}` }),
  }
}

t.test('a test signs what the plugin with its keys accepts, by any clock', async (t) => {
  for (const clock of [{}, frozenClock()]) {
    const issuers = createTestIssuers(options, clock)
    const app = await startApp(t, { ...options, ...issuers.deps })
    t.match((await app.person(issuers.signAssertion())).json(), {
      provider: 'test',
      id: 'test-person',
    })
    const ada = { sub: '42', name: 'Ada Lovelace', groups: ['staff'], department: 'R&D' }
    t.match((await app.person(issuers.signAssertion(ada))).json(), {
      ...{ id: '42', name: { full: 'Ada Lovelace' }, groups: ['staff'] },
      claims: { department: 'R&D' },
    })
    const caller = { method: 'jwt', issuer: ISSUER, subject: 'test-caller', scopes: ['read'] }
    t.match((await app.caller(issuers.signAccessToken())).json(), caller)
    const writer = issuers.signAccessToken({ sub: '7', scope: 'read write' })
    t.match((await app.caller(writer)).json(), { subject: '7', scopes: ['read', 'write'] })
  }
})

t.test('what its claims make wrong is refused as it would be', async (t) => {
  const { time: now } = frozenClock()
  const issuers = createTestIssuers(options, { now: () => now })
  const app = await startApp(t, { ...options, ...issuers.deps })
  const past = now / 1_000 - 120
  const rows: [answer: ReturnType<typeof app.person>, code: string][] = [
    [app.person(issuers.signAssertion({ iat: past })), 'AUTH_ASSERTION_INVALID'],
    [app.person(issuers.signAssertion({ aud: 'https://other.example' })), 'AUTH_ASSERTION_INVALID'],
    [app.person(issuers.signAssertion({ method: 'psk' })), 'AUTH_ASSERTION_INVALID'],
    [app.person(issuers.signAccessToken()), 'AUTH_ASSERTION_INVALID'],
    [app.caller(issuers.signAssertion()), 'AUTH_TOKEN_ISSUER'],
    [app.caller(issuers.signAccessToken({ exp: past })), 'AUTH_TOKEN_EXPIRED'],
    [app.caller(issuers.signAccessToken({ aud: 'https://other.example' })), 'AUTH_TOKEN_AUDIENCE'],
    [app.caller(issuers.signAccessToken({ scope: 'write' })), 'AUTH_SCOPE_MISSING'],
  ]
  for (const [answer, code] of rows) t.match((await answer).json(), { code }, code)
})

t.test('several issuers, URLs of keys and short lifetimes are as the options say', async (t) => {
  const several: AuthOptions = {
    jwt: {
      issuers: [
        { issuerUrl: `${ISSUER}/`, audience: AUDIENCE, maxTokenLifetime: 60_000 },
        { issuerUrl: 'https://b.example', audience: 'b', jwksUrl: 'https://keys.example/b?c=d' },
      ],
    },
  }
  const issuers = createTestIssuers(several)
  const app = await startApp(t, { ...several, ...issuers.deps })
  t.match((await app.caller(issuers.signAccessToken())).json(), { issuer: `${ISSUER}/` })
  t.match((await app.caller(issuers.signAccessToken({ iss: 'https://b.example' }))).json(), {
    issuer: 'https://b.example',
    claims: { aud: 'b' },
  })
})

t.test('no other plugin accepts it, and nothing else answers', async (t) => {
  const issuers = createTestIssuers(options)
  const other = await startApp(t, { ...options, ...createTestIssuers(options).deps })
  t.match((await other.person(issuers.signAssertion())).json(), { code: 'AUTH_ASSERTION_INVALID' })
  t.match((await other.caller(issuers.signAccessToken())).json(), {
    code: 'AUTH_TOKEN_KEY_UNKNOWN',
  })
  t.match(await caught(() => issuers.deps.fetch?.('https://other.example/keys')), {
    code: 'NET_FETCH_FAILED',
    message: 'https://other.example/keys is of no issuer of this test',
  })
})

t.test('it signs nothing in production, nor for what is not configured', async (t) => {
  const { jwt, assertion } = options
  const message = (reason: string) => ({
    code: 'AUTH_OPTIONS_INVALID',
    message: `Nothing is signed for a test: ${reason}`,
  })
  t.throws(
    () => createTestIssuers({ jwt }).signAssertion(),
    message('the options have no assertion'),
  )
  t.throws(
    () => createTestIssuers({ assertion }).signAccessToken(),
    message('the options have no jwt'),
  )
  t.throws(
    () => createTestIssuers(options).signAccessToken({ iss: 'https://x.example' }),
    message('no issuer in jwt is https://x.example'),
  )
  t.throws(() => createTestIssuers({}), { code: 'AUTH_OPTIONS_INVALID' })
  const { NODE_ENV } = process.env
  t.teardown(() => {
    if (NODE_ENV === undefined) delete process.env.NODE_ENV
    else process.env.NODE_ENV = NODE_ENV
  })
  process.env.NODE_ENV = 'production'
  t.throws(() => createTestIssuers(options), message('NODE_ENV is production'))
})

import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { Agent as Agent7, type Dispatcher } from 'undici'
import { Agent as Agent8 } from 'undici-8'
import auth from '../../src/index.ts'
import { ALGORITHMS, API, keysOf, startProvider } from './provider.ts'

async function startApp(t: Test, issuerUrl: string, dispatcher?: Dispatcher) {
  let passed = 0
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(auth, {
    jwt: { issuerUrl, audience: API, requiredScopes: ['reports:read'] },
    now: () => Date.now() + passed,
    elapsed: () => performance.now() + passed,
    dispatcher,
  })
  app.get('/', { onRequest: app.requireCaller() }, ({ caller }) => caller)
  app.post('/', { onRequest: app.requireCaller({ scopes: ['reports:write'] }) }, () => 'written')
  const ask = (token: string, method: 'GET' | 'POST' = 'GET') =>
    app.inject({ method, url: '/', headers: { authorization: `Bearer ${token}` } })
  return { app, ask, pass: (ms: number) => (passed += ms) }
}

t.test('tokens of a real OpenID provider', async (t) => {
  const provider = await startProvider(t)
  const first = keysOf('1')
  const second = keysOf('2')
  provider.use(first)
  const { ask, pass } = await startApp(t, provider.issuer)
  const old = await provider.getToken('ES256')

  for (const alg of ALGORITHMS)
    await t.test(alg, async (t) => {
      const token = await provider.getToken(alg)
      const header = JSON.parse(Buffer.from(token.split('.')[0]!, 'base64url').toString())
      t.match(header, { alg, typ: 'at+jwt', kid: `${alg}-1` })
      t.match((await ask(token)).json(), {
        method: 'jwt',
        issuer: provider.issuer,
        subject: alg,
        scopes: ['reports:read'],
        claims: { aud: API, client_id: alg },
      })
      t.match((await ask(token, 'POST')).json(), { statusCode: 403, code: 'AUTH_SCOPE_MISSING' })
      const both = await provider.getToken(alg, 'reports:read reports:write')
      t.equal((await ask(both, 'POST')).body, 'written')
      const wrong = await provider.getToken(alg, 'reports:write')
      t.equal((await ask(wrong)).statusCode, 403, 'without the scope that every token needs')
    })

  await t.test('a new key is accepted within the cooldown', async (t) => {
    provider.use([...second, ...first])
    const token = await provider.getToken('ES256')
    pass(30_000)
    t.match((await ask(token)).json(), { subject: 'ES256' })
    t.equal((await ask(old)).statusCode, 200, 'and the old one still')
  })

  await t.test('a withdrawn key is refused within the maximal age', async (t) => {
    provider.use(second)
    t.equal((await ask(old)).statusCode, 200, 'not noticed yet')
    pass(600_000)
    t.equal((await ask(old)).json().code, 'AUTH_TOKEN_KEY_UNKNOWN')
    t.equal((await ask(await provider.getToken('ES256'))).statusCode, 200, 'the new one counts')
  })
})

t.test('a provider that is down at the start, comes, and goes again', async (t) => {
  const provider = await startProvider(t)
  const keys = keysOf('1')
  provider.use(keys)
  const token = await provider.getToken('EdDSA')
  const { port } = new URL(provider.issuer)
  await provider.stop()

  const { app, ask, pass } = await startApp(t, provider.issuer)
  const refused = await ask(token)
  t.match(refused.json(), { statusCode: 503, code: 'AUTH_ISSUER_UNREACHABLE' })
  t.ok(Number(refused.headers['retry-after']) >= 1)
  t.strictSame(app.callers.status(), { degraded: [provider.issuer] })

  const again = await startProvider(t, Number(port))
  again.use(keys)
  pass(1_000)
  t.equal((await ask(token)).statusCode, 200)
  t.strictSame(app.callers.status(), { degraded: [] })

  await again.stop()
  pass(599_000)
  t.equal((await ask(token)).statusCode, 200, 'known keys outlive an outage')
})

t.test('a dispatcher of undici 7 and one of undici 8 carry the requests', async (t) => {
  const provider = await startProvider(t)
  provider.use(keysOf('1'))
  // Their types differ in what no request here uses.
  for (const agent of [new Agent7(), new Agent8() as unknown as Dispatcher]) {
    const paths: string[] = []
    const { ask } = await startApp(
      t,
      provider.issuer,
      agent.compose((dispatch) => (options, handler) => {
        paths.push(options.path)
        return dispatch(options, handler)
      }),
    )
    t.equal((await ask(await provider.getToken('ES256'))).statusCode, 200)
    t.strictSame(paths, ['/.well-known/openid-configuration', '/jwks'])
    await agent.destroy()
  }
})

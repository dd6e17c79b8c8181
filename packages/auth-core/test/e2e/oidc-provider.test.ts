import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import { Provider } from 'oidc-provider'
import t, { type Test } from 'tap'
import auth from '../../src/index.ts'
import { signingKey } from '../kit.ts'

const API = 'https://api.example'
const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA']
const keysOf = (generation: string) =>
  ALGORITHMS.map((alg) => signingKey(alg, `${alg}-${generation}`))
const privateJwk = ({ privateKey, kid, alg }: ReturnType<typeof signingKey>) => ({
  ...privateKey.export({ format: 'jwk' }),
  ...{ kid, alg, use: 'sig' },
})

/** A provider whose clients get JWT access tokens; `keys` are the ones it has from now on. */
async function startProvider(t: Test, port = 0) {
  const server: Server = createServer()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const stop = () =>
    new Promise<void>((resolve) => {
      server.closeAllConnections()
      server.close(() => resolve())
    })
  t.teardown(stop)

  function use(keys: ReturnType<typeof keysOf>) {
    const provider = new Provider(issuer, {
      jwks: { keys: keys.map(privateJwk) },
      clients: ALGORITHMS.map((alg) => ({
        client_id: alg,
        client_secret: 'client-secret',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      })),
      ttl: { ClientCredentials: 3_600 },
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => API,
          getResourceServerInfo: (_context, _resource, client) => ({
            scope: 'reports:read reports:write',
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: client.clientId } },
          }),
        },
      },
    })
    server.removeAllListeners('request')
    server.on('request', provider.callback())
  }

  async function getToken(alg: string, scope = 'reports:read'): Promise<string> {
    const answer = await fetch(`${issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${alg}:client-secret`)}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope }),
    })
    return ((await answer.json()) as { access_token: string }).access_token
  }
  return { issuer, use, getToken, stop }
}

async function startApp(t: Test, issuerUrl: string) {
  let passed = 0
  const app = Fastify()
  t.teardown(() => app.close())
  await app.register(auth, {
    jwt: { issuerUrl, audience: API, requiredScopes: ['reports:read'] },
    now: () => Date.now() + passed,
    elapsed: () => performance.now() + passed,
  })
  app.get('/', { onRequest: app.requireCaller() }, ({ caller }) => caller)
  app.post('/', { onRequest: app.requireCaller({ scopes: ['reports:write'] }) }, () => 'written')
  const ask = (token: string, method: 'GET' | 'POST' = 'GET') =>
    app.inject({ method, url: '/', headers: { authorization: `Bearer ${token}` } })
  return { app, ask, pass: (ms: number) => (passed += ms) }
}

// It warns of what a production set-up should do otherwise.
for (const method of ['warn', 'info'] as const) console[method] = () => {}

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

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'
import type { Test } from 'tap'
import { signingKey } from '../kit.ts'

export const API = 'https://api.example'
export const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA']
export const keysOf = (generation: string) =>
  ALGORITHMS.map((alg) => signingKey(alg, `${alg}-${generation}`))
const privateJwk = ({ privateKey, kid, alg }: ReturnType<typeof signingKey>) => ({
  ...privateKey.export({ format: 'jwk' }),
  ...{ kid, alg, use: 'sig' },
})

/** A provider whose clients get JWT access tokens; `keys` are the ones it has from now on. */
export async function startProvider(t: Test, port = 0) {
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

// It warns of what a production set-up should do otherwise.
for (const method of ['warn', 'info'] as const) console[method] = () => {}

import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createSigner } from 'fast-jwt'

export const ALGORITHMS = ['RS256', 'ES256', 'EdDSA'] as const
type TokenAlgorithm = (typeof ALGORITHMS)[number]

export const AUDIENCE = 'https://certs.example.com'

export interface TestIssuer {
  readonly url: string
  /** Access tokens of as many different callers. */
  tokens(algorithm: TokenAlgorithm, count: number): string[]
  close(): void
}

/** An OpenID provider as far as a resource server sees one: discovery, keys and the tokens signed with them. */
export async function startIssuer(): Promise<TestIssuer> {
  const keys = {
    RS256: generateKeyPairSync('rsa', { modulusLength: 2048 }),
    ES256: generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    EdDSA: generateKeyPairSync('ed25519'),
  }
  const jwks = ALGORITHMS.map((alg) => ({
    ...keys[alg].publicKey.export({ format: 'jwk' }),
    kid: alg,
    alg,
    use: 'sig',
  }))
  const server = createServer((request, response) => {
    const isKeys = request.url === '/jwks'
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(isKeys ? { keys: jwks } : { issuer: url, jwks_uri: `${url}/jwks` }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  return {
    url,
    tokens(algorithm, count) {
      const sign = createSigner({
        key: keys[algorithm].privateKey.export({ format: 'pem', type: 'pkcs8' }),
        algorithm,
        kid: algorithm,
        header: { alg: algorithm, typ: 'at+jwt' },
        iss: url,
        aud: AUDIENCE,
        expiresIn: 3_600_000,
      })
      return Array.from({ length: count }, (_, n) =>
        sign({
          sub: `system:serviceaccount:prod:web-${n}`,
          client_id: 'machines',
          scope: 'openid certs:read certs:issue',
          jti: `${n}`.padStart(36, '0'),
        }),
      )
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

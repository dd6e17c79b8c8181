import type { Test } from 'tap'
import { startServer } from './server.ts'
import { type SigningKey, signingKey, signToken } from './tokens.ts'

export const AUDIENCE = 'https://apps.example.com'
/** The time of the clocks of tests, in seconds. */
export const NOW = Date.UTC(2030, 0, 1) / 1_000

/** An issuer of access tokens on loopback. */
export async function startTokenIssuer(t: Test) {
  const key = signingKey('k1')
  const { origin, stop } = await startServer(t, (origin) => ({ url }, response) => {
    const isKeys = url?.endsWith('/jwks')
    const body = isKeys ? { keys: [key.publicJwk] } : { issuer: origin, jwks_uri: `${origin}/jwks` }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(body))
  })
  const issue = (claims: object = {}, header: Record<string, unknown> = {}, by: SigningKey = key) =>
    signToken(
      by,
      { iss: origin, aud: AUDIENCE, sub: 'robot', iat: NOW - 10, exp: NOW + 600, ...claims },
      { typ: 'at+jwt', ...header },
    )
  return { origin, issue, stop }
}

import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { type BoundedFetch, NetError } from '@gatehouse/net'
import { createSigner } from 'fast-jwt'
import { AuthError } from './errors.ts'
import type { Claims } from './jwt/token.ts'
import type { AuthDeps } from './oidc/issuer-keys.ts'
import type { IssuerConnection } from './oidc/jwks-client.ts'
import type { AuthOptions } from './options.ts'
import { readSettings } from './settings.ts'

/** The issuers that the options of a plugin name, as a test plays them. */
export interface TestIssuers {
  /** Options of the plugin that reads the keys of these issuers, without a network, and has the clock of the test. */
  readonly deps: Pick<AuthDeps, 'fetch' | 'now'>
  /**
   * Signs an assertion that the plugin accepts, of a person unless `claims` say otherwise. docs/auth-core.md has a table
   * of the claims.
   */
  signAssertion(claims?: Claims): string
  /** Signs an access token that the plugin accepts, of the first issuer unless `claims` have another `iss`. */
  signAccessToken(claims?: Claims): string
}

/**
 * Plays the issuers that the options of the plugin name, in the test of an application. It makes a key that exists in
 * this process alone: no plugin accepts what it signs but one that has {@link TestIssuers.deps} as options.
 *
 * @param options - those of the plugin
 * @param clock - `now` gives the milliseconds since the epoch, for a clock that stands still. Default: that of the machine
 * @throws AuthError AUTH_OPTIONS_INVALID if the options are, or if NODE_ENV is `production`
 */
export function createTestIssuers(
  options: AuthOptions,
  { now = Date.now }: Partial<Pick<AuthDeps, 'now'>> = {},
): TestIssuers {
  if (process.env.NODE_ENV === 'production') throw unusable('NODE_ENV is production')
  const { issuers, assertion } = readSettings(options)
  const connections = [...issuers, ...(assertion ? [assertion] : [])]
  const { jwk, sign } = createKey()
  const fetch = answerWith(metadataOf(connections, jwk))
  const timesOf = ({ iat = Math.floor(now() / 1_000) }: Claims, seconds: number) => ({
    iat,
    exp: Number(iat) + seconds,
  })
  return {
    deps: { fetch, now },
    signAssertion(claims = {}) {
      if (!assertion) throw unusable('the options have no assertion')
      const { connection, audience } = assertion
      const about = { sub: 'test-person', method: 'session', provider: 'test', sid: randomUUID() }
      const issuer = { iss: connection.issuerUrl, aud: audience[0], ...timesOf(claims, 60) }
      return sign('gatehouse-assertion+jwt', { ...issuer, ...about, ...claims })
    },
    signAccessToken(claims = {}) {
      const { iss = issuers[0]?.connection.issuerUrl } = claims
      const issuer = issuers.find(({ connection }) => connection.issuerUrl === iss)
      if (!issuer) throw unusable(iss ? `no issuer in jwt is ${iss}` : 'the options have no jwt')
      const { audience, requiredScopes, maxTokenLifetime = 300_000 } = issuer.demands
      const times = timesOf(claims, Math.min(300, maxTokenLifetime / 1_000))
      const about = { sub: 'test-caller', scope: requiredScopes.join(' ') }
      return sign('at+jwt', { iss, aud: audience[0], ...times, ...about, ...claims })
    },
  }
}

function createKey() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const kid = randomUUID()
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' })
  return {
    jwk: { ...publicKey.export({ format: 'jwk' }), kid, alg: 'ES256', use: 'sig' },
    sign: (typ: string, claims: object): string =>
      createSigner({ key, kid, header: { alg: 'ES256', typ } })({ ...claims }),
  }
}

/** What each issuer publishes, by its URL. */
function metadataOf(
  issuers: readonly { readonly connection: IssuerConnection }[],
  jwk: object,
): ReadonlyMap<string, object> {
  const documents = new Map<string, object>()
  for (const { connection } of issuers) {
    const { issuerUrl: issuer, jwksUrl = 'jwks.json' } = connection
    const url = new URL(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
    const jwksUri = new URL(jwksUrl, url).href
    documents.set(url.href, { issuer, jwks_uri: jwksUri }).set(jwksUri, { keys: [jwk] })
  }
  return documents
}

function answerWith(documents: ReadonlyMap<string, object>): BoundedFetch {
  async function fetch(url: string | URL) {
    const document = documents.get(new URL(url).href)
    if (!document) throw new NetError('NET_FETCH_FAILED', `${url} is of no issuer of this test`)
    return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(document)) }
  }
  return Object.assign(fetch, { close: async () => {} })
}

function unusable(reason: string): AuthError {
  return new AuthError('AUTH_OPTIONS_INVALID', {
    message: `Nothing is signed for a test: ${reason}`,
  })
}

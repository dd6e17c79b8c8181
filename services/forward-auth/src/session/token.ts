import type { TokenCaller } from '@gatehouse/auth-core'
import { fromClaims, type Profile } from '@gatehouse/profile'
import { type Portal, portalUrl, type Site } from '../portal.ts'
import type { Key } from './keys.ts'
import type { Session } from './session.ts'

/** Header `typ` of session tokens: nothing else that is signed passes for one. */
export const SESSION_TYPE = 'gatehouse-session+jwt'

/** Signs claims with the key of the call, HS256: the signer of @fastify/jwt. */
export type SignToken = (
  claims: object,
  options: { algorithm: 'HS256'; key: Buffer; kid: string; header: { alg: 'HS256'; typ: string } },
) => string

/** Makes a session token. Claims of the person stand beside its own, as in an ID token. */
export function signSession(
  sign: SignToken,
  { kid, secret }: Key,
  session: { portal: Portal; site: Site; profile: Profile; sid: string; now: number },
): string {
  const { portal, site, profile, sid, now } = session
  const issuedAt = Math.floor(now / 1_000)
  const claims = {
    ...profile.claims,
    iss: portalUrl(site, portal, ''),
    aud: site.domain,
    sub: profile.id,
    sid,
    iat: issuedAt,
    nbf: issuedAt,
    exp: issuedAt + Math.floor(portal.sessionLifetime / 1_000),
    gatehouse_provider: profile.provider,
  }
  const header = { alg: 'HS256', typ: SESSION_TYPE } as const
  return sign(claims, { algorithm: 'HS256', key: secret, kid, header })
}

/**
 * The session of a token that was verified.
 *
 * @throws ProfileError PROFILE_…; TypeError: the token is signed but was not made by signSession
 */
export function readSession(token: string, portal: string, caller: TokenCaller): Session {
  const { gatehouse_provider: provider, ...claims } = caller.claims
  const { sid, aud, iat, exp } = claims
  if (typeof sid !== 'string' || typeof aud !== 'string' || typeof provider !== 'string')
    throw new TypeError('not a session token')
  const profile = fromClaims(provider, claims)
  Object.freeze(profile.claims)
  return Object.freeze({
    sid,
    portal,
    issuer: caller.issuer,
    domain: aud,
    profile: Object.freeze(profile),
    token,
    issuedAt: Number(iat) * 1_000,
    expiresAt: Number(exp) * 1_000,
  })
}

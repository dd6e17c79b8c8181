import type { TokenCaller } from '@gatehouse/auth-core'
import { fromClaims } from '@gatehouse/profile'
import type { Portal } from '../portals.ts'
import { portalUrl, type Site } from '../sites.ts'
import { NOTHING_FOUND } from './findings.ts'
import type { Key } from './keys.ts'
import type { Session } from './session.ts'

/** Header `typ` of session tokens: nothing else that is signed passes for one. */
export const SESSION_TYPE = 'gatehouse-session+jwt'

/** Signs claims with the key of the call, HS256: the signer of @fastify/jwt. */
export type SignToken = (
  claims: object,
  options: { algorithm: 'HS256'; key: Buffer; kid: string; header: { alg: 'HS256'; typ: string } },
) => string

/** A portal of one site, which signs tokens as `iss`. */
export interface Issuer {
  readonly portal: Portal
  readonly site: Site
  readonly issuer: string
}

/** Makes a session token. Claims of the person stand beside its own, as in an ID token. */
export function signSession(
  sign: SignToken,
  { kid, secret }: Key,
  session: Pick<Session, 'site' | 'profile' | 'sid' | 'iat' | 'generation'> & { portal: Portal },
): string {
  const { portal, site, profile, sid, iat, generation } = session
  const claims = {
    ...profile.claims,
    iss: portalUrl(site, portal, ''),
    aud: site.domain,
    sub: profile.id,
    sid,
    iat,
    nbf: iat,
    exp: iat + Math.floor(portal.sessionLifetime / 1_000),
    gatehouse_provider: profile.provider,
    // Stands there even if there is none, so that no claim of a provider passes for it.
    gatehouse_generation: generation === 0 ? undefined : generation,
  }
  const header = { alg: 'HS256', typ: SESSION_TYPE } as const
  return sign(claims, { algorithm: 'HS256', key: secret, kid, header })
}

/**
 * The session of a token that was verified.
 *
 * @throws ProfileError PROFILE_…; TypeError: the token is signed but was not made by signSession
 */
export function readSession(
  token: string,
  { portal, site, issuer }: Issuer,
  {
    claims: { gatehouse_provider: name, gatehouse_generation: generation, ...claims },
  }: TokenCaller,
): Session {
  const { sid, aud, iat, exp } = claims
  if (typeof sid !== 'string' || aud !== site.domain || typeof name !== 'string')
    throw new TypeError('not a session token')
  const profile = fromClaims(name, claims)
  Object.freeze(profile.claims)
  return {
    ...NOTHING_FOUND,
    sid,
    portal: portal.name,
    issuer,
    site,
    profile: Object.freeze(profile),
    token,
    iat: Number(iat),
    exp: Number(exp),
    generation: typeof generation === 'number' ? generation : 0,
  }
}

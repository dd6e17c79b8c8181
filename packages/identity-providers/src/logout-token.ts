import { attempt, isObject } from '@gatehouse/net'
import { decodeJwt, decodeProtectedHeader, type JWTPayload } from 'jose'
import { ProviderError } from './errors.ts'
import type { LogoutToken } from './provider.ts'

const MAX_LENGTH = 16_384
const MAX_AGE_S = 600
const SKEW_S = 30
const MAX_ID_LENGTH = 255
const EVENT = 'http://schemas.openid.net/event/backchannel-logout'

/** The values that a logout token is compared with. */
export interface Expected {
  readonly issuer: string
  readonly clientId: string
  readonly algorithms: readonly string[]
}

type Rule = (claims: JWTPayload, expected: Expected, now: number) => boolean

/** The rules of OpenID Connect Back-Channel Logout 1.0 (sections 2.4 and 2.6) for claims, by claim. */
const RULES: Readonly<Record<string, Rule>> = {
  iss: ({ iss }, { issuer }) => iss === issuer,
  aud: ({ aud = [] }, { clientId }) => [aud].flat().includes(clientId),
  iat: ({ iat }, _, now) => isTime(iat) && iat <= now + SKEW_S && iat >= now - MAX_AGE_S,
  exp: ({ exp }, _, now) => isTime(exp) && exp > now - SKEW_S,
  jti: ({ jti }) => typeof jti === 'string' && jti !== '',
  events: ({ events }) => isObject(events) && isObject(events[EVENT]),
  // Only ID tokens have one.
  nonce: (claims) => !Object.hasOwn(claims, 'nonce'),
  sub: ({ sub, sid }) => (sub === undefined ? sid !== undefined : isId(sub)),
  sid: ({ sid }) => sid === undefined || isId(sid),
}

/** Whether this can be `sub` or `sid`. */
export const isId = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= MAX_ID_LENGTH

const isTime = (value: unknown): value is number => Number.isFinite(value)

/** The claims of a logout token whose signature is not verified yet: that takes keys. @throws ProviderError FWA_LOGOUT_TOKEN */
export function parseLogoutToken(token: string, expected: Expected): LogoutToken {
  if (token.length > MAX_LENGTH) throw refused(`it has more than ${MAX_LENGTH} characters`)
  const header = attempt(() => decodeProtectedHeader(token))
  const claims = attempt(() => decodeJwt(token))
  if (!header || !claims) throw refused('it is no signed token')
  const { alg = 'none', typ } = header
  if (!expected.algorithms.includes(alg)) throw refused('its header "alg" is not accepted')
  if (typ !== undefined && !/^(application\/)?logout\+jwt$/i.test(typ))
    throw refused('its header "typ" is of another kind of token')
  // Date.now, since openid-client compares the times of ID tokens with it.
  const now = Date.now() / 1_000
  const wrong = Object.keys(RULES).find((claim) => RULES[claim]?.(claims, expected, now) === false)
  if (wrong) throw refused(`its claim "${wrong}" is not valid`)
  const { sid, sub, iat, jti } = claims as { sid?: string; sub?: string; iat: number; jti: string }
  return {
    ...(sid !== undefined && { sid }),
    ...(sub !== undefined && { sub }),
    issuedAt: iat,
    jti,
  }
}

/** Logout tokens that are refused, with the rule that they break. */
export function refused(why: string): ProviderError {
  return new ProviderError('FWA_LOGOUT_TOKEN', `the logout token is refused: ${why}`)
}

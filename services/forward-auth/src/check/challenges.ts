import type { Resource } from '@gatehouse/gate'
import type { Host } from '@gatehouse/net'
import type { FastifyRequest } from 'fastify'
import { FWA_ERRORS, FwaError } from '../errors.ts'
import type { Portal } from '../portal/portals.ts'
import { pageUrl } from '../sites.ts'
import type { Realm } from '../web/realm.ts'

/** The error for programs when nobody is signed in; people are redirected to sign in instead. */
export function noSession(
  realm: Realm,
  loginUrl = pageUrl(realm, '/signin'),
  { resource, scopes, basic }: ChallengeOptions = {},
): FwaError {
  const { portal } = realm
  const { title } = FWA_ERRORS.FWA_NO_SESSION
  // This answer is frequent, and a stack would take as long as all the rest.
  return Object.assign(Object.create(FwaError.prototype), {
    ...{ name: 'FwaError', code: 'FWA_NO_SESSION', title },
    message: `nobody is signed in at the portal ${portal.name}`,
    members: { loginUrl },
    headers: challengeHeaders(challenges(portal, resource, scopes), resource, basic),
  })
}

/** The parts of a challenge for a program. */
interface ChallengeOptions {
  readonly resource?: Resource | undefined
  /** Default: those of the resource that clients ask for at first. */
  readonly scopes?: readonly string[] | undefined
  readonly basic?: string | undefined
}

/** RFC 9110 section 11.6.1: every 401 has a challenge. No browser asks for a password on that of the cookie. */
export function challenges(
  portal: Portal,
  resource?: Resource,
  scopes?: readonly string[],
): string {
  const cookie = `Cookie realm="${portal.name}"`
  const tokenChallenges = portal.gate.programs.challenges({ ...NO_CREDENTIALS, scopes }, resource)
  return tokenChallenges === '' ? cookie : `${tokenChallenges}, ${cookie}`
}

export const NO_CREDENTIALS = { code: 'AUTH_CREDENTIALS_MISSING', statusCode: 401 } as const

const BY_BROWSERS = ['sec-fetch-mode', 'origin', 'x-requested-with']

/** The challenge of Basic at an app, but not for browsers, which would ask for a password. */
export function basicChallenge(
  { portal, forwarded }: { readonly portal: Portal; readonly forwarded: { readonly host: Host } },
  { headers }: Pick<FastifyRequest, 'headers'>,
): string | undefined {
  const isBrowser = BY_BROWSERS.some((name) => headers[name] !== undefined)
  return !isBrowser ? portal.gate.programs.basicChallenge(forwarded.host) : undefined
}

/** The headers of a challenge. At a resource, scripts of any origin may read it, since clients run in browsers. */
export function challengeHeaders(
  authenticate: string,
  resource: Resource | undefined,
  basic?: string | undefined,
): Record<string, string> {
  const challenge = [authenticate, basic].filter(Boolean).join(', ')
  if (challenge === '') return {}
  const open = { 'access-control-allow-origin': '*', 'access-control-expose-headers': CHALLENGE }
  return { [CHALLENGE]: challenge, ...(resource && open) }
}

const CHALLENGE = 'www-authenticate'

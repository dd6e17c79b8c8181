import type { Method } from './caller.ts'
import { AUTH_ERRORS, type AuthError } from './errors.ts'

/** The content of the challenges of a refusal. */
export interface ChallengeOptions {
  /** The methods to offer, in this order. */
  readonly methods: readonly Method[]
  /** Realm of the Bearer challenge. Default: `api`. */
  readonly realm?: string | undefined
  /**
   * Further parameters of the Bearer challenge, in place of those with the same name: `scope`,
   * `resource_metadata` (RFC 9728 section 5.1), or `error` and `acr_values` (RFC 9470 section 3).
   */
  readonly parameters?: Readonly<Record<string, string>> | undefined
}

/**
 * The values of `WWW-Authenticate` for a refusal: one challenge for each method (RFC 9110 section
 * 11.6.1), the Bearer one with the error if the request had credentials (RFC 6750 section 3). None for a
 * 5xx status: the client is not at fault.
 */
export function challengesOf(
  error: Pick<AuthError, 'code' | 'scopes' | 'statusCode'>,
  { methods, realm = 'api', parameters }: ChallengeOptions,
): string[] {
  if (error.statusCode >= 500) return []
  return methods.map((method) =>
    method === 'psk'
      ? 'APIKey realm="api"'
      : `Bearer ${format({ realm, ...bearerError(error), ...parameters })}`,
  )
}

function bearerError({ code, scopes }: Pick<AuthError, 'code' | 'scopes'>): Record<string, string> {
  const entry = AUTH_ERRORS[code]
  if (!('challenge' in entry)) return {}
  const error = { error: entry.challenge }
  // The title of this problem would only repeat the error.
  if (code === 'AUTH_TOKEN_INVALID') return error
  const scope = scopes && { scope: scopes.join(' ') }
  return { ...error, error_description: entry.title, ...scope }
}

/** Writes each value as a quoted-string (RFC 9110 section 5.6.4). */
function format(parameters: Readonly<Record<string, string>>): string {
  return Object.entries(parameters)
    .map(([name, value]) => `${name}="${value.replace(/["\\]/g, '\\$&')}"`)
    .join(', ')
}

/** There is no scheme for assertions, since people sign in at the portal; but a 401 needs a challenge (RFC 9110 section 15.5.2). */
export function personChallengesOf(error: AuthError, portal = ''): string[] {
  return error.statusCode === 401 ? [`Gatehouse ${format({ realm: portal })}`] : []
}

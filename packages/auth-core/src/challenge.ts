import type { Method } from './authorization.ts'
import { AUTH_ERRORS, type AuthError } from './errors.ts'

/**
 * The values of WWW-Authenticate for a refusal: one challenge for each accepted scheme (RFC 9110
 * section 11.6.1), the Bearer one with the error if the request had credentials (RFC 6750
 * section 3). None if the client is not at fault.
 *
 * @param realm - realm of the Bearer challenge
 */
export function challengesFor(
  error: AuthError,
  accepted: readonly Method[],
  realm: string,
): string[] {
  if (error.statusCode >= 500) return []
  return accepted.map((method) =>
    method === 'psk' ? 'APIKey realm="api"' : `Bearer realm=${quote(realm)}${bearerError(error)}`,
  )
}

function bearerError({ code, scopes }: AuthError): string {
  const entry = AUTH_ERRORS[code]
  if (!('challenge' in entry)) return ''
  const error = `, error="${entry.challenge}"`
  // The title of this one would only repeat the error.
  if (code === 'AUTH_TOKEN_INVALID') return error
  const scope = scopes ? `, scope="${scopes.join(' ')}"` : ''
  return `${error}, error_description="${entry.title}"${scope}`
}

/** A quoted-string (RFC 9110 section 5.6.4). */
function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}

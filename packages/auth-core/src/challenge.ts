import type { Method } from './authorization.ts'
import { AUTH_ERRORS, type AuthError } from './errors.ts'

/**
 * The values of WWW-Authenticate for a refusal: one challenge for each accepted scheme (RFC 9110
 * section 11.6.1), the Bearer one with the error where the request had credentials (RFC 6750
 * section 3). None for what is not the client's fault.
 */
export function challengesFor(error: AuthError, accepted: readonly Method[]): string[] {
  if (error.statusCode >= 500) return []
  return accepted.map((method) =>
    method === 'psk' ? 'APIKey realm="api"' : `Bearer realm="api"${bearerError(error)}`,
  )
}

function bearerError({ code, scopes }: AuthError): string {
  const entry = AUTH_ERRORS[code]
  if (!('challenge' in entry)) return ''
  const scope = scopes ? `, scope="${scopes.join(' ')}"` : ''
  return `, error="${entry.challenge}", error_description="${entry.title}"${scope}`
}

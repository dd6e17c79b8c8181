import type { Caller } from './caller.ts'
import { AuthError } from './errors.ts'

const SCOPE_CLAIMS = ['scope', 'scp', 'scopes', 'roles', 'permissions']
const NONE: readonly string[] = Object.freeze([])

/** The scopes that a token grants: each claim is a space-separated string or a list. */
export function scopesOf(claims: Readonly<Record<string, unknown>>): readonly string[] {
  if (!SCOPE_CLAIMS.some((claim) => claim in claims)) return NONE
  const granted = SCOPE_CLAIMS.flatMap((claim) => {
    const value = claims[claim]
    return typeof value === 'string' ? value.split(' ') : value
  })
  return Object.freeze([...new Set(granted)].filter((scope) => isScope(scope)))
}

function isScope(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/**
 * Refuses a caller that lacks one of the scopes. An API key without a list of scopes lacks none.
 *
 * @throws AuthError AUTH_SCOPE_MISSING
 */
export function demandScopes(caller: Caller, scopes: readonly string[]): void {
  const { scopes: granted } = caller
  if (granted === undefined || scopes.every((scope) => granted.includes(scope))) return
  const missing = scopes.filter((scope) => !granted.includes(scope))
  throw new AuthError('AUTH_SCOPE_MISSING', {
    message: `Scope is missing: ${missing.join(' ')}`,
    scopes,
  })
}

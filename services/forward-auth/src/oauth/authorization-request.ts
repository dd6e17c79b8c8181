import type { Resource } from '@gatehouse/gate'
import { OAuthError } from './oauth-error.ts'

/** The parameters of an authorization request (RFC 6749 section 4.1.1, RFC 7636, RFC 8707). */
export const PARAMETERS = [
  'client_id',
  'redirect_uri',
  'response_type',
  'response_mode',
  'scope',
  'state',
  'code_challenge',
  'code_challenge_method',
  'resource',
  'request',
  'request_uri',
] as const

export type Parameters = Readonly<Partial<Record<(typeof PARAMETERS)[number], string>>>

type ScopeConfig = Resource['allowed'][number]

/** What a client asks a person for. */
export interface Asked {
  readonly resource: Resource
  readonly scopes: readonly ScopeConfig[]
  /** PKCE with S256. */
  readonly challenge: string
}

/** RFC 7636 section 4.2: the SHA-256 of a verifier. */
const CHALLENGE = /^[\w-]{43}$/

/**
 * Reads what a client asks for. Whoever calls it has checked the client and its redirect URI, since the client is
 * told of what is wrong here.
 *
 * @param resources - those whose tokens the portal issues
 * @throws OAuthError
 */
export function readRequest(parameters: Parameters, resources: readonly Resource[]): Asked {
  const { response_type: type, response_mode: mode = 'query', resource: url } = parameters
  const { code_challenge: challenge = '', code_challenge_method: method } = parameters
  if (parameters.request !== undefined || parameters.request_uri !== undefined)
    throw new OAuthError('request_not_supported', 'request and request_uri are not supported')
  if (type === undefined) throw new OAuthError('invalid_request', 'response_type is missing')
  if (type !== 'code')
    throw new OAuthError('unsupported_response_type', 'response_type has to be code')
  if (mode !== 'query') throw new OAuthError('invalid_request', 'response_mode has to be query')
  if (method !== 'S256' || !CHALLENGE.test(challenge))
    throw new OAuthError('invalid_request', 'PKCE with code_challenge_method=S256 is required')
  const resource = resources.find((one) => isSameUrl(one.url, url))
  if (!resource)
    throw new OAuthError(
      'invalid_target',
      'resource has to be the URL of a resource of this portal',
    )
  return { resource, scopes: readScopes(parameters.scope, resource), challenge }
}

/** Whether a parameter names this URL: clients may write scheme and host in capitals, and no path as `/`. */
export function isSameUrl(url: string, wanted = ''): boolean {
  return URL.parse(wanted)?.href === URL.parse(url)?.href
}

/** The scopes that a client asks for, in the order of the configuration. Default: those of the metadata. */
function readScopes(scope: string | undefined, { scopes, allowed }: Resource): ScopeConfig[] {
  const wanted = new Set(scope === undefined ? scopes : scopesIn(scope))
  const found = allowed.filter(({ name }) => wanted.has(name))
  if (found.length < wanted.size)
    throw new OAuthError('invalid_scope', 'a scope is not one of this resource')
  return found
}

/** The scopes in a parameter or claim (RFC 6749 section 3.3). */
export function scopesIn(text: string): string[] {
  return text.split(' ').filter(Boolean)
}

import type { Policy, Resource } from '@gatehouse/gate'
import { OAuthError } from './oauth-error.ts'

/** The parameters of an authorization request (RFC 6749 section 4.1.1, RFC 7636, RFC 8707, RFC 9470). */
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
  'acr_values',
  'max_age',
  'request',
  'request_uri',
] as const

export type Parameters = Readonly<Partial<Record<(typeof PARAMETERS)[number], string>>>

type ScopeConfig = Resource['grantableScopes'][number]

/** The validated request of a client to a person. */
export interface AuthorizationRequest {
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
export function readRequest(
  parameters: Parameters,
  resources: readonly Resource[],
): AuthorizationRequest {
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
  const resource = findResource(resources, url)
  if (!resource)
    throw new OAuthError(
      'invalid_target',
      'resource has to be the URL of a resource of this portal',
    )
  return { resource, scopes: readScopes(parameters.scope, resource), challenge }
}

/**
 * The policies whose demands on an authentication a client repeats, as a challenge has told it (RFC 9470 section 4): those
 * that are met by whoever authenticates as it asks.
 */
export function policiesIn<P extends Pick<Policy, 'stepUp'>>(
  { acr_values: levels = '', max_age: age }: Parameters,
  policies: Iterable<P>,
): P[] {
  const acr = scopesIn(levels)
  const maxAge = age !== undefined && /^\d{1,9}$/.test(age) ? Number(age) : Infinity
  if (acr.length === 0 && maxAge === Infinity) return []
  return [...policies].filter(({ stepUp }) => {
    if (!stepUp) return false
    const isLevel = acr.length > 0 && acr.every((level) => stepUp.acr.includes(level))
    const isAge = maxAge * 1_000 <= (stepUp.maxAge ?? Infinity)
    return (stepUp.acr.length === 0 || isLevel) && isAge
  })
}

/**
 * The resource that a client names (RFC 8707 section 2). Without a name, the only one there is: clients of MCP before
 * 2025-06-18 send none. People enter URLs with a slash at their end: that is the same resource, if no other one has it.
 */
export function findResource<R extends Pick<Resource, 'url'>>(
  resources: readonly R[],
  resourceUrl: string | undefined,
): R | undefined {
  if (resourceUrl === undefined) return resources.length === 1 ? resources[0] : undefined
  // Clients may write scheme and host in capitals, and no path as `/`.
  const resourceAt = (text: string) =>
    resources.find(({ url }) => URL.parse(url)?.href === URL.parse(text)?.href)
  return resourceAt(resourceUrl) ?? resourceAt(resourceUrl.replace(/\/$/, ''))
}

/**
 * The scopes that a client asks for, in the order of the configuration. What the resource does not have, such as
 * `offline_access`, is left out (RFC 6749 section 3.3): the answer says what was given. Default: those that clients ask
 * for at first.
 */
function readScopes(
  scope: string | undefined,
  { scopes, grantableScopes }: Resource,
): ScopeConfig[] {
  const names = new Set(scopesIn(scope ?? ''))
  const requested = grantableScopes.filter(({ name }) => names.has(name))
  return requested.length > 0
    ? requested
    : grantableScopes.filter(({ name }) => scopes.includes(name))
}

/** The scopes in a parameter or claim (RFC 6749 section 3.3). */
export function scopesIn(text: string): string[] {
  return text.split(' ').filter(Boolean)
}

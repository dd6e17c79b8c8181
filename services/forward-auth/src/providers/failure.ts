import { NetError } from '@gatehouse/net'
import { AuthorizationResponseError, ResponseBodyError } from 'openid-client'
import { FwaError, type FwaErrorCode } from '../errors.ts'

/** What OAuth and OpenID Connect call a no of the person, or a login that came too late. */
const REFUSALS = new Set([
  'access_denied',
  'account_selection_required',
  'consent_required',
  'interaction_required',
  'invalid_grant',
  'login_required',
  'unverified_user_email',
])
/** What they say when they do not know the client, or not by this secret; Keycloak says the second. */
const CLIENT_REFUSALS = new Set(['invalid_client', 'unauthorized_client', 'application_suspended'])
/** And when its request is not one that it was registered for. */
const REQUEST_REFUSALS = new Set([
  'invalid_redirect_uri',
  'invalid_request',
  'invalid_resource',
  'invalid_scope',
  'invalid_target',
  'redirect_uri_mismatch',
  'request_not_supported',
  'unsupported_grant_type',
  'unsupported_response_type',
])
const OUTAGES = new Set(['server_error', 'temporarily_unavailable'])
const UNREACHABLE = new Set(['NET_FETCH_TIMEOUT', 'NET_FETCH_STATUS', 'NET_FETCH_FAILED'])

const SENTENCES: Partial<Record<FwaErrorCode, string>> = {
  FWA_CLIENT_REFUSED: 'does not accept the client ID or secret of this site; ask whoever runs it',
  FWA_REQUEST_REFUSED: 'does not accept the sign-in request of this site; ask whoever runs it',
  FWA_LOGIN_REFUSED: 'did not sign you in',
  FWA_PROVIDER_UNREACHABLE: 'cannot be reached',
  FWA_PROVIDER_INVALID: 'gave an answer that cannot be believed',
}

/**
 * Turns whatever went wrong with a provider into the error to tell. The cause is for the log; it holds
 * texts only, since what the library attaches to its errors has codes and tokens in it.
 */
export function toFwaError(title: string, error: unknown): FwaError {
  const chain = causesOf(error)
  const own = chain.find((cause) => cause instanceof FwaError)
  if (own) return own
  const code = codeOf(chain)
  const detail = [...new Set(chain.map(describe))].join(': ')
  return new FwaError(code, `${title} ${SENTENCES[code]}`, { cause: new Error(detail) })
}

/** Whether a request to the provider failed; what a callback says does not count, as anybody can make one. */
export function isOutage(error: unknown): boolean {
  return causesOf(error).some((cause) => cause instanceof NetError && UNREACHABLE.has(cause.code))
}

function codeOf(chain: readonly Error[]): FwaErrorCode {
  if (chain.some(isOutage)) return 'FWA_PROVIDER_UNREACHABLE'
  for (const error of chain) {
    if (error instanceof AuthorizationResponseError || error instanceof ResponseBodyError) {
      if (REFUSALS.has(error.error)) return 'FWA_LOGIN_REFUSED'
      if (CLIENT_REFUSALS.has(error.error)) return 'FWA_CLIENT_REFUSED'
      if (REQUEST_REFUSALS.has(error.error)) return 'FWA_REQUEST_REFUSED'
      if (OUTAGES.has(error.error)) return 'FWA_PROVIDER_UNREACHABLE'
    }
  }
  return 'FWA_PROVIDER_INVALID'
}

/** The error and its causes; one of ours has been explained already. */
function causesOf(error: unknown): Error[] {
  if (error instanceof FwaError) return [error]
  return error instanceof Error ? [error, ...causesOf(error.cause)] : []
}

function describe(error: Error): string {
  // The parser of JSON quotes what it has read, which may be a token.
  if (error instanceof SyntaxError) return 'not JSON'
  if (error instanceof AuthorizationResponseError || error instanceof ResponseBodyError)
    return `${error.error} ${error.error_description ?? ''}`.slice(0, 300).trimEnd()
  return error.message
}

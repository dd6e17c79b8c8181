/** The errors that OAuth has words for (RFC 6749 sections 4.1.2.1 and 5.2, RFC 8707, RFC 7591). */
type OAuthCode =
  | 'access_denied'
  | 'invalid_client'
  | 'invalid_client_metadata'
  | 'invalid_grant'
  | 'invalid_redirect_uri'
  | 'invalid_request'
  | 'invalid_scope'
  | 'invalid_target'
  | 'request_not_supported'
  | 'temporarily_unavailable'
  | 'unsupported_grant_type'
  | 'unsupported_response_type'

/** An error as a client is told it: `error`, and the message as `error_description`. */
export class OAuthError extends Error {
  override readonly name = 'OAuthError'
  readonly error: OAuthCode

  /** @param message - printable ASCII without `"` and `\` */
  constructor(error: OAuthCode, message: string) {
    super(message)
    this.error = error
  }

  get parameters() {
    return { error: this.error, error_description: this.message }
  }
}

import { TitledError } from '@gatehouse/net'

export const PROVIDER_ERRORS = {
  FWA_CLIENT_ASSERTION: {
    title: 'Client assertion could not be made',
    action: 'See the log for why the token of `clientAssertion` could not be read.',
  },
  FWA_CLIENT_REFUSED: {
    title: 'Provider rejected the client',
    action:
      'Compare `clientId` and `clientSecret`, or `clientAssertion`, with what the provider ' +
      'shows for this client. Client secrets may have expired. The log has the provider’s ' +
      'error.',
  },
  FWA_LOGIN_REFUSED: {
    title: 'Provider refused the sign-in',
    action: 'Try again, or sign in with another account or provider.',
  },
  FWA_LOGOUT_TOKEN: {
    title: 'Logout token is not valid',
    action:
      'Compare issuer and client ID with those of the provider, and the clocks. The message names ' +
      'what is wrong with the token.',
  },
  FWA_PROVIDER_INVALID: {
    title: 'Invalid response from the provider',
    action:
      'See the log for the reason. Check the issuer, the client and the keys of the provider.',
  },
  FWA_PROVIDER_UNREACHABLE: {
    title: 'Provider cannot be reached',
    action: 'Try again in a moment, or sign in with another provider.',
  },
  FWA_REQUEST_REFUSED: {
    title: 'Provider rejected the sign-in request',
    action:
      'Register at the provider the redirect URI that `check-config` prints, and allow the ' +
      'client the configured `scopes`. The log has the provider’s error.',
  },
  FWA_STEP_UP_UNMET: {
    title: 'Sign-in does not meet the requirements',
    action:
      'Sign in again, and use the method that the provider asks for, such as a second factor. ' +
      'If this does not help, have the provider send the claims `acr` and `auth_time`: the log ' +
      'has what it sent and what the policy requires.',
  },
} as const satisfies Record<`FWA_${string}`, { title: string; action: string }>

export type ProviderErrorCode = keyof typeof PROVIDER_ERRORS

/** An error of a provider. The person may see `message` and `members`; `cause` is for the log. */
export class ProviderError extends TitledError<ProviderErrorCode> {
  override readonly name = 'ProviderError'
  /** The words of the provider for the person: bounded, without control characters. */
  declare readonly members?: { readonly providerSays: string }

  constructor(
    code: ProviderErrorCode,
    message: string,
    options?: ErrorOptions & Pick<ProviderError, 'members' | 'retryAfter'>,
  ) {
    super(PROVIDER_ERRORS, code, message, options)
  }
}

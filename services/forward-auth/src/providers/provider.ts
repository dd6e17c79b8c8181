import type { Profile } from '@gatehouse/profile'

/** Who vouches for people: by a login at their site, or by the address that a request comes from. */
export type Provider = RedirectProvider | SeamlessProvider

interface ProviderBase {
  /** As configured: part of URLs, sessions and user headers. */
  readonly name: string
  readonly kind: string
  /** What pages call it. */
  readonly title: string
  /** Name of a built-in icon. */
  readonly icon: string | undefined
  /** CSS colour of its button. */
  readonly color: string | undefined
  /** Whether anyone at all can get an account there, so that `allow` is demanded. */
  readonly isPublic: boolean
  /** Whether the last try to reach it failed; never asks by itself. */
  readonly failing: () => boolean
  /** Lets go of connections. */
  close(): Promise<void>
}

/** OpenID Connect and OAuth 2.0. */
export interface RedirectProvider extends ProviderBase {
  readonly type: 'redirect'
  /**
   * Where to send the browser; `chooseAccount` when the person wants to sign in as somebody else.
   * Rejects with FWA_PROVIDER_UNREACHABLE or FWA_PROVIDER_INVALID.
   */
  authorizationUrl(
    login: LoginSecrets & { readonly redirectUri: string; readonly chooseAccount?: boolean },
  ): Promise<URL>
  /**
   * Finishes a login with the URL that the browser came back to. Rejects with FWA_LOGIN_REFUSED
   * (the person or provider said no), FWA_PROVIDER_UNREACHABLE, FWA_PROVIDER_INVALID (its answer is
   * not to be believed), FWA_CLIENT_ASSERTION.
   */
  finish(callback: URL, login: LoginSecrets & { readonly redirectUri: string }): Promise<Profile>
  /** Where RP-initiated logout begins, if the provider offers it: `client_id`, no ID token. */
  logoutUrl(postLogoutRedirectUri: string): Promise<URL | undefined>
}

/** No login page: the request's origin in the network tells (Tailscale). */
export interface SeamlessProvider extends ProviderBase {
  readonly type: 'seamless'
  /** Who is at this address, or undefined. Rejects with FWA_PROVIDER_UNREACHABLE. */
  identify(clientIp: string): Promise<Profile | undefined>
  /** Whether a session that it made may be used from this address. */
  fits(profile: Profile, clientIp: string): boolean
}

/** What binds the steps of one login together; kept in the browser's login cookie, never shared. */
export interface LoginSecrets {
  /** RFC 6749 section 10.12. */
  readonly state: string
  /** OpenID Connect Core section 3.1.2.1. */
  readonly nonce: string
  /** RFC 7636 section 4.1. */
  readonly codeVerifier: string
}

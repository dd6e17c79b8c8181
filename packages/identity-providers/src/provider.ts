import type { Log } from '@gatehouse/auth-core'
import type { BoundedFetch, FetchOptions } from '@gatehouse/net'
import type { Claims, Profile, StepUp } from '@gatehouse/profile'
import type { Clock } from '@gatehouse/service-kit/clock'
import type { ProviderError } from './errors.ts'

/** An identity provider: people sign in at its site, or it knows the address of a request. */
export type Provider = RedirectProvider | SeamlessProvider

interface Attributes {
  /** The configured name: part of URLs, sessions and user headers. */
  readonly name: string
  readonly title: string
  /** Name of a built-in icon. */
  readonly icon: string | undefined
  readonly color: string | undefined
  /** Whether it can be asked to authenticate people anew, or in another way (OpenID Connect). */
  readonly stepsUp: boolean
}

interface AnyProvider extends Attributes {
  /** Whether the last request failed. Sends none. */
  readonly failing: () => boolean
  close(): Promise<void>
}

export interface RedirectProvider extends AnyProvider {
  readonly type: 'redirect'
  authorizationUrl(login: Login & AuthorizationOptions): Promise<URL>
  /** Completes a login with the URL of the callback. Rejects with a ProviderError. */
  finish(callback: URL, login: Login): Promise<SignedIn>
  /** The issuer and client of the logout tokens that it reads; undefined without OpenID Connect (GitHub). */
  readonly relation: { readonly issuer: string; readonly clientId: string } | undefined
  /** Whether people can be read again, as far as the configuration tells. */
  readonly reReads: boolean
  /** Asks again about a person who signed in. Never rejects. */
  reRead(tokens: ProviderTokens, storedProfile: Profile): Promise<ReRead>
  /**
   * Verifies a logout token (OpenID Connect Back-Channel Logout 1.0 section 2.6); there if `relation` is.
   * Whether its `jti` was seen before is not checked.
   * @throws ProviderError FWA_LOGOUT_TOKEN; FWA_PROVIDER_UNREACHABLE or FWA_PROVIDER_INVALID without keys
   */
  readLogoutToken?(token: string): Promise<LogoutToken>
  /** The URL of RP-initiated logout, undefined if the provider does not offer it. */
  logoutUrl(postLogoutRedirectUri: string, idToken?: string): Promise<URL | undefined>
}

/** Tokens that a session keeps, sealed. */
export interface ProviderTokens {
  readonly refresh?: string
  /** The end of the refresh token, in ms since 1970; absent if the provider does not state it. Each use prolongs it. */
  readonly refreshUntil?: number
  /** The access token, if it is needed to read a person again. */
  readonly access?: string
  /** The end of the access token, in ms since 1970; absent if the provider does not state it. */
  readonly accessUntil?: number
  /** The newest ID token that is not too long for the URL of a logout. */
  readonly id?: string
}

/** The answer of a provider about a person: at the sign-in, or when it is asked again. */
export interface SignedIn {
  readonly profile: Profile
  readonly tokens: ProviderTokens
  /** `iat` of the ID token, in s. Absent if the answer had none, as `sid`. */
  readonly issuedAt?: number
  /** The session at the provider. */
  readonly sid?: string
}

/** The outcome of asking again. */
export type ReRead =
  | { readonly kind: 'read'; readonly signedIn: SignedIn }
  | { readonly kind: 'ended'; readonly why: string }
  | {
      readonly kind: 'fault'
      readonly error: ProviderError
      /** Whether the refresh token may have been used up, because the answer to it was lost. */
      readonly isUsed: boolean
      /** Came all the same, before the fault, and replace those of before. */
      readonly tokens?: ProviderTokens
    }
  /** Our client is refused: its secret was changed, or it is disabled. */
  | { readonly kind: 'misconfigured'; readonly error: ProviderError }
  /** The session has no token that can be used. */
  | { readonly kind: 'impossible' }

/** The sessions that ended at the provider: one, or all of a person. */
export interface LogoutToken {
  readonly sid?: string
  readonly sub?: string
  /** The time of issue, in seconds since 1970. */
  readonly issuedAt: number
  readonly jti: string
}

/** Identifies people by the address of their request, without a sign-in page (Tailscale). */
export interface SeamlessProvider extends AnyProvider {
  readonly type: 'seamless'
  identify(clientIp: string): Promise<Profile | undefined>
  /** Whether a session of this profile may be used from this address. */
  fits(profile: Profile, clientIp: string): boolean
}

/** The secrets that bind the steps of one login together. Only the browser that started it leads to them. */
export interface LoginSecrets {
  /** RFC 6749 section 10.12. */
  readonly state: string
  /** OpenID Connect Core section 3.1.2.1. */
  readonly nonce: string
  /** RFC 7636 section 4.1. */
  readonly codeVerifier: string
}

/** The secrets of a login, and the redirect URI that its authorization request names. */
export type Login = LoginSecrets & { readonly redirectUri: string }

export interface AuthorizationOptions {
  readonly chooseAccount?: boolean
  readonly stepUp?: StepUp | undefined
  /** The `prompt` of a request for tokens that outlive the session at the provider (OpenID Connect Core section 11). */
  readonly offlinePrompt?: 'none' | 'consent' | undefined
}

export interface ProviderDeps {
  readonly createFetch: (options: FetchOptions) => BoundedFetch
  readonly clock: Clock
  readonly log: Log
  /** Whether sessions keep the access token in any case, because an app gets it. Default: no. */
  readonly keepsAccess?: boolean
}

/** A kind of provider, which `type` in the configuration selects. */
export interface ProviderKind<Options> {
  /** Default title of its providers. Without it their name is the title. */
  readonly title?: string
  /** Name of the default icon of its providers. */
  readonly icon: string
  /** See {@link Attributes.stepsUp}. Default: no. */
  readonly stepsUp?: boolean
  /** Whether anybody can get an account, so that the configuration has to set `allow`. Default: no. */
  isPublic?(options: Options): boolean
  /** Whether people can be read again, as far as the configuration tells. Default: yes. */
  reReads?(options: Options): boolean
  /** Reads claims that it names in its own way. */
  claimsOf?(claims: Claims, options: Options): Claims
  create(options: Options & Pick<Attributes, 'title'>, deps: ProviderDeps): Behaviour<Provider>
}

export type Behaviour<P extends Provider> = P extends Provider ? Omit<P, keyof Attributes> : never

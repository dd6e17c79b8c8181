import type { Log } from '@gatehouse/auth-core'
import type { BoundedFetch, FetchOptions } from '@gatehouse/net'
import type { Profile } from '@gatehouse/profile'
import type { Clock } from '@gatehouse/service-kit/clock'
import type { ProviderIcon } from './options.ts'

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
  finish(callback: URL, login: Login): Promise<Profile>
  /** The URL of RP-initiated logout with `client_id`, undefined if the provider does not offer it. */
  logoutUrl(postLogoutRedirectUri: string): Promise<URL | undefined>
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

/** The authentication that a person must go through, and its age. */
interface StepUp {
  /** Authentication context classes, of which one is enough; empty for any. */
  readonly acr: readonly string[]
  /** Longest time since the person authenticated at the provider, in ms. */
  readonly maxAge: number | undefined
}

/** Further demands of an authorization request. */
export interface AuthorizationOptions {
  /** To sign in with another account. */
  readonly chooseAccount?: boolean
  /** To authenticate anew, or in another way. */
  readonly stepUp?: StepUp | undefined
}

export interface ProviderDeps {
  readonly createFetch: (options: FetchOptions) => BoundedFetch
  readonly clock: Clock
  readonly log: Log
}

/** One kind of provider, which `type` in the configuration selects. */
export interface ProviderKind<Options> {
  /** Default title of its providers. Without it their name is the title. */
  readonly title?: string
  /** Default icon of its providers. */
  readonly icon: ProviderIcon
  /** See {@link Attributes.stepsUp}. Default: no. */
  readonly stepsUp?: boolean
  /** Whether anybody can get an account, so that the configuration has to set `allow`. Default: no. */
  isPublic?(options: Options): boolean
  create(options: Options & Pick<Attributes, 'title'>, deps: ProviderDeps): Behaviour<Provider>
}

export type Behaviour<P extends Provider> = P extends Provider ? Omit<P, keyof Attributes> : never

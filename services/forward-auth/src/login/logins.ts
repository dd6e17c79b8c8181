import { randomBytes } from 'node:crypto'
import type { Clock } from '@gatehouse/service-kit'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import type { HostCookie } from '../cookies.ts'
import type { Portal } from '../portals.ts'
import type { LoginSecrets } from '../providers/provider.ts'
import { readCookie } from '../session/cookie.ts'
import type { Keys } from '../session/keys.ts'
import type { Site } from '../sites.ts'
import type { AuthStore } from '../store/store.ts'
import { resetRedirectCount } from './redirect-loop.ts'
import { seal, unseal } from './seal.ts'
import { SignInRate } from './sign-in-rate.ts'
import type { StepUpDemand } from './step-up.ts'

/** Logins in progress per browser. The oldest is dropped. */
const MAX_LOGINS = 8
const MAX_TRIED = 10_000
/** The authorization request must fit into a URL of 4,096 characters (Keycloak). */
const MAX_STATE = 3_000
/** Browsers keep 4,096 characters of the name and value of a cookie. */
const MAX_COOKIE = 3_900

/** What a login is for. It travels in the parameter `state` (RFC 6749 section 4.1.1), sealed. */
export interface LoginState {
  readonly provider: string
  /** The redirect URI of the authorization request. Absent in logins from before it was stored. */
  readonly redirectUri?: string
  /** Validated. */
  readonly returnTo: string
  /** Whether the login replaces one that was lost. */
  readonly isRetry: boolean
  /** What the person must have done at the provider. */
  readonly stepUp?: StepUpDemand | undefined
}

export interface Callback {
  readonly provider: string
  readonly state: unknown
  readonly cookieHeader: string | undefined
}

export type CallbackLogin =
  /** In progress in this browser until now. */
  | {
      readonly kind: 'valid'
      readonly login: LoginState
      readonly secrets: LoginSecrets
      readonly cookie: HostCookie
      /**
       * Completes the login for good. Resolves with false if it has completed meanwhile, at another
       * instance. Rejects with FwaError FWA_STORE_UNAVAILABLE.
       */
      confirm(): Promise<boolean>
    }
  /**
   * `used`: completed before. `lost`: not in the cookie of this browser, because it started in
   * another one or at the same time as another login. `expired`: took too long. `foreign`: started
   * at another provider than the one whose redirect URI was called (RFC 9700 section 4.4).
   */
  | { readonly kind: 'used' | 'lost' | 'expired' | 'foreign'; readonly login: LoginState }
  /** The state was not made by this service, or for another portal or site. */
  | { readonly kind: 'unknown' }

/** A login in the cookie. Without secrets it has completed. */
interface Entry {
  readonly id: string
  readonly expiresAt: number
  readonly secrets?: Omit<LoginSecrets, 'state'>
}

type SealedState = LoginState & Pick<Entry, 'id' | 'expiresAt'>
/** A return URL that is too long for the state, in a cookie of its own. */
type Target = Pick<SealedState, 'id' | 'returnTo'>
type Purpose = 'state' | 'cookie' | 'target'

/** The logins that have completed, at any instance. */
type CompletedLogins = Pick<AuthStore, 'hasCompleted' | 'completeLogin'>

interface LoginsOptions {
  readonly keys: () => Keys
  readonly clock: Clock
  readonly store: CompletedLogins
}

/** The logins in progress. The browser that started them keeps their secrets, in a sealed cookie. */
export class Logins {
  readonly #keys: () => Keys
  readonly #clock: Clock
  readonly #store: CompletedLogins
  /** Logins that were tried here: their codes were sent to the provider, which takes each once. */
  readonly #tried = new LRUCache<string, true>({ max: MAX_TRIED })

  constructor({ keys, clock, store }: LoginsOptions) {
    this.#keys = keys
    this.#clock = clock
    this.#store = store
  }

  begin(portal: Portal, site: Site, login: LoginState, cookieHeader: string | undefined) {
    const [id, nonce, codeVerifier] = [randomId(16), randomId(16), randomId(32)]
    const expiresAt = this.#clock.now() + portal.loginLifetime
    const { state, cookies } = this.#sealState(portal, site, { ...login, id, expiresAt })
    const secrets = { nonce, codeVerifier }
    const entries = withoutOldest(this.#readEntries(portal, site, cookieHeader))
    const cookie = this.#sealEntries(portal, site, [...entries, { id, expiresAt, secrets }])
    return { secrets: { ...secrets, state }, cookies: [cookie, ...cookies] }
  }

  /**
   * Finds the login that a callback belongs to. A login completes once, at whatever instance, and only
   * at the redirect URI of the provider where it started, so that no other provider receives its code.
   *
   * @throws FwaError FWA_STORE_UNAVAILABLE, and the callback may be tried again
   */
  async complete(portal: Portal, site: Site, callback: Callback): Promise<CallbackLogin> {
    const { provider, state, cookieHeader } = callback
    const sealed = this.#unseal('state', portal, site, state) as SealedState | undefined
    if (!sealed) return { kind: 'unknown' }
    const { id, expiresAt, ...rest } = sealed
    const login = { ...rest, returnTo: this.#returnUrl(portal, site, sealed, cookieHeader) }
    if (login.provider !== provider) return { kind: 'foreign', login }
    if (!this.#isCurrent(sealed)) return { kind: 'expired', login }
    const entries = this.#readEntries(portal, site, cookieHeader)
    const entry = entries.find((each) => each.id === id)
    if (this.#tried.has(id)) return { kind: 'used', login }
    if (!entry) return { kind: 'lost', login }
    if (!entry.secrets) return { kind: 'used', login }
    if (!(await this.#take(id))) return { kind: 'used', login }

    const secrets = { ...entry.secrets, state: String(state) }
    const remaining = entries.map((each) => (each === entry ? { id, expiresAt } : each))
    const cookie = this.#sealEntries(portal, site, remaining)
    // Stored only when the provider has named a person, so that nobody else can fill the store.
    const confirm = () => this.#store.completeLogin(id, expiresAt)
    return { kind: 'valid', login, secrets, cookie, confirm }
  }

  /** Whether nobody has tried the login before: here from now on, at other instances it completed. */
  async #take(id: string): Promise<boolean> {
    this.#tried.set(id, true)
    try {
      return !(await this.#store.hasCompleted(id))
    } catch (error) {
      this.#tried.delete(id)
      throw error
    }
  }

  clear(portal: Portal): HostCookie[] {
    const names = [cookieName(portal), targetName(portal)]
    return [...names.map((name) => ({ name, value: '', maxAge: 0 })), resetRedirectCount(portal)]
  }

  #isCurrent({ expiresAt }: Pick<Entry, 'expiresAt'>): boolean {
    return this.#clock.now() < expiresAt
  }

  #readEntries(portal: Portal, site: Site, cookieHeader = ''): readonly Entry[] {
    const sealed = readCookie(cookieHeader, cookieName(portal))
    const entries = this.#unseal('cookie', portal, site, sealed) as Entry[] | undefined
    return entries?.filter((entry) => this.#isCurrent(entry)) ?? []
  }

  #sealEntries(portal: Portal, site: Site, entries: readonly Entry[]): HostCookie {
    const value = this.#seal('cookie', portal, site, entries)
    return { name: cookieName(portal), value, maxAge: portal.loginLifetime }
  }

  /**
   * Seals the state of a login. A return URL that is too long for it goes into a cookie, which holds
   * one at a time; the state keeps the URL without its query in case another tab replaces the cookie.
   */
  #sealState(portal: Portal, site: Site, login: SealedState) {
    const state = this.#seal('state', portal, site, login)
    if (state.length <= MAX_STATE) return { state, cookies: [] }
    const { id, returnTo } = login
    const value = this.#seal('target', portal, site, { id, returnTo })
    const cookie = { name: targetName(portal), value, maxAge: portal.loginLifetime }
    return {
      state: this.#seal('state', portal, site, { ...login, returnTo: withoutQuery(returnTo) }),
      cookies: value.length <= MAX_COOKIE ? [cookie] : [],
    }
  }

  #returnUrl(portal: Portal, site: Site, login: SealedState, cookieHeader = ''): string {
    const sealed = readCookie(cookieHeader, targetName(portal))
    const target = this.#unseal('target', portal, site, sealed) as Target | undefined
    return target?.id === login.id ? target.returnTo : login.returnTo
  }

  #seal(purpose: Purpose, portal: Portal, site: Site, value: object): string {
    return seal(JSON.stringify(value), this.#keys().login, contextOf(purpose, portal, site))
  }

  #unseal(purpose: Purpose, portal: Portal, site: Site, sealed: unknown): unknown {
    if (typeof sealed !== 'string') return undefined
    const text = unseal(sealed, this.#keys().login, contextOf(purpose, portal, site))
    return text === undefined ? undefined : JSON.parse(text)
  }
}

function contextOf(purpose: Purpose, { name }: Portal, { authOrigin }: Site): string {
  return `${purpose} ${name} ${authOrigin}`
}

function cookieName({ name }: Portal): string {
  return `__Host-gatehouse-login.${name}`
}

function targetName({ name }: Portal): string {
  return `__Host-gatehouse-target.${name}`
}

/** The URL without its query, or '' if it is still too long. */
function withoutQuery(returnTo: string): string {
  const url = URL.parse(returnTo)
  if (!url) return ''
  url.search = ''
  return url.href.length <= MAX_STATE / 2 ? url.href : ''
}

function randomId(bytes: number): string {
  return randomBytes(bytes).toString('base64url')
}

/** Makes room for one more login. Completed logins are dropped first. */
function withoutOldest(entries: readonly Entry[]): readonly Entry[] {
  if (entries.length < MAX_LOGINS) return entries
  const oldest = entries.find(({ secrets }) => !secrets) ?? entries[0]
  return entries.filter((entry) => entry !== oldest)
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly logins: Logins
    readonly signInRate: SignInRate
  }
}

export const logins = fp(
  async (app: FastifyInstance) => {
    const { clock, authStore: store } = app
    app.decorate('logins', new Logins({ keys: () => app.keys, clock, store }))
    app.decorate('signInRate', new SignInRate(() => app.clock.now()))
  },
  {
    fastify: '5.x',
    name: 'forward-auth/logins',
    dependencies: ['forward-auth/keys', 'forward-auth/store', 'service-kit/clock'],
  },
)

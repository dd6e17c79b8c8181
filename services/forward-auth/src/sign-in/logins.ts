import { createHmac, hash, randomBytes } from 'node:crypto'
import type { LoginSecrets } from '@gatehouse/identity-providers'
import type { Clock } from '@gatehouse/service-kit/clock'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import { sealValue, unsealValue } from '../keys/key-ring.ts'
import type { Portal } from '../portal/portals.ts'
import type { ServiceKeys } from '../session/keys.ts'
import { pageUrl, purposeAt } from '../sites.ts'
import type { AuthStore } from '../store/auth-store.ts'
import { type HostCookie, readCookie, readCookies } from '../web/cookies.ts'
import type { Realm } from '../web/realm.ts'
import { resetRedirectCount } from './redirect-loop.ts'
import { SignInRate } from './sign-in-rate.ts'
import type { StepUpDemand } from './step-up.ts'

const MAX_TRIED = 10_000
/** The authorization request must fit into a URL of 4,096 characters (Keycloak). */
const MAX_STATE = 3_000
/** Browsers keep 4,096 characters of the name and value of a cookie. */
const MAX_COOKIE = 3_900
/** Cookies that one answer removes at most, because proxies limit the headers of answers. */
const MAX_REMOVED = 16

/** The page to which a login leads whose return URL is too long for its state: a cookie of this path holds it. */
export const RETURN_PATH = '/return/:login'
const TARGET_COOKIE = '__Secure-gatehouse-target'
/** The lifetime of that cookie, in ms: longer than a login may take, because one that expired starts again. */
const TARGET_LIFETIME = 86_400_000

/** The purpose of a login. It travels in the parameter `state` (RFC 6749 section 4.1.1), sealed. */
export interface LoginState {
  readonly provider: string
  /** The redirect URI of the authorization request. */
  readonly redirectUri: string
  /** The validated return URL. */
  readonly returnTo: string
  /** The hop of this browser that led to it, as it is signed. */
  readonly hop?: string | undefined
  /** The number of logins that were lost or expired before it, which this one replaces. */
  readonly restarts?: number
  /** The demands on the authentication at the provider. */
  readonly stepUp?: StepUpDemand | undefined
  /** Whether it is for the programs of a person who is signed in, and begins no session of a browser. */
  readonly isOffline?: boolean | undefined
}

export interface Callback {
  readonly provider: string
  readonly state: unknown
  readonly cookieHeader: string | undefined
}

export type CallbackLogin =
  /** A login that was in progress in this browser until now. */
  | {
      readonly kind: 'valid'
      readonly login: LoginState
      readonly secrets: LoginSecrets
      /**
       * Completes the login for good. Resolves with false if it has completed meanwhile, at another
       * instance. Rejects with StoreError STORE_UNAVAILABLE.
       */
      confirm(): Promise<boolean>
    }
  /**
   * `used`: completed before. `lost`: this browser has no cookie of it, because it started in
   * another one or the cookies were deleted. `expired`: took too long. `foreign`: started at another
   * provider than the one whose redirect URI was called (RFC 9700 section 4.4).
   */
  | { readonly kind: 'used' | 'lost' | 'expired' | 'foreign'; readonly login: LoginState }
  /** The state was not made by this service, or for another portal or site. */
  | { readonly kind: 'unknown' }

interface FullLoginState extends LoginState {
  readonly id: string
  readonly expiresAt: number
  /** The browser that started it, as {@link browserOf} names it. */
  readonly browser: string
}

type LoginPurpose = 'state' | 'target'

type CompletedLogins = Pick<AuthStore, 'hasCompleted' | 'completeLogin'>

/**
 * The logins in progress. The sealed state of each names the browser that started it. A browser is known
 * by a secret in a cookie, which all its logins share: further answers set the same cookie with the same
 * value, and answers that pass each other before the browser has one each set a cookie of their own.
 * So no answer overwrites what another login needs.
 */
export class Logins {
  readonly #keys: () => ServiceKeys
  readonly #clock: Clock
  readonly #store: CompletedLogins
  /** Logins that were tried here: their codes were sent to the provider, which takes each once. */
  readonly #tried = new LRUCache<string, true>({ max: MAX_TRIED })

  constructor(keys: () => ServiceKeys, clock: Clock, store: CompletedLogins) {
    this.#keys = keys
    this.#clock = clock
    this.#store = store
  }

  begin(realm: Realm, login: LoginState, cookieHeader: string | undefined) {
    const { portal } = realm
    const [secret = randomText(32)] = readSecrets(portal, cookieHeader)
    const id = randomText(16)
    const browser = browserOf(secret)
    const expiresAt = this.#clock.now() + portal.loginLifetime
    const fullState = { ...login, id, browser, expiresAt }
    const { state, cookies } = this.#sealState(realm, fullState)
    const name = `${cookiePrefix(portal)}${browser.slice(0, 8)}`
    const cookie: HostCookie = { name, value: secret, maxAge: portal.loginLifetime }
    return { secrets: secretsOf(state, id, secret), cookies: [cookie, ...cookies] }
  }

  /**
   * Finds the login that a callback belongs to. A login completes once, at whatever instance, and only
   * at the redirect URI of the provider where it started, so that no other provider receives its code.
   *
   * @throws StoreError STORE_UNAVAILABLE, and the callback may be tried again
   */
  async complete(realm: Realm, callback: Callback): Promise<CallbackLogin> {
    const { provider, state, cookieHeader } = callback
    const fullState = this.#unseal('state', realm, state)
    if (!fullState) return { kind: 'unknown' }
    const { id, expiresAt, browser, ...login } = fullState
    if (login.provider !== provider) return { kind: 'foreign', login }
    if (this.#clock.now() >= expiresAt) return { kind: 'expired', login }
    if (this.#tried.has(id)) return { kind: 'used', login }
    const secrets = readSecrets(realm.portal, cookieHeader)
    const secret = secrets.find((text) => browserOf(text) === browser)
    if (secret === undefined) return { kind: 'lost', login }
    if (!(await this.#take(id))) return { kind: 'used', login }

    const confirm = () => this.#store.completeLogin(id, expiresAt)
    return { kind: 'valid', login, secrets: secretsOf(String(state), id, secret), confirm }
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

  /** Removes the logins of a browser. */
  clear(portal: Portal, cookieHeader: string | undefined): HostCookie[] {
    const names = readCookies(cookieHeader ?? '', cookiePrefix(portal)).keys()
    const removed = [...names].slice(0, MAX_REMOVED).map((name) => ({ name, value: '', maxAge: 0 }))
    return [...removed, resetRedirectCount(portal)]
  }

  /**
   * Seals the state of a login. A return URL that is too long for it goes into a cookie that is sent to
   * one page only, where the login leads then: such cookies never add up to a header that is too long.
   * The URL without its query remains in case the browser has lost the cookie.
   */
  #sealState(realm: Realm, login: FullLoginState) {
    const state = this.#seal('state', realm, login)
    if (state.length <= MAX_STATE) return { state, cookies: [] }
    const { id, returnTo, hop } = login
    const value = this.#seal('target', realm, { id, returnTo, hop })
    const isKept = value.length <= MAX_COOKIE
    const rd = withoutQuery(returnTo)
    const page = pageUrl(realm, RETURN_PATH.replace(':login', id), { rd })
    const { pathname: path } = new URL(page)
    const short = { ...login, returnTo: isKept ? page : rd }
    const cookie: HostCookie = { name: TARGET_COOKIE, value, maxAge: TARGET_LIFETIME, path }
    return { state: this.#seal('state', realm, short), cookies: isKept ? [cookie] : [] }
  }

  /** The destination of a login that was too long for its state, if this browser still has it. */
  longDestination(realm: Realm, id: string, cookieHeader = '') {
    const cookie = readCookie(cookieHeader, TARGET_COOKIE)
    const target = this.#unseal('target', realm, cookie)
    return target?.id === id ? target : undefined
  }

  #seal(purpose: LoginPurpose, realm: Realm, value: object): string {
    return sealValue(value, this.#keys().login, purposeAt(realm, purpose))
  }

  #unseal(purpose: LoginPurpose, realm: Realm, text: unknown) {
    return unsealValue<FullLoginState>(text, this.#keys().login, purposeAt(realm, purpose))
  }
}

/** The prefix of its cookies. With `__Host-` no other host can set or replace them. */
function cookiePrefix({ name }: Portal): string {
  return `__Host-gatehouse-login.${name}.`
}

function readSecrets(portal: Portal, cookieHeader = ''): string[] {
  const values = readCookies(cookieHeader, cookiePrefix(portal)).values()
  return [...values].filter((value) => value !== undefined && SECRET.test(value)) as string[]
}

/** Names a browser in states without telling its secret. */
function browserOf(secret: string): string {
  return hash('sha256', secret, 'base64url').slice(0, 22)
}

/** The values that bind a login; those of other logins of the same browser tell nothing about it. */
function secretsOf(state: string, id: string, secret: string): LoginSecrets {
  const derive = (purpose: string) =>
    createHmac('sha256', secret).update(`${purpose} ${id}`).digest('base64url')
  return { state, nonce: derive('nonce'), codeVerifier: derive('verifier') }
}

/** The URL without its query, or '' if it is still too long. */
function withoutQuery(returnTo: string): string {
  const url = URL.parse(returnTo)
  if (!url) return ''
  url.search = ''
  url.hash = ''
  return url.href.length <= MAX_STATE / 2 ? url.href : ''
}

/** 32 bytes in base64url. */
const SECRET = /^[\w-]{43}$/

function randomText(bytes: number): string {
  return randomBytes(bytes).toString('base64url')
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
    app.decorate('logins', new Logins(() => app.keys, clock, store))
    app.decorate('signInRate', new SignInRate(() => app.clock.now()))
  },
  {
    name: 'forward-auth/logins',
    dependencies: ['forward-auth/keys', 'forward-auth/store', 'service-kit/clock'],
  },
)

import { randomBytes } from 'node:crypto'
import type { Clock } from '@gatehouse/service-kit'
import { LRUCache } from 'lru-cache'
import { setCookie } from '../cookies.ts'
import type { Portal } from '../portals.ts'
import type { LoginSecrets } from '../providers/provider.ts'
import { readCookie } from '../session/cookie.ts'
import type { Keys } from '../session/keys.ts'
import type { Site } from '../sites.ts'
import { forgetRounds } from './rounds.ts'
import { seal, unseal } from './seal.ts'

/** Logins of one browser at the same time; of more the oldest is forgotten. */
const MAX_SLOTS = 8
/** Logins that came back and are remembered here beside the cookie, so that no copy of it is of use. */
const MAX_USED = 10_000

/** The longest state: the URL to the provider has to fit into 4,096 characters (Keycloak). */
const MAX_STATE = 3_000
/** Browsers keep 4,096 characters of a cookie's name and value. */
const MAX_COOKIE = 3_900

/** What a login is for; it travels in the parameter `state`, sealed. */
export interface Wish {
  /** Name of the provider that the person is sent to. */
  readonly provider: string
  /** The redirect URI that the provider was given; logins that began before it was kept have none. */
  readonly redirectUri?: string
  /** Where the person wants to go; validated. */
  readonly returnTo: string
  /** Whether it was begun anew for one that was lost. */
  readonly isRetry: boolean
}

/** What a callback belongs to. */
export type Arrival =
  /** A login under way in this browser. It is so no more. */
  | { readonly kind: 'live'; wish: Wish; secrets: LoginSecrets; setCookie: string }
  /** A login that came back before. */
  | { readonly kind: 'used'; wish: Wish }
  /** A login of ours that this browser does not know: another one's, or two were begun at once. */
  | { readonly kind: 'lost'; wish: Wish }
  /** A login of ours that took too long. */
  | { readonly kind: 'expired'; wish: Wish }
  /** A login that began at another provider than the one whose redirect URI it came back to. */
  | { readonly kind: 'foreign'; wish: Wish }
  /** None of ours. */
  | { readonly kind: 'unknown' }

/** What a callback brings. */
export interface Callback {
  /** The provider whose redirect URI it came to. */
  readonly provider: string
  /** The parameter of that name. */
  readonly state: unknown
  readonly cookieHeader: string | undefined
}

/** The logins under way, their secrets in a cookie of the browser that began them. */
export interface Logins {
  begin(
    portal: Portal,
    site: Site,
    wish: Wish,
    cookieHeader: string | undefined,
  ): { readonly secrets: LoginSecrets; readonly setCookies: string[] }
  /**
   * Takes the login that a callback belongs to. Each is taken once, and only at the redirect URI of
   * the provider that it began at, so that no other provider gets its code.
   */
  arrive(portal: Portal, site: Site, callback: Callback): Arrival
  /** Set-Cookie values that take all logins of the browser away. */
  clear(portal: Portal): string[]
}

/** A login in the cookie. One that came back has no secrets any more. */
interface Slot {
  readonly id: string
  readonly expiresAt: number
  readonly secrets?: Omit<LoginSecrets, 'state'>
}

interface LoginDeps {
  readonly keys: () => Keys
  readonly clock: Clock
}

/** Makes {@link Logins}. */
export function createLogins({ keys, clock }: LoginDeps): Logins {
  const used = new LRUCache<string, true>({ max: MAX_USED })
  const isLive = ({ expiresAt }: Pick<Slot, 'expiresAt'>) => clock.now() < expiresAt

  function sealFor(purpose: Purpose, portal: Portal, site: Site, value: object): string {
    return seal(JSON.stringify(value), keys().login, describe(purpose, portal, site))
  }

  function unsealFor(purpose: Purpose, portal: Portal, site: Site, sealed: unknown): unknown {
    if (typeof sealed !== 'string') return undefined
    const text = unseal(sealed, keys().login, describe(purpose, portal, site))
    return text === undefined ? undefined : JSON.parse(text)
  }

  function readSlots(portal: Portal, site: Site, cookieHeader = ''): readonly Slot[] {
    const sealed = readCookie(cookieHeader, cookieName(portal))
    const slots = unsealFor('cookie', portal, site, sealed) as Slot[] | undefined
    return slots?.filter(isLive) ?? []
  }

  function writeSlots(portal: Portal, site: Site, slots: readonly Slot[]): string {
    const sealed = sealFor('cookie', portal, site, slots)
    return setCookie(cookieName(portal), sealed, { maxAge: portal.loginLifetime })
  }

  /**
   * The state of a login. A target that is too long for it goes into a cookie, one at a time; what
   * the state keeps is for when that cookie belongs to another tab.
   */
  function writeState(
    portal: Portal,
    site: Site,
    told: Wish & Slot,
  ): { state: string; setCookies: string[] } {
    const state = sealFor('state', portal, site, told)
    if (state.length <= MAX_STATE) return { state, setCookies: [] }
    const { id, returnTo } = told
    const target = sealFor('target', portal, site, { id, returnTo })
    const short = { ...told, returnTo: withoutQuery(returnTo) }
    return {
      state: sealFor('state', portal, site, short),
      setCookies:
        target.length <= MAX_COOKIE
          ? [setCookie(targetName(portal), target, { maxAge: portal.loginLifetime })]
          : [],
    }
  }

  function readTarget(
    portal: Portal,
    site: Site,
    { id, returnTo }: Wish & Slot,
    cookieHeader = '',
  ): string {
    const sealed = readCookie(cookieHeader, targetName(portal))
    const target = unsealFor('target', portal, site, sealed) as Target | undefined
    return target?.id === id ? target.returnTo : returnTo
  }

  return {
    begin(portal, site, wish, cookieHeader) {
      const [id, nonce, codeVerifier] = [randomId(16), randomId(16), randomId(32)]
      const expiresAt = clock.now() + portal.loginLifetime
      const { state, setCookies } = writeState(portal, site, { ...wish, id, expiresAt })
      const slots = readSlots(portal, site, cookieHeader)
      const secrets = { nonce, codeVerifier }
      const kept = [...withoutOldest(slots), { id, expiresAt, secrets }]
      setCookies.unshift(writeSlots(portal, site, kept))
      return { secrets: { ...secrets, state }, setCookies }
    },
    arrive(portal, site, { provider, state, cookieHeader }) {
      const told = unsealFor('state', portal, site, state) as (Wish & Slot) | undefined
      if (!told) return { kind: 'unknown' }
      const { id, expiresAt, ...kept } = told
      const wish = { ...kept, returnTo: readTarget(portal, site, told, cookieHeader) }
      if (wish.provider !== provider) return { kind: 'foreign', wish }
      if (!isLive(told)) return { kind: 'expired', wish }
      const slots = readSlots(portal, site, cookieHeader)
      const slot = slots.find((one) => one.id === id)
      if (used.has(id)) return { kind: 'used', wish }
      if (!slot) return { kind: 'lost', wish }
      if (!slot.secrets) return { kind: 'used', wish }

      used.set(id, true)
      const rest = slots.map((one) => (one === slot ? { id, expiresAt } : one))
      const secrets = { ...slot.secrets, state: String(state) }
      return { kind: 'live', wish, secrets, setCookie: writeSlots(portal, site, rest) }
    },
    clear: (portal) =>
      [cookieName(portal), targetName(portal)]
        .map((name) => setCookie(name, '', { maxAge: 0 }))
        .concat(forgetRounds(portal)),
  }
}

/** Where a login leads to, if that is too long for its state. */
type Target = Pick<Wish & Slot, 'id' | 'returnTo'>

type Purpose = 'state' | 'cookie' | 'target'

/** What is sealed for one portal, origin and purpose opens for no other. */
function describe(purpose: Purpose, { name }: Portal, { authOrigin }: Site): string {
  return `${purpose} ${name} ${authOrigin}`
}

/** `__Host-`: nobody but this very host can have set it. */
function cookieName({ name }: Portal): string {
  return `__Host-gatehouse-login.${name}`
}

function targetName({ name }: Portal): string {
  return `__Host-gatehouse-target.${name}`
}

/** The page that a long link leads to, or nothing if that is long as well. */
function withoutQuery(returnTo: string): string {
  const url = URL.parse(returnTo)
  if (!url) return ''
  url.search = ''
  return url.href.length <= MAX_STATE / 2 ? url.href : ''
}

function randomId(bytes: number): string {
  return randomBytes(bytes).toString('base64url')
}

/** Leaves room for one more. Those that came back go before those under way. */
function withoutOldest(slots: readonly Slot[]): readonly Slot[] {
  if (slots.length < MAX_SLOTS) return slots
  const oldest = slots.find(({ secrets }) => !secrets) ?? slots[0]
  return slots.filter((slot) => slot !== oldest)
}

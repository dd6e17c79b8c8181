import { randomBytes } from 'node:crypto'
import type { Clock } from '@gatehouse/service-kit'
import { LRUCache } from 'lru-cache'
import { cutCookie, setCookie } from '../cookies.ts'
import type { Portal, Site } from '../portal.ts'
import type { LoginSecrets } from '../providers/provider.ts'
import type { Keys } from '../session/keys.ts'
import { seal, unseal } from './seal.ts'

/** Logins of one browser at the same time; of more the oldest is forgotten. */
const MAX_SLOTS = 8
/** Logins that came back and are remembered here beside the cookie, so that no copy of it is of use. */
const MAX_USED = 10_000

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
  ): { readonly secrets: LoginSecrets; readonly setCookie: string }
  /**
   * Takes the login that a callback belongs to. Each is taken once, and only at the redirect URI of
   * the provider that it began at, so that no other provider gets its code.
   */
  arrive(portal: Portal, site: Site, callback: Callback): Arrival
  /** Set-Cookie value that takes all logins of the browser away. */
  clear(portal: Portal): string
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
    const sealed = cutCookie(cookieHeader, cookieName(portal))
    const slots = unsealFor('cookie', portal, site, sealed) as Slot[] | undefined
    return slots?.filter(isLive) ?? []
  }

  function writeSlots(portal: Portal, site: Site, slots: readonly Slot[]): string {
    const sealed = sealFor('cookie', portal, site, slots)
    return setCookie(cookieName(portal), sealed, { maxAge: portal.loginLifetime })
  }

  return {
    begin(portal, site, wish, cookieHeader) {
      const [id, nonce, codeVerifier] = [randomId(16), randomId(16), randomId(32)]
      const expiresAt = clock.now() + portal.loginLifetime
      const state = sealFor('state', portal, site, { ...wish, id, expiresAt })
      const slots = readSlots(portal, site, cookieHeader)
      const secrets = { nonce, codeVerifier }
      const kept = [...withoutOldest(slots), { id, expiresAt, secrets }]
      return { secrets: { ...secrets, state }, setCookie: writeSlots(portal, site, kept) }
    },
    arrive(portal, site, { provider, state, cookieHeader }) {
      const told = unsealFor('state', portal, site, state) as (Wish & Slot) | undefined
      if (!told) return { kind: 'unknown' }
      const { id, expiresAt, ...wish } = told
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
    clear: (portal) => setCookie(cookieName(portal), '', { maxAge: 0 }),
  }
}

type Purpose = 'state' | 'cookie'

/** What is sealed for one portal, origin and purpose opens for no other. */
function describe(purpose: Purpose, { name }: Portal, { authOrigin }: Site): string {
  return `${purpose} ${name} ${authOrigin}`
}

/** `__Host-`: nobody but this very host can have set it. */
function cookieName({ name }: Portal): string {
  return `__Host-gatehouse-login.${name}`
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

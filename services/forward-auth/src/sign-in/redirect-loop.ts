import { createHash } from 'node:crypto'
import type { Portal } from '../portal/portals.ts'
import { type HostCookie, readCookie } from '../web/cookies.ts'

/** The longest time between two redirects of a loop, in ms. */
export const WINDOW = 30_000
/** URLs counted per browser. The oldest is dropped. */
const MAX_TARGETS = 4
/** Browsers follow 20 redirects: a login takes five, a bounce three. A step-up follows a login. */
const MAX_REDIRECTS = { login: 2, 'step-up': 4, bounce: 5 } as const

/**
 * Counts the redirects of a browser to one URL, in a cookie of the sign-in host: after a login
 * (`login`, `step-up`), or from the sign-in page because it has a session already (`bounce`).
 *
 * @param now - in ms
 * @param began - when the browser left the app, in ms. A tab that left before the first redirect that is counted
 * is in no loop. Default: now
 * @returns whether the browser is in a redirect loop, and the cookie with the new count
 */
export function countRedirect(
  portal: Pick<Portal, 'name'>,
  target: string,
  reason: keyof typeof MAX_REDIRECTS,
  cookieHeader: string | undefined,
  now: number,
  began = now,
): { readonly isLoop: boolean; readonly cookie: HostCookie } {
  const digest = createHash('sha256').update(target).digest('base64url').slice(0, 12)
  const counts = readCounts(portal, cookieHeader, now)
  const previous = counts.find((count) => count.digest === digest)
  const isTab = previous !== undefined && began < previous.since
  const { count = 0, since = now } = previous ?? {}
  const current = { digest, count: isTab ? count : count + 1, since }
  const otherCounts = counts.filter((count) => count !== previous)
  const value = [current, ...otherCounts]
    .slice(0, MAX_TARGETS)
    .map(({ digest, count, since }) => `${digest}:${count}:${since}`)
    .join('~')
  return {
    isLoop: !isTab && current.count > MAX_REDIRECTS[reason],
    cookie: { name: cookieName(portal), value, maxAge: WINDOW },
  }
}

export function resetRedirectCount(portal: Pick<Portal, 'name'>): HostCookie {
  return { name: cookieName(portal), value: '', maxAge: 0 }
}

/** A count of none, which tells whether a browser keeps cookies. */
export function beginRedirectCount(portal: Pick<Portal, 'name'>): HostCookie {
  return { name: cookieName(portal), value: '0', maxAge: WINDOW }
}

const COUNT = /^([\w-]{12}):(\d{1,2}):(\d{1,15})$/

function readCounts(portal: Pick<Portal, 'name'>, cookieHeader = '', now: number) {
  return (readCookie(cookieHeader, cookieName(portal)) ?? '')
    .split('~', MAX_TARGETS)
    .map((text) => COUNT.exec(text) ?? [])
    .map(([, digest = '', ...numbers]) => ({ digest, numbers: numbers.map(Number) }))
    .map(({ digest, numbers: [count = 0, since = 0] }) => ({ digest, count, since }))
    .filter(({ digest, since }) => digest !== '' && since <= now && now - since < WINDOW)
}

function cookieName({ name }: Pick<Portal, 'name'>): string {
  return `__Host-gatehouse-rounds.${name}`
}

import { createHash } from 'node:crypto'
import { setCookie } from '../cookies.ts'
import type { Portal } from '../portals.ts'
import { readCookie } from '../session/cookie.ts'

/** A browser that goes round in circles is back long before this has passed. */
const WINDOW = 30_000
/** Pages that are counted at the same time; of more the oldest is forgotten. */
const MAX_PAGES = 4
/** Browsers follow 20 redirects: a login at a provider takes five or six, a bounce two. */
const MAX_LOGINS = 2
const MAX_BOUNCES = 5

/** How often a browser was sent on to one page lately. */
interface Page {
  readonly digest: string
  readonly count: number
  readonly since: number
}

/** One more time that a browser is sent on. */
export interface Round {
  /** Whether it comes back again and again, so that one more time would not help. */
  readonly isLoop: boolean
  /** Keeps the count in the browser. */
  readonly setCookie: string
}

/**
 * Counts how often a browser is sent on to a page: after a login that it came to without a session,
 * or at the sign-in page since it has one already. The count is in a cookie of the sign-in host.
 */
export function countRound(
  portal: Pick<Portal, 'name'>,
  target: string,
  kind: 'login' | 'bounce',
  cookieHeader: string | undefined,
  now: number,
): Round {
  const digest = createHash('sha256').update(target).digest('base64url').slice(0, 12)
  const pages = read(portal, cookieHeader, now)
  const before = pages.find((page) => page.digest === digest)
  const page = { digest, count: (before?.count ?? 0) + 1, since: before?.since ?? now }
  const others = pages.filter((other) => other !== before)
  return {
    isLoop: page.count > (kind === 'login' ? MAX_LOGINS : MAX_BOUNCES),
    setCookie: write(portal, [page, ...others].slice(0, MAX_PAGES)),
  }
}

/** Set-Cookie value that begins to count anew. */
export function forgetRounds(portal: Pick<Portal, 'name'>): string {
  return setCookie(nameOf(portal), '', { maxAge: 0 })
}

const PAGE = /^([\w-]{12}):(\d{1,2}):(\d{1,15})$/

function read(
  portal: Pick<Portal, 'name'>,
  cookieHeader: string | undefined,
  now: number,
): readonly Page[] {
  const text = readCookie(cookieHeader ?? '', nameOf(portal)) ?? ''
  return text
    .split('~', MAX_PAGES)
    .map((page) => PAGE.exec(page) ?? [])
    .map(([, digest = '', count, since]) => ({
      digest,
      count: Number(count),
      since: Number(since),
    }))
    .filter(({ digest, since }) => digest !== '' && since <= now && now - since < WINDOW)
}

function write(portal: Pick<Portal, 'name'>, pages: readonly Page[]): string {
  const text = pages.map(({ digest, count, since }) => `${digest}:${count}:${since}`).join('~')
  return setCookie(nameOf(portal), text, { maxAge: WINDOW })
}

/** `__Host-`: nobody but this very host can have set it. */
function nameOf({ name }: Pick<Portal, 'name'>): string {
  return `__Host-gatehouse-rounds.${name}`
}

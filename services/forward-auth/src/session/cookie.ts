import { parseHost } from '@gatehouse/net'
import { cutCookie, isTwice, setCookie } from '../cookies.ts'
import type { Portal } from '../portals.ts'
import type { Site } from '../sites.ts'

// Browsers keep 4,096 characters of a name and its value.
const CHUNK_LENGTH = 3_800
const MAX_CHUNKS = 4
/** The longest token that cookies carry, in characters: servers take 16 kB of headers or more. */
export const MAX_TOKEN_LENGTH = 12_288

const MARK_LENGTH = 16
/**
 * What the first of several chunks holds: how many there are, a mark, its share of the token. The
 * mark is the end of the signature, so a digest of the token that costs nothing to compare.
 */
const FIRST_CHUNK = new RegExp(`^([2-${MAX_CHUNKS}])~([\\w-]{${MARK_LENGTH}})~([\\w.-]+)$`)

/** The token that a Cookie header holds for a portal, its chunks joined; undefined unless whole. */
export function readToken(header: string, portal: Pick<Portal, 'name'>): string | undefined {
  const names = namesOf(portal)
  const value = cutCookie(header, names[0])
  if (value?.charAt(1) !== '~') return value
  const [, count, mark = '', first = ''] = FIRST_CHUNK.exec(value) ?? []
  let token = first
  for (const name of names.slice(1, Number(count))) token += cutCookie(header, name) ?? ''
  return mark !== '' && token.endsWith(mark) ? token : undefined
}

/**
 * The name of a session cookie that a Cookie header holds twice: one of them is not ours, so that
 * neither counts.
 */
export function findDuplicate(header: string, portal: Pick<Portal, 'name'>): string | undefined {
  return namesOf(portal).find((name) => isTwice(header, name))
}

/** Set-Cookie values that keep a token, and take away what is left of an older and longer one. */
export function writeToken(
  token: string,
  portal: Pick<Portal, 'name'>,
  site: Site,
  cookieHeader: string | undefined,
  maxAge: number,
): string[] {
  const names = namesOf(portal)
  const domain = domainOf(site)
  const written = split(token).map((value, i) =>
    setCookie(names[i] ?? '', value, { domain, maxAge }),
  )
  return [...written, ...names.slice(written.length).flatMap(clearIfSent(site, cookieHeader))]
}

/** Set-Cookie values that take a portal's token away, every chunk that was sent included. */
export function clearToken(
  portal: Pick<Portal, 'name'>,
  site: Site,
  cookieHeader: string | undefined,
): string[] {
  const [base, ...further] = namesOf(portal)
  return [clear(base, site), ...further.flatMap(clearIfSent(site, cookieHeader))]
}

const known = new Map<string, readonly [string, ...string[]]>()

/** The names of a portal's session cookie and its further chunks. No portal's name holds a dot. */
function namesOf({ name }: Pick<Portal, 'name'>): readonly [string, ...string[]] {
  const before = known.get(name)
  if (before) return before
  const base = `__Secure-gatehouse.${name}`
  const further = Array.from({ length: MAX_CHUNKS - 1 }, (_, i) => `${base}.${i + 1}`)
  const names = [base, ...further] as const
  known.set(name, names)
  return names
}

function split(token: string): string[] {
  const count = Math.ceil(token.length / CHUNK_LENGTH)
  if (count === 1) return [token]
  const chunks = Array.from({ length: count }, (_, i) =>
    token.slice(i * CHUNK_LENGTH, (i + 1) * CHUNK_LENGTH),
  )
  return chunks.with(0, `${count}~${token.slice(-MARK_LENGTH)}~${chunks[0]}`)
}

function clearIfSent(site: Site, cookieHeader = '') {
  return (name: string) => (cookieHeader.includes(`${name}=`) ? [clear(name, site)] : [])
}

function clear(name: string, site: Site): string {
  return setCookie(name, '', { domain: domainOf(site), maxAge: 0 })
}

/** Browsers take no Domain that is an address or a single label; such a cookie is for that host. */
function domainOf({ domain }: Site): string | undefined {
  return domain.includes('.') && !parseHost(domain)?.ip ? domain : undefined
}

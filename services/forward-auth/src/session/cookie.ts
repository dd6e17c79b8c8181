import type { CookieSerializeOptions } from '@fastify/cookie'
import { parseHost } from '@gatehouse/net'
import type { FastifyReply } from 'fastify'
import type { Site } from '../sites.ts'

// Browsers keep 4,096 characters of a name and its value.
const CHUNK_LENGTH = 3_800
const MAX_CHUNKS = 4
/** The longest token that cookies carry, in characters: servers take 16 kB of headers or more. */
export const MAX_TOKEN_LENGTH = 12_288

const MARK_LENGTH = 16
/**
 * The first of several chunks: how many there are, a mark, and the first part of the token. The mark
 * is the end of the signature, so that chunks of two tokens do not make one.
 */
const FIRST_CHUNK = new RegExp(`^([2-${MAX_CHUNKS}])~([\\w-]{${MARK_LENGTH}})~([\\w.-]+)$`)

interface Named {
  readonly name: string
}

/** The session token in a Cookie header, its chunks joined; undefined unless it is complete. */
export function readSessionCookie(header: string, portal: Named): string | undefined {
  const name = cookieName(portal)
  const value = readCookie(header, name)
  if (value?.charAt(1) !== '~') return value
  const [, count, mark = '', first = ''] = FIRST_CHUNK.exec(value) ?? []
  let token = first
  for (let i = 1; i < Number(count); i++) token += readCookie(header, `${name}.${i}`) ?? ''
  return mark !== '' && token.endsWith(mark) ? token : undefined
}

/**
 * The name of a session cookie that a Cookie header holds twice, if there is one. Another site below
 * the domain has set one of the two, so that neither counts.
 */
export function findDuplicate(header: string, portal: Named): string | undefined {
  return chunkNames(portal).find((name) => {
    const start = valueStart(header, name, 0)
    return start >= 0 && valueStart(header, name, start) >= 0
  })
}

export function setSessionCookies(
  reply: FastifyReply,
  portal: Named,
  site: Site,
  { token, maxAge }: { readonly token: string; readonly maxAge: number },
): void {
  const cookies = cookiesOf(token, portal)
  for (const [name, value] of cookies) reply.setCookie(name, value, { ...optionsFor(site), maxAge })
  for (const name of chunkNames(portal).slice(cookies.length))
    if (isSent(reply, name)) clearCookie(reply, name, site)
}

/** Clears the cookies of a session, including every chunk that the browser has sent. */
export function clearSessionCookies(reply: FastifyReply, portal: Named, site: Site): void {
  chunkNames(portal).forEach((name, i) => {
    if (i === 0 || isSent(reply, name)) clearCookie(reply, name, site)
  })
}

function isSent({ request }: FastifyReply, name: string): boolean {
  return request.headers.cookie?.includes(`${name}=`) === true
}

function clearCookie(reply: FastifyReply, name: string, site: Site): void {
  reply.setCookie(name, '', { ...optionsFor(site), maxAge: 0 })
}

function optionsFor({ domain }: Site): CookieSerializeOptions {
  return {
    path: '/',
    httpOnly: true,
    secure: true,
    sameSite: 'lax',
    // Browsers refuse a Domain that is an address or a single label, so the cookie is for that host.
    ...(domain.includes('.') && !parseHost(domain)?.ip && { domain }),
  }
}

const PREFIX = '__Secure-gatehouse.'

function cookieName({ name }: Named): string {
  return `${PREFIX}${name}`
}

/** A Cookie header without those that look like a session of any portal; '' if none is left. */
export function withoutSessionCookies(header: string): string {
  const cookies = header.split(';').map((cookie) => cookie.trim())
  return cookies.filter((cookie) => cookie !== '' && !cookie.includes(PREFIX)).join('; ')
}

/** The name of the session cookie and those of its further chunks. No portal's name holds a dot. */
function chunkNames(portal: Named): readonly string[] {
  const base = cookieName(portal)
  return [base, ...Array.from({ length: MAX_CHUNKS - 1 }, (_, i) => `${base}.${i + 1}`)]
}

export function cookiesOf(token: string, portal: Named): readonly (readonly [string, string])[] {
  const chunks = splitToken(token)
  return chunkNames(portal)
    .slice(0, chunks.length)
    .map((name, i) => [name, chunks[i] ?? ''])
}

function splitToken(token: string): readonly string[] {
  const count = Math.ceil(token.length / CHUNK_LENGTH)
  if (count === 1) return [token]
  const chunks = Array.from({ length: count }, (_, i) =>
    token.slice(i * CHUNK_LENGTH, (i + 1) * CHUNK_LENGTH),
  )
  return chunks.with(0, `${count}~${token.slice(-MARK_LENGTH)}~${chunks[0]}`)
}

const EQUALS = 61
const SEMICOLON = 59
const SPACE = 32

/**
 * Reads a cookie from a Cookie header. Undefined also if the name occurs twice, because then one of
 * the two was set by another site on the domain; the parsers of libraries take the first one.
 */
export function readCookie(header: string, name: string): string | undefined {
  const start = valueStart(header, name, 0)
  if (start < 0 || valueStart(header, name, start) >= 0) return undefined
  const end = header.indexOf(';', start)
  return end < 0 ? header.slice(start) : header.slice(start, end)
}

function valueStart(header: string, name: string, from: number): number {
  for (let at = header.indexOf(name, from); at >= 0; at = header.indexOf(name, at + 1)) {
    const end = at + name.length
    if (header.charCodeAt(end) === EQUALS && isPairStart(header, at)) return end + 1
  }
  return -1
}

/** Whether only spaces stand between this index and the `;` before it. */
function isPairStart(header: string, at: number): boolean {
  let before = at - 1
  while (before >= 0 && header.charCodeAt(before) === SPACE) before -= 1
  return before < 0 || header.charCodeAt(before) === SEMICOLON
}

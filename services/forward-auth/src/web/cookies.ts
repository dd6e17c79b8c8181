import cookie from '@fastify/cookie'
import type { FastifyReply } from 'fastify'

/** A cookie that scripts cannot read. */
export interface HostCookie {
  readonly name: string
  /** Characters of RFC 6265 section 4.1.1, which need no encoding. '' removes the cookie. */
  readonly value: string
  /** Milliseconds. */
  readonly maxAge: number
  /** The path to which it is sent. Default: all of the host. */
  readonly path?: string
  /** The domain whose hosts all receive it. Default: the host that sets it. */
  readonly domain?: string
  /** `high`: the last to go if a domain sets more cookies than a browser keeps. */
  readonly priority?: 'high'
  /** `none`: other sites may send it along in any way. Default: `lax`. */
  readonly sameSite?: 'none'
}

/**
 * The value of Set-Cookie. Works once @fastify/cookie is registered somewhere in the process, not only
 * where it is: checks do without its hooks.
 *
 * @throws TypeError if a cookie could not have this name or value
 */
export function serializeCookie({ name, value, maxAge, ...options }: HostCookie): string {
  return cookie.fastifyCookie.serialize(name, value, {
    path: '/',
    sameSite: 'lax',
    ...options,
    maxAge: Math.floor(maxAge / 1_000),
    httpOnly: true,
    secure: true,
    encode: String,
  })
}

/** Sets cookies in an answer, of a page or of a check. */
export function setHostCookies(reply: FastifyReply, cookies: readonly HostCookie[]): void {
  for (const hostCookie of cookies) reply.header('set-cookie', serializeCookie(hostCookie))
}

import type {} from '@fastify/cookie'
import type { FastifyReply } from 'fastify'

/** A cookie of the sign-in host. */
export interface HostCookie {
  readonly name: string
  /** Characters of RFC 6265 section 4.1.1, which need no encoding. '' removes the cookie. */
  readonly value: string
  /** Milliseconds. */
  readonly maxAge: number
  /** The path to which it is sent. Default: all of the host. */
  readonly path?: string
}

/** Sets cookies that scripts cannot read and that other sites send only by links. */
export function setHostCookies(reply: FastifyReply, cookies: readonly HostCookie[]): void {
  for (const { name, value, maxAge, path = '/' } of cookies)
    reply.setCookie(name, value, {
      path,
      maxAge: maxAge / 1_000,
      httpOnly: true,
      secure: true,
      sameSite: 'lax',
      encode: String,
    })
}

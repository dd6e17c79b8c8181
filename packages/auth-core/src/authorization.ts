import type { IncomingMessage } from 'node:http'
import { AuthError } from './errors.ts'

/** How a caller says who it is: by an API key (`psk`) or an access token (`jwt`). */
export type Method = (typeof METHODS)[number]

export const METHODS = ['psk', 'jwt'] as const

/** The method of an authentication scheme, whose name has no case (RFC 9110 section 11.1). */
function methodOf(scheme: string): Method | undefined {
  switch (scheme.toLowerCase()) {
    case 'apikey':
      return 'psk'
    case 'bearer':
      return 'jwt'
    default:
      return undefined
  }
}

/** The headers of a request of HTTP/1.1 or HTTP/2. */
export type RawRequest = Pick<IncomingMessage, 'headers' | 'rawHeaders'>

/**
 * Reads the one Authorization header of a request.
 *
 * @throws AuthError AUTH_CREDENTIALS_MISSING, AUTH_HEADER_INVALID, AUTH_SCHEME_UNSUPPORTED
 */
export function readAuthorization(
  { headers, rawHeaders }: RawRequest,
  accepted: readonly Method[],
): { method: Method; credentials: string } {
  const { authorization } = headers
  if (authorization === undefined) throw new AuthError('AUTH_CREDENTIALS_MISSING')
  if (isRepeated(rawHeaders))
    throw new AuthError('AUTH_HEADER_INVALID', { detail: 'more than one Authorization header' })

  const space = authorization.indexOf(' ')
  const scheme = space === -1 ? authorization : authorization.slice(0, space)
  const method = methodOf(scheme)
  if (!method || !accepted.includes(method)) throw new AuthError('AUTH_SCHEME_UNSUPPORTED')
  const credentials = space === -1 ? '' : authorization.slice(space).trimStart()
  if (credentials === '') throw new AuthError('AUTH_HEADER_INVALID', { detail: 'no credentials' })
  return { method, credentials }
}

/** Node keeps the first of several; a proxy in front may have looked at another one. */
function isRepeated(rawHeaders: readonly string[]): boolean {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length === 13 && name.toLowerCase() === 'authorization') count++
  }
  return count > 1
}

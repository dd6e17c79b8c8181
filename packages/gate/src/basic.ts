const BASIC = /^basic(?=[ \t])/i

/** The credentials of `Authorization: Basic` (RFC 7617). */
interface Basic {
  readonly user: string
  readonly password: Buffer
  /** Whether it is written in the one way that every reader understands alike. */
  readonly isPlain: boolean
}

/** Reads an `Authorization: Basic` as leniently as any app does; undefined for anything else. */
export function parseBasic(authorization: string): Basic | undefined {
  const [scheme] = BASIC.exec(authorization) ?? []
  if (scheme === undefined) return undefined
  const text = authorization.slice(scheme.length).replace(/^ +/, '')
  // Node.js skips what is no base64.
  const bytes = Buffer.from(text, 'base64')
  // The user has no colon, and the password may have several.
  const colon = bytes.indexOf(':')
  if (colon < 0) return undefined
  return {
    user: bytes.toString('utf8', 0, colon),
    password: bytes.subarray(colon + 1),
    isPlain: bytes.toString('base64') === text,
  }
}

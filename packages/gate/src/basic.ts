const BASIC = /^basic +([A-Za-z0-9+/]{1,2048}={0,2})$/i
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The user and the password of an `Authorization: Basic` (RFC 7617); undefined for anything else. */
export function parseBasic(authorization: string): { user: string; password: string } | undefined {
  const [, text = ''] = BASIC.exec(authorization) ?? []
  const bytes = Buffer.from(text, 'base64')
  // One spelling: Node.js skips what is no base64.
  if (text === '' || bytes.toString('base64') !== text) return undefined
  try {
    // The user has no colon, and the password may have several. Neither has control characters.
    const [, user, password] = /^([^:\p{Cc}]*):(\P{Cc}*)$/u.exec(utf8.decode(bytes)) ?? []
    return user === undefined || password === undefined ? undefined : { user, password }
  } catch {
    return undefined
  }
}

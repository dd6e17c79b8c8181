import { AuthError } from '../errors.ts'

/** Longest token that is read, in characters. */
export const MAX_TOKEN_LENGTH = 16_384

type JsonObject = Readonly<Record<string, unknown>>

/** A JWT that was taken apart; nothing in it is verified. */
export interface DecodedToken {
  readonly header: JsonObject
  readonly claims: JsonObject
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Takes a JWT in compact form apart (RFC 7515 section 7.1). Strict where parsers differ, so that no
 * other reader of the same token sees another content: canonical base64url, valid UTF-8, no
 * duplicate members.
 *
 * @throws AuthError AUTH_TOKEN_TOO_LARGE, AUTH_TOKEN_MALFORMED
 */
export function decodeToken(token: string): DecodedToken {
  if (token.length > MAX_TOKEN_LENGTH)
    throw new AuthError('AUTH_TOKEN_TOO_LARGE', { detail: `${token.length} characters` })
  try {
    const parts = token.split('.')
    const [header = '', claims = '', signature = ''] = parts
    if (parts.length !== 3) throw new SyntaxError('not three parts')
    decodeBase64url(signature)
    return { header: parseObject(header), claims: parseObject(claims) }
  } catch (cause) {
    throw new AuthError('AUTH_TOKEN_MALFORMED', { cause })
  }
}

function decodeBase64url(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw new SyntaxError('not canonical base64url')
  return bytes
}

function parseObject(part: string): JsonObject {
  const value = parseJson(utf8.decode(decodeBase64url(part)))
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new SyntaxError('not a JSON object')
  return value as JsonObject
}

/** JSON.parse, frozen, and without its leniency: of duplicate members it silently takes the last. */
function parseJson(text: string): unknown {
  let members = -1 // the reviver also sees the value itself, as the member of a holder
  const value = JSON.parse(text, function (this: unknown, _name, member: unknown) {
    if (!Array.isArray(this)) members++
    return Object.freeze(member)
  })
  const colons = text.replace(/"(?:[^"\\]|\\.)*"/g, '').split(':').length - 1
  if (members !== colons) throw new SyntaxError('duplicate members')
  return value
}

import { LRUCache } from 'lru-cache'
import { AuthError } from '../errors.ts'

/** Longest token that is read, in characters. */
export const MAX_TOKEN_LENGTH = 16_384
const MAX_DEPTH = 32

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
    return { header: readHeader(header), claims: parseObject(claims) }
  } catch (cause) {
    throw new AuthError('AUTH_TOKEN_MALFORMED', { cause })
  }
}

const headers = new LRUCache<string, JsonObject>({ max: 100 })

/** All tokens of a key have the same header. */
function readHeader(part: string): JsonObject {
  const known = headers.get(part)
  if (known) return known
  const header = parseObject(part)
  headers.set(part, header)
  return header
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
  const value = JSON.parse(text)
  if (freezeAll(value) !== countColons(text)) throw new SyntaxError('duplicate members')
  return value
}

/** Freezes a parsed value with all in it; gives how many members its objects have. */
function freezeAll(value: unknown, depth = 0): number {
  if (typeof value !== 'object' || value === null) return 0
  if (depth > MAX_DEPTH) throw new SyntaxError('nested too deeply')
  Object.freeze(value)
  let members = 0
  if (Array.isArray(value)) for (const item of value) members += freezeAll(item, depth + 1)
  else for (const name in value) members += 1 + freezeAll(value[name as never], depth + 1)
  return members
}

/** The colons outside of strings: one for each member that is written. */
function countColons(text: string): number {
  let count = 0
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i)
    if (char === COLON) count++
    else if (char === QUOTE) i = endOfString(text, i)
  }
  return count
}

function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes++
  return backslashes % 2 === 1
}

const COLON = 0x3a
const QUOTE = 0x22
const BACKSLASH = 0x5c

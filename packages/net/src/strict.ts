import { parseJson } from './answers.ts'

const MAX_DEPTH = 32

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Whether a value that was parsed has members. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Decodes base64url in its only canonical spelling, without padding. @throws SyntaxError */
export function decodeBase64url(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw new SyntaxError('not canonical base64url')
  return bytes
}

/**
 * Parses and freezes JSON. It is strict where parsers differ, so that every reader sees the same: valid
 * UTF-8 without a byte order mark, no duplicate members, of which JSON.parse takes the last one. No error
 * holds any of the text.
 *
 * @throws SyntaxError, TypeError if it is not UTF-8
 */
export function parseStrictJson(bytes: Uint8Array): unknown {
  const text = utf8.decode(bytes)
  const value = parseJson(text)
  if (value === undefined) throw new SyntaxError('not JSON')
  if (freezeAll(value) !== countColons(text)) throw new SyntaxError('duplicate members')
  return value
}

/** Freezes a value deeply, and counts the members of its objects. @throws SyntaxError */
export function freezeAll(value: unknown, depth = 0): number {
  if (typeof value !== 'object' || value === null) return 0
  if (depth > MAX_DEPTH) throw new SyntaxError('nested too deeply')
  Object.freeze(value)
  let members = 0
  if (Array.isArray(value)) for (const item of value) members += freezeAll(item, depth + 1)
  else for (const name in value) members += 1 + freezeAll(value[name as never], depth + 1)
  return members
}

/** A text in JSON, over escaped quotes. */
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"?/g

/** Counts the colons outside of strings: there is one for each member. */
function countColons(json: string): number {
  return json.replace(STRING, '').split(':').length - 1
}

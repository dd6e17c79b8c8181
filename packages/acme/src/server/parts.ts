import { attempt, decodeBase64url, isObject, parseStrictJson } from '@gatehouse/net'
import { malformed } from './problems.ts'

export type Members = Readonly<Record<string, unknown>>

export const isText = (value: unknown, pattern: RegExp): value is string =>
  typeof value === 'string' && pattern.test(value)

/** Decodes a member in canonical base64url, such as the `csr` of an order. @throws AcmeProblem `malformed` */
export function readBase64url(value: unknown, what: string): Buffer {
  const bytes = typeof value === 'string' && attempt(() => decodeBase64url(value))
  if (bytes) return bytes
  throw malformed(`${what} is not base64url without padding`)
}

/** Parses a JSON object. @throws AcmeProblem `malformed` */
export function readObject(bytes: Uint8Array, what: string): Members {
  // The message of its error quotes what was sent.
  const value = attempt(() => parseStrictJson(bytes))
  if (isObject(value)) return value
  throw malformed(`${what} is no JSON object, has a member twice, or is nested too deeply`)
}

import { stdSerializers } from 'pino'

const REDACTED = '[redacted]'
const MAX_DEPTH = 8

const SECRET_NAME =
  /^(?:key|psk|jwk|pkcs8|pem|authorization|proxy-?authorization|d)$|(?:cookie|secret|password|passphrase|token|credentials?|(?:private|api|master|data|signing)[-_]?key)$/i

// A private key to the end of its string; a JWT or JWS; what follows an authorization scheme.
// Each can begin only at the start of a word, so that no input makes the search quadratic.
const SECRET_TEXT =
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^"]*|(?:(?<![\w-])|(?<=\\[nrt]))(?:eyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)*|(?:APIKey|Bearer|Basic) +[^\s"\\,]{8,})/gi

/** The value as a log may have it: what has the name of a secret is replaced, at any depth. */
export function scrub(value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth > MAX_DEPTH || ArrayBuffer.isView(value)) return '[omitted]'
  if (value instanceof Error) return scrub(describeError(value), depth + 1)
  if (Array.isArray(value)) return value.map((item) => scrub(item, depth + 1))
  if ('toJSON' in value) return value
  return scrubMembers(value, depth)
}

/** By its name, as bundles have other names for the classes of errors. */
function describeError(error: Error): object {
  return { ...stdSerializers.err(error), type: error.name }
}

/** {@link scrub} of each member. */
export function scrubMembers(value: object, depth = 0): Record<string, unknown> {
  // A loop, since every request passes here with its logger.
  const scrubbed: Record<string, unknown> = {}
  for (const [name, member] of Object.entries(value))
    scrubbed[name] = SECRET_NAME.test(name) ? REDACTED : scrub(member, depth + 1)
  return scrubbed
}

/** The finished log line without secrets that stood inside of texts. */
export function scrubLine(line: string): string {
  return line.replace(SECRET_TEXT, REDACTED)
}

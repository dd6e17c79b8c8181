import { domainToASCII, domainToUnicode } from 'node:url'
import { type IpAddress, parseIp } from '@gatehouse/net'
import { PkiError } from './errors.ts'

/** A name that a certificate can hold, in its one canonical form. */
export interface Name {
  /** A-labels in lower case without trailing dot, `*.x`, or a canonical IP address. */
  readonly text: string
  readonly kind: 'dns' | 'wildcard' | 'ip'
  /** Left to right, without the `*`; empty for an IP address. */
  readonly labels: readonly string[]
  /** Set when `kind` is `ip`. */
  readonly ip?: IpAddress
}

const MAX_LENGTH = 253
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const NON_ASCII = /[^\0-\x7f]/
// What URL parsers take for the end of an IPv4 address (WHATWG URL, "ends in a number").
const NUMERIC = /^(\d+|0x[0-9a-f]*)$/

/**
 * Reads a DNS name, a wildcard or an IP address. Letter case, one trailing dot and Unicode are
 * normalised (UTS 46); single labels and private suffixes are names too.
 *
 * @throws PkiError `PKI_NAME_INVALID`
 */
export function parseName(text: string): Name {
  if (text.length > MAX_LENGTH + 1) fail(text, `is longer than ${MAX_LENGTH} characters`)
  const ip = parseIp(text)
  if (ip) return { text: ip.text, kind: 'ip', labels: [], ip }

  const wildcard = text.startsWith('*.')
  const host = toAscii(wildcard ? text.slice(2) : text, text)
  const labels = host.split('.')
  for (const label of labels) checkLabel(label, text)
  if (NUMERIC.test(labels.at(-1) ?? '')) fail(text, 'ends in a number but is no IP address')

  const canonical = wildcard ? `*.${host}` : host
  if (canonical.length > MAX_LENGTH) fail(text, `is longer than ${MAX_LENGTH} characters`)
  return { text: canonical, kind: wildcard ? 'wildcard' : 'dns', labels }
}

function toAscii(host: string, text: string): string {
  const ascii = NON_ASCII.test(host) ? mapUnicode(host, text) : host.toLowerCase()
  return ascii.endsWith('.') ? ascii.slice(0, -1) : ascii
}

function mapUnicode(host: string, text: string): string {
  // domainToASCII reads on as a URL parser would (`/`, `:`, `%`), so none of that may reach it.
  if (/[^a-z0-9.-]/i.test(host.replace(/[^\0-\x7f]/g, ''))) fail(text, 'has a forbidden character')
  return domainToASCII(host) || fail(text, 'is not a valid internationalised name')
}

function checkLabel(label: string, text: string): void {
  if (label === '') fail(text, 'has an empty label')
  if (label.includes('*')) fail(text, 'may have `*` only as its whole first label')
  if (label.length > 63) fail(text, 'has a label longer than 63 characters')
  if (!LABEL.test(label))
    fail(text, 'has a label with other characters than letters, digits and inner hyphens')
  if (label.startsWith('xn--')) checkALabel(label, text)
  else if (label.slice(2, 4) === '--') fail(text, 'has a reserved label (`--` in third place)')
}

/** An `xn--` label must stand for something, and be the only spelling of it. */
function checkALabel(label: string, text: string): void {
  const unicode = domainToUnicode(label)
  if (!NON_ASCII.test(unicode) || domainToASCII(unicode) !== label)
    fail(text, 'has an `xn--` label that is not valid punycode')
}

function fail(text: string, why: string): never {
  throw new PkiError('PKI_NAME_INVALID', `${quote(text)} ${why}`)
}

/** A value for a message: escaped, and cut to a length that fits a line. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}

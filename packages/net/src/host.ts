import { domainToASCII, domainToUnicode } from 'node:url'
import { type IpAddress, parseIp } from './ip.ts'

/** A host in its canonical form. */
export interface Host {
  /** A-labels in lower case without the trailing dot, or the canonical IP address without brackets. */
  readonly name: string
  readonly ip?: IpAddress
}

// RFC 1123 names: letters, digits and inner hyphens; no resolver reads the last label as a number.
const DNS_NAME =
  /^(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*(?!\d+$|0x[0-9a-f]*$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
// Names before IDNA mapping, without other ASCII characters, so that nothing is percent-decoded or cut.
const UNMAPPED_NAME = /^[A-Za-z0-9.\-\u0080-\u{10ffff}]{1,1000}$/u

/** Parses a host without a port: a DNS name (mapped by IDNA), or an IPv4 or IPv6 address, bracketed or not. */
export function parseHost(text: string): Host | undefined {
  const ip = text.startsWith('[') ? parseBracketed(text) : parseIp(text)
  if (ip) return { name: ip.text, ip }
  const name = parseDnsName(text)
  return name === undefined ? undefined : { name }
}

/** Parses `host` or `host:port` of a Host header; an IPv6 address must be bracketed. */
export function parseHostPort(text: string): { host: Host; port?: number } | undefined {
  const [, name = '', digits] = /^(\[[^\]]*\]|[^:]*)(?::([1-9]\d{0,4}))?$/.exec(text) ?? []
  const host = parseHost(name)
  if (!host || digits === undefined) return host && { host }
  const port = Number(digits)
  return port > 65_535 ? undefined : { host, port }
}

/** The canonical text of a host with its port, as in a URL; an IPv6 address has brackets. */
export function formatHostPort({ host, port }: { host: Host; port?: number }): string {
  const name = host.ip?.version === 6 ? `[${host.name}]` : host.name
  return port === undefined ? name : `${name}:${port}`
}

/** Whether the host is this machine by definition: `localhost`, `*.localhost` (RFC 6761), 127/8, ::1. */
export function isLoopback({ name, ip }: Host): boolean {
  if (ip) return ip.version === 4 ? ip.bytes[0] === 127 : ip.text === '::1'
  return name === 'localhost' || name.endsWith('.localhost')
}

/** Whether a host is the domain or below it. Below an address there is nothing. */
export function isUnder(domain: string, { name, ip }: Host): boolean {
  return name === domain || (!ip && name.endsWith(`.${domain}`))
}

function parseBracketed(text: string): IpAddress | undefined {
  const inner = text.slice(1, -1)
  return text.endsWith(']') && inner.includes(':') ? parseIp(inner) : undefined
}

function parseDnsName(text: string): string | undefined {
  if (!UNMAPPED_NAME.test(text)) return undefined
  // Only if IDNA is needed: domainToASCII would also turn `0x7f.1` into an address.
  const ascii = /[^\0-\x7f]/.test(text) ? domainToASCII(text) : text.toLowerCase()
  const name = ascii.endsWith('.') ? ascii.slice(0, -1) : ascii
  if (!DNS_NAME.test(name)) return undefined
  return name.split('.').every(isWellFormed) ? name : undefined
}

/** An `xn--` label must be valid and canonical, which Node does not check. */
function isWellFormed(label: string): boolean {
  if (!label.startsWith('xn--')) return true
  const unicode = domainToUnicode(label)
  return unicode !== label && domainToASCII(unicode) === label
}

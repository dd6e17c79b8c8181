import { isIPv4, SocketAddress } from 'node:net'
import ipaddr from 'ipaddr.js'
import { attempt } from './answers.ts'

const EMBEDDED_IPV4 = /:(\d+)\.(\d+)\.(\d+)\.(\d+)$/

/** An IP address in its canonical form. */
export interface IpAddress {
  readonly version: 4 | 6
  /** Dotted decimal, or the form of RFC 5952. */
  readonly text: string
  /** 4 or 16 bytes in network order. */
  readonly bytes: Uint8Array
}

/** A network: its first address and how many leading bits are fixed. */
export interface Cidr {
  readonly text: string
  readonly network: IpAddress
  readonly prefix: number
}

/**
 * Parses an address: four decimal parts without leading zeros, or RFC 4291 text without a zone.
 * An IPv4-mapped IPv6 address becomes the IPv4 address.
 */
export function parseIp(text: string): IpAddress | undefined {
  // The most frequent case, and the canonical spelling is the only one.
  if (isIPv4(text)) return { version: 4, text, bytes: new Uint8Array(text.split('.').map(Number)) }
  if (!text.includes(':') || text.includes('%') || !isIPv6(text)) return undefined
  const address = ipaddr.process(text.replace(EMBEDDED_IPV4, hexGroups))
  return {
    version: address.kind() === 'ipv4' ? 4 : 6,
    text: address.toString(),
    bytes: Uint8Array.from(address.toByteArray()),
  }
}

/** Whether a text is an address that {@link parseIp} takes. */
export function isIp(text: string): boolean {
  return isIPv4(text) || parseIp(text) !== undefined
}

/** `net.isIPv6` compiles a regular expression at its first call, which takes milliseconds of the start. */
function isIPv6(address: string): boolean {
  return attempt(() => new SocketAddress({ address, family: 'ipv6' })) !== undefined
}

/** Writes `::1.2.3.4` as `::102:304`, since ipaddr.js takes the former for a mapped address. */
function hexGroups(_: string, a: string, b: string, c: string, d: string): string {
  const group = (high: string, low: string) => (Number(high) * 256 + Number(low)).toString(16)
  return `:${group(a, b)}:${group(c, d)}`
}

/** Parses `address/prefix`; a plain address is a /32 or /128. Host bits must be zero. */
export function parseCidr(text: string): Cidr | undefined {
  const [address = '', length, ...extra] = text.split('/')
  const network = parseIp(address)
  if (!network || extra.length > 0) return undefined
  const bits = network.bytes.length * 8
  const prefix = length === undefined ? bits : parsePrefix(length, bits, address)
  if (prefix === undefined) return undefined
  if (network.bytes.some((byte, i) => (byte & ~byteMask(prefix, i)) !== 0)) return undefined
  return { text: `${network.text}/${prefix}`, network, prefix }
}

/** Whether the network contains the address. Networks of one version contain none of the other. */
export function cidrContains({ network, prefix }: Cidr, ip: IpAddress): boolean {
  return (
    network.version === ip.version &&
    network.bytes.every((byte, i) => ((byte ^ (ip.bytes[i] ?? 0)) & byteMask(prefix, i)) === 0)
  )
}

/** The networks of this machine itself. */
export const LOOPBACK_NETWORKS: readonly string[] = ['127.0.0.0/8', '::1/128']

/**
 * Makes a function that says whether any of the networks contains an address. It is false for an
 * invalid address, and invalid networks are ignored.
 */
export function compileNetworks(
  texts: readonly string[],
): (address: IpAddress | string | undefined) => boolean {
  const networks = texts.map(parseCidr).filter((cidr) => cidr !== undefined)
  return (address) => {
    const ip = typeof address === 'string' ? parseIp(address) : address
    return ip !== undefined && networks.some((network) => cidrContains(network, ip))
  }
}

/**
 * Networks whose addresses lead to an IPv4 address, the byte where they hold it, and what its bytes are
 * inverted by: IPv4-compatible and translated (RFC 4291, 2765), NAT64 (RFC 6052, 8215), 6to4 (RFC 3056) and
 * Teredo (RFC 4380). Not the two addresses of this machine, which are in the first of them.
 */
const EMBEDDING = (
  [
    ['::/96', 12, 0],
    ['::ffff:0:0:0/96', 12, 0],
    ['64:ff9b::/96', 12, 0],
    ['64:ff9b:1::/48', 12, 0],
    ['2002::/16', 2, 0],
    ['2001::/32', 12, 0xff],
  ] as const
).map(([network, offset, mask]) => ({ contains: compileNetworks([network]), offset, mask }))
const isThisMachine = compileNetworks(['::/127'])

/** The IPv4 address that an IPv6 address leads to, if it is one of those that embed one. */
export function embeddedIp(address: IpAddress): IpAddress | undefined {
  const embedding = EMBEDDING.find(({ contains }) => contains(address))
  if (!embedding || isThisMachine(address)) return undefined
  const { offset, mask } = embedding
  return parseIp(
    address.bytes
      .subarray(offset, offset + 4)
      .map((byte) => byte ^ mask)
      .join('.'),
  )
}

/** The public part of IPv6, but for the ranges in it that ipaddr.js knows (RFC 4291 section 2.4). */
const isGlobalV6 = compileNetworks(['2000::/3'])
/** Azure answers there with what concerns the machine that asks. */
const isOfHoster = compileNetworks(['168.63.129.16'])

/**
 * Whether an address is one of the internet: in none of the special-purpose ranges of IANA (RFC 6890),
 * such as private, shared, loopback, link-local, multicast, documentation, and those that embed an IPv4
 * address (NAT64, 6to4, Teredo).
 */
export function isPublicIp(address: IpAddress): boolean {
  const isUnicast = ipaddr.fromByteArray([...address.bytes]).range() === 'unicast'
  return isUnicast && (address.version === 4 ? !isOfHoster(address) : isGlobalV6(address))
}

function parsePrefix(text: string, bits: number, address: string): number | undefined {
  if (!/^(0|[1-9]\d{0,2})$/.test(text)) return undefined
  // `::ffff:10.0.0.0/104` is 10.0.0.0/8.
  const mappedBits = bits === 32 && address.includes(':') ? 96 : 0
  const prefix = Number(text) - mappedBits
  return prefix >= 0 && prefix <= bits ? prefix : undefined
}

/** The bits of the byte at `index` that belong to a prefix of this length. */
function byteMask(prefix: number, index: number): number {
  const fixed = Math.min(8, Math.max(0, prefix - index * 8))
  return (0xff00 >> fixed) & 0xff
}

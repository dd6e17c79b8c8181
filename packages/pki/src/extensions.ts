// The certificate and CRL extensions of RFC 5280, in DER.
import { isAscii } from 'node:buffer'
import { hash } from 'node:crypto'
import type { Cidr } from '@gatehouse/net'
import {
  bits,
  context,
  contextPrimitive,
  type Der,
  type Element,
  element,
  integer,
  octets,
  oid,
  sequence,
  TRUE,
} from './der.ts'
import { PkiError } from './errors.ts'
import { type Name, type NameRule, parseClientName, parseName, parseNameRule } from './names.ts'

export const OID = {
  subjectKeyIdentifier: oid('2.5.29.14'),
  keyUsage: oid('2.5.29.15'),
  subjectAltName: oid('2.5.29.17'),
  basicConstraints: oid('2.5.29.19'),
  crlNumber: oid('2.5.29.20'),
  reasonCode: oid('2.5.29.21'),
  nameConstraints: oid('2.5.29.30'),
  crlDistributionPoints: oid('2.5.29.31'),
  authorityKeyIdentifier: oid('2.5.29.35'),
  extendedKeyUsage: oid('2.5.29.37'),
  acmeIdentifier: oid('1.3.6.1.5.5.7.1.31'),
} as const

export const PURPOSE_IDS = { serverAuth: '1.3.6.1.5.5.7.3.1', clientAuth: '1.3.6.1.5.5.7.3.2' }
/** The purpose of a certificate; never both. */
export type KeyPurpose = keyof typeof PURPOSE_IDS

export const extension = (id: Uint8Array, value: Der) => sequence(id, octets(value))
export const criticalExtension = (id: Uint8Array, value: Der) => sequence(id, TRUE, octets(value))

/** The key usage of a leaf; only RSA keys get keyEncipherment. */
export const leafKeyUsage = (rsa: boolean) =>
  criticalExtension(OID.keyUsage, rsa ? bits(Buffer.of(0xa0), 5) : bits(Buffer.of(0x80), 7))

/** The key usage of an authority: keyCertSign and cRLSign. */
export const caKeyUsage = () => criticalExtension(OID.keyUsage, bits(Buffer.of(0x06), 1))

export const extendedKeyUsage = (purpose: KeyPurpose) =>
  extension(OID.extendedKeyUsage, sequence(oid(PURPOSE_IDS[purpose])))

export const caConstraint = (pathLength?: number) =>
  criticalExtension(
    OID.basicConstraints,
    sequence(TRUE, ...(pathLength === undefined ? [] : [integer(pathLength)])),
  )

/**
 * The first 160 bits of the SHA-256 of the SubjectPublicKeyInfo (RFC 7093), as text of one byte per
 * character, which takes less time to make than a Buffer.
 */
export const keyIdentifier = (spki: Uint8Array): string =>
  hash('sha256', spki, 'binary').slice(0, 20)

export const subjectKeyId = (id: Der) => extension(OID.subjectKeyIdentifier, octets(id))
export const authorityKeyId = (id: Der) =>
  extension(OID.authorityKeyIdentifier, sequence(contextPrimitive(0, id)))

export const distributionPoints = (url: string): Der => {
  const fullName = context(0, contextPrimitive(6, new URL(url).href))
  return sequence(sequence(context(0, fullName)))
}
export const crlDistributionPoint = (url: string) =>
  extension(OID.crlDistributionPoints, distributionPoints(url))

/** Must be critical if the subject is empty (RFC 5280 section 4.2.1.6). */
export const subjectAltName = (names: readonly Name[], critical: boolean) =>
  (critical ? criticalExtension : extension)(
    OID.subjectAltName,
    sequence(...names.map(generalName)),
  )

export const DNS_NAME = 0x82
export const IP_ADDRESS = 0x87
/** The tags of the names that clients alone have. */
export const CLIENT_NAMES = { email: 0x81, uri: 0x86 } as const

const generalName = ({ text, kind, ip }: Name) => {
  if (kind === 'email' || kind === 'uri') return element(CLIENT_NAMES[kind], text)
  return ip ? element(IP_ADDRESS, ip.bytes) : element(DNS_NAME, text)
}

/** Reads an entry of a subject alternative name of a TLS client. */
export function readClientName(entry: Element): Name {
  const { tag, content } = entry
  if (tag === DNS_NAME) return parseClientName(readGeneralName(entry).text)
  if (!isAscii(content)) fail('a name that is not ASCII')
  const name = parseClientName(content.toString('latin1'))
  const isOfKind = (name.kind === 'email' || name.kind === 'uri') && CLIENT_NAMES[name.kind] === tag
  return isOfKind ? name : fail('neither a DNS name nor an e-mail address nor a URI')
}

/** Reads an entry of a subject alternative name of a TLS server. */
export function readGeneralName({ tag, content }: Element): Name {
  if (tag === IP_ADDRESS && content.length === 4) return parseName(content.join('.'))
  if (tag === IP_ADDRESS && content.length === 16)
    return parseName(content.toString('hex').replace(/.{4}(?!$)/g, '$&:'))
  if (tag !== DNS_NAME || !isAscii(content)) fail('neither a DNS name nor an IP address')
  const name = parseName(content.toString('latin1'))
  return name.ip ? fail('an IP address that is written as a DNS name') : name
}

function fail(what: string): never {
  throw new PkiError('PKI_NAME_INVALID', `the subject alternative name has ${what}`)
}

/**
 * The name constraint (RFC 5280 section 4.2.1.10) that is closest to the rules; none for an empty
 * list or one with `*`. A constraint can only express "x and everything below", so `x`, `*.x` and
 * `=*.x` all become that. Rules for e-mail addresses and URIs are not part of it. It limits the damage of
 * a stolen key; the rules themselves are enforced before signing.
 */
export function nameConstraint(permitted: readonly NameRule[]): Der | undefined {
  if (permitted.length === 0 || permitted.some(({ kind }) => kind === 'any')) return undefined
  // A constraint applies only to the kinds of names in it, so each absent kind has to be in it as well.
  const expressible = permitted.filter((rule) => 'labels' in rule || rule.kind === 'cidr')
  const kinds = new Set(expressible.map(kindOf))
  const isOfDomains = kinds.size === 1 && kinds.has('dns')
  const nobody = isOfDomains ? [] : NOBODY.filter((rule) => !kinds.has(kindOf(rule)))
  const rules = [...expressible, ...nobody]
  const domains = rules.flatMap((rule) => ('labels' in rule ? rule.labels.join('.') : []))
  const cidrs = rules
    .flatMap((rule) => (rule.kind === 'cidr' ? rule.cidr : []))
    .sort((a, b) => (a.text < b.text ? -1 : 1))
  const allowed = [
    ...[...new Set(domains)].sort().map(dnsSubtree),
    ...cidrs.map((cidr) => ipSubtree(ipRange(cidr))),
  ]
  const noAddress = context(1, ipSubtree(Buffer.alloc(8)), ipSubtree(Buffer.alloc(32)))
  return sequence(context(0, ...allowed), ...(isOfDomains ? [noAddress] : []))
}

/**
 * One name of each kind that nobody has. To permit it is as good as to exclude the kind, which ends in
 * an exception of Java 17 beside networks of the other kind (JDK-8267617), and for the empty domain. Java
 * compares the start of an IPv6 address with an IPv4 network, so that 0.0.0.0 would permit ::1.
 */
const NOBODY = ['invalid', '255.255.255.255', '100::1'].map(parseNameRule)

const kindOf = (rule: NameRule) => (rule.kind === 'cidr' ? rule.cidr.network.version : 'dns')

const dnsSubtree = (domain: string) => sequence(element(DNS_NAME, domain))
const ipSubtree = (range: Uint8Array) => sequence(element(IP_ADDRESS, range))

/** The address and the mask of a network. */
function ipRange({ network, prefix }: Cidr): Buffer {
  const mask = network.bytes.map((_, i) => 0xff00 >> Math.min(8, Math.max(0, prefix - 8 * i)))
  return Buffer.concat([network.bytes, mask])
}

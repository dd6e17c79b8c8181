// DER (X.690), written and strictly read as far as certificates and requests need it, PEM (RFC 7468), and the
// extensions of certificates and CRLs (RFC 5280).
import { isAscii } from 'node:buffer'
import { hash } from 'node:crypto'
import { PkiError } from './errors.ts'
import { type Name, parseClientName, parseName } from './names.ts'

/** Input of {@link encode}: bytes, text of one byte per character, or an element. */
export type Der = Uint8Array | string | Node

export interface Node {
  readonly tag: number
  readonly parts: readonly Der[]
}

/** An element with the parts as its content. */
export const element = (tag: number, ...parts: readonly Der[]): Node => ({ tag, parts })

export const sequence = (...parts: readonly Der[]): Node => ({ tag: 0x30, parts })
export const set = (...parts: readonly Der[]): Node => ({ tag: 0x31, parts })
export const octets = (content: Der) => element(0x04, content)
export const utf8 = (text: string) => element(0x0c, Buffer.from(text))
export const bits = (content: Uint8Array, unused = 0) =>
  element(0x03, String.fromCharCode(unused), content)
/** `[n] EXPLICIT`, or `[n] IMPLICIT` over a constructed type. */
export const context = (n: number, ...parts: readonly Der[]) => element(0xa0 | n, ...parts)
/** `[n] IMPLICIT` over a primitive type. */
export const contextPrimitive = (n: number, content: Der) => element(0x80 | n, content)

export const TRUE = Buffer.of(0x01, 0x01, 0xff)
export const NULL = Buffer.of(0x05, 0x00)

/** A non-negative integer, given as a number or as big-endian bytes. */
export function integer(value: number | bigint | Uint8Array): Node {
  const bytes = value instanceof Uint8Array ? value : bigEndian(value)
  let start = 0
  while (start < bytes.length - 1 && bytes[start] === 0) start++
  const minimal = start === 0 ? bytes : bytes.subarray(start)
  return (minimal[0] ?? 0) < 0x80 ? element(0x02, minimal) : element(0x02, '\0', minimal)
}

function bigEndian(value: number | bigint): Buffer {
  const hex = value.toString(16)
  return Buffer.from(hex.length % 2 ? `0${hex}` : hex, 'hex')
}

export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...arcs] = dotted.split('.').map(Number)
  const base128 = (arc: number): number[] =>
    arc < 0x80 ? [arc] : [...base128(arc >> 7).map((byte) => byte | 0x80), arc & 0x7f]
  return encode(element(0x06, Buffer.from([first * 40 + second, ...arcs].flatMap(base128))))
}

/** UTCTime up to 2049 and GeneralizedTime from 2050 (RFC 5280 4.1.2.5), cut to whole seconds. */
export function time(ms: number): Node {
  const date = new Date(ms)
  const day = date.getUTCFullYear() * 1e4 + (date.getUTCMonth() + 1) * 100 + date.getUTCDate()
  const clock = date.getUTCHours() * 1e4 + date.getUTCMinutes() * 100 + date.getUTCSeconds()
  const text = `${day * 1e6 + clock}Z`
  return day < 20500101 ? element(0x17, text.slice(2)) : element(0x18, text)
}

let scratch = Buffer.allocUnsafe(8192)
/** Number of bytes written, at the end of `scratch`. */
let size = 0

/** Encodes from the last byte to the first, so that the length of an element is known before its header. */
export function encode(der: Der): Buffer {
  size = 0
  write(der)
  const bytes = Buffer.allocUnsafe(size)
  scratch.copy(bytes, 0, scratch.length - size)
  return bytes
}

function write(der: Der): void {
  if (typeof der === 'string' || der instanceof Uint8Array) {
    const offset = reserve(der.length)
    // For a few bytes, a loop takes less time than the call.
    if (typeof der === 'string')
      for (let i = 0; i < der.length; i++) scratch[offset + i] = der.charCodeAt(i)
    else if (der.length < 24)
      for (let i = 0; i < der.length; i++) scratch[offset + i] = der[i] as number
    else scratch.set(der, offset)
    return
  }
  const start = size
  for (let i = der.parts.length - 1; i >= 0; i--) write(der.parts[i] as Der)
  writeHeader(der.tag, size - start)
}

function writeHeader(tag: number, length: number): void {
  const lengthBytes = length < 0x80 ? 0 : (39 - Math.clz32(length)) >> 3
  const offset = reserve(2 + lengthBytes)
  scratch[offset] = tag
  scratch[offset + 1] = lengthBytes === 0 ? length : 0x80 | lengthBytes
  for (let i = lengthBytes, part = length; i > 0; i--, part >>>= 8) scratch[offset + 1 + i] = part
}

/** Makes room for that many more bytes and gives the offset of the first. */
function reserve(bytes: number): number {
  if (size + bytes > scratch.length) {
    const larger = Buffer.allocUnsafe(2 * (size + bytes))
    scratch.copy(larger, larger.length - size, scratch.length - size)
    scratch = larger
  }
  size += bytes
  return scratch.length - size
}

/** A decoded element: `raw` is all of it, `content` the part after its length. */
export interface Element {
  readonly tag: number
  readonly raw: Buffer
  readonly content: Buffer
}

/**
 * Reads the elements that the bytes consist of. Lengths must be definite and minimal, and tags a
 * single byte.
 */
export function readAll(bytes: Buffer): Element[] {
  const elements: Element[] = []
  for (let offset = 0; offset < bytes.length; ) {
    const tag = bytes[offset] ?? 0
    if ((tag & 0x1f) === 0x1f) failDer('an element has a tag of several bytes')
    const [length, header] = readLength(bytes, offset)
    const end = offset + header + length
    if (end > bytes.length) failDer('an element is longer than what holds it')
    const raw = bytes.subarray(offset, end)
    elements.push({ tag, raw, content: raw.subarray(header) })
    offset = end
  }
  return elements
}

/** The elements inside the given one; none if it is absent. */
export const children = (parent: Element | undefined): Element[] =>
  parent ? readAll(parent.content) : []

/** An object identifier as dotted text, from its content. */
export function readOid(content: Buffer): string {
  const lastByte = content.at(-1)
  if (lastByte === undefined || lastByte >= 0x80 || content.length > MAX_OID)
    failDer('an object identifier has a bad length')
  const arcs: number[] = []
  let arc = 0
  for (const byte of content) {
    if (arc === 0 && byte === 0x80) failDer('an object identifier has a padded number')
    arc = arc * 128 + (byte & 0x7f)
    if (arc > MAX_ARC) failDer('an object identifier has a number that is too large')
    if (byte >= 0x80) continue
    if (arcs.length > 0) arcs.push(arc)
    else arcs.push(...firstTwo(arc))
    arc = 0
  }
  return arcs.join('.')
}

const MAX_OID = 64
const MAX_ARC = 2 ** 40

/** The first two arcs share a number (X.690 section 8.19.4). */
const firstTwo = (both: number): [number, number] =>
  both < 80 ? [Math.trunc(both / 40), both % 40] : [2, both - 80]

/** Reads the content length and the header length of the element at that offset. */
function readLength(bytes: Buffer, offset: number): [length: number, header: number] {
  const first = bytes[offset + 1] ?? failDer('an element has no length')
  if (first < 0x80) return [first, 2]
  const size = first & 0x7f
  if (size < 1 || size > 4 || offset + 2 + size > bytes.length)
    failDer('an element has a bad length')
  const length = bytes.readUIntBE(offset + 2, size)
  if (length < 0x80 || length < 2 ** (8 * (size - 1)))
    failDer('a length is longer than it needs to be')
  return [length, 2 + size]
}

function failDer(why: string): never {
  throw new PkiError('PKI_CERTIFICATE_INVALID', `not DER: ${why}`)
}

/** The labels of the PEM blocks that this package writes (RFC 7468). */
export type PemLabel =
  | 'CERTIFICATE'
  | 'PRIVATE KEY'
  | 'PUBLIC KEY'
  | 'X509 CRL'
  | 'CERTIFICATE REQUEST'

const MAX_PEM_LENGTH = 1 << 20
const BEGIN = /-----BEGIN /g
const BLOCK = /-----BEGIN ([A-Z0-9 ]{1,40})-----([A-Za-z0-9+/=\s]*)-----END \1-----/g

/** Encodes one PEM block in lines of 64 characters, with a newline at the end. */
export function toPem(label: PemLabel, der: Uint8Array): string {
  const base64 = Buffer.from(der.buffer, der.byteOffset, der.byteLength).toString('base64')
  let lines = ''
  for (let i = 0; i < base64.length; i += 64) lines += `${base64.slice(i, i + 64)}\n`
  return `-----BEGIN ${label}-----\n${lines}-----END ${label}-----\n`
}

/** Encodes a certificate and its chain as one PEM text, leaf first. */
export function buildChainPem(leaf: Uint8Array, chain: readonly Uint8Array[]): string {
  return [leaf, ...chain].map((der) => toPem('CERTIFICATE', der)).join('')
}

/**
 * Decodes each block in the text, or each block with that label, to DER. Ignores text between
 * blocks; refuses incomplete blocks, and a text without any block.
 * @throws PkiError `PKI_PEM_INVALID`
 */
export function fromPem(text: string, label?: string): Buffer[] {
  if (text.length > MAX_PEM_LENGTH) failPem('the text is longer than 1 MiB')
  const blocks = [...text.matchAll(BLOCK)]
  if (blocks.length !== (text.match(BEGIN)?.length ?? 0)) failPem('a block is not whole')
  const matching = blocks.filter(([, blockLabel]) => label === undefined || blockLabel === label)
  if (matching.length === 0) failPem(`there is no ${label ?? 'PEM'} block`)
  return matching.map(([, , body = '']) => decodeBase64(body.replace(/\s/g, '')))
}

function decodeBase64(base64: string): Buffer {
  const der = Buffer.from(base64, 'base64')
  if (der.length === 0 || der.toString('base64') !== base64) failPem('a block is not valid base64')
  return der
}

function failPem(why: string): never {
  throw new PkiError('PKI_PEM_INVALID', why)
}

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
  if (!isAscii(content)) failName('a name that is not ASCII')
  const name = parseClientName(content.toString('latin1'))
  const isOfKind = (name.kind === 'email' || name.kind === 'uri') && CLIENT_NAMES[name.kind] === tag
  return isOfKind ? name : failName('neither a DNS name nor an e-mail address nor a URI')
}

/** Reads an entry of a subject alternative name of a TLS server. */
export function readGeneralName({ tag, content }: Element): Name {
  if (tag === IP_ADDRESS && content.length === 4) return parseName(content.join('.'))
  if (tag === IP_ADDRESS && content.length === 16)
    return parseName(content.toString('hex').replace(/.{4}(?!$)/g, '$&:'))
  if (tag !== DNS_NAME || !isAscii(content)) failName('neither a DNS name nor an IP address')
  const name = parseName(content.toString('latin1'))
  return name.ip ? failName('an IP address that is written as a DNS name') : name
}

function failName(what: string): never {
  throw new PkiError('PKI_NAME_INVALID', `the subject alternative name has ${what}`)
}

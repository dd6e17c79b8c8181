// The fields of a PKCS#10 request (RFC 2986), read strictly and within bounds.

import { isAscii } from 'node:buffer'
import { attempt } from '@gatehouse/net'
import { children, type Element, fromPem, readAll, readOid } from './der.ts'
import { PkiError } from './errors.ts'
import { type Name, parseName } from './names.ts'

export type CsrFields = ReturnType<typeof readCsr>
export type Extension = ReturnType<typeof readExtension>
type SubjectAttribute = CsrFields['subject'][number]

const MAX_LENGTH = 32 * 1024
const MAX_ATTRIBUTES = 16
const MAX_EXTENSIONS = 32
const MAX_SUBJECT = 32
const EXTENSION_REQUEST = '1.2.840.113549.1.9.14'
const COMMON_NAME = '2.5.4.3'

const INTEGER = 0x02
const BIT_STRING = 0x03
const OCTET_STRING = 0x04
const OID = 0x06
const SEQUENCE = 0x30
const SET = 0x31
const ATTRIBUTES = 0xa0

/**
 * Reads a request in PEM or DER. It checks only the form, not the key or the signature. A request
 * that was accepted before (`isKnown`) may have an explicit `critical: FALSE`.
 */
export function readCsr(
  input: string | Uint8Array,
  { isKnown = false }: { readonly isKnown?: boolean } = {},
) {
  const der = readInput(input)
  const [info, algorithm, signature] = parts(only(der), 'the request', SEQUENCE, 3)
  const infoParts = parts(info, 'the request')
  // Some programs leave the list of attributes out, and OpenSSL accepts that.
  const [version, subject, spki, attributes, ...more] = infoParts
  if (more.length > 0 || (attributes && attributes.tag !== ATTRIBUTES)) fail('it has unknown parts')
  if (version?.tag !== INTEGER || version.content.length !== 1 || version.content[0] !== 0)
    fail('its version is not 1')
  return {
    der,
    /** The signed bytes. */
    info: info?.raw ?? fail('it is empty'),
    subject: readSubject(subject),
    spki: readSpki(spki),
    ...readAttributes(children(attributes), isKnown),
    algorithm: readAlgorithm(algorithm),
    signature: readBits(signature, 'the signature'),
  }
}

function readInput(input: string | Uint8Array): Buffer {
  if (input.length > MAX_LENGTH) fail('it is too large')
  if (typeof input !== 'string') return Buffer.from(input)
  // keytool and older programs write NEW CERTIFICATE REQUEST.
  const text = input.replaceAll(' NEW CERT', ' CERT')
  const [der = Buffer.alloc(0), ...more] = fromPem(text, 'CERTIFICATE REQUEST')
  if (more.length > 0) fail('there is more than one request')
  return der
}

function only(bytes: Buffer): Element | undefined {
  const [first, ...more] = readAll(bytes)
  if (more.length > 0) fail('there is more than one request')
  return first
}

/** Reads the elements in one with that tag, and checks their number if one is given. */
export function parts(parent: Element | undefined, what: string, tag = SEQUENCE, count?: number) {
  if (parent?.tag !== tag) fail(`${what} has another form than RFC 2986 gives it`)
  const elements = children(parent)
  if (count !== undefined && elements.length !== count)
    fail(`${what} has ${elements.length} parts instead of ${count}`)
  return elements
}

/** @throws PkiError `PKI_CSR_INVALID`, `PKI_CERTIFICATE_INVALID` */
export function readAlgorithm(element: Element | undefined) {
  const [id, parameters, ...more] = parts(element, 'an algorithm')
  if (more.length > 0) fail('an algorithm has too many parts')
  return { id: readId(id), parameters }
}

function readId(element: Element | undefined): string {
  return element?.tag === OID ? readOid(element.content) : fail('an object identifier is missing')
}

function readSpki(element: Element | undefined): Buffer {
  const [algorithm, key] = parts(element, 'the public key', SEQUENCE, 2)
  readAlgorithm(algorithm)
  readBits(key, 'the public key')
  return element?.raw ?? fail('it has no public key')
}

function readBits(element: Element | undefined, what: string): Buffer {
  if (element?.tag !== BIT_STRING || element.content[0] !== 0) fail(`${what} is not whole bytes`)
  return element.content.subarray(1)
}

function readSubject(element: Element | undefined) {
  const attributes = parts(element, 'the subject').flatMap((set) =>
    parts(set, 'the subject', SET).map((attribute) => {
      const [id, value] = parts(attribute, 'an attribute of the subject', SEQUENCE, 2)
      return { id: readId(id), value: value as Element }
    }),
  )
  if (attributes.length > MAX_SUBJECT) fail(`its subject has more than ${MAX_SUBJECT} attributes`)
  return attributes
}

function readAttributes(elements: readonly Element[], isKnown: boolean) {
  if (elements.length > MAX_ATTRIBUTES) fail(`it has more than ${MAX_ATTRIBUTES} attributes`)
  const attributes = elements.map((element) => {
    const [id, values] = parts(element, 'an attribute', SEQUENCE, 2)
    return { id: readId(id), values: parts(values, 'an attribute', SET) }
  })
  const requests = attributes.filter(({ id }) => id === EXTENSION_REQUEST)
  const [list, ...more] = requests.flatMap(({ values }) => values)
  if (requests.length > 1 || more.length > 0) fail('it asks for extensions twice')
  return {
    extensions: list ? readExtensions(list, isKnown) : [],
    otherAttributes: attributes.map(({ id }) => id).filter((id) => id !== EXTENSION_REQUEST),
  }
}

/** Reads the extensions of a request or certificate. */
export function readExtensions(list: Element, isKnown = false): Extension[] {
  const elements = parts(list, 'the list of extensions')
  const extensions = elements.map((element) => readExtension(element, isKnown))
  if (extensions.length > MAX_EXTENSIONS) fail(`it has more than ${MAX_EXTENSIONS} extensions`)
  if (new Set(extensions.map(({ id }) => id)).size < extensions.length)
    fail('it has the same extension twice')
  return extensions
}

/** Gives the content of its OCTET STRING. In DER, `critical` is absent if false, and `true` is 0xff. */
function readExtension(element: Element, isKnown: boolean) {
  const [id, ...fields] = parts(element, 'an extension')
  const isCriticality =
    fields[0]?.raw.equals(CRITICAL) || (isKnown && fields[0]?.raw.equals(NOT_CRITICAL))
  const [value, ...more] = isCriticality ? fields.slice(1) : fields
  if (value?.tag !== OCTET_STRING || more.length > 0) fail('an extension is not well-formed')
  return { id: readId(id), value: value.content }
}

const CRITICAL = Buffer.of(0x01, 0x01, 0xff)
const NOT_CRITICAL = Buffer.of(0x01, 0x01, 0x00)

/** The name in an attribute of a subject; none if it is another attribute or not a valid name. */
export function commonNameOrNone({ id, value }: SubjectAttribute): Name | [] {
  if (id !== COMMON_NAME) return []
  const text = (DECODERS[value.tag] ?? fail('its common name is not a text'))(value.content)
  return attempt(() => parseName(text)) ?? []
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Decoders by the tag of the string (RFC 5280 section 4.1.2.4). */
const DECODERS: Readonly<Record<number, (content: Buffer) => string>> = {
  12: readUtf8,
  19: readAscii,
  20: (content) => content.toString('latin1'),
  22: readAscii,
  28: (content) => readUnits(content, 4),
  30: (content) => readUnits(content, 2),
}

function readUtf8(content: Buffer): string {
  return attempt(() => UTF_8.decode(content)) ?? fail('its common name is not UTF-8')
}

function readAscii(content: Buffer): string {
  return isAscii(content) ? content.toString('latin1') : fail('its common name is not ASCII')
}

/** Decodes UCS-2 or UCS-4, with 2 or 4 bytes per character. */
function readUnits(content: Buffer, size: number): string {
  if (content.length % size > 0) fail('its common name ends within a character')
  let text = ''
  for (let offset = 0; offset < content.length; offset += size) {
    const unit = content.readUIntBE(offset, size)
    if (unit > 0x10ffff) fail('its common name has a character that does not exist')
    text += String.fromCodePoint(unit)
  }
  return text
}

export function fail(why: string): never {
  throw new PkiError('PKI_CSR_INVALID', why)
}

// The parts of a PKCS#10 request (RFC 2986), read strictly and within bounds.
import { children, type Element, readAll, readOid } from './der.ts'
import { PkiError } from './errors.ts'
import { fromPem } from './pem.ts'

/** One extension of a request or certificate; `value` is the content of its OCTET STRING. */
export interface Extension {
  readonly id: string
  readonly value: Buffer
}

/** One attribute of a subject, with its value as it was encoded. */
export interface SubjectAttribute {
  readonly id: string
  readonly value: Element
}

export interface CsrFields {
  readonly der: Buffer
  /** What is signed, as it came. */
  readonly info: Buffer
  readonly subject: readonly SubjectAttribute[]
  readonly spki: Buffer
  /** Those that are asked for. */
  readonly extensions: readonly Extension[]
  /** Object identifiers of the attributes that ask for something else than extensions. */
  readonly otherAttributes: readonly string[]
  /** The two parts of the AlgorithmIdentifier; without parameters the second is absent. */
  readonly algorithm: { readonly id: string; readonly parameters: Element | undefined }
  readonly signature: Buffer
}

const MAX_LENGTH = 32 * 1024
const MAX_ATTRIBUTES = 16
const MAX_EXTENSIONS = 32
const MAX_SUBJECT = 32
const EXTENSION_REQUEST = '1.2.840.113549.1.9.14'

const INTEGER = 0x02
const BIT_STRING = 0x03
const OCTET_STRING = 0x04
const OID = 0x06
const SEQUENCE = 0x30
const SET = 0x31
const ATTRIBUTES = 0xa0

/**
 * Takes a request in PEM or DER apart. Only the form is checked: neither the key nor the signature.
 * One that is known may spell `critical: FALSE` out.
 *
 * @throws PkiError `PKI_CSR_INVALID`, `PKI_CERTIFICATE_INVALID`, `PKI_PEM_INVALID`
 */
export function readCsr(
  input: string | Uint8Array,
  { isKnown = false }: { readonly isKnown?: boolean } = {},
): CsrFields {
  const der = readInput(input)
  const [info, algorithm, signature] = parts(only(der), SEQUENCE, 3, 'the request')
  const infoParts = parts(info, SEQUENCE, undefined, 'the request')
  // OpenSSL takes requests that leave the list of attributes out, and some programs make them.
  const [version, subject, spki, attributes, ...more] = infoParts
  if (more.length > 0 || (attributes && attributes.tag !== ATTRIBUTES)) fail('it has unknown parts')
  if (version?.tag !== INTEGER || version.content.length !== 1 || version.content[0] !== 0)
    fail('its version is not 1')
  return {
    der,
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
  // keytool and older programs say NEW.
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

/** The elements of one with that tag, and as many of them where it says how many. */
export function parts(
  parent: Element | undefined,
  tag: number,
  count: number | undefined,
  what: string,
): Element[] {
  if (parent?.tag !== tag) fail(`${what} has another form than RFC 2986 gives it`)
  const found = children(parent)
  if (count !== undefined && found.length !== count)
    fail(`${what} has ${found.length} parts instead of ${count}`)
  return found
}

/** @throws PkiError `PKI_CSR_INVALID`, `PKI_CERTIFICATE_INVALID` */
export function readAlgorithm(element: Element | undefined): CsrFields['algorithm'] {
  const [id, parameters, ...more] = parts(element, SEQUENCE, undefined, 'an algorithm')
  if (more.length > 0) fail('an algorithm has too many parts')
  return { id: readId(id), parameters }
}

function readId(element: Element | undefined): string {
  return element?.tag === OID ? readOid(element.content) : fail('an object identifier is missing')
}

function readSpki(element: Element | undefined): Buffer {
  const [algorithm, key] = parts(element, SEQUENCE, 2, 'the public key')
  readAlgorithm(algorithm)
  readBits(key, 'the public key')
  return element?.raw ?? fail('it has no public key')
}

function readBits(element: Element | undefined, what: string): Buffer {
  if (element?.tag !== BIT_STRING || element.content[0] !== 0) fail(`${what} is not whole bytes`)
  return element.content.subarray(1)
}

function readSubject(element: Element | undefined): SubjectAttribute[] {
  const found = parts(element, SEQUENCE, undefined, 'the subject').flatMap((set) =>
    parts(set, SET, undefined, 'the subject').map((one) => {
      const [id, value] = parts(one, SEQUENCE, 2, 'an attribute of the subject')
      return { id: readId(id), value: value as Element }
    }),
  )
  if (found.length > MAX_SUBJECT) fail(`its subject has more than ${MAX_SUBJECT} attributes`)
  return found
}

function readAttributes(
  elements: readonly Element[],
  isKnown: boolean,
): Pick<CsrFields, 'extensions' | 'otherAttributes'> {
  if (elements.length > MAX_ATTRIBUTES) fail(`it has more than ${MAX_ATTRIBUTES} attributes`)
  const attributes = elements.map((element) => {
    const [id, values] = parts(element, SEQUENCE, 2, 'an attribute')
    return { id: readId(id), values: parts(values, SET, undefined, 'an attribute') }
  })
  const requests = attributes.filter(({ id }) => id === EXTENSION_REQUEST)
  const [list, ...more] = requests.flatMap(({ values }) => values)
  if (requests.length > 1 || more.length > 0) fail('it asks for extensions twice')
  return {
    extensions: list ? readExtensions(list, isKnown) : [],
    otherAttributes: attributes.map(({ id }) => id).filter((id) => id !== EXTENSION_REQUEST),
  }
}

/**
 * The extensions of a request or certificate.
 *
 * @throws PkiError `PKI_CSR_INVALID`, `PKI_CERTIFICATE_INVALID`
 */
export function readExtensions(list: Element, isKnown = false): Extension[] {
  const elements = parts(list, SEQUENCE, undefined, 'the list of extensions')
  const extensions = elements.map((one) => readExtension(one, isKnown))
  if (extensions.length > MAX_EXTENSIONS) fail(`it has more than ${MAX_EXTENSIONS} extensions`)
  if (new Set(extensions.map(({ id }) => id)).size < extensions.length)
    fail('it has the same extension twice')
  return extensions
}

/** `critical` is left out where it is false, and `true` is 0xff: DER has no other spelling. */
function readExtension(element: Element, isKnown: boolean): Extension {
  const [id, ...rest] = parts(element, SEQUENCE, undefined, 'an extension')
  const isCriticality =
    rest[0]?.raw.equals(CRITICAL) || (isKnown && rest[0]?.raw.equals(NOT_CRITICAL))
  const [value, ...more] = isCriticality ? rest.slice(1) : rest
  if (value?.tag !== OCTET_STRING || more.length > 0) fail('an extension is not well-formed')
  return { id: readId(id), value: value.content }
}

const CRITICAL = Buffer.of(0x01, 0x01, 0xff)
const NOT_CRITICAL = Buffer.of(0x01, 0x01, 0x00)

export function fail(why: string): never {
  throw new PkiError('PKI_CSR_INVALID', why)
}

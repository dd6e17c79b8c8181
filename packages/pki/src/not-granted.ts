// What a request asks for besides names, and which of that its certificate lacks.
import { attempt } from '@gatehouse/net'
import {
  type CsrFields,
  commonNameOrNone,
  type Extension,
  fail,
  readExtensions,
} from './csr-fields.ts'
import { children, readAll, readOid } from './der.ts'

/** RFC 5280 section 4.2.1.3, starting with the first bit. */
const KEY_USAGES = [
  'digitalSignature',
  'nonRepudiation',
  'keyEncipherment',
  'dataEncipherment',
  'keyAgreement',
  'keyCertSign',
  'cRLSign',
  'encipherOnly',
  'decipherOnly',
]

/** Names from RFC 5280, RFC 4519 and RFC 2985; others appear as their object identifier. */
const NAMES: Readonly<Record<string, string>> = {
  '2.5.29.14': 'subjectKeyIdentifier',
  '2.5.29.30': 'nameConstraints',
  '2.5.29.31': 'cRLDistributionPoints',
  '2.5.29.32': 'certificatePolicies',
  '2.5.29.35': 'authorityKeyIdentifier',
  '2.5.29.37.0': 'anyExtendedKeyUsage',
  '1.3.6.1.5.5.7.1.1': 'authorityInfoAccess',
  '1.3.6.1.5.5.7.3.1': 'serverAuth',
  '1.3.6.1.5.5.7.3.2': 'clientAuth',
  '1.3.6.1.5.5.7.3.3': 'codeSigning',
  '1.3.6.1.5.5.7.3.4': 'emailProtection',
  '1.3.6.1.5.5.7.3.8': 'timeStamping',
  '1.3.6.1.5.5.7.3.9': 'OCSPSigning',
  '2.5.4.3': 'CN',
  '2.5.4.4': 'SN',
  '2.5.4.5': 'serialNumber',
  '2.5.4.6': 'C',
  '2.5.4.7': 'L',
  '2.5.4.8': 'ST',
  '2.5.4.9': 'street',
  '2.5.4.10': 'O',
  '2.5.4.11': 'OU',
  '2.5.4.12': 'title',
  '2.5.4.42': 'givenName',
  '0.9.2342.19200300.100.1.1': 'UID',
  '0.9.2342.19200300.100.1.25': 'DC',
  '1.2.840.113549.1.9.1': 'emailAddress',
  '1.2.840.113549.1.9.2': 'unstructuredName',
  '1.2.840.113549.1.9.7': 'challengePassword',
}

const MAX_REQUESTED = 100

const nameOf = (id: string): string => NAMES[id] ?? id

/**
 * Lists what a request asks for and its certificate lacks, by the names in RFCs: `clientAuth`,
 * `keyAgreement`, `CA:TRUE`, `mustStaple`, `O`, or an object identifier. DNS names and addresses are
 * never listed, because a request for other names is refused. The list is empty for a certificate
 * that cannot be read.
 * @param certificate - DER
 */
export function notGranted(
  { requested }: { readonly requested: ReadonlyMap<string, string> },
  certificate: Uint8Array,
): readonly string[] {
  if (requested.size === 0) return []
  const granted = attempt(() => grantedBy(Buffer.from(certificate)))
  const missing = [...requested].filter(([what, value]) => granted?.get(what) !== value)
  return granted ? missing.map(([what]) => what) : []
}

/** Lists what a request asks for besides names. */
export function requestedBy(fields: CsrFields): Map<string, string> {
  const { subject, extensions, otherAttributes } = fields
  const withoutNames = subject.filter((field) => [commonNameOrNone(field)].flat().length === 0)
  const ids = [...withoutNames.map(({ id }) => id), ...otherAttributes]
  const requested = new Map([
    ...extensions.flatMap(meaningOf),
    ...ids.map((id): Meaning => [nameOf(id), '']),
  ])
  if (requested.size > MAX_REQUESTED) fail(`it asks for more than ${MAX_REQUESTED} things`)
  return requested
}

const EXTENSIONS = 0xa3

function grantedBy(certificate: Buffer): Map<string, string> {
  const [toBeSigned] = children(readAll(certificate)[0])
  const [list] = children(children(toBeSigned).find(({ tag }) => tag === EXTENSIONS))
  return new Map(list ? readExtensions(list).flatMap(meaningOf) : [])
}

/** A name, and a value that must be equal in the certificate. */
type Meaning = [what: string, value: string]

const READERS: Readonly<Record<string, (value: Buffer) => string[]>> = {
  '2.5.29.15': (value) => readBits(readAll(value)[0]?.content ?? Buffer.alloc(0)),
  '2.5.29.17': () => [],
  '2.5.29.19': (value) => (isCa(value) ? ['CA:TRUE'] : []),
  '2.5.29.37': (value) =>
    children(readAll(value)[0]).map(({ content }) => nameOf(readOid(content))),
  // RFC 7633; feature 5 is status_request.
  '1.3.6.1.5.5.7.1.24': (value) =>
    children(readAll(value)[0]).map(({ content }) => {
      const feature = content.toString('hex')
      return feature === '05' ? 'mustStaple' : `TLS feature 0x${feature}`
    }),
}

function meaningOf({ id, value }: Extension): Meaning[] {
  const read = READERS[id]
  return read ? read(value).map((what) => [what, '']) : [[nameOf(id), value.toString('latin1')]]
}

const isCa = (value: Buffer): boolean =>
  children(readAll(value)[0]).some(({ tag, content }) => tag === 0x01 && content[0] !== 0)

/** The first byte of a BIT STRING is the number of unused bits in the last one. */
const readBits = (bits: Buffer): string[] =>
  KEY_USAGES.filter((_, i) => ((bits[1 + (i >> 3)] ?? 0) & (0x80 >> (i & 7))) !== 0)

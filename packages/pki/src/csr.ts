import { hash, sign } from 'node:crypto'
import { type CsrFields, commonNameOrNone, fail, readCsr } from './csr-fields.ts'
import { verifyCsr } from './csr-signature.ts'
import {
  bits,
  children,
  context,
  encode,
  integer,
  oid,
  readAll,
  readClientName,
  readGeneralName,
  sequence,
  set,
  subjectAltName,
} from './der.ts'
import { PkiError } from './errors.ts'
import { type KeyPair, type KeyType, readPublicKey } from './keys.ts'
import { type Name, parseClientName } from './names.ts'
import { requestedBy } from './not-granted.ts'
import { algorithmFor } from './signer.ts'

/** A certificate signing request: PKCS#10 (RFC 2986). */
export interface Csr {
  readonly der: Buffer
  /** SubjectPublicKeyInfo, DER, in OpenSSL's encoding. */
  readonly spki: Buffer
  /** Hex, lower case. */
  readonly spkiSha256: string
  readonly keyType: KeyType
  /** The names of the subject alternative name, then the common name if it is one, without duplicates. */
  readonly names: readonly Name[]
  /** Requested besides the names: see {@link notGranted}. */
  readonly requested: ReadonlyMap<string, string>
}

/**
 * Parses a request in PEM or DER and verifies that it is signed by its own key. One for a `client` may
 * have e-mail addresses and SPIFFE IDs, but neither IP addresses nor wildcards.
 * @throws PkiError `PKI_CSR_INVALID`, `PKI_KEY_WEAK`
 */
export function parseCsr(input: string | Uint8Array, profile?: Profile): Csr {
  return read(input, profile, verifyCsr)
}

/**
 * Parses a request that was accepted before, perhaps by an older version, which accepted more
 * algorithms and an explicit `critical: FALSE`. It checks the key again, but not the signature.
 * @throws PkiError `PKI_CSR_INVALID`, `PKI_KEY_WEAK`
 */
export function readKnownCsr(input: Uint8Array, profile?: Profile): Csr {
  return read(input, profile)
}

/** The purposes of certificates. */
export const PROFILES = ['server', 'client'] as const
export type Profile = (typeof PROFILES)[number]

function read(input: string | Uint8Array, profile: Profile = 'server', verify?: typeof verifyCsr) {
  return orInvalid(() => {
    const fields = readCsr(input, { isKnown: !verify })
    const names = namesOf(fields, profile)
    const requested = requestedBy(fields)
    const key = readPublicKey(fields.spki)
    verify?.(fields, key)
    const { spki, type: keyType } = key
    return { der: fields.der, spki, spkiSha256: hash('sha256', spki), keyType, names, requested }
  })
}

const PASSED_ON = ['PKI_KEY_WEAK', 'PKI_CSR_INVALID']

/** Turns errors about the form of a request into `PKI_CSR_INVALID`. */
function orInvalid<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof PkiError) || PASSED_ON.includes(cause.code)) throw cause
    throw new PkiError('PKI_CSR_INVALID', cause.message, { cause })
  }
}

const MAX_NAMES = 100
const SUBJECT_ALT_NAME = '2.5.29.17'

function namesOf({ extensions, subject }: CsrFields, profile: Profile): Name[] {
  const altName = extensions.find(({ id }) => id === SUBJECT_ALT_NAME)
  const [list, ...more] = altName ? readAll(altName.value) : []
  if (more.length > 0 || (list && list.tag !== 0x30)) fail('its names are not one list')
  const altNames = children(list)
  if (altNames.length > MAX_NAMES) fail(`it asks for more than ${MAX_NAMES} names`)
  const isOfClient = profile === 'client'
  const commonNames = subject.flatMap(commonNameOrNone)
  if (isOfClient) for (const { text } of commonNames) parseClientName(text)
  const names = [...altNames.map(isOfClient ? readClientName : readGeneralName), ...commonNames]
  return [...new Map(names.map((name) => [name.text, name])).values()]
}

const EXTENSION_REQUEST = oid('1.2.840.113549.1.9.14')
const VERSION_1 = integer(0)
const ED25519 = encode(sequence(oid('1.3.101.112')))

/** Creates a request, DER, with an empty subject and the names in the subject alternative name. */
export function buildCsr({ type, privateKey, spki }: KeyPair, names: readonly Name[]): Buffer {
  const extensions = sequence(subjectAltName(names, false))
  const attributes = context(0, sequence(EXTENSION_REQUEST, set(extensions)))
  const info = encode(sequence(VERSION_1, sequence(), spki, attributes))
  const [algorithm, digest] = type === 'ed25519' ? [ED25519, null] : algorithmFor(privateKey)
  return encode(sequence(info, algorithm, bits(sign(digest, info, privateKey))))
}

import { constants, createPublicKey, hash, type KeyObject, verify } from 'node:crypto'
import type { Pkcs10CertificateRequest } from '@peculiar/x509'
import { children, type Element, readAll } from './der.ts'
import { PkiError } from './errors.ts'
import { readGeneralName } from './extensions.ts'
import { type KeyType, keyTypeOf } from './keys.ts'
import { type Name, parseName } from './names.ts'
import { fromPem } from './pem.ts'

/** What of a certificate request counts: its key, proven to be held by the sender, and names. */
export interface CertificateRequest {
  readonly der: Buffer
  /** SubjectPublicKeyInfo, DER, as OpenSSL writes it. */
  readonly spki: Buffer
  /** Hex, lower case. */
  readonly spkiSha256: string
  readonly keyType: KeyType
  /** Those of the subject alternative name, then the common name if it is one, each once. */
  readonly names: readonly Name[]
}

const MAX_LENGTH = 32 * 1024
const MAX_NAMES = 100
const UNCOMPRESSED_BYTES: Partial<Record<KeyType, number>> = { p256: 91, p384: 120 }
const EXTENSION_REQUEST = '1.2.840.113549.1.9.14'
const SUBJECT_ALT_NAME = '2.5.29.17'

/** As the Web Cryptography API names it; Ed25519 has no hash, and only RSA-PSS a salt. */
interface SignatureAlgorithm {
  readonly name: string
  readonly hash?: { readonly name: string }
  readonly saltLength?: number
}

/**
 * Reads a PKCS#10 request, in PEM or DER, and verifies that its own key signed it. Of the
 * extensions only the names count. The library behind it is loaded with the first call.
 *
 * @throws PkiError `PKI_CSR_INVALID`, `PKI_CSR_SIGNATURE`, `PKI_KEY_WEAK`
 */
export async function parseCsr(input: string | Uint8Array): Promise<CertificateRequest> {
  await import('reflect-metadata')
  const { Pkcs10CertificateRequest } = await import('@peculiar/x509')
  const { der, csr, names, key, signed } = orInvalid(() => {
    const request = readRequest(input)
    const csr = new Pkcs10CertificateRequest(request.raw)
    const spki = Buffer.from(csr.publicKey.rawData)
    const key = createPublicKey({ key: spki, type: 'spki', format: 'der' })
    const signed = children(request)[0]?.raw ?? fail('it is empty')
    return { der: request.raw, csr, names: namesOf(csr), key, signed }
  })
  const keyType = keyTypeOf(key)
  const spki = key.export({ type: 'spki', format: 'der' })
  if (spki.length < (UNCOMPRESSED_BYTES[keyType] ?? 0))
    throw new PkiError('PKI_KEY_WEAK', 'the public key is a compressed point')
  if (!isSigned(signed, csr, key))
    throw new PkiError('PKI_CSR_SIGNATURE', 'the signature is not by the key in the request')
  return { der, spki, spkiSha256: hash('sha256', spki), keyType, names }
}

function readRequest(input: string | Uint8Array): Element {
  if (input.length > MAX_LENGTH) fail('it is too large')
  // keytool and older programs say NEW.
  const [der = Buffer.alloc(0), ...more] =
    typeof input === 'string'
      ? fromPem(input.replaceAll(' NEW CERT', ' CERT'), 'CERTIFICATE REQUEST')
      : [Buffer.from(input)]
  const [request, ...others] = readAll(der)
  if (!request || more.length > 0 || others.length > 0) fail('there is more than one request')
  return request
}

function namesOf(csr: Pkcs10CertificateRequest): Name[] {
  const extensions = csr.getExtensions(SUBJECT_ALT_NAME)
  if (csr.getAttributes(EXTENSION_REQUEST).length > 1 || extensions.length > 1)
    fail('it asks for names twice')
  const altNames = extensions.flatMap(({ value }) => children(readAll(Buffer.from(value))[0]))
  if (altNames.length > MAX_NAMES) fail(`it asks for more than ${MAX_NAMES} names`)
  const names = [
    ...altNames.map(readGeneralName),
    ...csr.subjectName.getField('CN').flatMap(nameOrNone),
  ]
  return [...new Map(names.map((name) => [name.text, name])).values()]
}

function nameOrNone(text: string): Name | [] {
  try {
    return parseName(text)
  } catch {
    return []
  }
}

/** By OpenSSL over the bytes that came: the library's own check takes signatures that are no DER. */
function isSigned(signed: Buffer, csr: Pkcs10CertificateRequest, key: KeyObject): boolean {
  try {
    const { name, hash, saltLength } = csr.signatureAlgorithm as SignatureAlgorithm
    const padding = name === 'RSA-PSS' ? constants.RSA_PKCS1_PSS_PADDING : undefined
    const signature = Buffer.from(csr.signature)
    return verify(hash?.name, signed, { key, padding, saltLength }, signature)
  } catch {
    return false
  }
}

function fail(why: string): never {
  throw new PkiError('PKI_CSR_INVALID', why)
}

/** Whatever the libraries throw over bytes that are no request. */
function orInvalid<T>(read: () => T): T {
  try {
    return read()
  } catch (cause) {
    const why = cause instanceof PkiError ? cause.message : 'it is not PKCS#10 with a usable key'
    throw new PkiError('PKI_CSR_INVALID', why, { cause })
  }
}

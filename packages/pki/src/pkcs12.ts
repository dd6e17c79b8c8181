// PKCS#12 (RFC 7292): PBES2 (RFC 8018) with AES-256, and a MAC by HMAC-SHA-256.
import { createCipheriv, createHmac, hash, pbkdf2Sync } from 'node:crypto'
import {
  context,
  contextPrimitive,
  type Der,
  element,
  encode,
  integer,
  type Node,
  NULL,
  octets,
  oid,
  sequence,
  set,
} from './der.ts'

/** Of each derivation: five times as many as keytool's. */
const ITERATIONS = 50_000
const KEY_SIZE = 32
const SALT_SIZE = 16

const PKCS7_DATA = oid('1.2.840.113549.1.7.1')
const PKCS7_ENCRYPTED_DATA = oid('1.2.840.113549.1.7.6')
const SHROUDED_KEY_BAG = oid('1.2.840.113549.1.12.10.1.2')
const CERTIFICATE_BAG = oid('1.2.840.113549.1.12.10.1.3')
const X509_CERTIFICATE = oid('1.2.840.113549.1.9.22.1')
const FRIENDLY_NAME = oid('1.2.840.113549.1.9.20')
const LOCAL_KEY_ID = oid('1.2.840.113549.1.9.21')
const PBES2 = oid('1.2.840.113549.1.5.13')
const PBKDF2 = oid('1.2.840.113549.1.5.12')
const HMAC_SHA256 = sequence(oid('1.2.840.113549.2.9'), NULL)
const AES_256_CBC = oid('2.16.840.1.101.3.4.1.42')
const SHA256 = sequence(oid('2.16.840.1.101.3.4.2.1'), NULL)
/** With it, Java takes a certificate without a private key as trusted, here for any purpose, as keytool writes it. */
const TRUSTED_KEY_USAGE = oid('2.16.840.1.113894.746875.1.1')
const ANY_PURPOSE = oid('2.5.29.37.0')

interface Keystore {
  /** PKCS#8, DER. */
  readonly privateKey: Uint8Array
  /** DER, as all certificates here. */
  readonly certificate: Uint8Array
  /** The certificates that lead from this one to a root. */
  readonly chain: readonly Uint8Array[]
  /** Printable ASCII: programs disagree about the encoding of anything else. */
  readonly password: string
  /** The alias that Java shows. */
  readonly friendlyName: string
}

interface Truststore extends Pick<Keystore, 'password'> {
  readonly roots: readonly Uint8Array[]
}

/**
 * Writes a private key with its certificate and chain as PKCS#12. The same input gives the same bytes, so that what is
 * up to date can be told by comparing it: salts are digests of what they protect.
 */
export function createPkcs12(keystore: Keystore): Buffer {
  const { privateKey, certificate, chain, password, friendlyName } = keystore
  const attributes = [
    nameAttribute(friendlyName),
    attribute(LOCAL_KEY_ID, octets(hash('sha256', certificate, 'buffer'))),
  ]
  const { algorithm, ciphertext } = encrypt(privateKey, password)
  const keyBag = bag(SHROUDED_KEY_BAG, sequence(algorithm, octets(ciphertext)), attributes)
  const certificateBags = [
    certificateBag(certificate, attributes),
    ...chain.map((der) => certificateBag(der, [])),
  ]
  const keys = contentInfo(PKCS7_DATA, octets(sequence(keyBag)))
  return seal([keys, encryptedContent(certificateBags, password)], password)
}

/** Writes roots as PKCS#12, as a truststore of Java. The alias of each is its SHA-256. The same input gives the same bytes. */
export function createTruststore({ roots, password }: Truststore): Buffer {
  const usage = attribute(TRUSTED_KEY_USAGE, ANY_PURPOSE)
  const bags = roots.map((root) =>
    certificateBag(root, [nameAttribute(hash('sha256', root)), usage]),
  )
  return seal([encryptedContent(bags, password)], password)
}

const contentInfo = (type: Buffer, content: Der) => sequence(type, context(0, content))

const attribute = (type: Buffer, value: Der) => encode(sequence(type, set(value)))

const nameAttribute = (name: string) => attribute(FRIENDLY_NAME, element(0x1e, bmpText(name)))

function bag(type: Buffer, value: Der, attributes: readonly Buffer[]): Node {
  const sorted = attributes.toSorted(Buffer.compare)
  return sequence(type, context(0, value), ...(sorted.length > 0 ? [set(...sorted)] : []))
}

const certificateBag = (der: Uint8Array, attributes: readonly Buffer[]) =>
  bag(CERTIFICATE_BAG, sequence(X509_CERTIFICATE, context(0, octets(der))), attributes)

function encryptedContent(bags: readonly Node[], password: string): Node {
  const { algorithm, ciphertext } = encrypt(encode(sequence(...bags)), password)
  const content = sequence(PKCS7_DATA, algorithm, contextPrimitive(0, ciphertext))
  return contentInfo(PKCS7_ENCRYPTED_DATA, sequence(integer(0), content))
}

/** Encrypts by a key of its own for each plaintext, since salt and initialization vector are its digest. */
function encrypt(plaintext: Uint8Array, password: string) {
  const digest = hash('sha256', plaintext, 'buffer')
  const [salt, iv] = [digest.subarray(0, SALT_SIZE), digest.subarray(SALT_SIZE)]
  const key = pbkdf2Sync(password, salt, ITERATIONS, KEY_SIZE, 'sha256')
  const cipher = createCipheriv('aes-256-cbc', key, iv)
  const derivation = sequence(octets(salt), integer(ITERATIONS), integer(KEY_SIZE), HMAC_SHA256)
  const encryption = sequence(AES_256_CBC, octets(iv))
  return {
    algorithm: sequence(PBES2, sequence(sequence(PBKDF2, derivation), encryption)),
    ciphertext: Buffer.concat([cipher.update(plaintext), cipher.final()]),
  }
}

/** The PFX of these contents, with the MAC that tells a wrong password. */
function seal(contents: readonly Node[], password: string): Buffer {
  const safe = encode(sequence(...contents))
  const salt = hash('sha256', safe, 'buffer').subarray(0, SALT_SIZE)
  const mac = createHmac('sha256', macKey(password, salt)).update(safe).digest()
  return encode(
    sequence(
      integer(3),
      contentInfo(PKCS7_DATA, octets(safe)),
      sequence(sequence(SHA256, octets(mac)), octets(salt), integer(ITERATIONS)),
    ),
  )
}

const HASH_BLOCK = 64
/** The derivation of a key for a MAC, in contrast to one for encryption. */
const MAC_ID = 3

/** RFC 7292 appendix B.2, whose first block is all of a key for HMAC-SHA-256. */
function macKey(password: string, salt: Buffer): Buffer {
  const blocks = (bytes: Buffer) =>
    Buffer.alloc(HASH_BLOCK * Math.ceil(bytes.length / HASH_BLOCK), bytes)
  const text = bmpText(`${password}\0`)
  let key = Buffer.concat([Buffer.alloc(HASH_BLOCK, MAC_ID), blocks(salt), blocks(text)])
  for (let round = 0; round < ITERATIONS; round++) key = hash('sha256', key, 'buffer')
  return key
}

/** UTF-16, big-endian. */
const bmpText = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16()

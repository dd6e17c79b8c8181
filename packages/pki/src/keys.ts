import {
  createECDH,
  createPrivateKey,
  createPublicKey,
  generateKeyPair as generateKeyPairCallback,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import { promisify } from 'node:util'
import { attempt } from '@gatehouse/net'
import { PkiError } from './errors.ts'

export const KEY_TYPES = ['p256', 'p384', 'rsa2048', 'rsa3072', 'rsa4096', 'ed25519'] as const
export type KeyType = (typeof KEY_TYPES)[number]

/** A private key and its public half. */
export interface KeyPair {
  readonly type: KeyType
  readonly privateKey: KeyObject
  /** SubjectPublicKeyInfo, DER. */
  readonly spki: Buffer
  /** PKCS#8, DER, not encrypted. */
  readonly pkcs8: Buffer
}

// The constant bytes of an encoded P-256 key: OpenSSL takes longer to encode a key than to make one.
const P256_SPKI = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex')
const P256_PKCS8 = Buffer.from(
  '308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420',
  'hex',
)
const P256_PKCS8_POINT = Buffer.from('a144034200', 'hex')

const p256 = createECDH('prime256v1')

/** Generates a P-256 key pair synchronously. */
export function generateP256(): KeyPair {
  const secret = pickSecret()
  const point = p256.getPublicKey()
  const pkcs8 = Buffer.concat([P256_PKCS8, secret, P256_PKCS8_POINT, point])
  let privateKey: KeyObject | undefined
  return {
    type: 'p256',
    spki: Buffer.concat([P256_SPKI, point]),
    pkcs8,
    get privateKey() {
      privateKey ??= createPrivateKey({ key: pkcs8, type: 'pkcs8', format: 'der' })
      return privateKey
    },
  }
}

/** Picks a secret by rejection sampling (FIPS 186-5 section A.2.2): one in 2^32 numbers is not a valid secret. */
function pickSecret(): Buffer {
  for (;;) {
    const secret = randomBytes(32)
    try {
      p256.setPrivateKey(secret)
      return secret
    } catch {}
  }
}

const RSA_AT_ONCE = 2
const RSA_WAITING = 16
const generate = promisify(generateKeyPairCallback)

/**
 * Generates a key pair. An RSA key can take seconds, so at most two are generated at a time and 16
 * more wait.
 * @throws PkiError `PKI_KEY_QUEUE_FULL`
 */
export async function generateKeyPair(type: KeyType): Promise<KeyPair> {
  return type === 'p256' ? generateP256() : keyPairOf((await generateKeys(type)).privateKey)
}

function generateKeys(type: Exclude<KeyType, 'p256'>) {
  if (type === 'p384') return generate('ec', { namedCurve: 'P-384' })
  if (type === 'ed25519') return generate('ed25519')
  const modulusLength = Number(type.slice('rsa'.length))
  return inRsaTurn(() => generate('rsa', { modulusLength }))
}

let rsaRunning = 0
const rsaWaiting: (() => void)[] = []

async function inRsaTurn<T>(make: () => Promise<T>): Promise<T> {
  if (rsaRunning < RSA_AT_ONCE) rsaRunning++
  else if (rsaWaiting.length < RSA_WAITING) await new Promise<void>((go) => rsaWaiting.push(go))
  else throw new PkiError('PKI_KEY_QUEUE_FULL', `${RSA_WAITING} RSA keys are waiting to be made`)
  try {
    return await make()
  } finally {
    const next = rsaWaiting.shift()
    if (next) next()
    else rsaRunning--
  }
}

/**
 * Parses an unencrypted private key: PKCS#8, SEC 1 or PKCS#1.
 * @throws PkiError `PKI_KEY_INVALID`, `PKI_KEY_WEAK`
 */
export function keyPairFromPem(pem: string): KeyPair {
  // OpenSSL's error may quote the key, so it is not passed on as the cause.
  const key = attempt(() => createPrivateKey(pem))
  if (key) return keyPairOf(key)
  throw new PkiError('PKI_KEY_INVALID', 'the private key cannot be read, or is encrypted')
}

// By the details that node:crypto gives: kind and curve, or modulus length and exponent.
const TYPE_OF_KIND: ReadonlyMap<string, KeyType> = new Map([
  ['ec prime256v1', 'p256'],
  ['ec secp384r1', 'p384'],
  ['rsa 2048 65537', 'rsa2048'],
  ['rsa 3072 65537', 'rsa3072'],
  ['rsa 4096 65537', 'rsa4096'],
  ['ed25519', 'ed25519'],
])

/** The type of a public or private key. */
export function keyTypeOf(key: KeyObject): KeyType {
  const { namedCurve, modulusLength, publicExponent } = key.asymmetricKeyDetails ?? {}
  const kind = [key.asymmetricKeyType, namedCurve, modulusLength, publicExponent]
    .filter((part) => part !== undefined)
    .join(' ')
  const type = TYPE_OF_KIND.get(kind)
  if (!type) throw new PkiError('PKI_KEY_WEAK', `a key of kind "${kind}" is not accepted`)
  return type
}

/** A public key; `spki` is in OpenSSL's encoding. */
export type PublicKey = Pick<KeyPair, 'type' | 'spki'>

/** The kinds of keys with a single encoding: its length, and the bytes before the key itself. */
const ENCODINGS: readonly [type: KeyType, length: number, prefix: Buffer][] = [
  ['p256', 91, Buffer.concat([P256_SPKI, Buffer.of(4)])],
  ['p384', 120, Buffer.from('3076301006072a8648ce3d020106052b8104002203620004', 'hex')],
  ['ed25519', 44, Buffer.from('302a300506032b6570032100', 'hex')],
]

/**
 * Reads the type of a SubjectPublicKeyInfo in DER. A key of a kind with a single encoding is not
 * decoded, because OpenSSL takes as long for that as for verifying a signature. Whether a point lies
 * on its curve is therefore checked only when a signature is verified.
 */
export function readPublicKey(der: Buffer): PublicKey {
  const encoding = ENCODINGS.find(
    ([, length, prefix]) => der.length === length && prefix.equals(der.subarray(0, prefix.length)),
  )
  if (encoding) return { type: encoding[0], spki: der }
  const key = decodePublicKey(der)
  const type = keyTypeOf(key)
  if (key.asymmetricKeyType === 'ec')
    throw new PkiError('PKI_KEY_WEAK', 'the public key is not an uncompressed point')
  return { type, spki: key.export({ type: 'spki', format: 'der' }) }
}

/** @throws PkiError `PKI_KEY_INVALID` */
export function decodePublicKey(der: Buffer): KeyObject {
  const key = attempt(() => createPublicKey({ key: der, type: 'spki', format: 'der' }))
  if (key) return key
  throw new PkiError('PKI_KEY_INVALID', 'the public key cannot be read')
}

function keyPairOf(privateKey: KeyObject): KeyPair {
  return {
    type: keyTypeOf(privateKey),
    privateKey,
    spki: createPublicKey(privateKey).export({ type: 'spki', format: 'der' }),
    pkcs8: privateKey.export({ type: 'pkcs8', format: 'der' }),
  }
}

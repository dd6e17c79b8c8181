import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import { isObject } from '@gatehouse/net'
import { LRUCache } from 'lru-cache'
import { algorithmOf, publicJwk, thumbprintOf } from '../protocol/jws.ts'
import { AcmeProblem } from './problems.ts'

/** A public key of an accepted type. */
export interface PublicKey {
  readonly key: KeyObject
  /** The only algorithm of its signatures. */
  readonly alg: string
  /** base64url of SHA-256 (RFC 7638). */
  readonly thumbprint: string
  /** The public JWK in canonical JSON, to store. */
  readonly jwk: string
}

/** The keys of stored accounts alone, so that unknown clients cannot displace them. */
const stored = new LRUCache<string, PublicKey>({
  max: 1_000,
  memoMethod: (jwk) => readJwk(JSON.parse(jwk)),
})

/**
 * Reads a public JWK: P-256, P-384, Ed25519, or RSA of 2048 to 4096 bits with the exponent 65537. The
 * stored text of a key is cached.
 *
 * @throws AcmeProblem `badPublicKey`
 */
export const readPublicKey = (jwk: unknown): PublicKey =>
  typeof jwk === 'string' ? stored.memo(jwk) : readJwk(jwk)

const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']
/** Characters: the modulus of an RSA key of 4096 bits. */
const MAX_MEMBER = 683

/** Reads the JWK of a stranger, which must be an object. @throws AcmeProblem `badPublicKey` */
export function readJwk(jwk: unknown): PublicKey {
  if (!isObject(jwk)) throw badKey('is not an object')
  if (PRIVATE_MEMBERS.some((name) => name in jwk)) throw badKey('is not public: make another one')
  const { crv, e, kty, n, x, y } = jwk
  const members = { crv, e, kty, n, x, y }
  const isLong = (member: unknown) => typeof member === 'string' && member.length > MAX_MEMBER
  if (Object.values(members).some(isLong)) throw badKey('is too long')
  const key = importKey(members)
  const exported = publicJwk(key)
  const alg = algorithmOf(exported)
  if (alg === undefined || (alg === 'RS256' && !isSafeRsa(key, exported.n)))
    throw badKey('must be P-256, P-384, Ed25519, or RSA of 2048 to 4096 bits with exponent 65537')
  const text = JSON.stringify(exported)
  // Another spelling would have another thumbprint at the client.
  if (text !== JSON.stringify(members)) throw badKey('is not in its canonical form')
  return { key, alg, thumbprint: thumbprintOf(text), jwk: text }
}

function importKey(jwk: object): KeyObject {
  try {
    return createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' })
  } catch (cause) {
    throw badKey('cannot be read', { cause })
  }
}

function isSafeRsa({ asymmetricKeyDetails }: KeyObject, modulus = ''): boolean {
  const { modulusLength = 0, publicExponent } = asymmetricKeyDetails ?? {}
  const isOdd = ((Buffer.from(modulus, 'base64url').at(-1) ?? 0) & 1) === 1
  return modulusLength >= 2_048 && modulusLength <= 4_096 && publicExponent === 65_537n && isOdd
}

const badKey = (why: string, options?: ErrorOptions): AcmeProblem =>
  new AcmeProblem('badPublicKey', `the key ${why}`, options)

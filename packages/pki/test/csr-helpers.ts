// Makes certificate requests, well-formed or not.
import { createPublicKey, type KeyObject, type SigningOptions, sign } from 'node:crypto'
import {
  bits,
  context,
  contextPrimitive,
  type Der,
  encode,
  integer,
  NULL,
  octets,
  oid,
  sequence,
  set,
  utf8,
} from '../src/der.ts'
import { generateP256 } from '../src/index.ts'

export const SAN = oid('2.5.29.17')
export const EXTENSION_REQUEST = oid('1.2.840.113549.1.9.14')
const ALGORITHMS: Record<string, [Der, string | null]> = {
  ec: [sequence(oid('1.2.840.10045.4.3.2')), 'sha256'],
  rsa: [sequence(oid('1.2.840.113549.1.1.11'), NULL), 'sha256'],
  ed25519: [sequence(oid('1.3.101.112')), null],
}

export const dns = (name: string) => contextPrimitive(2, name)
export const san = (...names: Der[]) => sequence(SAN, octets(sequence(...names)))
export const requested = (...extensions: Der[]) =>
  sequence(EXTENSION_REQUEST, set(sequence(...extensions)))
export const commonName = (text: string) => sequence(set(sequence(oid('2.5.4.3'), utf8(text))))

export interface Request {
  key?: KeyObject
  spki?: Uint8Array
  subject?: Der
  attributes?: Der[]
  /** What follows the key: the list of attributes. */
  lists?: Der[]
  signer?: KeyObject
  version?: number
  /** AlgorithmIdentifier and digest; by the key unless said. */
  algorithm?: readonly [algorithm: Der, digest: string | null, options?: SigningOptions] | undefined
}

export const pair = generateP256()

/** A request in DER, well-formed or not. */
export function request({
  key = pair.privateKey,
  subject = sequence(),
  attributes = [],
  lists = [context(0, ...attributes)],
  version = 0,
  ...rest
}: Request): Buffer {
  const spki = rest.spki ?? createPublicKey(key).export({ type: 'spki', format: 'der' })
  const info = encode(sequence(integer(version), subject, spki, ...lists))
  const [algorithm, digest, options] = rest.algorithm ??
    ALGORITHMS[key.asymmetricKeyType ?? ''] ?? [sequence(oid('1.2.3')), 'sha256']
  const signature = sign(digest, info, { key: rest.signer ?? key, ...options })
  return encode(sequence(info, algorithm, bits(signature)))
}

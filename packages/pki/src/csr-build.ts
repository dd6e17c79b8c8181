import { sign } from 'node:crypto'
import { bits, context, encode, integer, oid, sequence, set } from './der.ts'
import { subjectAltName } from './extensions.ts'
import type { KeyPair } from './keys.ts'
import type { Name } from './names.ts'
import { algorithmFor } from './signer.ts'

const EXTENSION_REQUEST = oid('1.2.840.113549.1.9.14')
const VERSION_1 = integer(0)
const ED25519 = encode(sequence(oid('1.3.101.112')))

/**
 * A PKCS#10 request (RFC 2986), DER, that asks for those names in the subject alternative name and
 * for nothing else; its subject is empty.
 */
export function buildCsr({ type, privateKey, spki }: KeyPair, names: readonly Name[]): Buffer {
  const extensions = sequence(subjectAltName(names, false))
  const attributes = context(0, sequence(EXTENSION_REQUEST, set(extensions)))
  const info = encode(sequence(VERSION_1, sequence(), spki, attributes))
  const [algorithm, digest] = type === 'ed25519' ? [ED25519, null] : algorithmFor(privateKey)
  return encode(sequence(info, algorithm, bits(sign(digest, info, privateKey))))
}

import { createSerial } from './certificate.ts'
import { encode, octets, oid } from './der.ts'
import { criticalExtension, keyIdentifier, subjectAltName } from './extensions.ts'
import type { KeyPair } from './keys.ts'
import type { Name } from './names.ts'
import { createSigner, distinguishedName, signCertificate } from './signer.ts'

const ACME_IDENTIFIER = oid('1.3.6.1.5.5.7.1.31')
const COMMON_NAME = 'ACME challenge'
const HOUR = 3_600_000

/**
 * The certificate that answers a tls-alpn-01 challenge (RFC 8737 section 3), DER: signed by its own
 * key, and good for that name only.
 *
 * @throws PkiError `PKI_KEY_WEAK` for an Ed25519 key
 */
export function createAcmeAlpnCertificate(certificate: {
  readonly name: Name
  /** SHA-256 of the key authorization. */
  readonly digest: Uint8Array
  readonly key: KeyPair
  /** Milliseconds since the epoch. */
  readonly now: number
}): Buffer {
  const { name, digest, key, now } = certificate
  const subject = distinguishedName(COMMON_NAME)
  const signer = createSigner(encode(subject), keyIdentifier(key.spki), key.privateKey)
  return signCertificate(signer, {
    serial: createSerial(now),
    subject,
    spki: key.spki,
    notBefore: now - HOUR,
    notAfter: now + HOUR,
    extensions: [subjectAltName([name], false), criticalExtension(ACME_IDENTIFIER, octets(digest))],
  })
}

import { type Authority, signerOf } from './authority.ts'
import { encode } from './der.ts'
import { PkiError } from './errors.ts'
import {
  authorityKeyId,
  crlDistributionPoint,
  keyIdentifier,
  leafKeyUsage,
  serverAuth,
  subjectAltName,
  subjectKeyId,
} from './extensions.ts'
import type { KeyType } from './keys.ts'
import type { Name } from './names.ts'
import { distinguishedName, signCertificate } from './signer.ts'

/** What a leaf is to say. */
export interface Leaf {
  /** SubjectPublicKeyInfo, DER. */
  readonly spki: Uint8Array
  readonly keyType: KeyType
  /** At least one. */
  readonly names: readonly Name[]
  /** Epoch milliseconds; both as `clampValidity` gives them. */
  readonly notBefore: number
  readonly notAfter: number
  /** As `createSerial` gives it. */
  readonly serial: Uint8Array
}

/** Signs leaves; `sign` gives DER. */
export interface LeafSigner {
  sign(leaf: Leaf): Buffer
}

/**
 * Makes what signs TLS server certificates. Whatever is the same in all of them is encoded once.
 *
 * The common name is the first DNS name of at most 64 characters, for people to read; without one
 * the subject is empty. Software goes by the subject alternative name, which is always there.
 *
 * @throws PkiError `PKI_CA_KEY_MISSING`
 */
export function createLeafSigner(
  authority: Authority,
  { crlUrl }: { readonly crlUrl?: string } = {},
): LeafSigner {
  const signer = signerOf(authority)
  const constant = (rsa: boolean) =>
    Buffer.concat(
      [
        leafKeyUsage(rsa),
        serverAuth(),
        authorityKeyId(signer.keyId),
        ...(crlUrl ? [crlDistributionPoint(crlUrl)] : []),
      ].map(encode),
    )
  const forRsa = constant(true)
  const forOthers = constant(false)

  return {
    sign({ spki, keyType, names, notBefore, notAfter, serial }) {
      if (names.length === 0) throw new PkiError('PKI_NAME_INVALID', 'a certificate needs a name')
      const commonName = names.find(({ ip, text }) => !ip && text.length <= 64)?.text
      return signCertificate(signer, {
        serial,
        subject: distinguishedName(commonName),
        spki,
        notBefore,
        notAfter,
        extensions: [
          keyType.startsWith('rsa') ? forRsa : forOthers,
          subjectKeyId(keyIdentifier(spki)),
          subjectAltName(names, commonName === undefined),
        ],
      })
    },
  }
}

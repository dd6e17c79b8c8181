import { createPkcs12, createTruststore, fromPem } from '@gatehouse/pki'
import type { Pair } from './certificate.ts'
import { readSecret } from './credentials.ts'
import type { Roots } from './roots.ts'

/** Java takes no other characters. */
const PRINTABLE_ASCII = /^[ -~]+$/
export const TRUSTSTORE = 'truststore.p12'

export interface Pkcs12Options {
  /** The file with the password, which is read each time. */
  readonly passwordFile: string
  /** The alias that Java shows. */
  readonly friendlyName: string
  /** The roots for the truststore; undefined if they are not known. */
  readonly roots: Roots | undefined
}

/**
 * Makes the PKCS#12 files of a pair, if they are asked for: a keystore of that name, and a truststore of the roots. The
 * same pair, password and roots give the same bytes.
 * @throws ClientError CERT_CLIENT_CREDENTIALS, CERT_CLIENT_UNTRUSTED
 */
export function pkcs12Files(
  { privateKey, fullChain }: Pair,
  keystore: string,
  options?: Pkcs12Options,
): readonly (readonly [file: string, content: Buffer])[] {
  if (!options) return []
  const { passwordFile, friendlyName, roots } = options
  const password = readPassword(passwordFile)
  const [key] = fromPem(privateKey) as [Buffer]
  const [certificate, ...chain] = fromPem(fullChain) as [Buffer]
  const bundle = createPkcs12({ privateKey: key, certificate, chain, password, friendlyName })
  if (!roots) return [[keystore, bundle]]
  const truststore = createTruststore({ roots: roots().map(({ raw }) => raw), password })
  return [
    [keystore, bundle],
    [TRUSTSTORE, truststore],
  ]
}

/** Reads the password of PKCS#12 files. @throws ClientError CERT_CLIENT_CREDENTIALS */
export const readPassword = (file: string): string => readSecret({ file }, PRINTABLE_ASCII)

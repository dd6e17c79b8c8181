import { createPkcs12, createTruststore, fromPem } from '@gatehouse/pki'
import type { Pair } from './certificate.ts'
import { readSecret } from './credentials.ts'

/** Java takes no other characters. */
const PRINTABLE_ASCII = /^[ -~]+$/
export const TRUSTSTORE = 'truststore.p12'

export interface CompanionOptions {
  /** Finds the roots of a chain, PEM; undefined if there are none, or if they are not known now. */
  readonly rootsOf?: ((fullChain: string) => string | undefined) | undefined
  /** Asks for PKCS#12 files. */
  readonly pkcs12?: Pkcs12Options | undefined
}

export interface Pkcs12Options {
  /** The file with the password, which is read each time. */
  readonly passwordFile: string
  /** The alias that Java shows. */
  readonly friendlyName: string
}

/**
 * Makes the files beside a private key and its chain: the roots, and if they are asked for, a keystore and a truststore
 * of the roots in PKCS#12. The same pair, password and roots give the same bytes.
 * @throws ClientError CERT_CLIENT_CREDENTIALS
 */
export function companionFiles(
  { privateKey, fullChain }: Pair,
  names: { readonly roots: string; readonly keystore: string },
  { rootsOf, pkcs12 }: CompanionOptions,
): readonly (readonly [file: string, content: Buffer])[] {
  const pem = rootsOf?.(fullChain)
  const files: [string, Buffer][] = pem === undefined ? [] : [[names.roots, Buffer.from(pem)]]
  if (!pkcs12) return files
  const { passwordFile, friendlyName } = pkcs12
  const password = readPassword(passwordFile)
  const [key] = fromPem(privateKey) as [Buffer]
  const [certificate, ...chain] = fromPem(fullChain) as [Buffer]
  const bundle = createPkcs12({ privateKey: key, certificate, chain, password, friendlyName })
  files.push([names.keystore, bundle])
  if (pem !== undefined)
    files.push([TRUSTSTORE, createTruststore({ roots: fromPem(pem), password })])
  return files
}

/** Reads the password of PKCS#12 files. @throws ClientError CERT_CLIENT_CREDENTIALS */
export const readPassword = (file: string): string => readSecret({ file }, PRINTABLE_ASCII)

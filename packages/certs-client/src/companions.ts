import { createPkcs12, createTruststore, fromPem } from '@gatehouse/pki'
import type { Pair } from './certificate.ts'
import { readSecret } from './credentials.ts'

/** Java takes no other characters. */
const PRINTABLE_ASCII = /^[ -~]+$/
export const TRUSTSTORE = 'truststore.p12'

interface CompanionNames {
  readonly roots: string
  readonly keystore: string
}

interface ChainRoots {
  /** Finds the roots of a chain, PEM; undefined if it leads to none. */
  find(fullChain: string): string | undefined
  /** Whether the service has named its roots. */
  areNamed(): boolean
}

export interface CompanionOptions {
  /** Absent where the roots of the system are trusted. */
  readonly chainRoots?: ChainRoots | undefined
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
  names: CompanionNames,
  { chainRoots, pkcs12 }: CompanionOptions,
): readonly (readonly [file: string, content: Buffer])[] {
  const pem = chainRoots?.find(fullChain)
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

/**
 * Whether the files beside a certificate have the password and the roots of now. If the service has not named its
 * roots, those that are in place count, so that they do not change with each failure.
 * @throws ClientError CERT_CLIENT_CREDENTIALS
 */
export function hasCompanions(
  pair: Pair,
  names: CompanionNames,
  options: CompanionOptions,
  read: (file: string) => Buffer | undefined,
): boolean {
  const unsure = options.chainRoots?.areNamed() === false ? [names.roots, TRUSTSTORE] : []
  return companionFiles(pair, names, options).every(([file, content]) => {
    const current = read(file)
    return current !== undefined && (unsure.includes(file) || current.equals(content))
  })
}

/** Reads the password of PKCS#12 files. @throws ClientError CERT_CLIENT_CREDENTIALS */
export const readPassword = (file: string): string => readSecret({ file }, PRINTABLE_ASCII)

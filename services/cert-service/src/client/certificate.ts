import { type KeyObject, X509Certificate } from 'node:crypto'
import { hasBegun, toTime } from '@gatehouse/issuance/times'
import {
  fromPem,
  type KeyPair,
  type KeyType,
  keyPairFromPem,
  type Name,
  parseCertificate,
  toPem,
} from '@gatehouse/pki'
import { ClientError } from './errors.ts'

const MAX_CHAIN = 10

/** A certificate with its private key, both checked against each other. */
export interface Pair {
  /** The names of the certificate, sorted. */
  readonly names: readonly string[]
  readonly keyType: KeyType
  /** Hexadecimal, lower case. */
  readonly serialNumber: string
  readonly fingerprint256: string
  /** Epoch milliseconds. */
  readonly notBefore: number
  readonly notAfter: number
  /** PKCS#8 in PEM. */
  readonly privateKey: string
  /** PEM, leaf first. */
  readonly fullChain: string
}

/** A pair that is in place, or about to be. */
export interface Held extends Pair {
  /** When the service renews it, in epoch milliseconds; undefined if it does not say. */
  readonly renewAt: number | undefined
}

/** What is wanted: one certificate for all of these names. */
export interface Wanted {
  /** The first is its domain; no name twice. */
  readonly names: readonly Name[]
  /** Undefined: whichever the issuer prefers. */
  readonly keyType: KeyType | undefined
}

/**
 * Reads a private key and a chain that belong together. The PEM that it gives is written anew, so that
 * nothing else of the input reaches a file.
 * @param key - the private key if it is not in PEM yet
 * @throws ClientError CERT_CLIENT_CERTIFICATE_INVALID
 */
export function readPair(chainPem: string, key: string | KeyPair): Pair {
  try {
    const { type, privateKey, pkcs8 } = typeof key === 'string' ? keyPairFromPem(key) : key
    const ders = fromPem(chainPem, 'CERTIFICATE')
    const [leaf] = ders
    if (!leaf || ders.length > MAX_CHAIN)
      throw new Error(`the chain has ${ders.length} certificates`)
    checkChain(ders, privateKey)
    const { names, serialNumber, fingerprint256, notBefore, notAfter } = parseCertificate(leaf)
    return {
      names: names.map(({ text }) => text).sort(),
      keyType: type,
      ...{ serialNumber, fingerprint256, notBefore, notAfter },
      privateKey: toPem('PRIVATE KEY', pkcs8),
      fullChain: ders.map((der) => toPem('CERTIFICATE', der)).join(''),
    }
  } catch (cause) {
    throw invalid((cause as Error).message, cause)
  }
}

function checkChain(ders: readonly Uint8Array[], privateKey: KeyObject): void {
  const chain = ders.map((der) => new X509Certificate(der))
  const [leaf] = chain
  if (!leaf?.checkPrivateKey(privateKey))
    throw new Error('the private key is not that of the certificate')
  for (const [at, certificate] of chain.entries()) {
    const issuer = chain[at + 1]
    if (issuer && !(certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)))
      throw new Error(`certificate ${at + 1} of the chain is not signed by the next one`)
  }
}

/**
 * Refuses a pair that is not what was asked for, or not valid now.
 * @throws ClientError CERT_CLIENT_CERTIFICATE_INVALID
 */
export function requireUsable(pair: Pair, wanted: Wanted, now: number): void {
  const missing = wanted.names.find(({ text }) => !pair.names.includes(text))
  if (missing) throw invalid(`the certificate is not for ${missing.text}`)
  if (wanted.keyType !== undefined && pair.keyType !== wanted.keyType)
    throw invalid(`its key is of type ${pair.keyType} instead of ${wanted.keyType}`)
  if (pair.notAfter <= now) throw invalid(`it expired at ${toTime(pair.notAfter)}`)
  if (!hasBegun(pair, now)) throw invalid(`it is not valid before ${toTime(pair.notBefore)}`)
}

/** Whether a pair is for exactly these names, with the key type that is asked for, if any. */
export function fits(pair: Pick<Pair, 'names' | 'keyType'>, { names, keyType }: Wanted): boolean {
  const sorted = names.map(({ text }) => text).sort()
  const hasNames =
    sorted.length === pair.names.length && sorted.every((name, i) => name === pair.names[i])
  return hasNames && (keyType === undefined || keyType === pair.keyType)
}

function invalid(why: string, cause?: unknown): ClientError {
  return new ClientError('CERT_CLIENT_CERTIFICATE_INVALID', `the certificate was refused: ${why}`, {
    cause,
  })
}

/** Epoch milliseconds; undefined for a text that is no time. */
export function timeOf(text: string): number | undefined {
  const at = Date.parse(text)
  return Number.isFinite(at) ? at : undefined
}

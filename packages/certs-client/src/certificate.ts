import { type KeyObject, X509Certificate } from 'node:crypto'
import { toTime } from '@gatehouse/net'
import {
  BACKDATE,
  type CertificateInfo,
  fromPem,
  type KeyPair,
  type KeyType,
  keyPairFromPem,
  type Name,
  parseCertificate,
  toPem,
} from '@gatehouse/pki'
import { durationOf } from '@gatehouse/service-kit/config'
import { ClientError } from './errors.ts'

const MAX_CHAIN = 10
/** Clocks that are set differ by no more than this, in ms. */
const CLOCK_SKEW = 60_000

/** A certificate with its private key, both checked against each other. */
export interface Pair
  extends Pick<CertificateInfo, 'serialNumber' | 'fingerprint256' | 'notBefore' | 'notAfter'> {
  /** The names of the certificate, sorted. */
  readonly names: readonly string[]
  readonly keyType: KeyType
  /** PKCS#8 in PEM. */
  readonly privateKey: string
  /** PEM, leaf first. */
  readonly fullChain: string
}

/** A pair that is in place, or about to be. */
export interface Placed extends Pair {
  /** The time of its renewal by the service, in epoch milliseconds; undefined if that is unknown. */
  readonly renewAt: number | undefined
  /** Whether the private key was made here. */
  readonly isOwnKey: boolean
}

export interface CertificateRequest {
  /** The first is its domain; no name twice. */
  readonly names: readonly Name[]
  /** Undefined: whichever the issuer prefers. */
  readonly keyType: KeyType | undefined
  /** The longest that it may live, such as `6d`. Undefined: as long as the service decides. */
  readonly lifetime?: string | undefined
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
      serialNumber,
      fingerprint256,
      notBefore,
      notAfter,
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
  for (const [index, certificate] of chain.entries()) {
    const issuer = chain[index + 1]
    if (issuer && !(certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)))
      throw new Error(`certificate ${index + 1} of the chain is not signed by the next one`)
  }
}

/** Refuses a pair that is not what was asked for, or not valid now. @throws ClientError CERT_CLIENT_CERTIFICATE_INVALID */
export function requireUsable(pair: Pair, request: CertificateRequest, now: number): void {
  const missing = request.names.find(({ text }) => !pair.names.includes(text))
  if (missing) throw invalid(`the certificate is not for ${missing.text}`)
  if (request.keyType !== undefined && pair.keyType !== request.keyType)
    throw invalid(`its key is of type ${pair.keyType} instead of ${request.keyType}`)
  if (livesTooLong(pair, request))
    throw invalid(`it lives longer than asked, until ${toTime(pair.notAfter)}`)
  if (pair.notAfter <= now) throw invalid(`it expired at ${toTime(pair.notAfter)}`)
  if (pair.notBefore > now + CLOCK_SKEW)
    throw invalid(`it is not valid before ${toTime(pair.notBefore)}`)
}

/** Whether a pair is for exactly these names, with the key type and the lifetime that are asked for, if any. */
export function fits(
  pair: Pick<Pair, 'names' | 'keyType' | 'notBefore' | 'notAfter'>,
  request: CertificateRequest,
): boolean {
  const { names, keyType } = request
  const sorted = names.map(({ text }) => text).sort()
  const hasNames =
    sorted.length === pair.names.length && sorted.every((name, i) => name === pair.names[i])
  const hasKey = keyType === undefined || keyType === pair.keyType
  return hasNames && hasKey && !livesTooLong(pair, request)
}

function livesTooLong(
  { notBefore, notAfter }: Pick<Pair, 'notBefore' | 'notAfter'>,
  { lifetime = '' }: CertificateRequest,
): boolean {
  return notAfter - notBefore - BACKDATE > (durationOf(lifetime) ?? Infinity)
}

function invalid(why: string, cause?: unknown): ClientError {
  return new ClientError('CERT_CLIENT_CERTIFICATE_INVALID', `the certificate was refused: ${why}`, {
    cause,
  })
}

/** Reads a time as epoch milliseconds; undefined for a text that is none. */
export function timeOf(text: string): number | undefined {
  const ms = Date.parse(text)
  return Number.isFinite(ms) ? ms : undefined
}

/** Reads all certificates of a text, such as a file of roots. @throws PkiError, and the errors of node:crypto */
export function certificatesIn(pem: string): X509Certificate[] {
  return fromPem(pem, 'CERTIFICATE').map((der) => new X509Certificate(der))
}

/** The SHA-256 of a certificate, in lower-case hex. */
export function fingerprintOf({ fingerprint256 }: X509Certificate): string {
  return fingerprint256.replaceAll(':', '').toLowerCase()
}

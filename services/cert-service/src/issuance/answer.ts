import { hash } from 'node:crypto'
import { toPem } from '@gatehouse/pki'
import type { CertificateRecord } from '../store/store.ts'

/** A certificate that is held, with its answers made ready. */
export interface Held {
  readonly record: CertificateRecord
  /** Lower-case hexadecimal SHA-256 of the certificate. */
  readonly fingerprint256: string
  /** Leaf and intermediates in PEM. */
  readonly chain: string
  /** PKCS#8 in PEM; empty where the caller holds the key. */
  readonly privateKey: string
  /** Both in one. */
  readonly pem: string
  /** The body of an answer about `domain`, one of the certificate's names. */
  json(domain: string, cached: boolean, ignored?: readonly string[]): string
}

/** Makes the answers of a certificate and, where we hold it, its key (PKCS#8, DER). */
export function hold(record: CertificateRecord, key: Uint8Array | undefined): Held {
  const privateKey = key ? toPem('PRIVATE KEY', key) : ''
  const fingerprint256 = hash('sha256', record.certificate)
  const chain = [
    toPem('CERTIFICATE', record.certificate),
    ...record.chain.map(certificatePem),
  ].join('')
  const tail = JSON.stringify({
    names: record.names,
    certificate: chain,
    ...(key && { privateKey }),
    issuerCert: record.chain[0] && certificatePem(record.chain[0]),
    issuer: record.issuer,
    serialNumber: record.serialNumber,
    fingerprint256,
    ...explainedTimes(record),
  }).slice(1, -1)
  const json = (domain: string, cached: boolean, ignored: readonly string[]) => {
    const members = ignored.length > 0 ? `,"ignored":${JSON.stringify(ignored)}` : ''
    return `{"domain":"${domain}",${tail}${members},"cached":${cached}}`
  }
  const [first = ''] = record.names
  let usual: string | undefined
  return {
    record,
    fingerprint256,
    chain,
    privateKey,
    pem: chain + privateKey,
    json(domain, cached, ignored = []) {
      if (!cached || domain !== first || ignored.length > 0) return json(domain, cached, ignored)
      // The body of nearly every answer, so it is put together once.
      usual ??= json(domain, cached, ignored)
      return usual
    },
  }
}

const pemOf = new WeakMap<Uint8Array, string>()

/** Of an issuer: the same few stand in every answer. */
function certificatePem(der: Uint8Array): string {
  let pem = pemOf.get(der)
  if (pem !== undefined) return pem
  pem = toPem('CERTIFICATE', der)
  pemOf.set(der, pem)
  return pem
}

/** The times of a certificate as answers write them; a renewal that is not planned is left out. */
export function times(record: Pick<CertificateRecord, 'notBefore' | 'notAfter' | 'renewAt'>): {
  notBefore: string
  notAfter: string
  renewAt?: string
} {
  return {
    notBefore: toTime(record.notBefore),
    notAfter: toTime(record.notAfter),
    ...(record.renewAt !== null && { renewAt: toTime(record.renewAt) }),
  }
}

/** The same, and where the CA says why it would have it renewed then. */
export function explainedTimes(
  record: CertificateRecord,
): ReturnType<typeof times> & { renewalExplanationUrl?: string } {
  const { renewAt, explanationUrl } = record
  return {
    ...times(record),
    ...(renewAt !== null && explanationUrl && { renewalExplanationUrl: explanationUrl }),
  }
}

/** RFC 3339 in UTC, to the second as X.509 has it. */
export function toTime(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`
}

import type { CertificateRequest as Csr, KeyType, Name } from '@gatehouse/pki'

/** The one kind of certificate made today: for TLS servers. */
const PROFILE = 'server'

/**
 * What makes two requests the same certificate: issuer, profile, the kind of key (for a caller's
 * own key, which one) and the set of names.
 */
export function lineageOf(request: {
  readonly issuer: string
  readonly names: readonly Name[]
  readonly keyType: KeyType
  readonly csr: Pick<Csr, 'spkiSha256'> | null
}): string {
  const key = request.csr ? request.csr.spkiSha256 : request.keyType
  const names = request.names.map((name) => name.text).sort()
  return [request.issuer, PROFILE, key, names.join(',')].join('|')
}

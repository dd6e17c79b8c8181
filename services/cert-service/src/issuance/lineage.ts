import type { Csr, KeyType, Name } from '@gatehouse/pki'
import type { Issuer } from '../issuers/issuer.ts'

/** The one kind of certificate that the embedded CA makes: for TLS servers. */
const PROFILE = 'server'

/**
 * What makes two requests the same certificate: issuer, profile, the kind of key (for a caller's
 * own key, which one) and the set of names.
 */
export function lineageOf(request: {
  readonly issuer: Pick<Issuer, 'name' | 'profile'>
  readonly names: readonly Name[]
  readonly keyType: KeyType
  readonly csr: Pick<Csr, 'spkiSha256'> | null
}): string {
  const key = request.csr ? request.csr.spkiSha256 : request.keyType
  const names = request.names.map((name) => name.text).sort()
  const { name, profile = PROFILE } = request.issuer
  return [name, profile, key, names.join(',')].join('|')
}

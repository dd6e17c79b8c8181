import { planRenewal } from '../issuance/renewal.ts'
import type { CertificateRecord } from '../store/store.ts'

/**
 * How many thirds of the time from its due renewal to its end a certificate is into: 1 and 2 are
 * worth telling, 3 is its end. 0: all is well.
 */
export function lateness(certificate: CertificateRecord, now: number): 0 | 1 | 2 | 3 {
  const { notAfter } = certificate
  const margin = notAfter - planRenewal(certificate, () => 0)
  const thirds = Math.floor((3 * (now - (notAfter - margin))) / margin)
  return Math.min(3, Math.max(0, thirds)) as 0 | 1 | 2 | 3
}

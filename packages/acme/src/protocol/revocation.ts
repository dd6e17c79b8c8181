import { REVOCATION_REASONS, type RevocationReason } from '@gatehouse/pki'
import type { Call } from './call.ts'

/**
 * Revokes a certificate, DER; signed by the account that ordered it or by the key of the
 * certificate itself (RFC 8555 section 7.6).
 */
export function revokeCertificate(certificate: Uint8Array, reason?: RevocationReason): Call<void> {
  return {
    to: 'revokeCert',
    isDecision: true,
    payload: () => ({
      certificate: Buffer.from(certificate).toString('base64url'),
      ...(reason && { reason: REVOCATION_REASONS[reason] }),
    }),
    process: () => {},
  }
}

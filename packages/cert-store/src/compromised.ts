import { hash, X509Certificate } from 'node:crypto'

/**
 * The SHA-256 of the SubjectPublicKeyInfo of each certificate, in hex, as OpenSSL writes it. One that cannot
 * be read is revoked all the same, and has none.
 */
export function spkiSha256sOf(certificates: readonly Uint8Array[]): ReadonlySet<string> {
  return new Set(certificates.flatMap((certificate) => spkiSha256Of(certificate) ?? []))
}

function spkiSha256Of(certificate: Uint8Array): string | undefined {
  try {
    const { publicKey } = new X509Certificate(certificate)
    return hash('sha256', publicKey.export({ type: 'spki', format: 'der' }))
  } catch {
    return undefined
  }
}

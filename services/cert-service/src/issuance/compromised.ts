import { createPublicKey } from 'node:crypto'
import { isRocaKey } from '@gatehouse/auth-core'
import { type Csr, PkiError } from '@gatehouse/pki'
import { CertError } from '../errors.ts'
import type { Store } from '../store/store.ts'
import type { CertificateRequest } from './request.ts'

/**
 * Refuses the key of a CSR that others may have as well.
 *
 * @throws CertError `CERT_KEY_COMPROMISED` where it was revoked as compromised; PkiError `PKI_KEY_WEAK`
 */
export async function refuseCompromised(
  { csr }: Pick<CertificateRequest, 'csr'>,
  store: Pick<Store, 'isCompromised'>,
): Promise<void> {
  if (!csr) return
  if (isRoca(csr))
    refuse(new PkiError('PKI_KEY_WEAK', 'its RSA key can be found out (CVE-2017-15361)'))
  if (await store.isCompromised(csr.spkiSha256))
    refuse(new CertError('CERT_KEY_COMPROMISED', 'its key was revoked as compromised'))
}

function isRoca({ keyType, spki: key }: Csr): boolean {
  return (
    keyType.startsWith('rsa') && isRocaKey(createPublicKey({ key, format: 'der', type: 'spki' }))
  )
}

function refuse(error: PkiError | CertError): never {
  throw Object.assign(error, { errors: [{ pointer: '/csr', detail: error.message }] })
}

import { CertError } from '../errors.ts'
import type { Store } from '../store/store.ts'
import type { CertificateRequest } from './request.ts'

/** @throws CertError `CERT_KEY_COMPROMISED` where the key of a CSR was revoked as compromised */
export async function refuseCompromised(
  { csr }: Pick<CertificateRequest, 'csr'>,
  store: Pick<Store, 'isCompromised'>,
): Promise<void> {
  if (!csr || !(await store.isCompromised(csr.spkiSha256))) return
  const error = new CertError('CERT_KEY_COMPROMISED', 'its key was revoked as compromised')
  throw Object.assign(error, { errors: [{ pointer: '/csr', detail: error.message }] })
}

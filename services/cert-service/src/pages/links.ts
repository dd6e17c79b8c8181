import type { CertificateRecord, OrderRecord } from '@gatehouse/cert-store/port'

/** The page of the newest certificate of a name. It stays the same through renewals. */
export function nameHref(domain: string): string {
  return `/certificates/${encodeURIComponent(domain)}`
}

/** The page of exactly this certificate, in service or not. */
export function certificateHref(
  of: Pick<CertificateRecord, 'names' | 'serialNumber'>,
  file?: 'leaf.pem' | 'chain.pem',
): string {
  const page = `${nameHref(of.names[0] ?? '')}/${encodeURIComponent(of.serialNumber)}`
  return file ? `${page}/${file}` : page
}

/** The page of an order, also of one that never led to a certificate. */
export function orderHref({ id }: Pick<OrderRecord, 'id'>): string {
  return `/orders/${encodeURIComponent(id)}`
}

/** The page that says what the errors mean. */
export const ERRORS_PATH = '/errors'

/** The row of an error there. */
export function errorHref(code: string): string {
  return `${ERRORS_PATH}#${encodeURIComponent(code)}`
}

import type { CertificateRecord, OrderRecord } from '../store/store.ts'

/** Links to the page of the newest certificate of a name. It stays the same through renewals. */
export function nameHref(domain: string): string {
  return `/certificates/${encodeURIComponent(domain)}`
}

/** Links to the page of exactly this certificate, in service or not. */
export function certificateHref(
  of: Pick<CertificateRecord, 'names' | 'serialNumber'>,
  file?: 'leaf.pem' | 'chain.pem',
): string {
  const page = `${nameHref(of.names[0] ?? '')}/${encodeURIComponent(of.serialNumber)}`
  return file ? `${page}/${file}` : page
}

/** Links to the page of an order, also of one that never led to a certificate. */
export function orderHref({ id }: Pick<OrderRecord, 'id'>): string {
  return `/orders/${encodeURIComponent(id)}`
}

/** The form that requests a certificate. */
export const REQUEST_PATH = '/request'

/** Links to the form, filled in for an order; undefined if its caller holds the key. */
export function requestAgainHref(order: OrderRecord): string | undefined {
  if (order.csr) return undefined
  const [domain = '', ...others] = order.names
  const query = { domain, names: others.join(' '), keyType: order.keyType }
  return `${REQUEST_PATH}?${new URLSearchParams(query)}`
}

/** The page that says what the errors mean. */
export const ERRORS_PATH = '/errors'

/** Links to the row of an error there. */
export function errorHref(code: string): string {
  return `${ERRORS_PATH}#${encodeURIComponent(code)}`
}

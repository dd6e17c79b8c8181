import type { CertificateRecord, OrderRecord } from '@gatehouse/cert-store/port'
import { profileOf } from '@gatehouse/issuance/request'
import type { Profile } from '@gatehouse/pki'

/** Links to the page of the newest certificate of a name, or to one below it. It stays the same through renewals. */
export function nameHref(domain: string, profile: Profile, below = '', query = {}): string {
  const parameters = new URLSearchParams({ ...query, ...(profile === 'client' && { profile }) })
  return `/certificates/${encodeURIComponent(domain)}${below}${parameters.size > 0 ? `?${parameters}` : ''}`
}

/** Links to the page of exactly this certificate, in service or not. */
export function certificateHref(
  certificate: Pick<CertificateRecord, 'names' | 'serialNumber'>,
  file?: 'leaf.pem' | 'chain.pem',
): string {
  // A serial number is of one certificate, whatever its profile.
  const { names, serialNumber } = certificate
  const page = nameHref(names[0] ?? '', 'server', `/${encodeURIComponent(serialNumber)}`)
  return file ? `${page}/${file}` : page
}

/** Links to the page of an order, also of one that never led to a certificate. */
export function orderHref({ id }: Pick<OrderRecord, 'id'>): string {
  return `/orders/${encodeURIComponent(id)}`
}

export const REQUEST_PATH = '/request'

/** Links to the form, filled in for an order; undefined if its caller holds the key, or is a client. */
export function requestAgainHref(order: OrderRecord): string | undefined {
  if (order.csr || profileOf(order) === 'client') return undefined
  const [domain = '', ...otherNames] = order.names
  const query = { domain, names: otherNames.join(' '), keyType: order.keyType }
  return `${REQUEST_PATH}?${new URLSearchParams(query)}`
}

export const ERRORS_PATH = '/errors'

export function errorHref(code: string): string {
  return `${ERRORS_PATH}#${encodeURIComponent(code)}`
}

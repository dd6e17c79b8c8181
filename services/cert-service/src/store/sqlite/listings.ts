import { type ListingDialect, pageQuery } from '../listing.ts'
import type { Listing, ListPage } from '../store.ts'
import { type Certificates, SELECT_ALL } from './certificates.ts'

const IS_CURRENT = 'current = 1'

const DIALECT: ListingDialect = {
  isCurrent: IS_CURRENT,
  nextAt: 'coalesce(renew_at, not_after)',
  name: 'domain',
  // The only index with the names. Those of the other orders would lead to every row.
  searched: 'certificates INDEXED BY certificates_upcoming',
  param: (number) => `?${number}`,
  few: (condition) => `id IN (SELECT id FROM certificates WHERE ${IS_CURRENT} AND ${condition})`,
  matches({ part, serialNumber }, add) {
    const bySerial = (serial: string) => `id IN (
      SELECT id FROM certificates WHERE chain IN (SELECT id FROM chains) AND serial_number = ${serial})`
    const conditions = [
      ...(part === undefined ? [] : [`instr(names, ${add(part)})`]),
      ...(serialNumber === undefined ? [] : [bySerial(add(serialNumber))]),
    ]
    return [`(${conditions.join(' OR ')})`]
  },
}

/** Lists certificates for people. */
export class Listings {
  readonly #certificates: Certificates

  constructor(certificates: Certificates) {
    this.#certificates = certificates
  }

  listCertificates = (listing: Listing, page: ListPage) => {
    const { where, params } = pageQuery(DIALECT, listing, page)
    return this.#certificates.select(`${SELECT_ALL} ${where}`, ...params)
  }
}

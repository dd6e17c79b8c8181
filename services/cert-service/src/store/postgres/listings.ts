import { type ListingDialect, pageQuery } from '../listing.ts'
import type { Listing, ListPage } from '../store.ts'
import { type Records, SELECT_ALL } from './records.ts'

const DIALECT: ListingDialect = {
  isCurrent: 'is_current',
  nextAt: 'next_at',
  name: 'domain COLLATE "C"',
  searched: 'certificates',
  param: (number) => `$${number}`,
  // The planner has statistics.
  few: (condition) => condition,
  matches({ part, serialNumber }, add) {
    const text = part === undefined ? undefined : add(part)
    return [
      // The first of these reads nothing but an index.
      ...(text
        ? [
            `strpos(searched, ${text}) > 0`,
            `searched IS NULL AND strpos(array_to_string(names, ' '), ${text}) > 0`,
          ]
        : []),
      ...(serialNumber === undefined ? [] : [`serial_number = ${add(serialNumber)}`]),
    ]
  },
}

/** Lists certificates for people. */
export class Listings {
  readonly #records: Records

  constructor(records: Records) {
    this.#records = records
  }

  listCertificates = (listing: Listing, page: ListPage) => {
    const { where, params } = pageQuery(DIALECT, listing, page)
    return this.#records.list(`${SELECT_ALL} ${where}`, ...params)
  }
}

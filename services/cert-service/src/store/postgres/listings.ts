import { type ListingDialect, pageQuery, tally } from '../listing.ts'
import type { Listing, ListPage } from '../store.ts'
import type { Database } from './database.ts'
import { type Records, SELECT, SELECT_ALL } from './records.ts'

export const DIALECT: ListingDialect = {
  isCurrent: 'is_current',
  nextAt: 'next_at',
  name: 'domain COLLATE "C"',
  orderName: 'names[1] COLLATE "C"',
  searched: 'certificates',
  param: (number) => `$${number}`,
  // The planner has statistics.
  few: (condition) => condition,
  matchesOrder: ({ part, wildcard }, add) => [
    ...(part === undefined ? [] : [`strpos(array_to_string(names, ' '), ${add(part)}) > 0`]),
    ...(wildcard === undefined ? [] : [`names @> ARRAY[${add(wildcard)}::text]`]),
  ],
  matches({ part, wildcard, serialNumber }, add) {
    const text = part === undefined ? undefined : add(part)
    return [
      // The first of these reads nothing but an index.
      ...(text
        ? [
            `strpos(searched, ${text}) > 0`,
            `searched IS NULL AND strpos(array_to_string(names, ' '), ${text}) > 0`,
          ]
        : []),
      ...(wildcard === undefined ? [] : byName(add(wildcard))),
      ...(serialNumber === undefined ? [] : [`serial_number = ${add(serialNumber)}`]),
    ]
  },
}

const BY_FINGERPRINT = `${SELECT} sha256(certificate) = decode($1, 'hex') LIMIT 1`

function byName(name: string): readonly string[] {
  return [`domain = ${name}`, `name_count > 1 AND names @> ARRAY[${name}::text]`]
}

/** Lists certificates for people. */
export class Listings {
  readonly #db: Database
  readonly #records: Records

  constructor(db: Database, records: Records) {
    this.#db = db
    this.#records = records
  }

  tally = (now: number, starts: readonly number[]) =>
    tally(DIALECT, (sql, ...params) => this.#db.all(sql, ...params), now, starts)

  findByFingerprint = async (sha256: string) =>
    (await this.#records.list(BY_FINGERPRINT, sha256))[0]

  listCertificates = (listing: Listing, page: ListPage) => {
    const { where, params } = pageQuery(DIALECT, listing, page)
    return this.#records.list(`${SELECT_ALL} ${where}`, ...params)
  }
}

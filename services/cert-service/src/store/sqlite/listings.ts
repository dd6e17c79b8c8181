import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { type ListingDialect, pageQuery, tally } from '../listing.ts'
import type { Listing, ListPage, Search } from '../store.ts'
import { type Certificates, SELECT_ALL } from './certificates.ts'
import type { Database } from './database.ts'

const IS_CURRENT = 'current = 1'
const DER_AFTER = `
  SELECT id, certificate FROM certificates WHERE ${IS_CURRENT} AND id > ? ORDER BY id LIMIT 500`

export const DIALECT: ListingDialect = {
  isCurrent: IS_CURRENT,
  nextAt: 'coalesce(renew_at, not_after)',
  name: 'domain',
  orderName: "json_extract(names, '$[0]')",
  // The only index with the names. Those of the other orders would lead to every row.
  searched: 'certificates INDEXED BY certificates_upcoming',
  param: (number) => `?${number}`,
  few: (condition) => `id IN (SELECT id FROM certificates WHERE ${IS_CURRENT} AND ${condition})`,
  matchesOrder: byNames,
  matches({ serialNumber, ...search }, add) {
    const bySerial = (serial: string) => `id IN (
      SELECT id FROM certificates WHERE chain IN (SELECT id FROM chains) AND serial_number = ${serial})`
    const conditions = [
      ...byNames(search, add),
      ...(serialNumber === undefined ? [] : [bySerial(add(serialNumber))]),
    ]
    return [`(${conditions.join(' OR ')})`]
  },
}

function byNames({ part, wildcard }: Search, add: (value: string) => string): readonly string[] {
  return [
    ...(part === undefined ? [] : [`instr(names, ${add(part)})`]),
    // Names are a JSON array.
    ...(wildcard === undefined ? [] : [`instr(names, ${add(JSON.stringify(wildcard))})`]),
  ]
}

/** Lists certificates for people. */
export class Listings {
  readonly #db: Database
  readonly #certificates: Certificates

  constructor(db: Database, certificates: Certificates) {
    this.#db = db
    this.#certificates = certificates
  }

  tally = (now: number, starts: readonly number[]) =>
    tally(DIALECT, (sql, ...params) => this.#db.all(sql, ...params), now, starts)

  /** SQLite cannot compute a digest, so this reads all certificates, a few in each turn of the event loop. */
  findByFingerprint = async (sha256: string) => {
    for (let after = 0; ; ) {
      const rows = await this.#db.all<{ id: number; certificate: Uint8Array }>(DER_AFTER, after)
      const found = rows.find(({ certificate }) => hash('sha256', certificate) === sha256)
      if (found) return (await this.#certificates.list({ after: found.id - 1, limit: 1 }))[0]
      const last = rows.at(-1)
      if (!last) return undefined
      after = last.id
      await setImmediate()
    }
  }

  listCertificates = (listing: Listing, page: ListPage) => {
    const { where, params } = pageQuery(DIALECT, listing, page)
    return this.#certificates.select(`${SELECT_ALL} ${where}`, ...params)
  }
}

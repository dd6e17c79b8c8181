import { MAX_ISSUED } from '../bounds.ts'
import { columns, HISTORY_COLUMNS } from '../rows.ts'
import {
  type Expiry,
  type InService,
  type IssuedCertificate,
  NAME_PAGE,
  type PastCertificate,
  type Store,
} from '../store.ts'
import type { Database } from './database.ts'
import {
  type CertificateRow,
  COLUMNS,
  isLive,
  LINEAGE,
  type Records,
  SELECT,
  SELECT_ALL,
} from './records.ts'
import { indexable, rowOfLineage } from './text.ts'

const BY_LINEAGE = `${SELECT} certificates.lineage = ANY ($1::text[])`
const PAGE_OF_NAME = `ORDER BY sealed_key IS NULL, id DESC LIMIT ${NAME_PAGE} OFFSET $2`
const BY_DOMAIN = `${SELECT} domain = $1 ${PAGE_OF_NAME}`
const BY_NAME = `${SELECT_ALL} id IN (
    SELECT id FROM certificates WHERE is_current AND domain = $1
    UNION ALL
    SELECT id FROM certificates WHERE is_current AND name_count > 1 AND names @> ARRAY[$1::text])
  ${PAGE_OF_NAME}`
const ISSUED_FOR = `
  SELECT ${LINEAGE}, ${columns('id, issuer, names, serialNumber')} FROM certificates
  WHERE domain = $1 AND (is_current OR $2 AND asked_by IS NOT NULL AND ${isLive('$3', '$4')})
    AND revoked_at IS NULL
  ORDER BY id DESC LIMIT ${MAX_ISSUED}`
// The sum keeps the planner from reading all certificates backwards until it finds those of the name.
const NEWEST = 'ORDER BY id + 0 DESC LIMIT'
const HISTORY = `
  SELECT ${LINEAGE}, ${columns(HISTORY_COLUMNS)}, ${columns('isCurrent')} FROM certificates
  WHERE domain = $1 ${NEWEST} ${NAME_PAGE}`
const BY_SERIAL = `
  SELECT ${COLUMNS}, ${columns('isCurrent, revokedAt, revocationReason')} FROM certificates
  WHERE domain = $1 AND serial_number = $2 ${NEWEST} 1`
const AFTER_ID = `${SELECT} id > $1 ORDER BY id LIMIT $2`
// Few are late, and an index finds those. That of the next expiry would lead through all the others.
const LATE = `${SELECT} renew_at IS NOT NULL
  AND late_at < $1 ORDER BY not_after + 0 LIMIT $2`
const UNEXPIRED = `${SELECT_ALL}
  domain = $1 AND certificates.lineage = $2 AND revoked_at IS NULL AND ${isLive('$3', '$4')}`
const RENEWED = 'FROM certificates WHERE is_current AND renew_at IS NOT NULL'
const ENDING = `
  SELECT ${columns('domain, issuer, notBefore, notAfter')} ${RENEWED} ORDER BY not_after LIMIT $1`

/** Finds certificates. */
export class Certificates {
  readonly #db: Database
  readonly #records: Records
  readonly #findCurrent: (lineage: string) => Promise<CertificateRow | undefined>

  constructor(db: Database, records: Records) {
    this.#db = db
    this.#records = records
    this.#findCurrent = db.turn(rowOfLineage<CertificateRow>(BY_LINEAGE))
  }

  findCurrent = async (lineage: string) => {
    const row = await this.#findCurrent(lineage)
    return row && (await this.#records.withChains([row]))[0]
  }

  findByDomain = (domain: string, skip = 0) => this.#records.list(BY_DOMAIN, domain, skip)

  findByName = (name: string, skip = 0) => this.#records.list(BY_NAME, name, skip)

  listIssued: Store['listIssued'] = (domain, { now, isOut }) =>
    this.#db.all<IssuedCertificate>(ISSUED_FOR, domain, isOut, now, this.#db.runTime())

  listHistory = (domain: string): Promise<readonly PastCertificate[]> =>
    this.#db.all<PastCertificate>(HISTORY, domain)

  findBySerial = async (domain: string, serialNumber: string) => {
    const row = await this.#db.get<CertificateRow & InService>(BY_SERIAL, domain, serialNumber)
    if (!row) return undefined
    const { isCurrent, revokedAt, revocationReason, ...rest } = row
    const [record] = await this.#records.withChains([rest])
    return record && { ...record, isCurrent, revokedAt, revocationReason }
  }

  list = ({ after, limit }: { after: number; limit: number }) =>
    this.#records.list(AFTER_ID, after, limit)

  listLate = (now: number, limit: number) => this.#records.list(LATE, now, limit)

  listEnding = async (limit: number) => {
    const [soonest, counted] = await Promise.all([
      this.#db.all<Expiry>(ENDING, limit),
      this.#db.get<{ total: number }>(`SELECT count(*) AS total ${RENEWED}`),
    ])
    return { soonest, total: counted?.total ?? 0 }
  }

  listUnexpired: Store['listUnexpired'] = ({ names: [domain = ''], lineage }, now) =>
    this.#records.list(UNEXPIRED, domain, indexable(lineage), now, this.#db.runTime())
}

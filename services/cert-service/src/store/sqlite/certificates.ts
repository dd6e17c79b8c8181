import { hash } from 'node:crypto'
import type { SQLInputValue } from 'node:sqlite'
import { LRUCache } from 'lru-cache'
import { MAX_CHAINS, MAX_ISSUED } from '../bounds.ts'
import { columns, HISTORY_COLUMNS } from '../rows.ts'
import {
  type CertificateRecord,
  type Expiry,
  type InService,
  type IssuedCertificate,
  NAME_PAGE,
  type PastCertificate,
  type RenewalWindow,
  type Store,
} from '../store.ts'
import type { Database, Parameters } from './database.ts'

const MINUTE = 60_000
const DAY = 86_400_000

const COLUMNS = columns(
  'id, lineage, issuer, names, keyType, serialNumber, certificate, chain, sealedKey, csr, notBefore, notAfter, renewAt, fetchedAt, checkAt, windowStart, windowEnd, explanationUrl, madeAt, fetchedRan',
)
export const SELECT_ALL = `SELECT ${COLUMNS} FROM certificates WHERE`
const SELECT = `${SELECT_ALL} current = 1 AND`
/** The longer of the lifetimes by the certificate and by the clock: one of the two clocks was right. */
export const LIFETIME = '(not_after - min(not_before, coalesce(made_at, not_before)))'
/** Not expired by the clock, or not by the run time since it was stored. */
export const IS_LIVE = `(not_after >= :now OR made_ran + ${LIFETIME} > :ran)`

const BY_LINEAGE = `${SELECT} lineage = ?`
const BY_DOMAIN = `${SELECT} domain = ?
  ORDER BY sealed_key IS NULL, id DESC LIMIT ${NAME_PAGE} OFFSET ?`
const BY_NAME = `${SELECT}
  (domain = ?1 OR id IN (SELECT certificate FROM certificate_names WHERE name = ?1))
  ORDER BY sealed_key IS NULL, id DESC LIMIT ${NAME_PAGE} OFFSET ?2`
const ISSUED_FOR = `
  SELECT ${columns('id, lineage, issuer, names, serialNumber')} FROM certificates
  WHERE domain = :domain AND (current = 1 OR :isOut AND asked_by IS NOT NULL AND ${IS_LIVE})
    AND revoked_at IS NULL
  ORDER BY id DESC LIMIT ${MAX_ISSUED}`
const HISTORY = `
  SELECT ${columns(HISTORY_COLUMNS)}, lineage, current AS isCurrent FROM certificates
  WHERE domain = ? ORDER BY id DESC LIMIT ${NAME_PAGE}`
const BY_SERIAL = `
  SELECT ${COLUMNS}, ${columns('revokedAt, revocationReason')}, current AS isCurrent
  FROM certificates WHERE domain = ? AND serial_number = ? ORDER BY id DESC LIMIT 1`
const AFTER_ID = `${SELECT} id > ? ORDER BY id LIMIT ?`
const DUE = `${SELECT} renew_at <= ? ORDER BY renew_at LIMIT ?`
const UNCHECKED = `${SELECT} check_at <= ? AND renew_at IS NOT NULL ORDER BY check_at LIMIT ?`
// Few are late, and an index finds those. That of the next expiry would lead through all the others.
const LATE = `${SELECT} renew_at IS NOT NULL
  AND not_after - (not_after - not_before) / 3 < ? ORDER BY +not_after LIMIT ?`
const UNEXPIRED = `${SELECT_ALL}
  domain = :domain AND lineage = :lineage AND revoked_at IS NULL AND ${IS_LIVE}`
const RENEWED = 'FROM certificates WHERE current = 1 AND renew_at IS NOT NULL'
const ENDING = `
  SELECT ${columns('domain, issuer, notBefore, notAfter')} ${RENEWED} ORDER BY not_after LIMIT ?`
const SET_WINDOW = `
  UPDATE certificates
  SET check_at = ?, window_start = ?, window_end = ?, explanation_url = ?, renew_at = ?
  WHERE id = ? AND renew_at IS NOT NULL`
// Renewals are planned within the window or at two thirds of the lifetime, plus a day at most.
const RENEW_SOONER = `
  UPDATE certificates SET renew_at = ?1
  WHERE current = 1 AND renew_at > ?1 + ${DAY}
    AND renew_at > coalesce(window_end, not_before + (not_after - not_before) * 2 / 3)`
const CHECK_SOONER = `
  UPDATE certificates SET check_at = ?1 WHERE current = 1 AND check_at > ?1 + ${DAY}`
// Excludes what a CA keeps dating in the future, and retries after a failure, which keep their time.
const MAKE_DUE = `
  UPDATE certificates SET renew_at = ?1
  WHERE current = 1 AND renew_at IS NOT NULL AND not_before > ?1 + ${MINUTE}
    AND (renew_at > not_before OR renew_at > ?1 + ${DAY}) AND (
      coalesce(made_at, not_before) > ?1 + ${MINUTE}
      OR made_at + min((not_after - not_before) / 10, ${DAY}) <= ?1)
  RETURNING lineage`
const FUTURE = `
  SELECT 1 FROM certificates
  WHERE current = 1 AND renew_at IS NOT NULL AND not_before > ?1 + ${MINUTE} LIMIT 1`

type Row = Omit<CertificateRecord, 'names' | 'chain' | 'madeAt' | keyof RenewalWindow> &
  RenewalWindow & { names: string; chain: number; madeAt: number | null }

/** SQLite has numbers for what is true or false. */
type Numbered<T> = Omit<T, 'isCurrent'> & { isCurrent: number }
type HistoryRow = Numbered<Omit<PastCertificate, 'names' | 'madeAt'>> & {
  names: string
  madeAt: number | null
}

/** Finds certificates, and keeps when they are to be renewed. */
export class Certificates {
  readonly #db: Database
  readonly #chains: Chains

  constructor(db: Database, chains: Chains) {
    this.#db = db
    this.#chains = chains
  }

  findCurrent = async (lineage: string) => (await this.select(BY_LINEAGE, lineage))[0]

  findByDomain = (domain: string, skip = 0) => this.select(BY_DOMAIN, domain, skip)

  findByName = (name: string, skip = 0) => this.select(BY_NAME, name, skip)

  listIssued: Store['listIssued'] = async (domain, { now, isOut }) => {
    const of = { domain, isOut: Number(isOut), now, ran: this.#db.runTime() }
    const rows = await this.#db.all<IssuedCertificate & { names: string }>(ISSUED_FOR, of)
    return rows.map((row) => ({ ...row, names: JSON.parse(row.names) }))
  }

  listHistory = async (domain: string): Promise<readonly PastCertificate[]> =>
    (await this.#db.all<HistoryRow>(HISTORY, domain)).map(({ madeAt, ...row }) => ({
      ...row,
      names: JSON.parse(row.names),
      isCurrent: row.isCurrent === 1,
      ...(madeAt !== null && { madeAt }),
    }))

  findBySerial = async (domain: string, serialNumber: string) => {
    const row = await this.#db.get<Row & Numbered<InService>>(BY_SERIAL, domain, serialNumber)
    if (!row) return undefined
    const { isCurrent, revokedAt, revocationReason, ...rest } = row
    return { ...this.#toRecord(rest), isCurrent: isCurrent === 1, revokedAt, revocationReason }
  }

  list = ({ after, limit }: { after: number; limit: number }) => this.select(AFTER_ID, after, limit)

  claimDue = (now: number, limit: number) => this.select(DUE, now, limit)

  claimUnchecked = (now: number, limit: number) => this.select(UNCHECKED, now, limit)

  listLate = (now: number, limit: number) => this.select(LATE, now, limit)

  listEnding = async (limit: number) => {
    const soonest = await this.#db.all<Expiry>(ENDING, limit)
    const counted = await this.#db.get<{ total: number }>(`SELECT count(*) AS total ${RENEWED}`)
    return { soonest, total: counted?.total ?? 0 }
  }

  listUnexpired: Store['listUnexpired'] = ({ names: [domain = ''], lineage }, now) =>
    this.select(UNEXPIRED, { domain, lineage, now, ran: this.#db.runTime() })

  setRenewAt = (id: number, renewAt: number | null) =>
    this.#db.run('UPDATE certificates SET renew_at = ? WHERE id = ?', renewAt, id)

  setRenewalWindow: Store['setRenewalWindow'] = (id, window) => {
    const { checkAt, windowStart, windowEnd, explanationUrl, renewAt } = window
    return this.#db.run(SET_WINDOW, checkAt, windowStart, windowEnd, explanationUrl, renewAt, id)
  }

  bringForward = (now: number): Promise<void> =>
    this.#db.write(() => {
      this.#db.prepare(RENEW_SOONER).run(now)
      this.#db.prepare(CHECK_SOONER).run(now)
    })

  makeFutureDue = (now: number): Promise<readonly string[]> =>
    this.#db.write(() =>
      this.#db
        .prepare(MAKE_DUE)
        .all(now)
        .map(({ lineage }) => lineage as string),
    )

  hasFuture = async (now: number) => (await this.#db.get(FUTURE, now)) !== undefined

  setFetchedAt = (fetched: ReadonlyMap<number, number>): Promise<void> =>
    this.#db.write(() => {
      const update = this.#db.prepare(
        'UPDATE certificates SET fetched_at = ?, fetched_ran = ? WHERE id = ?',
      )
      for (const [id, at] of fetched) update.run(at, this.#db.runTime(), id)
    })

  /** @param sql - begins with {@link SELECT_ALL} */
  select(sql: string, ...parameters: Parameters) {
    return this.#db.read((): readonly CertificateRecord[] =>
      this.#db
        .prepare(sql)
        .all(...(parameters as SQLInputValue[]))
        .map((row) => this.#toRecord(row)),
    )
  }

  #toRecord(row: unknown): CertificateRecord {
    const { names, chain, checkAt, windowStart, windowEnd, explanationUrl, madeAt, ...rest } =
      row as Row
    return {
      ...rest,
      names: JSON.parse(names),
      chain: this.#chains.get(chain),
      ...(checkAt !== null && { checkAt, windowStart, windowEnd, explanationUrl }),
      ...(madeAt !== null && { madeAt }),
    }
  }
}

export class Chains {
  readonly #db: Database
  readonly #loaded = new LRUCache<number, readonly Uint8Array[]>({ max: MAX_CHAINS })

  constructor(db: Database) {
    this.#db = db
  }

  /** Part of a write: the id of this chain, which is added if it is new. */
  save(chain: readonly Uint8Array[]): number {
    const text = JSON.stringify(chain.map((der) => Buffer.from(der).toString('base64')))
    const known = this.#db.prepare('SELECT id FROM chains WHERE certificates = ?').get(text)
    if (known) return known.id as number
    return this.#db.insert('chains', { issuer: issuerDigest(chain[0] ?? ''), certificates: text })
  }

  get(id: number): readonly Uint8Array[] {
    const known = this.#loaded.get(id)
    if (known) return known
    const row = this.#db.prepare('SELECT certificates FROM chains WHERE id = ?').get(id)
    const texts: string[] = JSON.parse(row?.certificates as string)
    const chain = texts.map((text) => Buffer.from(text, 'base64'))
    this.#loaded.set(id, chain)
    return chain
  }
}

/** How chains refer to their direct issuer. */
export function issuerDigest(der: Uint8Array | string): string {
  return hash('sha256', der)
}

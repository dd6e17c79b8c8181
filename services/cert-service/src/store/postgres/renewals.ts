import type { CertificateRecord, Store } from '../store.ts'
import { type Changes, noteChange } from './changes.ts'
import type { Database } from './database.ts'
import { LEASE } from './leases.ts'
import { LINEAGE, type Records, SELECT_ALL } from './records.ts'

const MINUTE = 60_000
const DAY = 86_400_000
/** A claim of what another replica has just claimed gives nothing. */
const MAX_TRIES = 3

const BY_IDS = `${SELECT_ALL} id = ANY ($1::bigint[])`
const CLAIM_DUE = `
  WITH due AS (
    SELECT id, lineage, domain, renew_at FROM certificates
    WHERE is_current AND renew_at <= $1 AND NOT EXISTS (
      SELECT FROM leases WHERE leases.lineage = certificates.lineage
        AND holder <> $3::uuid AND until > clock_timestamp())
    ORDER BY renew_at LIMIT $2 FOR UPDATE OF certificates SKIP LOCKED
  ), own AS (
    SELECT lineage FROM leases
    WHERE lineage IN (SELECT lineage FROM due) AND holder = $3::uuid AND until > clock_timestamp()
  ), claimed AS (
    INSERT INTO leases (lineage, holder, token, until, domain, names)
    SELECT lineage, $3::uuid, 0, clock_timestamp() + ${LEASE}, domain, 0 FROM due
    WHERE lineage NOT IN (SELECT lineage FROM own) ORDER BY lineage
    ON CONFLICT (lineage) DO UPDATE SET
      holder = excluded.holder, token = 0, until = excluded.until, asked_by = NULL,
      domain = excluded.domain, names = 0
    WHERE leases.until <= clock_timestamp()
    RETURNING lineage
  ), kept AS (
    SELECT id, lineage IN (SELECT lineage FROM own UNION ALL SELECT lineage FROM claimed)
      AS "isClaimed" FROM due ORDER BY renew_at
  ) SELECT * FROM kept`
const CLAIM_UNCHECKED = `
  WITH due AS (
    SELECT id, check_at FROM certificates
    WHERE is_current AND check_at <= $1 AND renew_at IS NOT NULL
    ORDER BY check_at LIMIT $2 FOR UPDATE SKIP LOCKED
  ), claimed AS (
    UPDATE certificates SET check_at = $3 FROM due WHERE certificates.id = due.id
  ), kept AS (
    SELECT id, check_at AS "checkAt" FROM due ORDER BY check_at
  ) SELECT * FROM kept`
const MOVED = 'RETURNING certificates.lineage, certificates.long_lineage'
/** A claim ends when its renewal is moved, and work on it does not. */
const SET_RENEW_AT = `
  WITH moved AS (
    UPDATE certificates SET renew_at = $2 WHERE id = $1 ${MOVED}
  ), released AS (
    DELETE FROM leases USING moved
    WHERE leases.lineage = moved.lineage AND holder = $3::uuid AND token = 0
  ) ${noteChange('moved', '$3')}`
const SET_WINDOW = `
  WITH moved AS (
    UPDATE certificates
    SET check_at = $2, window_start = $3, window_end = $4, explanation_url = $5, renew_at = $6
    WHERE id = $1 AND renew_at IS NOT NULL ${MOVED}
  ) ${noteChange('moved', '$7')}`
// Renewals are planned within the window or at two thirds of the lifetime, plus a day at most.
const RENEW_SOONER = `
  WITH moved AS (
    UPDATE certificates SET renew_at = $1
    WHERE is_current AND renew_at > $1::bigint + ${DAY}
      AND renew_at > coalesce(window_end, not_before + (not_after - not_before) * 2 / 3) ${MOVED}
  ) ${noteChange('moved', '$2')}`
const CHECK_SOONER = `
  UPDATE certificates SET check_at = $1 WHERE is_current AND check_at > $1::bigint + ${DAY}`
// Excludes what a CA keeps dating in the future, and retries after a failure, which keep their time.
const MAKE_DUE = `
  WITH moved AS (
    UPDATE certificates SET renew_at = $1
    WHERE is_current AND renew_at IS NOT NULL AND not_before > $1::bigint + ${MINUTE}
      AND (renew_at > not_before OR renew_at > $1::bigint + ${DAY}) AND (
        made_at > $1::bigint + ${MINUTE}
        OR made_at + least((not_after - not_before) / 10, ${DAY}) <= $1) ${MOVED}
  ), noted AS (${noteChange('moved', '$2')}), kept AS (
    SELECT ${LINEAGE} FROM moved
  ) SELECT * FROM kept`
const FUTURE = `
  SELECT FROM certificates
  WHERE is_current AND renew_at IS NOT NULL AND not_before > $1::bigint + ${MINUTE} LIMIT 1`
const SET_FETCHED = `
  WITH locked AS (
    SELECT certificates.id, item.at
    FROM certificates JOIN unnest($1::bigint[], $2::bigint[]) AS item (id, at) USING (id)
    ORDER BY id FOR NO KEY UPDATE OF certificates
  )
  UPDATE certificates SET fetched_at = locked.at, fetched_ran = $3
  FROM locked WHERE certificates.id = locked.id`

interface Due {
  readonly id: number
  readonly isClaimed: boolean
}

/** Keeps when certificates are to be renewed. */
export class Renewals {
  readonly #db: Database
  readonly #records: Records
  readonly #changes: Changes

  constructor(db: Database, records: Records, changes: Changes) {
    this.#db = db
    this.#records = records
    this.#changes = changes
  }

  claimDue = async (now: number, limit: number): Promise<readonly CertificateRecord[]> => {
    const params = [now, limit, this.#db.replica]
    for (let tries = 1; ; tries++) {
      const due = await this.#db.change<Due>(CLAIM_DUE, params, { durable: false })
      const claimed = due.filter(({ isClaimed }) => isClaimed)
      if (claimed.length > 0 || due.length === 0 || tries === MAX_TRIES)
        return this.#listClaimed(claimed.map(({ id }) => ({ id })))
    }
  }

  claimUnchecked = async (now: number, limit: number, until: number) =>
    this.#listClaimed(
      await this.#db.change<{ id: number; checkAt: number }>(CLAIM_UNCHECKED, [now, limit, until], {
        durable: false,
      }),
    )

  setRenewAt = (id: number, renewAt: number | null): Promise<void> =>
    this.#move(SET_RENEW_AT, id, renewAt, this.#db.replica)

  setRenewalWindow: Store['setRenewalWindow'] = (id, window) => {
    const { checkAt, windowStart, windowEnd, explanationUrl, renewAt } = window
    const values = [checkAt, windowStart, windowEnd, explanationUrl, renewAt]
    return this.#move(SET_WINDOW, id, ...values, this.#db.replica)
  }

  bringForward = async (now: number): Promise<void> => {
    await this.#db.write([
      { sql: RENEW_SOONER, params: [now, this.#db.replica] },
      { sql: CHECK_SOONER, params: [now] },
    ])
    this.#changes.notify()
  }

  makeFutureDue = async (now: number): Promise<readonly string[]> => {
    const params = [now, this.#db.replica]
    const moved = await this.#db.change<{ lineage: string }>(MAKE_DUE, params)
    if (moved.length > 0) this.#changes.notify()
    return moved.map(({ lineage }) => lineage)
  }

  hasFuture = async (now: number) => (await this.#db.get(FUTURE, now)) !== undefined

  setFetchedAt = async (fetched: ReadonlyMap<number, number>): Promise<void> => {
    if (fetched.size === 0) return
    const params = [[...fetched.keys()], [...fetched.values()], this.#db.runTime()]
    await this.#db.write([{ sql: SET_FETCHED, params }], { durable: false })
  }

  async #move(sql: string, ...params: readonly (number | string | null)[]): Promise<void> {
    await this.#db.run(sql, ...params)
    this.#changes.notify()
  }

  /** The certificates of these ids, in their order, with what else was read as they were claimed. */
  async #listClaimed(
    claimed: readonly (Pick<CertificateRecord, 'id'> & Partial<CertificateRecord>)[],
  ): Promise<readonly CertificateRecord[]> {
    if (claimed.length === 0) return []
    const records = await this.#records.list(
      BY_IDS,
      claimed.map(({ id }) => id),
    )
    const byId = new Map(records.map((record) => [record.id, record]))
    return claimed.flatMap((one) => {
      const record = byId.get(one.id)
      return record ? { ...record, ...one } : []
    })
  }
}

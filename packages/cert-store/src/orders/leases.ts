import { hasCode } from '@gatehouse/net'
import { type Engine, groupCommit, indexable, type Transaction } from '@gatehouse/store'
import { leaseLost } from '../errors.ts'
import type { Lease, Work } from '../port/store.ts'
import { LEASE_MS } from '../port/times.ts'
import { IDS, TEXTS } from '../schema/sql.ts'
import { ORDERS } from '../schema/tables.ts'
import { orderOf } from './order-record.ts'

/** Milliseconds after which a lease that has ended is deleted. */
const KEPT_MS = 60_000

/** A lease that is taken twice replaces itself. */
const REPEATABLE = { durable: false, repeatable: true }

/** The clock that leases go by: that of the database. One process alone has its leases for as long as it runs. */
export const NOW: Readonly<Record<Engine['dialect'], string>> = {
  postgres: '(extract(epoch FROM clock_timestamp()) * 1000)::bigint',
  sqlite: '0',
}

/**
 * Lets nobody else take a lease that counts for a quota until the commit. Tokens then grow in the order in which leases
 * become visible, so whoever counts up to its own token misses none.
 */
const IN_ORDER = `SELECT pg_advisory_xact_lock(1734440042, hashtext(current_schema()))`
// These are read after the lease is taken, so that they see what the last holder stored.
const CURRENT = `
  SELECT id, request_key AS "requestKey" FROM certificates WHERE is_current AND request_key IN (${TEXTS})`
const IN_FORCE = `
  SELECT token FROM leases WHERE token = $1 AND holder = $2 AND NOT EXISTS (
    SELECT 1 FROM certificates
    WHERE certificates.request_key = $4 AND is_current AND id <> coalesce($3::bigint, 0))
  FOR UPDATE`
const OWN = `
  SELECT request_key AS "requestKey" FROM leases WHERE request_key IN (${TEXTS}) AND holder = $2 AND NOT is_claim`
/** Leases of a replica by their tokens; in order, so that two transactions never wait for each other. */
const HELD = `
  token IN (SELECT token FROM leases WHERE token IN (${IDS}) AND holder = $2 ORDER BY token FOR UPDATE)`
const RELEASE = `DELETE FROM leases WHERE ${HELD} RETURNING token`
const RELEASE_ALL = 'DELETE FROM leases WHERE holder = $1'

/** @param now - the clock that they go by, as SQL */
const statementsBy = (now: string) => ({
  clear: `
    DELETE FROM leases WHERE token IN (
      SELECT token FROM leases
      WHERE request_key IN (${TEXTS}) AND (holder = $2 OR until <= ${now}) ORDER BY request_key FOR UPDATE)`,
  take: `
    INSERT INTO leases (request_key, holder, until, is_claim, asked_by, domain, names)
    SELECT value::json ->> 'requestKey', $2, ${now} + ${LEASE_MS}, $3::boolean, value::json ->> 'askedBy',
      value::json ->> 'domain', (value::json ->> 'names')::bigint
    FROM json_array_elements_text($1::json) WHERE true
    ON CONFLICT (request_key) DO NOTHING RETURNING request_key AS "requestKey", token`,
  renew: `UPDATE leases SET until = ${now} + ${LEASE_MS} WHERE ${HELD} RETURNING token`,
  busy: `SELECT token FROM leases WHERE domain = $1 AND holder <> $2 AND until > ${now} LIMIT 1`,
  deleteExpired: `
    DELETE FROM leases WHERE token IN (
      SELECT token FROM leases WHERE until < ${now} - ${KEPT_MS} LIMIT 1000 FOR UPDATE SKIP LOCKED)`,
})

type Taken = Omit<Lease, 'lost'>

/** Work on request keys, of which no two replicas do the same. */
export class Leases {
  /** Identifies this process among the replicas of a shared store. */
  readonly replica: string
  readonly #db: Engine
  readonly #sql: ReturnType<typeof statementsBy>
  readonly #takeOne: (work: Work) => Promise<Taken | undefined>
  /** What tells that a lease is lost, for those to be renewed, by their token. */
  readonly #losses = new Map<number, AbortController>()

  constructor(db: Engine, replica = 'alone') {
    this.replica = replica
    this.#db = db
    this.#sql = statementsBy(NOW[db.dialect])
    this.#takeOne = groupCommit(
      db,
      (tx, works: readonly Work[]) => this.#takeAll(tx, works),
      REPEATABLE,
    )
  }

  takeLease = async (work: Work): Promise<Lease | undefined> => {
    const taken = await this.#takeOne(work)
    if (!taken) return undefined
    const loss = new AbortController()
    this.#losses.set(taken.token, loss)
    return { ...taken, lost: loss.signal }
  }

  releaseLease = async ({ token }: Lease): Promise<void> => {
    // A lease that ended by itself is gone.
    if (this.#losses.delete(token))
      await this.#db.transaction((tx) => this.#each(tx, RELEASE, [token]), REPEATABLE)
  }

  isBusyElsewhere = async (domain: string): Promise<boolean> =>
    (await this.#db.get(this.#sql.busy, domain, this.replica)) !== undefined

  /** SQL: no other replica works on the request key of a row of this table; its id is the first parameter. */
  isFree(table: string): string {
    return `NOT EXISTS (
      SELECT 1 FROM leases WHERE leases.request_key = ${table}.request_key AND holder <> $1
        AND until > ${NOW[this.#db.dialect]})`
  }

  /** Part of a write: takes request keys for renewals that are to begin, unless other replicas have them. Gives these. */
  async claim(tx: Transaction, works: readonly Work[]): Promise<ReadonlySet<string>> {
    // Work of this replica that is under way goes on.
    const rows = await tx.all<{ requestKey: string }>(OWN, listOf(works), this.replica)
    const ownKeys = new Set(rows.map(({ requestKey }) => requestKey))
    const remaining = works.filter(({ requestKey }) => !ownKeys.has(requestKey))
    const tokens = await this.#take(tx, remaining, true)
    const taken = remaining.filter((work) => tokens.has(work))
    return new Set([...ownKeys, ...taken.map(({ requestKey }) => requestKey)])
  }

  /**
   * Part of a write: locks the lease, also after its time. Whoever takes it over has another token.
   * @throws CertStoreError CERT_LEASE_LOST, also if another certificate is current than the one that it names
   */
  async assertInForce(tx: Transaction, { requestKey, token, currentId }: Lease): Promise<void> {
    const params = [token, this.replica, currentId, requestKey]
    if (!(await tx.get(IN_FORCE, ...params))) throw leaseLost(requestKey)
  }

  /**
   * Part of a write: ends leases, also after their time.
   * @throws CertStoreError CERT_LEASE_LOST
   */
  async end(tx: Transaction, leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return
    const tokens = leases.map(({ token }) => token)
    const ended = await this.#each(tx, RELEASE, tokens)
    for (const { requestKey, token } of leases) if (!ended.has(token)) throw leaseLost(requestKey)
  }

  /** Runs the write that ends a lease, which is not taken for lost as it ends. */
  async ending<T>(lease: Lease | undefined, write: () => Promise<T>): Promise<T> {
    const loss = lease && this.#losses.get(lease.token)
    if (!loss) return write()
    this.#losses.delete(lease.token)
    try {
      return await write()
    } catch (error) {
      if (!hasCode(error, 'CERT_LEASE_LOST')) this.#losses.set(lease.token, loss)
      throw error
    }
  }

  /** Renews all leases. What another replica has taken over is lost. */
  async renew(): Promise<void> {
    const losses = new Map(this.#losses)
    if (losses.size === 0) return
    const renew = (tx: Transaction) => this.#each(tx, this.#sql.renew, [...losses.keys()])
    const renewed = await this.#db.transaction(renew, REPEATABLE)
    for (const [token, loss] of losses)
      if (!renewed.has(token) && this.#losses.delete(token)) loss.abort()
  }

  /** Deletes leases that ended a minute ago. A replica that still has one learns that it lost it. */
  async deleteExpired(): Promise<void> {
    await this.#db.transaction((tx) => tx.run(this.#sql.deleteExpired), { durable: false })
  }

  /** Releases all leases, at the end of this replica. */
  async releaseAll(): Promise<void> {
    this.#losses.clear()
    await this.#db.run(RELEASE_ALL, this.replica)
  }

  async #takeAll(tx: Transaction, works: readonly Work[]): Promise<readonly (Taken | undefined)[]> {
    const [, tokens, current, orders] = await Promise.all([
      this.#db.dialect === 'postgres' && tx.get(IN_ORDER),
      this.#take(tx, works),
      tx.all<{ id: number; requestKey: string }>(CURRENT, listOf(works)),
      ORDERS.list(tx, `WHERE request_key IN (${TEXTS})`, listOf(works)),
    ])
    const ordersOf = new Map(orders.map((row) => [row.requestKey, orderOf(row)]))
    const currentIds = new Map(current.map(({ id, requestKey }) => [requestKey, id]))
    return works.map((work) => {
      const { requestKey } = work
      const token = tokens.get(work)
      if (token === undefined) return undefined
      const order = ordersOf.get(requestKey)
      return { requestKey, token, currentId: currentIds.get(requestKey) ?? null, order }
    })
  }

  /** Part of a write: takes request keys that no other replica has, in place of what this one had. Gives the tokens. */
  async #take(tx: Transaction, works: readonly Work[], isClaim = false) {
    // In order, so that two transactions never wait for each other.
    const sorted = works.toSorted((a, b) => (a.requestKey < b.requestKey ? -1 : 1))
    const requests = sorted.map(({ requestKey, askedBy, domain, names }) => {
      return { requestKey, askedBy: askedBy && indexable(askedBy), domain, names }
    })
    const [, rows] = await Promise.all([
      tx.run(this.#sql.clear, listOf(works), this.replica),
      tx.all<{ requestKey: string; token: number }>(
        this.#sql.take,
        JSON.stringify(requests),
        this.replica,
        isClaim,
      ),
    ])
    // The first of two for the same request key gets the lease.
    const first = new Map(sorted.toReversed().map((work) => [work.requestKey, work]))
    return new Map(rows.map(({ requestKey, token }) => [first.get(requestKey) as Work, token]))
  }

  /** Changes leases of this replica. Gives the tokens of those that it still has. */
  async #each(tx: Transaction, sql: string, tokens: readonly number[]) {
    const rows = await tx.all<{ token: number }>(sql, JSON.stringify(tokens), this.replica)
    return new Set(rows.map(({ token }) => token))
  }
}

function listOf(works: readonly Work[]): string {
  return JSON.stringify(works.map(({ requestKey }) => requestKey))
}

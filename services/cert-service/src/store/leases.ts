import { type Engine, indexable, type Transaction } from '@gatehouse/store'
import { hasCode, leaseLost } from '../errors.ts'
import type { Lease, Work } from './store.ts'

/** Milliseconds for which a lease lasts. It is renewed three times as often. */
const LEASE_MS = 15_000
/** Milliseconds after which a lease that has ended is deleted. */
const KEPT_MS = 60_000

/** The clock that leases go by: that of the database. One process alone has its leases for as long as it runs. */
export const NOW: Readonly<Record<Engine['dialect'], string>> = {
  postgres: '(extract(epoch FROM clock_timestamp()) * 1000)::bigint',
  sqlite: '0',
}

/**
 * Until the commit nobody else takes a lease that counts for a quota: so tokens grow in the order in which
 * leases become visible, and whoever counts those up to its own misses none.
 */
const IN_ORDER = `SELECT pg_advisory_xact_lock(1734440042, hashtext(current_schema()))`
// After the lease is taken, so that it sees what the last holder stored.
const CURRENT = 'SELECT id FROM certificates WHERE is_current AND lineage = $1'
const IN_FORCE = `
  SELECT token FROM leases WHERE token = $1 AND holder = $2 AND NOT EXISTS (
    SELECT 1 FROM certificates
    WHERE certificates.lineage = $4 AND is_current AND id <> coalesce($3::bigint, 0))
  FOR UPDATE`
const OWN = 'SELECT token FROM leases WHERE lineage = $1 AND holder = $2 AND NOT is_claim'
const RELEASE = 'DELETE FROM leases WHERE token = $1 AND holder = $2'
const RELEASE_ALL = 'DELETE FROM leases WHERE holder = $1'

/** Work on lineages, of which no two replicas do the same. */
export class Leases {
  /** Identifies this process among the replicas of a shared store. */
  readonly replica: string
  readonly #db: Engine
  readonly #now: string
  /** Leases to be renewed, by their token. */
  readonly #held = new Map<number, { readonly lease: Lease; lose(): void }>()

  constructor(db: Engine, replica = 'alone') {
    this.replica = replica
    this.#db = db
    this.#now = NOW[db.dialect]
  }

  takeLease = (work: Work): Promise<Lease | undefined> =>
    this.#db.transaction(
      async (tx) => {
        const { lineage } = work
        const [, token, current] = await Promise.all([
          this.#db.dialect === 'postgres' && tx.get(IN_ORDER),
          this.#take(tx, work),
          tx.get<{ id: number }>(CURRENT, lineage),
        ])
        return token === undefined
          ? undefined
          : this.#hold({ lineage, token, currentId: current?.id ?? null })
      },
      { durable: false },
    )

  releaseLease = async (lease: Lease): Promise<void> => {
    // One that ended by itself is gone.
    if (this.#held.delete(lease.token))
      await this.#db.transaction((tx) => this.release(tx, lease), { durable: false })
  }

  isBusyElsewhere = async (domain: string): Promise<boolean> => {
    const sql = `SELECT token FROM leases WHERE domain = $1 AND holder <> $2 AND until > ${this.#now} LIMIT 1`
    return (await this.#db.get(sql, domain, this.replica)) !== undefined
  }

  /** SQL: no other replica works on the lineage of a row of this table; its id is the first parameter. */
  isFree(table: string): string {
    return `NOT EXISTS (
      SELECT 1 FROM leases WHERE leases.lineage = ${table}.lineage AND holder <> $1
        AND until > ${this.#now})`
  }

  /** Part of a write: takes a lineage for a renewal that is to begin, unless another replica has it. */
  async claim(tx: Transaction, work: Work): Promise<boolean> {
    // Work of this replica that is under way goes on.
    const isOwn = await tx.get(OWN, work.lineage, this.replica)
    return isOwn !== undefined || (await this.#take(tx, work, true)) !== undefined
  }

  /**
   * Part of a write: locks the lease, also after its time. Whoever takes it over has another token.
   * @throws CertError CERT_LEASE_LOST, also if another certificate is current than the one that it names
   */
  async assertInForce(tx: Transaction, { lineage, token, currentId }: Lease): Promise<void> {
    const params = [token, this.replica, currentId, lineage]
    if (!(await tx.get(IN_FORCE, ...params))) throw leaseLost(lineage)
  }

  /** Part of a write. */
  async release(tx: Transaction, { token }: Lease): Promise<void> {
    await tx.run(RELEASE, token, this.replica)
  }

  /** Runs the write that ends a lease, which is not taken for lost as it ends. */
  async ending<T>(lease: Lease | undefined, write: () => Promise<T>): Promise<T> {
    const held = lease && this.#held.get(lease.token)
    if (!held) return write()
    this.#held.delete(lease.token)
    try {
      return await write()
    } catch (error) {
      if (!hasCode(error, 'CERT_LEASE_LOST')) this.#held.set(lease.token, held)
      throw error
    }
  }

  /** Renews all leases. What another replica has taken over is lost. */
  async renew(): Promise<void> {
    const sql = `UPDATE leases SET until = ${this.#now} + ${LEASE_MS} WHERE token = $1 AND holder = $2`
    const held = [...this.#held]
    if (held.length === 0) return
    const renew = (tx: Transaction) =>
      Promise.all(held.map(([token]) => tx.run(sql, token, this.replica)))
    const renewed = await this.#db.transaction(renew, { durable: false })
    for (const [i, [token, { lose }]] of held.entries())
      if (renewed[i] === 0 && this.#held.delete(token)) lose()
  }

  /** Those who still have one of these learn that they lost it. */
  async deleteExpired(): Promise<void> {
    const sql = `DELETE FROM leases WHERE token IN (
      SELECT token FROM leases WHERE until < ${this.#now} - ${KEPT_MS}
      LIMIT 1000 FOR UPDATE SKIP LOCKED)`
    await this.#db.transaction((tx) => tx.run(sql), { durable: false })
  }

  /** For the end of this replica. */
  async releaseAll(): Promise<void> {
    this.#held.clear()
    await this.#db.run(RELEASE_ALL, this.replica)
  }

  /** Part of a write: takes a lineage if no other replica has it, in place of what this one had. Gives the token. */
  async #take(tx: Transaction, work: Work, isClaim = false): Promise<number | undefined> {
    const { lineage, askedBy, domain, names } = work
    const until = `${this.#now} + ${LEASE_MS}`
    const asked = askedBy === undefined ? null : indexable(askedBy)
    const [, row] = await Promise.all([
      tx.run(
        `DELETE FROM leases WHERE lineage = $1 AND (holder = $2 OR until <= ${this.#now})`,
        ...[lineage, this.replica],
      ),
      tx.get<{ token: number }>(
        `INSERT INTO leases (lineage, holder, until, is_claim, asked_by, domain, names)
        VALUES ($1, $2, ${until}, $3, $4, $5, $6) ON CONFLICT (lineage) DO NOTHING RETURNING token`,
        ...[lineage, this.replica, isClaim, asked, domain, names],
      ),
    ])
    return row?.token
  }

  #hold(taken: Omit<Lease, 'lost'>): Lease {
    const losing = new AbortController()
    const lease = { ...taken, lost: losing.signal }
    this.#held.set(lease.token, { lease, lose: () => losing.abort() })
    return lease
  }
}

import { hasCode } from '../../errors.ts'
import type { Lease, Work } from '../store.ts'
import type { Database } from './database.ts'
import { indexable, itemsOf } from './text.ts'

/** How long a lease lasts, by the database's clock. It is renewed three times as often. */
export const LEASE = `interval '15 seconds'`

const TAKEN = itemsOf<Work>({
  lineage: ['text', ({ lineage }) => indexable(lineage)],
  asked_by: ['text', ({ askedBy }) => askedBy && indexable(askedBy)],
  domain: ['text', ({ domain }) => domain],
  names: ['bigint', ({ names }) => names],
})
/**
 * Until the commit nobody else takes a lease that counts for a quota: so tokens grow in the order in which
 * leases become visible, and whoever counts those up to its own misses none.
 */
const IN_ORDER = `SELECT pg_advisory_xact_lock(1734440042, hashtext(current_schema()))`
const TAKE = `
  INSERT INTO leases (lineage, holder, token, until, asked_by, domain, names)
  SELECT lineage, ${TAKEN.next(1)}::uuid, nextval('lease_tokens'), clock_timestamp() + ${LEASE},
    asked_by, domain, names
  FROM ${TAKEN.sql} ORDER BY lineage
  ON CONFLICT (lineage) DO UPDATE SET
    holder = excluded.holder, token = excluded.token, until = excluded.until,
    asked_by = excluded.asked_by, domain = excluded.domain, names = excluded.names
  WHERE leases.holder = excluded.holder OR leases.until <= clock_timestamp()
  RETURNING lineage, token`
// After the lease is taken, so that it sees what the last holder stored.
const CURRENT =
  'SELECT lineage, id FROM certificates WHERE is_current AND lineage = ANY ($1::text[])'

const RELEASE = `
  DELETE FROM leases
  WHERE holder = $1::uuid AND lineage = ANY ($2::text[]) AND token = ANY ($3::bigint[])`
const RENEW = `
  UPDATE leases SET until = clock_timestamp() + ${LEASE}
  WHERE holder = $1::uuid AND lineage = ANY ($2::text[]) AND token > 0 RETURNING token`
const RELEASE_ALL = 'DELETE FROM leases WHERE holder = $1::uuid'
const IS_BUSY = `
  SELECT FROM leases
  WHERE domain = $1 AND holder <> $2::uuid AND until > clock_timestamp() LIMIT 1`
/** Those who still have one of these learn that they lost it. */
const DELETE_EXPIRED = `
  DELETE FROM leases WHERE lineage IN (
    SELECT lineage FROM leases WHERE until < clock_timestamp() - interval '1 minute'
    LIMIT 1000 FOR UPDATE SKIP LOCKED)`

/** Work on lineages, of which no two replicas do the same. */
export class Leases {
  readonly #db: Database
  readonly #take: (work: Work) => Promise<Lease | undefined>
  readonly #release: (lease: Lease) => Promise<void>
  /** Leases to be renewed, by their token. */
  readonly #held = new Map<number, { readonly lease: Lease; lose(): void }>()

  constructor(db: Database) {
    this.#db = db
    this.#take = db.turn<Work, Lease | undefined>({
      durable: false,
      statements: (works) => {
        return [
          { sql: IN_ORDER },
          { sql: TAKE, params: [...TAKEN.params(works), db.replica], keep: true },
          { sql: CURRENT, params: [lineagesOf(works)], keep: true },
        ]
      },
      settle: ([, taken = [], current = []], works) => {
        const tokens = new Map(taken.map(({ lineage, token }) => [lineage, token as number]))
        const ids = new Map(current.map(({ lineage, id }) => [lineage, id as number]))
        return works.map(({ lineage }) => {
          const token = tokens.get(indexable(lineage))
          const currentId = ids.get(indexable(lineage)) ?? null
          return token === undefined ? undefined : this.#hold({ lineage, token, currentId })
        })
      },
    })
    this.#release = db.turn<Lease, void>({
      durable: false,
      statements: (leases) => {
        const tokens = leases.map(({ token }) => token)
        return [{ sql: RELEASE, params: [db.replica, lineagesOf(leases), tokens] }]
      },
      settle: (_, leases) => leases.map(() => undefined),
    })
  }

  takeLease = (work: Work): Promise<Lease | undefined> => this.#take(work)

  releaseLease = async (lease: Lease): Promise<void> => {
    // One that ended by itself is gone.
    if (this.#held.delete(lease.token)) await this.#release(lease)
  }

  isBusyElsewhere = async (domain: string): Promise<boolean> =>
    (await this.#db.get(IS_BUSY, domain, this.#db.replica)) !== undefined

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
    const held = [...this.#held.values()]
    if (held.length === 0) return
    const params = [this.#db.replica, lineagesOf(held.map(({ lease }) => lease))]
    const rows = await this.#db.change<{ token: number }>(RENEW, params, { durable: false })
    const renewed = new Set(rows.map(({ token }) => token))
    for (const { lease, lose } of held)
      if (!renewed.has(lease.token) && this.#held.delete(lease.token)) lose()
  }

  async deleteExpired(): Promise<void> {
    await this.#db.write([{ sql: DELETE_EXPIRED }], { durable: false })
  }

  /** For the end of this replica. */
  async releaseAll(): Promise<void> {
    this.#held.clear()
    await this.#db.run(RELEASE_ALL, this.#db.replica)
  }

  #hold(taken: Omit<Lease, 'lost'>): Lease {
    const losing = new AbortController()
    const lease = { ...taken, lost: losing.signal }
    this.#held.set(lease.token, { lease, lose: () => losing.abort() })
    return lease
  }
}

function lineagesOf(all: readonly { readonly lineage: string }[]): readonly string[] {
  return all.map(({ lineage }) => indexable(lineage))
}

import type { Changes } from './changes.ts'
import type { Database } from './database.ts'
import type { Leases } from './leases.ts'

const SECOND = 1_000
const RENEW_EVERY = 5 * SECOND
const TIDY_EVERY = 60 * SECOND
const LEADER = 'upkeep'

const BEAT = `
  INSERT INTO replicas (id, name, seen_at) VALUES ($1, $2, clock_timestamp())
  ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
  RETURNING seen_at::text AS "seenAt", EXISTS (
    SELECT FROM replicas WHERE id <> $1::uuid AND seen_at > clock_timestamp() - interval '1 minute'
  ) AS "hasOthers"`
/**
 * One of the same name was this one, before it was killed and started again, if it has shown no life since
 * then: no beat, and no connection, which one that is only paused still has.
 */
const REPLACE = `
  DELETE FROM replicas
  WHERE name = $1 AND seen_at < $2::timestamptz AND seen_at < clock_timestamp() - interval '5 seconds'
    AND NOT EXISTS (
      SELECT FROM pg_stat_activity WHERE application_name LIKE '${sessionsOf('')}' || left(id::text, 8) || ' %')`
const LEAVE = 'DELETE FROM replicas WHERE id = $1::uuid'
const DELETE_DEAD = `DELETE FROM replicas WHERE seen_at < clock_timestamp() - interval '1 day'`

/** The beginning of the name that the connections of a replica have in the database. */
export function sessionsOf(replica: string): string {
  return `gatehouse-certs ${replica.slice(0, 8)}`
}

interface Parts {
  readonly name: string
  readonly changes: Changes
  readonly leases: Leases
}

/** This replica among the others: shows that it lives, and deletes what all have done with. */
export class Membership {
  readonly #db: Database
  readonly #name: string
  readonly #changes: Changes
  readonly #leases: Leases
  readonly #timers: NodeJS.Timeout[] = []
  readonly #underWay = new Set<Promise<void>>()

  constructor(db: Database, { name, changes, leases }: Parts) {
    this.#db = db
    this.#name = name
    this.#changes = changes
    this.#leases = leases
  }

  isLeader = (): boolean => this.#db.postgres.leads(LEADER)

  async join(): Promise<void> {
    const { replica } = this.#db
    const [rows] = await this.#db.write([{ sql: BEAT, params: [replica, this.#name] }])
    const joinedAt = String(rows?.[0]?.seenAt)
    await this.#replace(joinedAt)
    await this.#db.postgres.tryLead(LEADER)
    this.#every(SECOND, () => this.#beat())
    this.#every(RENEW_EVERY, () => this.#leases.renew())
    this.#every(RENEW_EVERY, () => this.#replace(joinedAt))
    this.#every(TIDY_EVERY, async () => {
      if (this.isLeader()) await this.tidy()
    })
  }

  async leave(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    // A beat would add the row again.
    await Promise.all(this.#underWay)
    await this.#leases.releaseAll()
    await this.#db.run(LEAVE, this.#db.replica)
  }

  /** Deletes what replicas left behind, and no data. */
  async tidy(): Promise<void> {
    await this.#changes.deleteOld()
    await this.#leases.deleteExpired()
    await this.#db.write([{ sql: DELETE_DEAD }], { durable: false })
    await this.#db.postgres.prune()
  }

  async #beat(): Promise<void> {
    const beat = { sql: BEAT, params: [this.#db.replica, this.#name] }
    const [rows] = await this.#db.write([beat], { durable: false })
    this.#changes.expectListeners(rows?.[0]?.hasOthers !== false)
    if (!this.isLeader()) await this.#db.postgres.tryLead(LEADER)
  }

  async #replace(joinedAt: string): Promise<void> {
    await this.#db.write([{ sql: REPLACE, params: [this.#name, joinedAt] }], { durable: false })
  }

  /** Runs `work` so often, and never twice at once. It fails only while the database is away. */
  #every(ms: number, work: () => Promise<void>): void {
    let last: Promise<void> | undefined
    const start = () => {
      if (last && this.#underWay.has(last)) return
      const run = work().catch(() => {})
      last = run
      this.#underWay.add(run)
      void run.then(() => this.#underWay.delete(run))
    }
    this.#timers.push(setInterval(start, ms).unref())
  }
}

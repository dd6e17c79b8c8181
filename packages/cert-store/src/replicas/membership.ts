import type { Postgres, Transaction } from '@gatehouse/store'
import type { Leases } from '../orders/leases.ts'
import { LEASE_RENEWED_EVERY } from '../port/times.ts'
import { type SharedChanges, WAS_REPLACED } from './changes.ts'

const SECOND = 1_000
const TIDY_EVERY = 60 * SECOND
const LEADER = 'upkeep'

const BEAT = `
  INSERT INTO replicas (id, name, seen_at) VALUES ($1, $2, clock_timestamp())
  ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
  RETURNING EXISTS (
    SELECT FROM replicas WHERE id <> $1 AND seen_at > clock_timestamp() - interval '1 minute'
  ) AS "hasOthers"`
const REPLACE = `DELETE FROM replicas AS replica WHERE name = $1 AND ${WAS_REPLACED}`
const LEAVE = 'DELETE FROM replicas WHERE id = $1'
const DELETE_DEAD = `DELETE FROM replicas WHERE seen_at < clock_timestamp() - interval '1 day'`

interface MembershipParts {
  readonly name: string
  readonly changes: SharedChanges
  readonly leases: Leases
}

/** Keeps this replica among the others: shows that it lives, and deletes what all have read. */
export class Membership {
  readonly #name: string
  readonly #postgres: Postgres
  readonly #changes: SharedChanges
  readonly #leases: Leases
  readonly #timers: NodeJS.Timeout[] = []
  readonly #underWay = new Set<Promise<void>>()

  constructor(postgres: Postgres, { name, changes, leases }: MembershipParts) {
    this.#postgres = postgres
    this.#name = name
    this.#changes = changes
    this.#leases = leases
  }

  isLeader = (): boolean => this.#postgres.leads(LEADER)

  async join(): Promise<void> {
    await this.#postgres.run(BEAT, this.#leases.replica, this.#name)
    await this.#replace()
    await this.#postgres.tryLead(LEADER)
    this.#every(SECOND, () => this.#beat())
    this.#every(LEASE_RENEWED_EVERY, () => this.#leases.renew())
    this.#every(LEASE_RENEWED_EVERY, () => this.#replace())
    this.#every(TIDY_EVERY, async () => {
      if (this.isLeader()) await this.tidy()
    })
  }

  async leave(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    // A beat would add the row again.
    await Promise.all(this.#underWay)
    await this.#leases.releaseAll()
    await this.#postgres.run(LEAVE, this.#leases.replica)
  }

  /** Deletes what replicas left behind, and no data. */
  async tidy(): Promise<void> {
    await this.#changes.deleteOld()
    await this.#leases.deleteExpired()
    await this.#postgres.transaction((tx) => tx.run(DELETE_DEAD), { durable: false })
    await this.#postgres.prune()
  }

  async #beat(): Promise<void> {
    const beat = (tx: Transaction) =>
      tx.get<{ hasOthers: boolean }>(BEAT, this.#leases.replica, this.#name)
    const row = await this.#postgres.transaction(beat, { durable: false })
    this.#changes.expectListeners(row?.hasOthers !== false)
    if (!this.isLeader()) await this.#postgres.tryLead(LEADER)
  }

  async #replace(): Promise<void> {
    await this.#postgres.transaction((tx) => tx.run(REPLACE, this.#name), { durable: false })
  }

  /** Runs `work` so often, and never twice at once. It fails only while the database is away. */
  #every(ms: number, work: () => Promise<void>): void {
    let running: Promise<void> | undefined
    const start = () => {
      if (running && this.#underWay.has(running)) return
      const run = work().catch(() => {})
      running = run
      this.#underWay.add(run)
      void run.then(() => this.#underWay.delete(run))
    }
    this.#timers.push(setInterval(start, ms).unref())
  }
}

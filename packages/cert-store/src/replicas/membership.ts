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
export function membershipOf(postgres: Postgres, { name, changes, leases }: MembershipParts) {
  const timers: NodeJS.Timeout[] = []
  const underWay = new Set<Promise<void>>()
  const isLeader = (): boolean => postgres.leads(LEADER)

  async function beat(): Promise<void> {
    const beat = (tx: Transaction) => tx.get<{ hasOthers: boolean }>(BEAT, leases.replica, name)
    const row = await postgres.transaction(beat, { durable: false })
    changes.expectListeners(row?.hasOthers !== false)
    if (!isLeader()) await postgres.tryLead(LEADER)
  }

  async function replace(): Promise<void> {
    await postgres.transaction((tx) => tx.run(REPLACE, name), { durable: false })
  }

  /** Deletes what replicas left behind, and no data. */
  async function tidy(): Promise<void> {
    await changes.deleteOld()
    await leases.deleteExpired()
    await postgres.transaction((tx) => tx.run(DELETE_DEAD), { durable: false })
    await postgres.prune()
  }

  /** Runs `work` so often, and never twice at once. It fails only while the database is away. */
  function every(ms: number, work: () => Promise<void>): void {
    let running: Promise<void> | undefined
    const start = () => {
      if (running && underWay.has(running)) return
      const run = work().catch(() => {})
      running = run
      underWay.add(run)
      void run.then(() => underWay.delete(run))
    }
    timers.push(setInterval(start, ms).unref())
  }

  return {
    isLeader,
    tidy,
    async join(): Promise<void> {
      await postgres.run(BEAT, leases.replica, name)
      await replace()
      await postgres.tryLead(LEADER)
      every(SECOND, beat)
      every(LEASE_RENEWED_EVERY, () => leases.renew())
      every(LEASE_RENEWED_EVERY, replace)
      every(TIDY_EVERY, async () => {
        if (isLeader()) await tidy()
      })
    },
    async leave(): Promise<void> {
      for (const timer of timers) clearInterval(timer)
      // A beat would add the row again.
      await Promise.all(underWay)
      await leases.releaseAll()
      await postgres.run(LEAVE, leases.replica)
    },
  }
}

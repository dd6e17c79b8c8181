import type { Engine, Transaction } from './engine.ts'
import type { RecordOf, Table } from './tables.ts'

const DAY = 86_400_000

/** The columns of a table of events, each of which waits for one receiver. */
export const WAITING = {
  id: 'id',
  receiver: 'text', // by name
  body: 'text', // JSON
  at: 'integer',
  tries: 'integer',
  nextAt: 'integer',
} as const

// What another replica claims at this moment is its own. What a clock wrote that was ahead delays nothing.
const DUE = `
  WHERE receiver = $1 AND (next_at <= $2 OR next_at > $2::bigint + ${DAY})
  ORDER BY next_at, id LIMIT $3 FOR UPDATE SKIP LOCKED`

/** A row, which may have more columns. */
type WaitingEvent = RecordOf<typeof WAITING>
type NewEvent = Pick<WaitingEvent, 'body' | 'at'>

/** The outbox in such a table. The oldest events are dropped when more than `max` wait for a receiver. */
export function outboxOn(db: Engine, table: Table, max: number) {
  const { name } = table
  const findDue = table.select(DUE)
  const dropExcess = `
    DELETE FROM ${name} WHERE receiver = $1 AND id <= (
      SELECT id FROM ${name} WHERE receiver = $1 ORDER BY id DESC LIMIT 1 OFFSET ${max})`
  return {
    /** Part of a write: adds an event for each of these receivers. */
    async enqueue(tx: Transaction, receivers: readonly string[], event: NewEvent): Promise<void> {
      const rows = receivers.map((receiver) => ({ receiver, ...event, tries: 0, nextAt: event.at }))
      const added = table.addAll(tx, rows)
      await Promise.all([added, ...receivers.map((receiver) => tx.run(dropExcess, receiver))])
    },
    claimDueEvents: (receiver: string, now: number, limit: number, until: number) =>
      db.transaction(async (tx) => {
        const due = await tx.all<WaitingEvent>(findDue, receiver, now, limit)
        const claim = `UPDATE ${name} SET next_at = $2 WHERE id = $1`
        await Promise.all(due.map(({ id }) => tx.run(claim, id, until)))
        return due
      }),
    async hastenEvents(receiver: string, now: number, claimedUntil: number): Promise<void> {
      const hasten = `UPDATE ${name} SET next_at = $2 WHERE receiver = $1 AND next_at > $3`
      await db.run(hasten, receiver, now, claimedUntil)
    },
    async delayEvent(id: number, nextAt: number): Promise<void> {
      await db.run(`UPDATE ${name} SET tries = tries + 1, next_at = $2 WHERE id = $1`, id, nextAt)
    },
    async deleteEvent(id: number): Promise<void> {
      await db.run(`DELETE FROM ${name} WHERE id = $1`, id)
    },
  }
}

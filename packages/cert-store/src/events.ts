import type { Engine } from '@gatehouse/store'
import type { EventRecord, Events } from './port/store.ts'
import { DAY, MAX_ROWS, repeat } from './schema/sql.ts'
import { EVENTS, TOLD } from './schema/tables.ts'

/** The oldest events are dropped when more than this wait for a receiver. */
const MAX_EVENTS = 10_000

// What a clock that was ahead wrote neither delays nor suppresses an event.
const IF_OVER = ` WHERE told.until <= excluded.at OR told.at > excluded.at + ${DAY}`
const DROP_EXCESS = `
  DELETE FROM events WHERE receiver = $1 AND id <= (
    SELECT id FROM events WHERE receiver = $1 ORDER BY id DESC LIMIT 1 OFFSET ${MAX_EVENTS})`
// What another replica claims at this moment is its own.
const DUE = `
  SELECT id, body, at, tries FROM events
  WHERE receiver = $1 AND (next_at <= $2 OR next_at > $2::bigint + ${DAY})
  ORDER BY next_at, id LIMIT $3 FOR UPDATE SKIP LOCKED`
const CLAIM = 'UPDATE events SET next_at = $2 WHERE id = $1'
const DELAY = 'UPDATE events SET tries = tries + 1, next_at = $2 WHERE id = $1'
const COUNT = 'SELECT receiver, count(*) AS total FROM events GROUP BY receiver'
const DELETE_TOLD = ['until <= $1', `at > $1::bigint + ${DAY}`].map(
  (which) => `
  DELETE FROM told WHERE key IN (SELECT key FROM told WHERE ${which} LIMIT ${MAX_ROWS})`,
)
const DROP_ORPHANS = `
  DELETE FROM events
  WHERE at <= $1 AND receiver NOT IN (SELECT value FROM json_array_elements_text($2::json))`

/** The outbox. */
export function eventsOn(db: Engine): Events {
  return {
    addEvent: ({ body, at, receivers, once }) =>
      db.transaction(async (tx) => {
        if (once) {
          const row = { key: once.key, until: once.until, at }
          const conflict = `${TOLD.replacing(['key'], row)}${once.always ? '' : IF_OVER}`
          if ((await TOLD.add(tx, row, conflict)) === 0) return
        }
        const event = { body, at, tries: 0, nextAt: at }
        await Promise.all(
          receivers.flatMap((receiver) => [
            EVENTS.add(tx, { receiver, ...event }),
            tx.run(DROP_EXCESS, receiver),
          ]),
        )
      }),
    async countEvents() {
      const rows = await db.all<{ receiver: string; total: number }>(COUNT)
      return Object.fromEntries(rows.map(({ receiver, total }) => [receiver, total]))
    },
    claimDueEvents: (receiver, now, limit, until) =>
      db.transaction(async (tx) => {
        const due = await tx.all<EventRecord>(DUE, receiver, now, limit)
        await Promise.all(due.map(({ id }) => tx.run(CLAIM, id, until)))
        return due
      }),
    async delayEvent(id, nextAt) {
      await db.run(DELAY, id, nextAt)
    },
    async deleteEvent(id) {
      await db.run('DELETE FROM events WHERE id = $1', id)
    },
    async pruneEvents(now, { receivers, olderThan }) {
      for (const sql of DELETE_TOLD) await repeat(db, sql, now)
      await db.run(DROP_ORPHANS, olderThan, JSON.stringify(receivers))
    },
  }
}

import { type Engine, outboxOn } from '@gatehouse/store'
import type { Events } from './port/store.ts'
import { DAY, MAX_ROWS, repeat } from './schema/sql.ts'
import { EVENTS, TOLD } from './schema/tables.ts'

const MAX_EVENTS = 10_000

// What a clock that was ahead wrote does not suppress an event.
const IF_OVER = ` WHERE told.until <= excluded.at OR told.at > excluded.at + ${DAY}`
const COUNT = 'SELECT receiver, count(*) AS total FROM events GROUP BY receiver'
const DELETE_TOLD = ['until <= $1', `at > $1::bigint + ${DAY}`].map(
  (which) => `
  DELETE FROM told WHERE key IN (SELECT key FROM told WHERE ${which} LIMIT ${MAX_ROWS})`,
)
const DROP_ORPHANS = `
  DELETE FROM events
  WHERE at <= $1 AND receiver NOT IN (SELECT value FROM json_array_elements_text($2::json))`

/** The outbox, which does not send again what was told once. */
export function eventsOn(db: Engine): Events {
  const { enqueue, ...outbox } = outboxOn(db, EVENTS, MAX_EVENTS)
  return {
    ...outbox,
    addEvent: ({ body, at, receivers, once }) =>
      db.transaction(async (tx) => {
        if (once) {
          const row = { key: once.key, until: once.until, at }
          const conflict = `${TOLD.replacing(['key'], row)}${once.always ? '' : IF_OVER}`
          if ((await TOLD.add(tx, row, conflict)) === 0) return
        }
        await enqueue(tx, receivers, { body, at })
      }),
    async countEvents() {
      const rows = await db.all<{ receiver: string; total: number }>(COUNT)
      return Object.fromEntries(rows.map(({ receiver, total }) => [receiver, total]))
    },
    async pruneEvents(now, { receivers, olderThan }) {
      for (const sql of DELETE_TOLD) await repeat(db, sql, now)
      await db.run(DROP_ORPHANS, olderThan, JSON.stringify(receivers))
    },
  }
}

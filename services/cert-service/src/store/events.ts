import type { Database } from './database.ts'
import type { EventRecord, Store } from './store.ts'

/** More than so many wait for nobody: the oldest go. */
const MAX_EVENTS = 10_000
const DAY = 86_400_000

type Methods = Pick<
  Store,
  'addEvent' | 'countEvents' | 'listDueEvents' | 'delayEvent' | 'deleteEvent' | 'pruneEvents'
>

/**
 * The events that are yet to be told, and what was told lately. What a clock wrote that was ahead
 * neither delays an event nor keeps one from being told.
 */
export function createEvents(db: Database): Methods {
  const wasTold = db.prepare(
    `SELECT 1 FROM told WHERE key = ?1 AND until > ?2 AND at <= ?2 + ${DAY}`,
  )
  const tell = db.prepare('INSERT OR REPLACE INTO told (key, until, at) VALUES (?, ?, ?)')
  const insert = db.prepare('INSERT INTO events (body, at, tries, next_at) VALUES (?, ?, 0, ?)')
  const deleteOldest = db.prepare('DELETE FROM events WHERE id <= ?')
  const count = db.prepare('SELECT count(*) AS events FROM events')
  const due = db.prepare(`
    SELECT id, body, at, tries FROM events WHERE next_at <= ?1 OR next_at > ?1 + ${DAY}
    ORDER BY next_at, id LIMIT ?2`)
  const delay = db.prepare('UPDATE events SET tries = tries + 1, next_at = ? WHERE id = ?')
  const deleteOne = db.prepare('DELETE FROM events WHERE id = ?')
  const deleteTold = db.prepare(`DELETE FROM told WHERE until <= ?1 OR at > ?1 + ${DAY}`)

  return {
    addEvent: ({ body, at, once }) =>
      db.write(() => {
        if (once && !once.anew && wasTold.get(once.key, at)) return
        if (once) tell.run(once.key, once.until, at)
        const { lastInsertRowid } = insert.run(body, at, at)
        deleteOldest.run(Number(lastInsertRowid) - MAX_EVENTS)
      }),
    countEvents: () => db.read(() => Number(count.get()?.events)),
    listDueEvents: (now, limit) =>
      db.read(() => due.all(now, limit).map((row) => ({ ...row }) as unknown as EventRecord)),
    delayEvent: (id, nextAt) => db.write(() => void delay.run(nextAt, id)),
    deleteEvent: (id) => db.write(() => void deleteOne.run(id)),
    pruneEvents: (now) => db.write(() => void deleteTold.run(now)),
  }
}

import type { Database } from './database.ts'
import type { EventRecord, Store } from './store.ts'

/** More than so many wait for nobody: the oldest go. */
const MAX_EVENTS = 10_000

type Methods = Pick<
  Store,
  'addEvent' | 'listDueEvents' | 'delayEvent' | 'deleteEvent' | 'pruneEvents'
>

/** The events that are yet to be told, and what was told lately. */
export function createEvents(db: Database): Methods {
  const wasTold = db.prepare('SELECT 1 FROM told WHERE key = ? AND until > ?')
  const tell = db.prepare('INSERT OR REPLACE INTO told (key, until) VALUES (?, ?)')
  const insert = db.prepare('INSERT INTO events (body, at, tries, next_at) VALUES (?, ?, 0, ?)')
  const deleteOldest = db.prepare('DELETE FROM events WHERE id <= ?')
  const due = db.prepare(`
    SELECT id, body, at, tries FROM events WHERE next_at <= ? ORDER BY next_at, id LIMIT ?`)
  const delay = db.prepare('UPDATE events SET tries = tries + 1, next_at = ? WHERE id = ?')
  const deleteOne = db.prepare('DELETE FROM events WHERE id = ?')
  const deleteTold = db.prepare('DELETE FROM told WHERE until <= ?')

  return {
    addEvent: ({ body, at, once }) =>
      db.write(() => {
        if (once && !once.anew && wasTold.get(once.key, at)) return
        if (once) tell.run(once.key, once.until)
        const { lastInsertRowid } = insert.run(body, at, at)
        deleteOldest.run(Number(lastInsertRowid) - MAX_EVENTS)
      }),
    listDueEvents: (now, limit) =>
      db.read(() => due.all(now, limit).map((row) => ({ ...row }) as unknown as EventRecord)),
    delayEvent: (id, nextAt) => db.write(() => void delay.run(nextAt, id)),
    deleteEvent: (id) => db.write(() => void deleteOne.run(id)),
    pruneEvents: (now) => db.write(() => void deleteTold.run(now)),
  }
}

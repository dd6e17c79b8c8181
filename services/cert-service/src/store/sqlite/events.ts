import { MAX_EVENTS } from '../bounds.ts'
import type { EventRecord, NewEvent, Store } from '../store.ts'
import type { Database } from './database.ts'

const DAY = 86_400_000

// What a clock that was ahead wrote neither delays nor suppresses an event.
const WAS_SENT = `SELECT 1 FROM told WHERE key = ?1 AND until > ?2 AND at <= ?2 + ${DAY}`
const DUE = `
  SELECT id, body, at, tries FROM events
  WHERE receiver = ?1 AND (next_at <= ?2 OR next_at > ?2 + ${DAY})
  ORDER BY next_at, id LIMIT ?3`
const DROP_EXCESS = `
  DELETE FROM events WHERE receiver = ?1 AND id <= (
    SELECT id FROM events WHERE receiver = ?1 ORDER BY id DESC LIMIT 1 OFFSET ${MAX_EVENTS})`
const DROP_ORPHANS = `
  DELETE FROM events
  WHERE at <= ?1 AND receiver NOT IN (SELECT value FROM json_each(?2))`
const COUNT = 'SELECT receiver, count(*) AS total FROM events GROUP BY receiver'
const DELETE_SENT = `DELETE FROM told WHERE until <= ?1 OR at > ?1 + ${DAY}`

/** The outbox. */
export class Events {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addEvent = ({ body, at, receivers, once }: NewEvent): Promise<void> =>
    this.#db.write(() => {
      if (once && !once.always && this.#db.prepare(WAS_SENT).get(once.key, at)) return
      if (once) this.#db.insert('told', { key: once.key, until: once.until, at }, 'REPLACE')
      for (const receiver of receivers) {
        this.#db.insert('events', { receiver, body, at, tries: 0, nextAt: at })
        this.#db.prepare(DROP_EXCESS).run(receiver)
      }
    })

  countEvents = async (): Promise<Readonly<Record<string, number>>> => {
    const rows = await this.#db.all<{ receiver: string; total: number }>(COUNT)
    return Object.fromEntries(rows.map(({ receiver, total }) => [receiver, total]))
  }

  // Nobody else sends them.
  claimDueEvents = (receiver: string, now: number, limit: number) =>
    this.#db.all<EventRecord>(DUE, receiver, now, limit)

  delayEvent = (id: number, nextAt: number) =>
    this.#db.run('UPDATE events SET tries = tries + 1, next_at = ? WHERE id = ?', nextAt, id)

  deleteEvent = (id: number) => this.#db.run('DELETE FROM events WHERE id = ?', id)

  pruneEvents = (now: number, { receivers, before }: Parameters<Store['pruneEvents']>[1]) =>
    this.#db.write(() => {
      this.#db.prepare(DELETE_SENT).run(now)
      this.#db.prepare(DROP_ORPHANS).run(before, JSON.stringify(receivers))
    })
}

import { MAX_EVENTS } from '../bounds.ts'
import type { EventRecord, NewEvent } from '../store.ts'
import type { Database } from './database.ts'

const DAY = 86_400_000

// What a clock that was ahead wrote neither delays nor suppresses an event.
const WAS_SENT = `SELECT 1 FROM told WHERE key = ?1 AND until > ?2 AND at <= ?2 + ${DAY}`
const DUE = `
  SELECT id, body, at, tries FROM events WHERE next_at <= ?1 OR next_at > ?1 + ${DAY}
  ORDER BY next_at, id LIMIT ?2`
const DELETE_SENT = `DELETE FROM told WHERE until <= ?1 OR at > ?1 + ${DAY}`

/** The outbox of the webhook. */
export class Events {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addEvent = ({ body, at, once }: NewEvent): Promise<void> =>
    this.#db.write(() => {
      if (once && !once.always && this.#db.prepare(WAS_SENT).get(once.key, at)) return
      if (once) this.#db.insert('told', { key: once.key, until: once.until, at }, 'REPLACE')
      const id = this.#db.insert('events', { body, at, tries: 0, nextAt: at })
      this.#db.prepare('DELETE FROM events WHERE id <= ?').run(id - MAX_EVENTS)
    })

  countEvents = async (): Promise<number> =>
    (await this.#db.get<{ total: number }>('SELECT count(*) AS total FROM events'))?.total ?? 0

  // Nobody else posts them.
  claimDueEvents = (now: number, limit: number) => this.#db.all<EventRecord>(DUE, now, limit)

  delayEvent = (id: number, nextAt: number) =>
    this.#db.run('UPDATE events SET tries = tries + 1, next_at = ? WHERE id = ?', nextAt, id)

  deleteEvent = (id: number) => this.#db.run('DELETE FROM events WHERE id = ?', id)

  pruneEvents = (now: number) => this.#db.run(DELETE_SENT, now)
}

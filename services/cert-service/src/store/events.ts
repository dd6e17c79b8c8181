import type { Database } from './database.ts'
import type { EventRecord, NewEvent } from './records.ts'

const DAY = 86_400_000
/** When more events than this wait, the oldest are dropped. */
const MAX_EVENTS = 10_000
/** Expired usage is kept this long by the run time, as the clock may be wrong. */
const USAGE_KEPT_MS = 7 * DAY

// What a clock that was ahead wrote neither delays nor suppresses an event.
const WAS_SENT = `SELECT 1 FROM told WHERE key = ?1 AND until > ?2 AND at <= ?2 + ${DAY}`
const DUE = `
  SELECT id, body, at, tries FROM events WHERE next_at <= ?1 OR next_at > ?1 + ${DAY}
  ORDER BY next_at, id LIMIT ?2`
const DELETE_SENT = `DELETE FROM told WHERE until <= ?1 OR at > ?1 + ${DAY}`

/** The outbox of the webhook, and the used share of the rate limits of CAs. */
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

  /** Events whose next try is due, the one that waits longest first. */
  listDueEvents = (now: number, limit: number) => this.#db.all<EventRecord>(DUE, now, limit)

  delayEvent = (id: number, nextAt: number) =>
    this.#db.run('UPDATE events SET tries = tries + 1, next_at = ? WHERE id = ?', nextAt, id)

  deleteEvent = (id: number) => this.#db.run('DELETE FROM events WHERE id = ?', id)

  /** Forgets which events were sent where they may be sent again. */
  pruneEvents = (now: number) => this.#db.run(DELETE_SENT, now)

  /** Rows of the rate limits of CAs: when a bucket is full again or a fact expires. */
  listUsage = async (
    limit: number,
  ): Promise<readonly (readonly [key: string, until: number])[]> => {
    const sql = 'SELECT key, until FROM usage ORDER BY until DESC LIMIT ?'
    const rows = await this.#db.all<{ key: string; until: number }>(sql, limit)
    return rows.map(({ key, until }) => [key, until])
  }

  saveUsage = (rows: readonly (readonly [key: string, until: number])[]): Promise<void> =>
    this.#db.write(() => {
      for (const [key, until] of rows) this.#db.insert('usage', { key, until }, 'REPLACE')
    })

  /** Deletes rows that expired 7 days of run time ago; gives their keys. */
  pruneUsage = (now: number): Promise<readonly string[]> =>
    this.#db.write(() => {
      const ran = this.#db.runTime()
      this.#db
        .prepare('UPDATE usage SET ended_ran = NULL WHERE ended_ran IS NOT NULL AND until > ?')
        .run(now)
      this.#db
        .prepare('UPDATE usage SET ended_ran = ? WHERE ended_ran IS NULL AND until <= ?')
        .run(ran, now)
      const deleted = this.#db
        .prepare('DELETE FROM usage WHERE ended_ran <= ? RETURNING key')
        .all(ran - USAGE_KEPT_MS)
      return deleted.map(({ key }) => key as string)
    })
}

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

  /** Queues an event for delivery. */
  addEvent = ({ body, at, once }: NewEvent): Promise<void> =>
    this.#db.write(() => {
      if (once && !once.always && this.#db.prepare(WAS_SENT).get(once.key, at)) return
      if (once)
        this.#db
          .prepare('INSERT OR REPLACE INTO told (key, until, at) VALUES (?, ?, ?)')
          .run(once.key, once.until, at)
      const { lastInsertRowid } = this.#db
        .prepare('INSERT INTO events (body, at, tries, next_at) VALUES (?, ?, 0, ?)')
        .run(body, at, at)
      this.#db.prepare('DELETE FROM events WHERE id <= ?').run(Number(lastInsertRowid) - MAX_EVENTS)
    })

  /** How many events wait for delivery. */
  countEvents = (): Promise<number> =>
    this.#db.read(() =>
      Number(this.#db.prepare('SELECT count(*) AS events FROM events').get()?.events),
    )

  /** Events whose next try is due, the one that waits longest first. */
  listDueEvents = (now: number, limit: number): Promise<readonly EventRecord[]> =>
    this.#db.read(() => {
      const rows = this.#db.prepare(DUE).all(now, limit)
      return rows.map((row) => ({ ...row }) as unknown as EventRecord)
    })

  /** Counts a failed try. */
  delayEvent = (id: number, nextAt: number): Promise<void> =>
    this.#db.write(() => {
      this.#db
        .prepare('UPDATE events SET tries = tries + 1, next_at = ? WHERE id = ?')
        .run(nextAt, id)
    })

  deleteEvent = (id: number): Promise<void> =>
    this.#db.write(() => void this.#db.prepare('DELETE FROM events WHERE id = ?').run(id))

  /** Forgets which events were sent where they may be sent again. */
  pruneEvents = (now: number): Promise<void> =>
    this.#db.write(() => void this.#db.prepare(DELETE_SENT).run(now))

  /** Rows of the rate limits of CAs: when a bucket is full again or a fact expires. */
  listUsage = (limit: number): Promise<readonly (readonly [key: string, until: number])[]> =>
    this.#db.read(() =>
      this.#db
        .prepare('SELECT key, until FROM usage ORDER BY until DESC LIMIT ?')
        .all(limit)
        .map(({ key, until }) => [key as string, until as number] as const),
    )

  saveUsage = (rows: readonly (readonly [key: string, until: number])[]): Promise<void> =>
    this.#db.write(() => {
      const replace = this.#db.prepare('INSERT OR REPLACE INTO usage (key, until) VALUES (?, ?)')
      for (const [key, until] of rows) replace.run(key, until)
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

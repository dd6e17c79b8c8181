import { MAX_EVENTS } from '../bounds.ts'
import type { EventRecord, NewEvent } from '../store.ts'
import type { Database } from './database.ts'
import { indexable } from './text.ts'

const DAY = 86_400_000

// What a clock that was ahead wrote neither delays nor suppresses an event.
const ADD_ONCE = `
  WITH new AS (
    INSERT INTO told (key, until, at) VALUES ($3, $4, $2)
    ON CONFLICT (key) DO UPDATE SET until = excluded.until, at = excluded.at
    WHERE $5::boolean OR told.until <= $2 OR told.at > $2::bigint + ${DAY}
    RETURNING key
  )
  INSERT INTO events (body, at, tries, next_at) SELECT $1, $2, 0, $2 FROM new`
const ADD = 'INSERT INTO events (body, at, tries, next_at) VALUES ($1, $2, 0, $2)'
const DROP_EXCESS = `DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ${MAX_EVENTS}`
const CLAIM = `
  WITH due AS (
    SELECT id, next_at FROM events WHERE next_at <= $1 OR next_at > $1::bigint + ${DAY}
    ORDER BY next_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
  ), claimed AS (
    UPDATE events SET next_at = $3 FROM due WHERE events.id = due.id
    RETURNING events.id, body, at, tries, due.next_at AS due_at
  ), kept AS (
    SELECT id, body, at, tries FROM claimed ORDER BY due_at, id
  ) SELECT * FROM kept`
const DELETE_SENT = `DELETE FROM told WHERE until <= $1 OR at > $1::bigint + ${DAY}`

/** The outbox of the webhook. */
export class Events {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addEvent = async ({ body, at, once }: NewEvent): Promise<void> => {
    const add = once
      ? {
          sql: ADD_ONCE,
          params: [body, at, indexable(once.key), once.until, once.always ?? false],
        }
      : { sql: ADD, params: [body, at] }
    await this.#db.write([add, { sql: DROP_EXCESS }])
  }

  countEvents = async (): Promise<number> =>
    (await this.#db.get<{ total: number }>('SELECT count(*) AS total FROM events'))?.total ?? 0

  claimDueEvents = (now: number, limit: number, until: number) =>
    this.#db.change<EventRecord>(CLAIM, [now, limit, until])

  delayEvent = (id: number, nextAt: number) =>
    this.#db.run('UPDATE events SET tries = tries + 1, next_at = $2 WHERE id = $1', id, nextAt)

  deleteEvent = (id: number) => this.#db.run('DELETE FROM events WHERE id = $1', id)

  pruneEvents = (now: number) => this.#db.run(DELETE_SENT, now)
}

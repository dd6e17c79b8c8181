import { MAX_EVENTS } from '../bounds.ts'
import type { EventRecord, NewEvent, Store } from '../store.ts'
import type { Database } from './database.ts'
import { indexable, textArray } from './text.ts'

const DAY = 86_400_000

// What a clock that was ahead wrote neither delays nor suppresses an event.
const ADD_ONCE = `
  WITH new AS (
    INSERT INTO told (key, until, at) VALUES ($3, $4, $2)
    ON CONFLICT (key) DO UPDATE SET until = excluded.until, at = excluded.at
    WHERE $5::boolean OR told.until <= $2 OR told.at > $2::bigint + ${DAY}
    RETURNING key
  )
  INSERT INTO events (receiver, body, at, tries, next_at)
  SELECT receiver, $1, $2, 0, $2 FROM new, unnest($6::text[]) AS receiver`
const ADD = `
  INSERT INTO events (receiver, body, at, tries, next_at)
  SELECT receiver, $1, $2, 0, $2 FROM unnest($3::text[]) AS receiver`
const DROP_EXCESS = `
  DELETE FROM events USING unnest($1::text[]) AS of (receiver), LATERAL (
    SELECT id FROM events AS one WHERE one.receiver = of.receiver
    ORDER BY id DESC LIMIT 1 OFFSET ${MAX_EVENTS}
  ) AS last WHERE events.receiver = of.receiver AND events.id <= last.id`
const CLAIM = `
  WITH due AS (
    SELECT id, next_at FROM events
    WHERE receiver = $4 AND (next_at <= $1 OR next_at > $1::bigint + ${DAY})
    ORDER BY next_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
  ), claimed AS (
    UPDATE events SET next_at = $3 FROM due WHERE events.id = due.id
    RETURNING events.id, body, at, tries, due.next_at AS due_at
  ), kept AS (
    SELECT id, body, at, tries FROM claimed ORDER BY due_at, id
  ) SELECT * FROM kept`
const COUNT = 'SELECT receiver, count(*) AS total FROM events GROUP BY receiver'
const DROP_ORPHANS = 'DELETE FROM events WHERE at <= $1 AND receiver <> ALL ($2::text[])'
const DELETE_SENT = `DELETE FROM told WHERE until <= $1 OR at > $1::bigint + ${DAY}`

/** The outbox. */
export class Events {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addEvent = async ({ body, at, receivers, once }: NewEvent): Promise<void> => {
    const names = textArray(receivers)
    const add = once
      ? {
          sql: ADD_ONCE,
          params: [body, at, indexable(once.key), once.until, once.always ?? false, names],
        }
      : { sql: ADD, params: [body, at, names] }
    await this.#db.write([add, { sql: DROP_EXCESS, params: [names] }])
  }

  countEvents = async (): Promise<Readonly<Record<string, number>>> => {
    const rows = await this.#db.all<{ receiver: string; total: number }>(COUNT)
    return Object.fromEntries(rows.map(({ receiver, total }) => [receiver, total]))
  }

  claimDueEvents = (receiver: string, now: number, limit: number, until: number) =>
    this.#db.change<EventRecord>(CLAIM, [now, limit, until, receiver])

  delayEvent = (id: number, nextAt: number) =>
    this.#db.run('UPDATE events SET tries = tries + 1, next_at = $2 WHERE id = $1', id, nextAt)

  deleteEvent = (id: number) => this.#db.run('DELETE FROM events WHERE id = $1', id)

  pruneEvents: Store['pruneEvents'] = async (now, { receivers, before }) => {
    await this.#db.write([
      { sql: DELETE_SENT, params: [now] },
      { sql: DROP_ORPHANS, params: [before, textArray(receivers)] },
    ])
  }
}

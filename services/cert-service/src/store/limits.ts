import { type Engine, indexable, type Transaction } from '@gatehouse/store'
import { RESERVATIONS, USAGE } from './tables.ts'
import { type Reservation, Usage } from './usage.ts'

const DAY = 86_400_000
/** Expired usage is kept this long by the run time, as the clock may be wrong. */
const USAGE_KEPT_MS = 7 * DAY
/** What callers used is counted for minutes only, so a crash of the database may forget its last second. */
const OF_CALLERS = 'caller '

// Sorted, so that two transactions never wait for each other. The number tells them from other locks.
const LOCK = `
  SELECT pg_advisory_xact_lock(1734440041, lock) FROM (
    SELECT DISTINCT hashtext(value) AS lock FROM json_array_elements_text($1::json)
    ORDER BY lock) AS locks`
// By a subquery for each key, which no planner turns into a read of all rows.
const USED = `
  SELECT value AS key, (SELECT until FROM usage WHERE key = value) AS until
  FROM json_array_elements_text($1::json)`
const RESERVED = `
  SELECT order_id AS "order", key, since FROM reservations
  WHERE key IN (SELECT value FROM json_array_elements_text($1::json)) ORDER BY order_id`
const END = 'DELETE FROM reservations WHERE order_id = $1'
const UNMARK_ENDED = 'UPDATE usage SET ended_ran = NULL WHERE ended_ran IS NOT NULL AND until > $1'
const MARK_ENDED = 'UPDATE usage SET ended_ran = $2 WHERE ended_ran IS NULL AND until <= $1'
const DELETE_ENDED = 'DELETE FROM usage WHERE ended_ran <= $1'
const DELETE_ABANDONED = 'DELETE FROM reservations WHERE since <= $1'

/** The used share of limits. Who changes it has its keys alone until the commit. */
export class Limits {
  readonly #db: Engine

  constructor(db: Engine) {
    this.#db = db
  }

  changeUsage = <T>(keys: readonly string[], change: (usage: Usage) => T): Promise<T> =>
    this.#db.transaction(
      async (tx) => {
        const list = JSON.stringify(keys.map(indexable))
        const [, used, reserved] = await Promise.all([
          this.#db.dialect === 'postgres' && tx.get(LOCK, list),
          tx.all<{ key: string; until: number | null }>(USED, list),
          tx.all<Reservation>(RESERVED, list),
        ])
        const usage = new Usage(used, reserved)
        const result = change(usage)
        await save(tx, usage)
        return result
      },
      { durable: !keys.every((key) => key.startsWith(OF_CALLERS)) },
    )

  pruneUsage = async (now: number): Promise<void> => {
    const ran = this.#db.runTime()
    await this.#db.transaction((tx) =>
      Promise.all([
        tx.run(UNMARK_ENDED, now),
        tx.run(MARK_ENDED, now, ran),
        tx.run(DELETE_ENDED, ran - USAGE_KEPT_MS),
        tx.run(DELETE_ABANDONED, now - DAY),
      ]),
    )
  }
}

/** What ended goes first: an order may begin anew. */
function save(tx: Transaction, { changed, ended, begun }: Usage): Promise<unknown> {
  return Promise.all([
    ...[...changed].map(([key, until]) => USAGE.put(tx, { key, until, endedRan: null })),
    ...[...ended].sort().map((order) => tx.run(END, order)),
    ...begun.map(({ order: orderId, key, since }) => RESERVATIONS.put(tx, { orderId, key, since })),
  ])
}

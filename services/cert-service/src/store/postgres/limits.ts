import type { Statement, Transaction } from '@gatehouse/postgres'
import { storeUnavailable } from '../../errors.ts'
import { RESERVATION_KEPT_MS, USAGE_KEPT_MS } from '../bounds.ts'
import { type Reservation, Usage } from '../usage.ts'
import type { Database } from './database.ts'
import { indexable } from './text.ts'

/** Changes of one transaction. */
const MAX_TOGETHER = 256
const MAX_WAITING = 4_096
/** What callers used is counted for minutes only, so a crash of the database may forget its last second. */
const OF_CALLERS = 'caller '

// Sorted, so that two transactions never wait for each other. The number tells them from other locks.
const LOCK = `
  SELECT pg_advisory_xact_lock(1734440041, lock) FROM (
    SELECT DISTINCT hashtext(key) AS lock FROM unnest($1::text[]) AS key ORDER BY lock) AS locks`
const ROWS = 'SELECT key, until FROM usage WHERE key = ANY ($1::text[])'
const RESERVATIONS = `
  SELECT key, order_id AS "order", since FROM reservations WHERE key = ANY ($1::text[])`
const SAVE = `
  INSERT INTO usage (key, until)
  SELECT key, until FROM unnest($1::text[], $2::bigint[]) AS item (key, until) ORDER BY key
  ON CONFLICT (key) DO UPDATE SET until = excluded.until, ended_ran = NULL`
const END = 'DELETE FROM reservations WHERE order_id = ANY ($1::text[])'
const RESERVE = `
  INSERT INTO reservations (order_id, key, since)
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) ORDER BY 1, 2
  ON CONFLICT (order_id, key) DO UPDATE SET since = excluded.since`
const UNMARK_ENDED = 'UPDATE usage SET ended_ran = NULL WHERE ended_ran IS NOT NULL AND until > $1'
const MARK_ENDED = 'UPDATE usage SET ended_ran = $2 WHERE ended_ran IS NULL AND until <= $1'
const DELETE_ENDED = 'DELETE FROM usage WHERE ended_ran <= $1'
const DELETE_ABANDONED = `DELETE FROM reservations WHERE since <= $1::bigint - ${RESERVATION_KEPT_MS}`

/** A change that waits for its transaction. */
interface Waiting {
  readonly keys: readonly string[]
  change(usage: Usage): unknown
  resolve(result: unknown): void
  reject(error: unknown): void
}

type Outcome = { readonly result: unknown } | { readonly error: unknown }

/** The used share of limits, in rows that are locked while they are changed. */
export class Limits {
  readonly #db: Database
  readonly #ofCallers: UsageChanges
  readonly #ofCas: UsageChanges

  constructor(db: Database) {
    this.#db = db
    this.#ofCallers = new UsageChanges(db, false)
    this.#ofCas = new UsageChanges(db, true)
  }

  changeUsage = <T>(keys: readonly string[], change: (usage: Usage) => T): Promise<T> => {
    const isOfCaller = keys.every((key) => key.startsWith(OF_CALLERS))
    return (isOfCaller ? this.#ofCallers : this.#ofCas).add(keys, change)
  }

  pruneUsage = async (now: number): Promise<void> => {
    const ran = this.#db.runTime()
    await this.#db.write([
      { sql: UNMARK_ENDED, params: [now] },
      { sql: MARK_ENDED, params: [now, ran] },
      { sql: DELETE_ENDED, params: [ran - USAGE_KEPT_MS] },
      { sql: DELETE_ABANDONED, params: [now] },
    ])
  }
}

/** Changes that share transactions: all that come while one is under way go into the next. */
class UsageChanges {
  readonly #db: Database
  readonly #isDurable: boolean
  #waiting: Waiting[] = []
  #work: Promise<void> | undefined

  constructor(db: Database, isDurable: boolean) {
    this.#db = db
    this.#isDurable = isDurable
  }

  add<T>(keys: readonly string[], change: (usage: Usage) => T): Promise<T> {
    if (this.#waiting.length >= MAX_WAITING)
      return Promise.reject(storeUnavailable('too many changes of usage wait'))
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    this.#waiting.push({ keys, change, resolve: resolve as Waiting['resolve'], reject })
    this.#work ??= this.#runAll()
    return promise
  }

  async #runAll(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    while (this.#waiting.length > 0) await this.#run(this.#waiting.splice(0, MAX_TOGETHER))
    this.#work = undefined
  }

  async #run(together: readonly Waiting[]): Promise<void> {
    try {
      const outcomes = await this.#db.transaction((tx) => this.#change(tx, together), {
        durable: this.#isDurable,
      })
      together.forEach(({ resolve, reject }, i) => {
        const outcome = outcomes[i] as Outcome
        if ('error' in outcome) reject(outcome.error)
        else resolve(outcome.result)
      })
    } catch (error) {
      for (const { reject } of together) reject(error)
    }
  }

  async #change(tx: Transaction, together: readonly Waiting[]): Promise<readonly Outcome[]> {
    const plain = [...new Set(together.flatMap(({ keys }) => keys))]
    const byIndexed = new Map(plain.map((key) => [indexable(key), key]))
    const keys = [...byIndexed.keys()]
    const keyOf = <Row extends { readonly key: string }>(row: Row): Row => {
      return { ...row, key: byIndexed.get(row.key) ?? row.key }
    }
    const statements = [LOCK, ROWS, RESERVATIONS].map((sql) => ({ sql, params: [keys] }))
    const [, rows, reserved] = (await tx.pipeline(statements)) as [
      unknown,
      UsageRow[],
      Reservation[],
    ]
    const state = new UsageState(rows.map(keyOf), reserved.map(keyOf))
    const outcomes = together.map((one) => state.apply(one))
    await tx.pipeline(state.changes())
    return outcomes
  }
}

interface UsageRow {
  readonly key: string
  readonly until: number
}

/** Usage as it is in the middle of a transaction. */
class UsageState {
  readonly #until: Map<string, number>
  readonly #stored: ReadonlySet<Reservation>
  #reservations: readonly Reservation[]
  readonly #changed = new Map<string, number>()
  readonly #ended = new Set<string>()

  constructor(rows: readonly UsageRow[], reservations: readonly Reservation[]) {
    this.#until = new Map(rows.map(({ key, until }) => [key, until]))
    this.#stored = new Set(reservations)
    this.#reservations = reservations
  }

  /** A change that throws changes nothing. */
  apply({ keys, change }: Pick<Waiting, 'keys' | 'change'>): Outcome {
    const rows = keys.flatMap((key) => {
      const until = this.#until.get(key)
      return until === undefined ? [] : { key, until }
    })
    const usage = new Usage(rows, this.#reservations)
    let result: unknown
    try {
      result = change(usage)
    } catch (error) {
      return { error }
    }
    for (const [key, until] of usage.changed) {
      this.#until.set(key, until)
      this.#changed.set(key, until)
    }
    for (const order of usage.ended) this.#ended.add(order)
    this.#reservations = usage.reserved
    return { result }
  }

  /** The statements that store what has changed. */
  changes(): readonly Statement[] {
    const keys = [...this.#changed.keys()].map(indexable)
    const ended = [...this.#ended].sort().map(indexable)
    const started = this.#reservations.filter((one) => !this.#stored.has(one))
    const reserved = [
      started.map(({ order }) => indexable(order)),
      started.map(({ key }) => indexable(key)),
      started.map(({ since }) => since),
    ]
    return [
      ...(keys.length > 0 ? [{ sql: SAVE, params: [keys, [...this.#changed.values()]] }] : []),
      ...(ended.length > 0 ? [{ sql: END, params: [ended] }] : []),
      ...(started.length > 0 ? [{ sql: RESERVE, params: reserved }] : []),
    ]
  }
}

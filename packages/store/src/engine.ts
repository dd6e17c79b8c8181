import type { SQLInputValue } from 'node:sqlite'

/** A value for `$1`. Neither engine has anything else; lists are JSON. */
export type Parameter = string | number | bigint | boolean | Uint8Array | null | undefined

/** A row as the engine gives it: int8 is a number, bytes are a `Uint8Array`. */
export type Row = Record<string, unknown>

/** Reads. Their SQL is PostgreSQL's: see {@link toSqlite} for what SQLite is given. */
export interface Queries {
  all<T = Row>(sql: string, ...params: readonly Parameter[]): Promise<readonly T[]>
  /** The first row. */
  get<T = Row>(sql: string, ...params: readonly Parameter[]): Promise<T | undefined>
}

/** The statements of one transaction. Those that need not wait for each other share a round trip. */
export interface Transaction extends Queries {
  /** Runs a write. Gives how many rows it changed. */
  run(sql: string, ...params: readonly Parameter[]): Promise<number>
}

export interface WriteOptions {
  /** `false`: may be lost if the machine of the store crashes within a second, and is faster. Default: true. */
  readonly durable?: boolean
  /**
   * Whether the transaction may be written twice; then nothing is stored that tells whether it was. All its statements
   * and the commit are sent before the first answer, so no lock waits for this process. It throws nothing itself.
   */
  readonly repeatable?: boolean
  /** Begins when this has settled. SQLite has one transaction at a time anyway. */
  readonly after?: Promise<unknown>
}

/**
 * A store in SQLite or in PostgreSQL.
 * @throws StoreError from each method, but for what a job throws itself
 */
export interface Engine extends Transaction, AsyncDisposable {
  readonly dialect: 'sqlite' | 'postgres'
  /** Reads that look at many rows, as counts do: no other work waits for them. */
  readonly reports: Queries
  /**
   * Runs `job` in one transaction, and resolves after the commit. It awaits nothing but its own statements,
   * and if one of them fails, so does all of it. A `run` that it does not await goes with
   * the commit.
   * It may run again, after a conflict or a lost connection, so it changes nothing else; what it gives is
   * that of the run that was committed. On PostgreSQL it is READ COMMITTED.
   */
  transaction<T>(job: (tx: Transaction) => Promise<T>, options?: WriteOptions): Promise<T>
  /**
   * Milliseconds that the service has run on this store, over all starts; processes that run at the same time
   * count once. The system clock has no influence on it. A crash loses what {@link check} has not saved.
   */
  runTime(): number
  /** Resolves if the store can be written, and what failed would work again. Saves the run time. */
  check(): Promise<void>
  /** Returns why the store cannot be used: it is away, or refuses statements. */
  failure(): Error | undefined
  /** Writes first what is being written. */
  close(): Promise<void>
}

type Read = (sql: string, params: readonly Parameter[]) => Promise<readonly Row[]>

/** Reads, by what gives the rows of a statement. */
export function queriesOf(read: Read): Queries {
  const all = async <T>(sql: string, ...params: readonly Parameter[]) =>
    (await read(sql, params)) as readonly T[]
  return { all, get: async <T>(...query: Parameters<typeof all>) => (await all<T>(...query))[0] }
}

/**
 * Makes a function that runs `work`, never twice at once. Who calls it while a run is under way waits for the next one,
 * which is the same for all of them.
 */
export function shareNext(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined
  return function run(): Promise<void> {
    if (running) {
      next ??= running.catch(() => {}).then(run)
      return next
    }
    next = undefined
    running = work().finally(() => {
      running = undefined
    })
    return running
  }
}

/** The replacements that make SQLite's SQL of PostgreSQL's, in this order. */
const RULES: readonly (readonly [RegExp, string])[] = [
  // Parameters.
  [/\$(\d+)/g, '?$1'],
  // Casts: SQLite's parameters have the type of their value.
  [/::[a-z]\w*/g, ''],
  // Types of columns that the engine computes.
  [/\bbigint\b/g, 'INTEGER'],
  // Locks: one transaction writes at a time.
  [/\bFOR (?:NO KEY )?(?:UPDATE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?/g, ''],
  // Lists are JSON.
  [/\bjson_array_elements_text\(/g, 'json_each('],
  // Functions of other names. Of NULL and a value, SQLite's give NULL.
  [/\bleast\(/g, 'min('],
  [/\bgreatest\(/g, 'max('],
  [/\bstrpos\(/g, 'instr('],
  // SQLite compares bytes.
  [/ COLLATE "C"/g, ''],
  // Columns that an index only carries; not for a unique one.
  [/\)\s+INCLUDE \(/g, ', '],
]

/** The SQL of a statement for SQLite. No text of it is of a caller. */
export function toSqlite(sql: string): string {
  return RULES.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), sql)
}

/** Binds a value: SQLite has no booleans, and would take a number for a fraction, so that 7 / 2 would be 3.5. */
export function bound(value: Parameter): SQLInputValue {
  if (value === undefined) return null
  if (typeof value === 'boolean' || Number.isSafeInteger(value)) return BigInt(value as number)
  return value
}

/** Items of one transaction, so that none takes long. */
const MAX_ITEMS = 64

interface GroupedWrite<Item, Result> {
  readonly item: Item
  resolve(result: Result): void
  reject(error: unknown): void
}

/**
 * Group commit: gives what writes one item. One transaction runs at a time, so that none waits for the locks of
 * another. All that waits when it begins shares it; if it fails before its commit, each is written alone, so that
 * none fails for another.
 * @param write - part of a write: gives a result for each item
 */
export function groupCommit<Item, Result>(
  db: Engine,
  write: (tx: Transaction, items: readonly Item[]) => Promise<readonly Result[]>,
  options?: WriteOptions,
): (item: Item) => Promise<Result> {
  const waiting: GroupedWrite<Item, Result>[] = []
  let previous: Promise<unknown> = Promise.resolve()
  const take = () => {
    const taken = waiting.splice(0, MAX_ITEMS)
    if (waiting.length > 0) void run([])
    return taken
  }
  const run = async (calls: GroupedWrite<Item, Result>[]) => {
    const isGroup = calls.length === 0
    let mayBeCommitted = false
    const writeAll = async (tx: Transaction) => {
      // The transaction may run again.
      if (calls.length === 0) calls.push(...take())
      const results = await write(
        tx,
        calls.map(({ item }) => item),
      )
      mayBeCommitted = true
      return results
    }
    try {
      const turn = db.transaction(writeAll, isGroup ? { ...options, after: previous } : options)
      if (isGroup) previous = turn.catch(() => {})
      const results = await turn
      for (const [i, { resolve }] of calls.entries()) resolve(results[i] as Result)
    } catch (error) {
      if (calls.length > 1 && !mayBeCommitted) for (const call of calls) void run([call])
      else for (const { reject } of calls.length > 0 ? calls : take()) reject(error)
    }
  }
  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      if (waiting.length === 1) void run([])
    })
}

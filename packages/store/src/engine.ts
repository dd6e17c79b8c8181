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
   * It may be written twice, so nothing is kept that tells whether it was. It sends all its statements before the
   * first answer: the commit goes with them, and no lock waits for this process. It throws nothing itself.
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
  /** Why the store cannot be used: it is away, or refuses statements. */
  failure(): Error | undefined
  /** Writes first what is being written. */
  close(): Promise<void>
}

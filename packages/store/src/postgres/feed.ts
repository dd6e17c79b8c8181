import { type Row, shareNext } from '../engine.ts'
import { type Connection, fulfilled, quoted } from './connection.ts'
import { diagnose, reportFailure, unavailable } from './failures.ts'
import type { PostgresLog } from './log.ts'
import type { Resident, Session } from './session.ts'

export interface FeedOptions<T = Row> {
  /** The channel on which writers call `pg_notify`. It is shared by the whole database: put the schema in its name. */
  readonly channel: string
  /** Reads rows with `xid >= $1::xid8`. Its order is kept. */
  readonly sql: string
  /** Reads what matters to who knows nothing, without parameters. Default: all rows. */
  readonly full?: string
  /**
   * Gets the rows of a read; never two at once. Rows may come again. `full` tells that some may have been missed
   * before: the first read, and the first after a lost connection. If it fails, the same rows are read again.
   */
  apply(rows: readonly T[], full: boolean): void | Promise<void>
  /** Milliseconds between reads without a notification. Default: 1000. */
  readonly pollMs?: number
}

/** Rows that are followed. */
export type Feed = Pick<Follower<unknown>, 'lag' | 'read' | 'close'>

const POLL = 1_000
/** Transactions that are not older than this one are read again, since they may commit later. */
const OLDEST_RUNNING = { sql: 'SELECT pg_snapshot_xmin(pg_current_snapshot()) AS oldest' }
const BEGIN = { sql: 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY' }
const COMMIT = { sql: 'COMMIT' }

/**
 * Follows rows over the connection of the session. Each read begins where the oldest transaction was
 * that still ran at the read before, so that nothing is missed, in whatever order transactions commit.
 */
export class Follower<T> implements Resident {
  readonly #options: FeedOptions<T>
  readonly #session: Session
  readonly #log: PostgresLog
  readonly #poll: NodeJS.Timeout
  /** 0 before the first complete read of a connection. */
  #from = 0n
  /** Counts connections. */
  #visit = 0
  #isFailing = false
  #isClosed = false
  #lastBegan = Number.NEGATIVE_INFINITY

  constructor(options: FeedOptions<T>, session: Session, log: PostgresLog) {
    this.#options = options
    this.#session = session
    this.#log = log
    this.#poll = setInterval(() => this.#readQuietly(), options.pollMs ?? POLL)
    this.#poll.unref()
    session.add(this)
  }

  /** Milliseconds since the last complete read began. Infinite before the first. */
  lag(): number {
    return performance.now() - this.#lastBegan
  }

  /** Resolves after a complete read that began after this call. */
  readonly read = shareNext(() => this.#read())

  /** Stops applying changes. */
  close(): void {
    this.#isClosed = true
    clearInterval(this.#poll)
    this.#session.remove(this)
  }

  /** Starts to read. After a lost connection the server may be another one, whose transactions are numbered anew. */
  async arrive(connection: Connection): Promise<void> {
    this.#visit++
    this.#from = 0n
    await connection.all(`LISTEN ${quoted(this.#options.channel)}`)
    this.#readQuietly()
  }

  hear(channel: string): void {
    if (channel === this.#options.channel) this.#readQuietly()
  }

  #readQuietly(): void {
    this.read().then(
      () => {
        this.#isFailing = false
      },
      (error) => {
        if (!this.#isFailing && !this.#isClosed && this.#session.connection)
          this.#log.warn({ channel: this.#options.channel, err: error }, 'changes were not read')
        this.#isFailing = true
      },
    )
  }

  async #read(): Promise<void> {
    const began = performance.now()
    const { connection } = this.#session
    if (!connection) throw unavailable('the connection for notifications is lost')
    const visit = this.#visit
    const full = this.#from === 0n
    const reading = diagnose(connection, () => this.#readRows(connection, full))
    const { oldest, rows } = await reportFailure(reading)
    if (this.#isClosed) throw unavailable('the feed is closed')
    await this.#options.apply(rows, full)
    // If the connection changed meanwhile, the next read is a full one.
    if (visit !== this.#visit) return
    this.#from = oldest
    this.#lastBegan = began
  }

  /** Reads the rows, and the oldest transaction that runs, in one snapshot. */
  async #readRows(connection: Connection, isFull: boolean) {
    const { sql, full } = this.#options
    const read = isFull && full ? { sql: full } : { sql, params: [this.#from] }
    const outcomes = await connection.pipeline([BEGIN, OLDEST_RUNNING, read, COMMIT])
    const [, oldest, rows] = fulfilled(outcomes).map((answer) => answer.rows)
    return { oldest: oldest?.[0]?.oldest as bigint, rows: rows as readonly T[] }
  }
}

import type { Connection } from './connection.ts'
import type { Resident, Session } from './session.ts'

const SAMPLES = 3
/** Milliseconds. */
const INTERVAL = 2_000
const NOW = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now'

/** The database's clock: the monotonic one of this process, and how far the database's is from it. */
export class DatabaseClock implements Resident {
  readonly #session: Session
  readonly #timer: NodeJS.Timeout
  #offset = Number.NaN

  constructor(session: Session) {
    this.#session = session
    this.#timer = setInterval(() => this.#measureAgain(), INTERVAL)
    this.#timer.unref()
    session.add(this)
  }

  /** Epoch milliseconds, a whole number. */
  now(): number {
    return Math.round(performance.now() + this.#offset)
  }

  /** Asks a few times. The fastest answer says best which time it was. */
  async arrive(connection: Connection): Promise<void> {
    let fastest = Number.POSITIVE_INFINITY
    let offset = this.#offset
    for (let sample = 0; sample < SAMPLES; sample++) {
      const sentAt = performance.now()
      const [row] = await connection.all(NOW)
      const took = performance.now() - sentAt
      if (took < fastest) offset = (row?.now as number) - sentAt - took / 2
      fastest = Math.min(fastest, took)
    }
    this.#offset = offset
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Measures again, which also shows whether the connection still works. */
  #measureAgain(): void {
    const { connection } = this.#session
    if (connection) this.arrive(connection).catch((error) => connection.destroy(error))
  }
}

import { setTimeout as pause } from 'node:timers/promises'
import { StoreError } from '../errors.ts'
import { Connection, type ConnectionOptions } from './connection.ts'
import { isFull, isRefusal, reasonOf, unavailable } from './failures.ts'
import type { PostgresLog } from './log.ts'
import type { PostgresHost } from './url.ts'

/** Milliseconds between two tries while no server answers. */
export const PROBE_INTERVAL = 1_000

/**
 * The servers of the database. Knows which one takes writes, and whether it answers. While it does not,
 * whoever needs a connection is refused at once, and only this asks the servers again.
 */
export class Servers {
  readonly #options: ConnectionOptions
  readonly #log: PostgresLog
  readonly #open = new Set<Connection>()
  readonly #closed = new AbortController()
  #current: PostgresHost
  #failure: StoreError | undefined
  /** The search that is under way, as long as its first round. */
  #firstRound: Promise<void> | undefined
  #search: Promise<void> | undefined

  constructor(options: ConnectionOptions, log: PostgresLog) {
    this.#options = options
    this.#log = log
    this.#current = options.url.hosts[0] as PostgresHost
  }

  /** Returns why there is no server; undefined while one answers, and until the first round of a search failed. */
  failure(): StoreError | undefined {
    return this.#failure
  }

  /** Finds the server. Throws what is wrong with each if there is none. */
  async start(): Promise<void> {
    const failure = await this.#tryAll()
    if (failure) throw failure
  }

  /** A connection to the server in use. Waits for the first round of a search. */
  async connect(): Promise<Connection> {
    await this.#firstRound
    if (this.#failure) throw this.#failure
    let connection: Connection
    try {
      connection = await Connection.open(this.#options, this.#current)
    } catch (error) {
      // It answers those who are connected.
      if (this.#open.size > 0 && isFull(error)) throw unavailable(reasonOf(error))
      this.#lose()
      throw error
    }
    void this.#watch(connection)
    return connection
  }

  /** Ends every connection, since one of them showed that the server is no longer the right one. */
  drop(reason: Error): void {
    for (const connection of this.#open) connection.destroy(reason)
    this.#lose()
  }

  /** Resolves when a server answers, or after `ms`. */
  async recovered(ms?: number): Promise<void> {
    if (!this.#search) return
    const timer = new AbortController()
    const timeout = ms === undefined ? [] : [pause(ms, undefined, { signal: timer.signal })]
    await Promise.race([this.#search, ...timeout])
    timer.abort()
    await Promise.allSettled(timeout)
  }

  async close(): Promise<void> {
    this.#failure = unavailable('it is closed')
    this.#closed.abort()
    await this.#search
    await Promise.all([...this.#open].map((connection) => connection.close()))
  }

  async #watch(connection: Connection): Promise<void> {
    this.#open.add(connection)
    if (this.#closed.signal.aborted) connection.destroy(new Error('it is closed'))
    const reason = await connection.ended
    this.#open.delete(connection)
    if (connection.isClosing) return
    // A server that is silent on one connection is so on all of them.
    if (connection.isSilent) this.drop(reason)
    else this.#lose()
  }

  #lose(): void {
    if (this.#search || this.#closed.signal.aborted) return
    const first = Promise.withResolvers<void>()
    this.#firstRound = first.promise
    this.#search = this.#find(first.resolve).finally(() => {
      this.#search = undefined
    })
  }

  async #find(firstRoundEnded: () => void): Promise<void> {
    while (!this.#closed.signal.aborted) {
      const failure = await this.#tryAll()
      if (this.#closed.signal.aborted) break
      if (failure && !this.#failure) this.#log.warn({ reason: failure.message }, 'database is down')
      if (!failure && this.#failure)
        this.#log.info({ host: textOf(this.#current) }, 'database is back')
      this.#failure = failure
      firstRoundEnded()
      if (!failure) return
      await pause(PROBE_INTERVAL, undefined, { signal: this.#closed.signal }).catch(() => {})
    }
    firstRoundEnded()
  }

  /** Takes the first host that accepts writes. Gives what is wrong with each if none does. */
  async #tryAll(): Promise<StoreError | undefined> {
    const failures: [PostgresHost, unknown][] = []
    for (const host of this.#options.url.hosts) {
      if (this.#closed.signal.aborted) break
      try {
        const connection = await Connection.open(this.#options, host)
        await connection.close()
        this.#use(host)
        return undefined
      } catch (error) {
        if (host === this.#current && this.#open.size > 0 && isFull(error)) return undefined
        failures.push([host, error])
      }
    }
    const reasons = failures.map(([host, error]) => `${textOf(host)}: ${reasonOf(error)}`)
    if (!failures.some(([, error]) => isRefusal(error))) return unavailable(reasons.join('; '))
    return new StoreError('STORE_REFUSED', `No server accepts us: ${reasons.join('; ')}.`)
  }

  #use(host: PostgresHost): void {
    if (host === this.#current) return
    this.#current = host
    this.#log.info({ host: textOf(host) }, 'another database server accepts writes')
    const moved = new Error('another server takes the writes')
    for (const connection of this.#open) connection.destroy(moved)
  }
}

function textOf({ host, port }: PostgresHost): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

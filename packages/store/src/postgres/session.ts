import { setTimeout as pause } from 'node:timers/promises'
import type { Connection } from './connection.ts'
import type { PostgresLog } from './log.ts'
import type { Servers } from './servers.ts'

/** Something that lives on the connection of a {@link Session}. */
export interface Resident {
  /** A new connection. If it fails, the connection is given up and another one made. */
  arrive?(connection: Connection): Promise<void>
  /** The connection is lost. */
  leave?(): void
  /** A notification. */
  hear?(channel: string): void
}

/** Milliseconds before a connection that was lost is made again. */
const PAUSE = 50

/** The one connection that stays: it listens, holds the locks of the leader and measures the clock. */
export class Session {
  readonly #servers: Servers
  readonly #log: PostgresLog
  readonly #residents = new Set<Resident>()
  #connection: Connection | undefined
  #isClosed = false
  #work: Promise<void> | undefined

  constructor(servers: Servers, log: PostgresLog) {
    this.#servers = servers
    this.#log = log
  }

  /** Connects, and from then on again whenever the connection is lost. */
  async start(): Promise<void> {
    const connection = await this.#servers.connect()
    await this.#settle(connection)
    this.#work = this.#stay()
    if (connection.lost) throw connection.lost
  }

  /** Undefined while there is none. */
  get connection(): Connection | undefined {
    return this.#connection
  }

  add(resident: Resident): void {
    this.#residents.add(resident)
    if (this.#connection) void this.#arrive(resident, this.#connection)
  }

  remove(resident: Resident): void {
    this.#residents.delete(resident)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#connection?.close()
    await this.#work
  }

  async #settle(connection: Connection): Promise<void> {
    connection.onNotification((channel) => {
      for (const resident of this.#residents) resident.hear?.(channel)
    })
    this.#connection = connection
    await Promise.all([...this.#residents].map((resident) => this.#arrive(resident, connection)))
  }

  async #arrive(resident: Resident, connection: Connection): Promise<void> {
    try {
      await resident.arrive?.(connection)
    } catch (error) {
      connection.destroy(error as Error)
    }
  }

  async #stay(): Promise<void> {
    for (;;) {
      const reason = await this.#connection?.ended
      this.#connection = undefined
      for (const resident of this.#residents) resident.leave?.()
      if (this.#isClosed) return
      this.#log.warn({ reason: reason?.message }, 'connection for notifications was lost')
      while (!this.#connection && !this.#isClosed) await this.#connectAgain()
      if (this.#isClosed) return
    }
  }

  async #connectAgain(): Promise<void> {
    await this.#servers.recovered()
    await pause(PAUSE)
    if (this.#isClosed) return
    try {
      await this.#settle(await this.#servers.connect())
    } catch {
      // The next attempt looks for the server again.
    }
  }
}

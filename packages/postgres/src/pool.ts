import type { Connection } from './connection.ts'
import { unavailable } from './failures.ts'

const MAX_WAITING = 4096
/** Milliseconds for which a caller waits until one of the connections is free. */
const MAX_WAIT = 5_000

/** A few connections, each for one job at a time. They are made when they are needed, and then kept. */
export class Pool {
  readonly #size: number
  readonly #connect: () => Promise<Connection>
  readonly #idle: Connection[] = []
  readonly #waiting = new Set<() => void>()
  #taken = 0

  constructor(size: number, connect: () => Promise<Connection>) {
    this.#size = size
    this.#connect = connect
  }

  async use<T>(job: (connection: Connection) => Promise<T>): Promise<T> {
    if (this.#taken < this.#size) this.#taken++
    else await this.#turn()
    let connection: Connection | undefined
    try {
      connection = this.#takeIdle() ?? (await this.#connect())
      return await job(connection)
    } finally {
      if (connection && !connection.lost) this.#idle.push(connection)
      const [next] = this.#waiting
      if (next) next()
      else this.#taken--
    }
  }

  #takeIdle(): Connection | undefined {
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) if (!idle.lost) return idle
    return undefined
  }

  /** Resolves when another caller is done, whose place this one then has. */
  #turn(): Promise<void> {
    if (this.#waiting.size >= MAX_WAITING) throw unavailable('too much waits for it')
    return new Promise((resolve, reject) => {
      const next = () => {
        this.#waiting.delete(next)
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(next)
        reject(unavailable('all connections are busy'))
      }, MAX_WAIT)
      this.#waiting.add(next)
    })
  }
}

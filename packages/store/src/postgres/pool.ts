import type { Connection } from './connection.ts'
import { unavailable } from './failures.ts'

const MAX_WAITING = 4096
/** Milliseconds for which a caller waits until one of the connections is free. */
const MAX_WAIT = 10_000

interface PoolOptions {
  readonly size: number
  /** Jobs that use a connection at the same time, for statements that do not depend on those before. Default: 1. */
  readonly share?: number
  connect(): Promise<Connection>
}

/** A connection, and how many jobs use it. */
interface Place {
  readonly connecting: Promise<Connection>
  connection?: Connection
  jobs: number
}

/** A few connections. They are made when they are needed, and then kept. */
export class Pool {
  readonly #size: number
  readonly #share: number
  readonly #connect: () => Promise<Connection>
  readonly #places = new Set<Place>()
  readonly #waiting = new Set<() => void>()
  #taken = 0

  constructor({ size, share = 1, connect }: PoolOptions) {
    this.#size = size
    this.#share = share
    this.#connect = connect
  }

  async use<T>(job: (connection: Connection) => Promise<T>): Promise<T> {
    if (this.#taken < this.#size * this.#share) this.#taken++
    else await this.#turn()
    const place = this.#place()
    place.jobs++
    try {
      return await job(await place.connecting)
    } finally {
      place.jobs--
      const [next] = this.#waiting
      if (next) next()
      else this.#taken--
    }
  }

  /** Chooses a connection that nobody uses, else a new one, else the one with the fewest users. */
  #place(): Place {
    // One that was just lost is still among them when the caller that lost it asks for another.
    const usable = [...this.#places].filter(({ connection }) => !connection?.lost)
    const [least] = usable.sort((a, b) => a.jobs - b.jobs)
    if (least && (least.jobs === 0 || usable.length >= this.#size)) return least
    const place: Place = { connecting: this.#connect(), jobs: 0 }
    this.#places.add(place)
    place.connecting
      .then((connection) => {
        place.connection = connection
        return connection.ended
      })
      .catch(() => {})
      .finally(() => this.#places.delete(place))
    return place
  }

  /** Resolves when another caller is done, whose turn this one then has. */
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

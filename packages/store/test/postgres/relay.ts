import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Test } from 'tap'
import type { PostgresServer } from '../../../../scripts/test/postgres.ts'

/** When a connection is cut: around the COMMIT that comes next. */
export type Cut =
  /** The server gets everything but COMMIT. */
  | 'before'
  /** The server gets COMMIT, and the connection is cut while it works. */
  | 'during'
  /** The server has committed, and its answer is dropped. */
  | 'after'

/** Between the tests and a server: cuts connections, or leaves them open and forwards nothing more. */
export class Relay {
  readonly #server: Server
  readonly #target: number
  readonly #sockets = new Set<Socket>()
  #cuts: Cut[] = []
  /** What the server is told, while it is held. */
  #sent: Buffer[] = []
  /** What the server answers meanwhile. */
  #held: (() => void)[] | undefined
  /** How many more connections are accepted. */
  #accepted = Number.POSITIVE_INFINITY

  private constructor(server: Server, target: number) {
    this.#server = server
    this.#target = target
    server.on('connection', (socket) => this.#accept(socket))
  }

  static async start(t: Pick<Test, 'teardown'>, { port }: PostgresServer): Promise<Relay> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const relay = new Relay(server, port)
    t.teardown(() => relay.stop())
    return relay
  }

  /** The URL of the server, by way of this. */
  through(url: string): string {
    const { port } = this.#server.address() as { port: number }
    return url.replace(/:\d+\//, `:${port}/`)
  }

  /** Cuts the connections of the next commits. */
  cut(...cuts: readonly Cut[]): void {
    this.#cuts.push(...cuts)
  }

  /** The commits that are still to be cut. */
  get left(): number {
    return this.#cuts.length
  }

  /** Keeps the answers of the server to itself. */
  hold(): void {
    this.#sent = []
    this.#held = []
  }

  /** Since {@link hold}, as Latin-1. */
  get sent(): string {
    return Buffer.concat(this.#sent).toString('latin1')
  }

  release(): void {
    for (const answer of this.#held ?? []) answer()
    this.#held = undefined
  }

  /** Forwards nothing any more in the connections that are open. They stay so, and new ones work. */
  mute(): void {
    for (const socket of this.#sockets) socket.removeAllListeners('data').resume()
  }

  /** Ends new connections at once. Those that are open stay. */
  refuse(isRefusing = true): void {
    this.#accepted = isRefusing ? 0 : Number.POSITIVE_INFINITY
  }

  /** Ends new connections after so many. */
  refuseAfter(connections: number): void {
    this.#accepted = connections
  }

  /** Ends all connections. */
  reset(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  stop(): void {
    this.reset()
    this.#server.close()
  }

  #accept(client: Socket): void {
    if (--this.#accepted < 0) return void client.destroy()
    const server = connect(this.#target, '127.0.0.1')
    const end = () => {
      client.destroy()
      server.destroy()
    }
    const commits = new Commits()
    let swallowing = false
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.setNoDelay()
      socket.on('error', end)
      socket.on('close', () => {
        this.#sockets.delete(socket)
        end()
      })
    }
    client.on('data', (bytes: Buffer) => {
      if (this.#held) this.#sent.push(bytes)
      const start = commits.find(bytes)
      const [cut] = this.#cuts
      if (start === undefined || cut === undefined) return void server.write(bytes)
      this.#cuts.shift()
      if (cut === 'after') swallowing = true
      server.write(cut === 'before' ? bytes.subarray(0, start) : bytes, () => {
        if (cut === 'before') end()
        if (cut === 'during') client.destroy()
      })
    })
    server.on('data', (bytes: Buffer) => {
      if (this.#held) this.#held.push(() => client.write(bytes))
      else if (!swallowing) client.write(bytes)
      // CommandComplete
      else if (bytes.includes('COMMIT\0')) end()
    })
  }
}

/** Finds COMMIT in what a client sends: the statement has a name after the first time. */
class Commits {
  #name: string | undefined
  #isStarted = false

  /** Where its first message starts. */
  find(bytes: Buffer): number | undefined {
    // The first message has no type, and those of the authentication are alone in their packet.
    if (!this.#isStarted) {
      this.#isStarted = true
      return undefined
    }
    for (let at = 0; at + 5 <= bytes.length; at += 1 + bytes.readInt32BE(at + 1)) {
      const type = String.fromCharCode(bytes[at] as number)
      const [first = '', second = ''] = bytes.toString('latin1', at + 5, at + 200).split('\0')
      if (type === 'P' && second === 'COMMIT') this.#name = first
      if ((type === 'P' && second === 'COMMIT') || (type === 'B' && second === this.#name))
        return at
    }
    return undefined
  }
}

/** A message between a supervisor and a worker. */
type Packet =
  | {
      readonly gatehouse: 'ask'
      readonly id: number
      readonly kind: string
      readonly body?: unknown
    }
  | { readonly gatehouse: 'answer'; readonly id: number; readonly body?: unknown }
  | { readonly gatehouse: 'failure'; readonly id: number; readonly body: string }

/** One end of a channel between two processes, which ask each other. */
export class Channel {
  readonly #send: (packet: Packet) => void
  readonly #answer: (kind: string, body: unknown) => unknown
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>()
  #lastId = 0
  #isClosed = false

  /**
   * @param send - sends to the other end; must not throw if that has ended
   * @param answer - answers what the other end asks
   */
  constructor(send: (packet: object) => void, answer: (kind: string, body: unknown) => unknown) {
    this.#send = send
    this.#answer = answer
  }

  /** Resolves with the answer. Rejects if the other end fails, ends, or takes longer than `ms`. */
  async ask<T>(kind: string, body: unknown, ms: number): Promise<T> {
    if (this.#isClosed) throw new Error('the other process has ended')
    const id = ++this.#lastId
    const waiting = Promise.withResolvers<unknown>()
    this.#waiting.set(id, waiting)
    const giveUp = () => waiting.reject(new Error(`no answer within ${ms} ms`))
    // What has arrived while this process stood still is taken first.
    const timer = setTimeout(() => setImmediate(giveUp), ms)
    try {
      this.#send({ gatehouse: 'ask', id, kind, body })
      return (await waiting.promise) as T
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(id)
    }
  }

  /** Takes a message of the other end; any other message is not for this channel. */
  receive(message: unknown): void {
    if (typeof message !== 'object' || message === null || !('gatehouse' in message)) return
    const packet = message as Packet
    if (packet.gatehouse === 'ask') return void this.#reply(packet.id, packet.kind, packet.body)
    const waiting = this.#waiting.get(packet.id)
    if (packet.gatehouse === 'answer') waiting?.resolve(packet.body)
    else waiting?.reject(new Error(packet.body))
  }

  /** Rejects whatever waits for the other end, which has ended. */
  close(): void {
    this.#isClosed = true
    for (const waiting of this.#waiting.values())
      waiting.reject(new Error('the other process has ended'))
  }

  async #reply(id: number, kind: string, body: unknown): Promise<void> {
    try {
      this.#send({ gatehouse: 'answer', id, body: await this.#answer(kind, body) })
    } catch (error) {
      this.#send({ gatehouse: 'failure', id, body: (error as Error).message })
    }
  }
}

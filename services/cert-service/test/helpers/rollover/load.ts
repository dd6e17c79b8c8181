import { until } from '../../../../../scripts/test/until.ts'
import { outcomeOf, type TlsClient, type TlsFiles } from '../tls-clients/index.ts'
import type { NamedServer } from './gatehouse.ts'

/** After so many, clients connect no more. */
const MAX_FAULTS = 20

/** What a connection must come to; `either` while the server is being changed. */
export type Expectation = 'accepted' | 'refused' | 'either'

/** A connection that every client makes, again and again. */
interface Attempt {
  readonly server: NamedServer
  readonly files: TlsFiles
  /** What the client trusts, or which certificate it shows. */
  readonly variant: string
  /** What it must come to now. */
  expect(): Expectation
}

/** What came of the connections of a client to a server in a stage. */
interface Count {
  readonly stage: string
  readonly client: string
  readonly server: string
  accepted: number
  /** As it had to be. */
  refused: number
  failed: number
}

/** Clients that connect all the time, each on one connection after the other, and none of them two rounds ahead. */
export class Load implements AsyncDisposable {
  /** A connection counts for the stage in which it began. */
  readonly counts: Count[] = []
  /** What came to something else than it must. */
  readonly faults: string[] = []
  readonly #attempts: () => readonly Attempt[]
  /** How often each client has made all connections. */
  readonly #rounds: number[]
  /** The same when a round was last begun by all. */
  #start: readonly number[] = []
  readonly #repetition: Promise<unknown>
  #stage: string
  #isOver = false

  constructor(clients: readonly TlsClient[], stage: string, attempts: () => readonly Attempt[]) {
    this.#attempts = attempts
    this.#rounds = clients.map(() => 0)
    this.#stage = stage
    this.#repetition = Promise.all(clients.map((client, index) => this.#repeat(client, index)))
  }

  /** What begins from now on counts for this stage. */
  enter(stage: string): void {
    this.#stage = stage
  }

  /** Resolves when nothing is under way any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    await this.#repetition
  }

  /** Has all clients begin a round, and resolves when each has made every connection. */
  async passRound(): Promise<void> {
    this.#start = [...this.#rounds]
    const start = this.#start
    await until(
      () => this.#isOver || this.#rounds.every((rounds, index) => rounds > (start[index] ?? 0)),
    )
  }

  /** A line for each count. */
  table(): readonly string[] {
    return this.counts.map(
      ({ stage, client, server, accepted, refused, failed }) =>
        `${stage}, ${client} at ${server}: ${accepted} accepted, ${refused} refused, ${failed} failed`,
    )
  }

  async #repeat(client: TlsClient, index: number): Promise<void> {
    while (!this.#isOver) {
      const start = this.#start
      const isCurrent = () => !this.#isOver && start === this.#start
      for (const attempt of this.#attempts())
        if (isCurrent() && canMake(client, attempt)) await this.#make(client, attempt)
      if (!isCurrent()) continue
      const rounds = (this.#rounds[index] ?? 0) + 1
      this.#rounds[index] = rounds
      // Without this, the fastest take all the time of the slowest.
      await until(() => !isCurrent() || Math.min(...this.#rounds) >= rounds - 1)
    }
  }

  async #make(client: TlsClient, attempt: Attempt): Promise<void> {
    const stage = this.#stage
    const expectation = attempt.expect()
    const answer = await client.ask(attempt.server, attempt.files)
    const outcome = outcomeOf(answer)
    const count = this.#countOf(stage, client.name, attempt.server.name)
    const isInChange = expectation === 'either' || attempt.expect() !== expectation
    if (isInChange || expectation === outcome) count[outcome] += 1
    else {
      count.failed += 1
      this.faults.push(
        `${stage}: ${client.name}, which ${attempt.variant}, at ${attempt.server.name}: ${answer}`,
      )
      if (this.faults.length === MAX_FAULTS) this.#isOver = true
    }
  }

  #countOf(stage: string, client: string, server: string): Count {
    const count = this.counts.find(
      (row) => row.stage === stage && row.client === client && row.server === server,
    )
    if (count) return count
    const newCount = { stage, client, server, accepted: 0, refused: 0, failed: 0 }
    this.counts.push(newCount)
    return newCount
  }
}

function canMake({ abilities }: TlsClient, { server, files }: Attempt): boolean {
  if (server.protocol === 'postgres' && !abilities.includes('postgres')) return false
  return files.certificate === undefined || abilities.includes('client certificates')
}

// Looks all the time whether somebody answers, and at the revocation list.
import { setTimeout as sleep } from 'node:timers/promises'
import type { CertificateClient } from './certificate-client.ts'
import { type Ask, send, type Target } from './client.ts'

const PAUSE = 100
const LIST_PAUSE = 1_000

/** Measures for how long nobody gave the answer that is expected. */
export class Availability {
  readonly what: string
  longestMs = 0
  answered = 0
  #last = performance.now()

  constructor(what: string) {
    this.what = what
  }

  /** Asks every target on its own, so that one that hangs holds up no other. */
  async watch(targets: readonly Target[], ask: Ask, signal: AbortSignal): Promise<void> {
    this.#last = performance.now()
    await Promise.all(
      targets.map(async (target) => {
        for (; !signal.aborted; await sleep(PAUSE)) {
          const { status, answered } = await send(target, ask)
          if (status === 200) this.#note(answered)
        }
      }),
    )
    this.#note(performance.now())
  }

  #note(at: number): void {
    this.answered += 1
    this.longestMs = Math.max(this.longestMs, at - this.#last)
    this.#last = Math.max(this.#last, at)
  }
}

/** Fetches the revocation list again and again, one after the other, from any replica. */
export async function watchLists(client: CertificateClient, signal: AbortSignal): Promise<void> {
  for (; !signal.aborted; await sleep(LIST_PAUSE)) await client.list()
}

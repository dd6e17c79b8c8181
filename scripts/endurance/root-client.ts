// An operator who rolls the root of the CA, and who goes back once.
import { X509Certificate } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { isPassing, send, type Target, waitAfter } from './client.ts'
import type { Journal } from './journal.ts'
import type { Random } from './random.ts'
import { API_KEY } from './replicas.ts'

const HEADERS = { authorization: `APIKey ${API_KEY}`, 'content-type': 'application/json' }
const PATH = '/api/ca/roll'
/** Between two looks at the roots. */
const PAUSE = 2_000

/** The steps, each at a share of the time, and the stage to which it leads. */
const STEPS = [
  { share: 0.15, stage: 'begun', body: { action: 'begin' } },
  { share: 0.3, stage: 'used', body: { action: 'use', now: true } },
  { share: 0.45, stage: 'begun', body: { action: 'back' } },
  { share: 0.55, stage: 'used', body: { action: 'use', now: true } },
  { share: 0.8, stage: 'finished', body: { action: 'finish', force: true } },
] as const

interface RollBody {
  readonly stage: string
  readonly from?: { readonly subject: string }
  readonly to?: { readonly subject: string }
  readonly unconfirmed?: readonly string[]
}

export class RootClient {
  readonly #journal: Journal
  readonly #random: Random
  readonly #targets: readonly Target[]

  /** `targets` are what a request may be sent to. */
  constructor(journal: Journal, random: Random, targets: readonly Target[]) {
    this.#journal = journal
    this.#random = random
    this.#targets = targets
  }

  /** Takes each step when it is time. */
  async roll(durationMs: number, signal: AbortSignal): Promise<void> {
    const start = performance.now()
    for (const step of STEPS) {
      const wait = start + durationMs * step.share - performance.now()
      await sleep(Math.max(wait, 0), undefined, { signal }).catch(() => {})
      await this.#take(step, signal)
    }
  }

  /** Fetches the roots again and again, from any replica. */
  async watch(signal: AbortSignal): Promise<void> {
    for (; !signal.aborted; await sleep(PAUSE)) {
      const { body, headers: _, ...exchange } = await send(this.#any(), { path: '/ca/root.pem' })
      const subjects = exchange.status === 200 ? subjectsOf(body.toString()) : undefined
      this.#journal.add({ kind: 'roots', ...exchange, subjects })
    }
  }

  #any = (): Target => this.#random.pick(this.#targets)

  /** Tries until the stage is reached, however often answers are lost. */
  async #take({ stage, body }: (typeof STEPS)[number], signal: AbortSignal): Promise<void> {
    const sent = performance.now()
    for (let tries = 1; !signal.aborted; tries += 1) {
      const answer = await this.#ask(body)
      const { replica, answered, status } = answer
      const roll: Partial<RollBody> = status === 200 ? JSON.parse(answer.body.toString()) : {}
      if (roll.stage === stage || !(status === 200 || isPassing(status))) {
        const [from, to] = [roll.from?.subject ?? '', roll.to?.subject ?? '']
        // Whoever is asked again does not know who has heard of what another one did.
        const unconfirmed = tries > 1 ? ['*'] : (roll.unconfirmed ?? [])
        const roots = { signing: stage === 'begun' ? from : to, from, to }
        const exchange = { replica, sent, answered, status }
        this.#journal.add({ kind: 'roll', ...exchange, stage, ...roots, unconfirmed })
        return
      }
      await waitAfter(answer, this.#random)
    }
  }

  /** Asks for a step. What is refused may have been done by a request whose answer was lost. */
  async #ask(body: object) {
    const question = { path: PATH, headers: HEADERS }
    const step = { ...question, method: 'POST', body: JSON.stringify(body) } as const
    const answer = await send(this.#any(), step)
    return answer.status === 409 ? send(this.#any(), question) : answer
  }
}

function subjectsOf(pem: string): readonly string[] {
  const parts = pem.split(/(?<=-----END CERTIFICATE-----\n)/).filter(Boolean)
  return parts.map((part) => new X509Certificate(part).subject)
}

import { sleep } from '@gatehouse/net'
import { AcmeError } from '../errors.ts'
import { outcomeOf } from '../protocol/problem.ts'
import type { OrderIo } from './state.ts'

const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 15_000
const POLL_LIMIT_MS = 600_000

type Timing = Pick<OrderIo, 'clock'> & { readonly signal?: AbortSignal | undefined }
type Retry = { readonly retryAfterMs?: number | undefined }

/** Exponential backoff, or Retry-After where the CA gives it, for a limited time in all. */
class Backoff {
  readonly #timing: Timing
  readonly #deadline: number
  #left: number
  #delay = FIRST_DELAY_MS

  constructor(limitMs: number, timing: Timing) {
    this.#timing = timing
    this.#deadline = timing.clock.now() + limitMs
    this.#left = limitMs
  }

  next({ retryAfterMs = this.#delay }: Retry): number {
    return Math.max(retryAfterMs, FIRST_DELAY_MS)
  }

  /** Resolves to `false` at once if the limit would be exceeded. */
  async wait(retry: Retry): Promise<boolean> {
    const { clock, signal } = this.#timing
    const ms = this.next(retry)
    if (ms > this.#left || clock.now() + ms > this.#deadline) return false
    this.#left -= ms
    this.#delay = Math.min(2 * this.#delay, MAX_DELAY_MS)
    await sleep(clock, ms, signal)
    return true
  }
}

export type RetryBudget = ReturnType<typeof createRetryBudget>

/**
 * Limits how long temporary errors are retried.
 * @param ms - milliseconds that all waits may take together
 */
export function createRetryBudget(ms: number, timing: Timing) {
  const backoff = new Backoff(ms, timing)
  return {
    /**
     * Waits until the next attempt. Resolves to `false` at once if no time is left, or if an early
     * retry is useless.
     */
    waitAfter: async (error: unknown) => isRetryable(error) && (await backoff.wait(error)),
  }
}

/** Whether the same request may succeed soon, or after `retryAfterMs` if the CA says so. */
function isRetryable(error: unknown): error is AcmeError {
  if (!(error instanceof AcmeError)) return false
  const outcome = outcomeOf(error)
  if (outcome === 'waiting') return error.problem !== undefined && error.retryAfterMs !== undefined
  return outcome === 'passing' || outcome === 'denied'
}

/**
 * Reads a resource until its state is settled. `first` is a state that is already known. A temporary
 * error does not end the polling at once, because the CA may be working nevertheless.
 */
export async function poll<T extends Retry>(
  read: () => Promise<T>,
  isSettled: (state: T) => boolean,
  timing: Timing,
  first?: T,
): Promise<T> {
  const backoff = new Backoff(POLL_LIMIT_MS, timing)
  const attempt = () =>
    read().catch((error: unknown) => {
      if (isRetryable(error)) return error
      throw error
    })
  for (let last = first ?? (await attempt()); ; last = await attempt()) {
    if (!(last instanceof AcmeError) && isSettled(last)) return last
    if (await backoff.wait(last)) continue
    if (last instanceof AcmeError) throw last
    const retryAfterMs = backoff.next(last)
    throw new AcmeError('ACME_TIMEOUT', 'the CA is still at work', { retryAfterMs })
  }
}

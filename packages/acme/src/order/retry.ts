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
function createBackoff(limitMs: number, { clock, signal }: Timing) {
  const deadline = clock.now() + limitMs
  let left = limitMs
  let delay = FIRST_DELAY_MS
  const next = ({ retryAfterMs = delay }: Retry) => Math.max(retryAfterMs, FIRST_DELAY_MS)
  return {
    next,
    /** Resolves to `false` at once if the limit would be exceeded. */
    async wait(retry: Retry): Promise<boolean> {
      const ms = next(retry)
      if (ms > left || clock.now() + ms > deadline) return false
      left -= ms
      delay = Math.min(2 * delay, MAX_DELAY_MS)
      await sleep(clock, ms, signal)
      return true
    },
  }
}

export type RetryBudget = ReturnType<typeof createRetryBudget>

/**
 * Limits how long temporary errors are retried. Its `waitAfter` waits until the next attempt, and resolves
 * to `false` at once if no time is left, or if an early retry is useless.
 * @param ms - milliseconds that all waits may take together
 */
export function createRetryBudget(ms: number, timing: Timing) {
  const { wait } = createBackoff(ms, timing)
  return { waitAfter: async (error: unknown) => isRetryable(error) && (await wait(error)) }
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
  const backoff = createBackoff(POLL_LIMIT_MS, timing)
  const attempt = () =>
    read().catch((error: unknown) => {
      if (isRetryable(error)) return error
      throw error
    })
  for (let result = first ?? (await attempt()); ; result = await attempt()) {
    if (!(result instanceof AcmeError) && isSettled(result)) return result
    if (await backoff.wait(result)) continue
    if (result instanceof AcmeError) throw result
    const retryAfterMs = backoff.next(result)
    throw new AcmeError('ACME_TIMEOUT', 'the CA has not finished yet', { retryAfterMs })
  }
}

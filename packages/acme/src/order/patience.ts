import { type Clock, sleep } from '../clock.ts'
import { AcmeError } from '../errors.ts'
import { outcomeOf } from '../protocol/outcome.ts'

const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 15_000

/** How long faults that pass are put up with. */
export interface Patience {
  /**
   * Waits, as long as the CA asks for or longer from time to time; `false` at once if there is no
   * time left, or if another try soon is of no use.
   */
  outlasts(error: unknown): Promise<boolean>
}

/** Patience for that many milliseconds in all. */
export function createPatience(
  ms: number,
  { clock, signal }: { readonly clock: Clock; readonly signal?: AbortSignal },
): Patience {
  const deadline = clock.now() + ms
  let left = ms
  let delay = FIRST_DELAY_MS
  return {
    async outlasts(error) {
      if (!(error instanceof AcmeError) || !maySucceedSoon(error)) return false
      const wait = Math.max(error.retryAfterMs ?? delay, FIRST_DELAY_MS)
      if (wait > left || clock.now() + wait > deadline) return false
      left -= wait
      delay = Math.min(2 * delay, MAX_DELAY_MS)
      await sleep(clock, wait, signal)
      return true
    },
  }
}

/** Whether the same request is worth another try, after `retryAfterMs` where the CA says so. */
export function maySucceedSoon(error: AcmeError): boolean {
  const outcome = outcomeOf(error)
  if (outcome === 'waiting') return error.problem !== undefined && error.retryAfterMs !== undefined
  return outcome === 'passing' || outcome === 'denied'
}

import { type Clock, sleep } from '../clock.ts'
import { AcmeError } from '../errors.ts'
import { maySucceedSoon } from './patience.ts'

const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 15_000
const LIMIT_MS = 600_000

/**
 * Looks until what is seen is settled, waiting as long as the CA asks for, or longer from time to
 * time. `seen` is what is known already. A fault that may pass does not end it at once: the CA may
 * well be at work behind it.
 *
 * @throws AcmeError `ACME_TIMEOUT` after ten minutes, or whatever stood in the way then
 */
export async function poll<T extends { readonly retryAfterMs?: number | undefined }>(
  look: () => Promise<T>,
  isSettled: (seen: T) => boolean,
  { clock, signal }: { readonly clock: Clock; readonly signal?: AbortSignal },
  seen?: T,
): Promise<T> {
  const deadline = clock.now() + LIMIT_MS
  let left = LIMIT_MS
  let last: T | AcmeError = seen ?? (await look().catch(tolerate))
  for (let delay = FIRST_DELAY_MS; ; delay = Math.min(2 * delay, MAX_DELAY_MS)) {
    if (!(last instanceof AcmeError) && isSettled(last)) return last
    const wait = Math.max(last.retryAfterMs ?? delay, FIRST_DELAY_MS)
    if (wait > left || clock.now() + wait > deadline) throw asError(last, wait)
    left -= wait
    await sleep(clock, wait, signal)
    last = await look().catch(tolerate)
  }
}

function tolerate(error: unknown): AcmeError {
  if (error instanceof AcmeError && maySucceedSoon(error)) return error
  throw error
}

function asError(last: { readonly retryAfterMs?: number | undefined }, wait: number): AcmeError {
  if (last instanceof AcmeError) return last
  return new AcmeError('ACME_TIMEOUT', 'the CA is still at work', { retryAfterMs: wait })
}

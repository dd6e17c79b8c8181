import { setTimeout as pause } from 'node:timers/promises'

/** Milliseconds until it is in vain. Long, so that a busy machine fails no test. */
const PATIENCE = 120_000

/** Resolves as soon as `check` gives something true, with that. */
export async function until<T>(check: () => T | Promise<T>): Promise<T> {
  for (const end = performance.now() + PATIENCE; ; await pause(5)) {
    const result = await check()
    if (result) return result
    if (performance.now() > end) throw new Error(`In vain: ${check}`)
  }
}

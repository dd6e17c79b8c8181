import type { Clock } from '@gatehouse/service-kit'

/**
 * Runs `run` now and then repeatedly, with a pause after each run. What is due is decided by the clock
 * at each run, so a clock that jumps or a machine that slept delays it by one pause at most. The signal
 * is aborted by `stop`, which waits for the current run.
 */
export function repeat(
  clock: Clock,
  pauseMs: number,
  run: (signal: AbortSignal) => Promise<void>,
  onError: (error: unknown) => void,
): { stop(): Promise<void> } {
  const stopping = new AbortController()
  let timer: { cancel(): void } | undefined
  let running = turn()

  async function turn(): Promise<void> {
    await run(stopping.signal).catch(onError)
    if (stopping.signal.aborted) return
    timer = clock.setTimer(() => {
      running = turn()
    }, pauseMs)
  }

  return {
    async stop() {
      stopping.abort()
      timer?.cancel()
      await running
    },
  }
}

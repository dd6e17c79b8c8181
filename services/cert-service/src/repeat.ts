import type { Clock } from '@gatehouse/service-kit'

/**
 * Runs a piece of work now and, once it has ended, again and again after a pause. Work is told by
 * the clock what is due, so a clock that jumps or a machine that slept makes it late by one pause.
 * Its signal is aborted when it is to end early.
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

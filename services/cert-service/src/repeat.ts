import type { Clock } from '@gatehouse/service-kit'

/**
 * Runs a piece of work now and, once it has ended, again and again after a pause. Work is told by
 * the clock what is due, so a clock that jumps or a machine that slept makes it late by one pause.
 */
export function repeat(
  clock: Clock,
  pauseMs: number,
  run: () => Promise<void>,
  onError: (error: unknown) => void,
): { stop(): Promise<void> } {
  let timer: { cancel(): void } | undefined
  let stopped = false
  let running = turn()

  async function turn(): Promise<void> {
    await run().catch(onError)
    if (stopped) return
    timer = clock.setTimer(() => {
      running = turn()
    }, pauseMs)
  }

  return {
    async stop() {
      stopped = true
      timer?.cancel()
      await running
    },
  }
}

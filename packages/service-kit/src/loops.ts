import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Clock } from './clock.ts'

/** Work that is repeated while the service runs. */
export interface Loops {
  /**
   * Adds a loop that pauses so many milliseconds after each run. An error is logged with the message
   * `failed`, at the level `error` by default, and the loop goes on.
   */
  add(pauseMs: number, run: Run, failed: string, level?: 'warn' | 'error'): void
  start(): void
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly loops: Loops
  }
}

type Run = (signal: AbortSignal) => Promise<void>

export interface Loop {
  stop(): Promise<void>
}

/** Runs loops from the moment that the service listens. */
export const loops = fp(
  async (app: FastifyInstance) => {
    const starts: (() => Loop)[] = []
    let running: readonly Loop[] = []
    let stopped: Promise<unknown> | undefined
    app.decorate('loops', {
      add(pauseMs, run, failed, level = 'error') {
        const onError = (err: unknown) => app.log[level]({ err }, failed)
        starts.push(() => repeat(app.clock, pauseMs, run, onError))
      },
      start() {
        running = starts.map((start) => start())
      },
    })
    app.addHook('onListen', async () => app.loops.start())
    // What runs may wait for other plugins, which end that when they are closed, before this one.
    app.addHook('preClose', async () => {
      stopped = Promise.all(running.map((loop) => loop.stop()))
    })
    app.addHook('onClose', async () => void (await stopped))
  },
  { name: 'service-kit/loops', dependencies: ['service-kit/clock'] },
)

/**
 * Runs `run` now and then repeatedly, with a pause after each run. What is due is decided by the clock
 * at each run, so a clock that jumps or a machine that slept delays it by one pause at most. The signal
 * is aborted by `stop`, which waits for the current run.
 */
export function repeat(clock: Clock, pause: number, run: Run, warn: (err: unknown) => void): Loop {
  const stopping = new AbortController()
  let timer: { cancel(): void } | undefined
  let running = turn()

  async function turn(): Promise<void> {
    await run(stopping.signal).catch(warn)
    if (stopping.signal.aborted) return
    timer = clock.setTimer(() => {
      running = turn()
    }, pause)
  }

  return {
    async stop() {
      stopping.abort()
      timer?.cancel()
      await running
    },
  }
}

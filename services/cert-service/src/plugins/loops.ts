import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { repeat } from '../repeat.ts'

/** Work that is repeated while the service runs. */
interface Loops {
  /**
   * Adds a loop that pauses so many milliseconds after each run. An error is logged with the message
   * `failed`, and the loop goes on.
   */
  add(pauseMs: number, run: (signal: AbortSignal) => Promise<void>, failed: string): void
  start(): void
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly loops: Loops
  }
}

/** Runs loops from the moment that the service listens. */
export const loops = fp(
  async (app: FastifyInstance) => {
    const starts: (() => { stop(): Promise<void> })[] = []
    let running: readonly { stop(): Promise<void> }[] = []
    let stopped: Promise<unknown> = Promise.resolve()
    app.decorate('loops', {
      add(pauseMs, run, failed) {
        const onError = (err: unknown) => app.log.error({ err }, failed)
        starts.push(() => repeat(app.clock, pauseMs, run, onError))
      },
      start() {
        running = starts.map((start) => start())
      },
    })
    app.addHook('onListen', async () => app.loops.start())
    // Loops wait for certificates being issued, which issuance ends before this plugin is closed.
    app.addHook('preClose', async () => {
      stopped = Promise.all(running.map((loop) => loop.stop()))
    })
    app.addHook('onClose', async () => {
      await stopped
    })
  },
  { fastify: '5.x', name: 'cert-service/loops', dependencies: ['service-kit/clock'] },
)

import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const MAX_TIMEOUT_MS = 2_147_483_647

/** Source of time, passed in so that tests can control it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Calls `fn` once after `ms` milliseconds, without a maximum. The timer does not keep the process alive. */
  setTimer(fn: () => void, ms: number): { cancel(): void }
}

/** The system clock. */
export const systemClock: Clock = {
  now: Date.now,
  setTimer(fn, ms) {
    let timer: NodeJS.Timeout
    const wait = (left: number) => {
      const step = Math.min(left, MAX_TIMEOUT_MS)
      timer = setTimeout(() => (left > step ? wait(left - step) : fn()), step).unref()
    }
    wait(ms)
    return { cancel: () => clearTimeout(timer) }
  },
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly clock: Clock
  }
}

/** Decorates the app with the clock that its plugins use; the default is {@link systemClock}. */
export const clock = fp<{ readonly clock?: Clock }>(
  async (app: FastifyInstance, options) => {
    app.decorate('clock', options.clock ?? systemClock)
  },
  { fastify: '5.x', name: 'service-kit/clock' },
)

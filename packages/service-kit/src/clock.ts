import type { Clock } from '@gatehouse/net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const MAX_TIMEOUT_MS = 2_147_483_647

export type { Clock }

/** The system clock. Its timers do not keep the process alive. */
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
  { name: 'service-kit/clock' },
)

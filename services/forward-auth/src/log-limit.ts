import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'

const INTERVAL = 60_000
const MAX_KEYS = 1_000

/** Calls `write` unless it was called for the same key within the last minute. */
export type LimitLog = (key: string, write: () => void) => void

/** @param now - milliseconds since the epoch */
export function createLogLimit(now: () => number): LimitLog {
  const times = new LRUCache<string, number>({ max: MAX_KEYS })
  return (key, write) => {
    const previous = times.get(key)
    // Either way, so that a clock that was set back does not end all logging.
    if (previous !== undefined && Math.abs(now() - previous) < INTERVAL) return
    times.set(key, now())
    write()
  }
}

/** Logs a warning that any client can cause, once a minute for the same `fields`. */
export function warnRarely(
  { log, server }: FastifyRequest,
  fields: object,
  message: string,
  details: object = {},
): void {
  server.limitLog(Object.values(fields).join(' '), () =>
    log.warn({ ...fields, ...details }, message),
  )
}

declare module 'fastify' {
  interface FastifyInstance {
    limitLog: LimitLog
  }
}

export const logLimit = fp(
  async (app: FastifyInstance) => {
    app.decorate('limitLog', createLogLimit(app.clock.now))
  },
  { name: 'forward-auth/log-limit', dependencies: ['service-kit/clock'] },
)

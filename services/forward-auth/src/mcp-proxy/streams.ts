import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { FwaError } from '../errors.ts'

/** Calls and streams of one person and client at a time. */
const MAX_OPEN = { calls: 16, streams: 4 } as const
/** The longest time for which a stream is open, in ms. */
const LONGEST = 3_600_000
/** The time after which all of them are reviewed, in ms: not every end comes as an event, such as that of a session's time. */
const REVIEW = 60_000
/** The time for calls to end once the service stops, in ms: less than a service may take for that. */
const LAST_WAIT = 5_000

export type StreamKind = keyof typeof MAX_OPEN

/** A request that the proxy answers for as long as its sender may send it. */
interface OpenStream {
  readonly kind: StreamKind
  /** IDs of the sessions that it ends with. */
  readonly sessions: readonly string[]
  /** Whether it may go on. */
  isAllowed(): Promise<boolean>
  /** Ends it. Called once at most. */
  end(): void
}

/** The requests that the proxy is answering. Each ends with its agent, with its rule, and after an hour. */
class OpenStreams {
  readonly #app: FastifyInstance
  readonly #counts = new Map<string, number>()
  readonly #open = new Set<{ readonly kind: StreamKind; review(): void; end(): void }>()

  constructor(app: FastifyInstance) {
    this.#app = app
  }

  /**
   * Counts a request of somebody.
   *
   * @returns a function that ends it
   * @throws FwaError FWA_RATE_LIMITED
   */
  count(kind: StreamKind, sender: string): () => void {
    const key = `${kind} ${sender}`
    const count = this.#counts.get(key) ?? 0
    if (count >= MAX_OPEN[kind])
      throw new FwaError('FWA_RATE_LIMITED', `more than ${count} ${kind} at once`, {
        retryAfter: 1,
      })
    this.#counts.set(key, count + 1)
    return () => {
      const left = (this.#counts.get(key) ?? 1) - 1
      if (left > 0) this.#counts.set(key, left)
      else this.#counts.delete(key)
    }
  }

  /**
   * Ends a stream when it may not go on.
   *
   * @returns a function for when it has ended by itself
   */
  add({ kind, sessions, isAllowed, end }: OpenStream): () => void {
    const { clock, log, sessions: appSessions } = this.#app
    const longest = clock.now() + LONGEST
    const isOver = async () => {
      try {
        return clock.now() >= longest || !(await isAllowed())
      } catch (error) {
        log.info({ err: error }, 'a stream was ended')
        return true
      }
    }
    const stop = () => {
      close()
      end()
    }
    const review = async () => {
      if ((await isOver()) && this.#open.has(stream)) stop()
    }
    const stream = { kind, review: () => void review(), end: stop }
    const unwatch = sessions.map((sid) => appSessions.records.watch(sid, stream.review))
    const close = () => {
      this.#open.delete(stream)
      for (const ended of unwatch) ended()
    }
    this.#open.add(stream)
    return close
  }

  /** Looks whether each of them may still go on. */
  review(): void {
    for (const stream of this.#open) stream.review()
  }

  /** How many of a kind there are. */
  sizeOf(kind: StreamKind): number {
    return [...this.#open].filter((stream) => stream.kind === kind).length
  }

  end(kinds: readonly StreamKind[]): void {
    for (const stream of this.#open) if (kinds.includes(stream.kind)) stream.end()
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly openStreams: OpenStreams
  }
}

export const openStreams = fp<{ readonly metrics?: Metrics | undefined }>(
  async (app: FastifyInstance, { metrics }) => {
    const streams = new OpenStreams(app)
    metrics?.gauge({
      name: 'gatehouse_auth_mcp_open_calls',
      help: 'Calls that the MCP proxy is answering.',
      collect: () => streams.sizeOf('calls'),
    })
    metrics?.gauge({
      name: 'gatehouse_auth_mcp_open_streams',
      help: 'Streams for messages of MCP servers that are open.',
      collect: () => streams.sizeOf('streams'),
    })
    app.decorate('openStreams', streams)
    app.onReload(async () => () => streams.review())
    app.loops.add(REVIEW, async () => streams.review(), 'open streams could not be reviewed')
    let lastWait: { cancel(): void } | undefined
    app.addHook('preClose', async () => {
      streams.end(['streams'])
      lastWait = app.clock.setTimer(() => streams.end(['calls']), LAST_WAIT)
    })
    app.addHook('onClose', async () => {
      lastWait?.cancel()
      streams.end(['streams', 'calls'])
    })
  },
  {
    name: 'forward-auth/open-streams',
    dependencies: [
      'forward-auth/upstreams',
      'forward-auth/portals',
      'forward-auth/sessions',
      'service-kit/clock',
      'service-kit/loops',
      'service-kit/reload',
    ],
  },
)

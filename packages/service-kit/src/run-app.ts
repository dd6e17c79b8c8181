import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { attempt } from '@gatehouse/net'
import closeWithGrace from 'close-with-grace'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Logger } from 'pino'
import { ConfigError } from './errors.ts'

const SWEEP_MS = 50
/** Connections of a crowd that may wait to be accepted: the most that Linux has by default. Others are tried again after a second. */
const BACKLOG = 4_096
const REPORT_EVERY_MS = 60_000
/** Files that stay available for the store, logs and outgoing requests, or a tenth of all. */
const KEPT_FREE = 64
/** The time to stop, in ms. Docker kills after 10 s, and the store must be closed by then. */
export const GRACE_MS = 8_000
/** The time, in ms, in which balancers see after SIGTERM that the service is not ready. It ends within a second. */
const DRAIN_MS = 800

/** The apps of this process that are stopping: the first one to finish must not end the process. */
const stopping: Promise<void>[] = []

/** The options of {@link runApp}. */
export interface RunOptions {
  app: FastifyInstance
  host: string
  port: number
  log: Logger
  /** Milliseconds after which stopping is given up; default {@link GRACE_MS}. */
  graceMs?: number
  /** Milliseconds for which an app with `draining` goes on after SIGTERM; default: most of a second. */
  drainMs?: number
  /** Called on SIGHUP. Its errors are logged, and the app continues unchanged. */
  onReload?(): Promise<void>
  /** Called after the app has closed. */
  onClose?(): Promise<void>
}

/** An app that listens until it is closed. */
export interface Running {
  readonly url: string
  close(): Promise<void>
}

/**
 * Listens, and stops on SIGTERM, SIGINT or an unexpected error: pending requests are answered and idle
 * connections are closed. After SIGTERM new requests are answered for a moment, too, if the app has the
 * plugin `draining`. A second signal, or the end of the grace period, exits with code 1.
 *
 * @throws ConfigError CONFIG_LISTEN_FAILED
 */
export async function runApp(options: RunOptions): Promise<Running> {
  const { app, port, log, graceMs = GRACE_MS, drainMs = DRAIN_MS, onReload, onClose } = options
  // For `localhost`, Fastify opens a second listener, which would not get renewed certificates.
  const host = options.host === 'localhost' ? '127.0.0.1' : options.host
  await app.ready()
  limitConnections(app.server, log)
  const url = await app.listen({ host, port, backlog: BACKLOG }).catch((error: unknown) => {
    throw listenError(error, { host, port })
  })

  async function close(isDraining = false): Promise<void> {
    process.off('SIGHUP', reload)
    if (isDraining && app.hasDecorator('drain')) app.drain.ms = drainMs
    const sweep = setInterval(() => {
      // A connection becomes idle after its last answer and would then be kept open.
      if (!app.server.listening) app.server.closeIdleConnections()
    }, SWEEP_MS)
    await app.close().finally(() => clearInterval(sweep))
    await onClose?.()
  }
  const reload = () => void reloadWith(options)
  if (onReload) process.on('SIGHUP', reload)
  const signals = closeOnSignal({ ...options, graceMs }, close)
  return {
    url,
    async close() {
      signals.uninstall()
      await close()
    },
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The time to go on answering when the service stops, in ms. */
    readonly drain: { ms: number }
  }
}

/**
 * Goes on listening for a moment when the service stops and is not ready any more, so that balancers send
 * nothing to a closed port. Fastify closes each connection with its next answer. Register it after whatever
 * ends something that requests wait for.
 */
export const draining = fp(
  async (app: FastifyInstance) => {
    app.decorate('drain', { ms: 0 })
    app.addHook('preClose', async () => {
      if (app.drain.ms > 0) await pause(app.drain.ms)
    })
  },
  { name: 'service-kit/draining', dependencies: ['service-kit/health'] },
)

/** Closes and ends the process on a signal or an unexpected error. */
function closeOnSignal(
  { log, graceMs, onReload }: RunOptions & { readonly graceMs: number },
  close: (isDraining: boolean) => Promise<void>,
): ReturnType<typeof closeWithGrace> {
  return closeWithGrace(
    {
      delay: graceMs,
      logger: log,
      ...(onReload && { skip: ['SIGHUP'] }),
    },
    async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'unexpected error, stopping')
      else log.info({ signal }, 'stopping')
      // Who presses Ctrl-C has no balancer to wait for.
      const stopped = close(signal === 'SIGTERM')
      stopping.push(stopped)
      await stopped
      log.info('stopped')
      await Promise.all(stopping)
    },
  )
}

async function reloadWith({ log, onReload }: RunOptions): Promise<void> {
  try {
    await onReload?.()
    log.info('configuration reloaded')
  } catch (error) {
    log.error({ err: error }, 'configuration not reloaded, the old one stays')
  }
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use by another program',
  EACCES: 'this user may not use that port',
  EADDRNOTAVAIL: 'this machine does not have that address',
  ENOTFOUND: 'the host name is not known',
}

/** The error of a listener that could not start, as one line. */
export function listenError(error: unknown, address: { host: string; port: number }): ConfigError {
  const { code = '' } = error as NodeJS.ErrnoException
  const where = `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}`
  return new ConfigError(
    'CONFIG_LISTEN_FAILED',
    `cannot listen on ${where}: ${REASONS[code] ?? code}`,
    { cause: error },
  )
}

/**
 * Limits connections to fewer than the process may open files, and logs refused ones at most once a
 * minute. Without a limit the system closes connections that it cannot accept, without a log line.
 */
export function limitConnections(
  server: Server,
  log: { warn(fields: object, message: string): void },
  { openFiles = readOpenFiles(), now = Date.now }: { openFiles?: number; now?: () => number } = {},
): void {
  if (!Number.isFinite(openFiles)) return
  const keptFree = Math.max(KEPT_FREE, Math.ceil(openFiles / 10))
  const maxConnections = Math.max(1, openFiles - keptFree)
  server.maxConnections = maxConnections
  let refused = 0
  let reportedAt = Number.NEGATIVE_INFINITY
  server.on('drop', () => {
    refused++
    if (now() - reportedAt < REPORT_EVERY_MS) return
    log.warn({ refused, maxConnections, openFiles }, 'connections refused: too many are open')
    reportedAt = now()
    refused = 0
  })
}

/** The number of files that the process may open; infinite if the system does not say. */
function readOpenFiles(): number {
  const limits = attempt(() => readFileSync('/proc/self/limits', 'utf8')) ?? ''
  const [, soft] = /^Max open files\s+(\d+)/m.exec(limits) ?? []
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
}

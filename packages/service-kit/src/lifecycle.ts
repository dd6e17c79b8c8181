import closeWithGrace from 'close-with-grace'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { limitConnections } from './connections.ts'
import { listenError } from './listen.ts'

const SWEEP_MS = 50
/** Less than the 10 s after which Docker kills, so that the store is closed in any case. */
export const GRACE_MS = 8_000

/** Of the services of this process: the first to be done must not end it for the others. */
const stopping: Promise<void>[] = []

export interface RunOptions {
  app: FastifyInstance
  host: string
  port: number
  log: Logger
  /** Most milliseconds that stopping may take; default {@link GRACE_MS}. */
  graceMs?: number
  /** On SIGHUP. What it throws is logged, and the service goes on as it was. */
  onReload?(): Promise<void>
  /** After the last answer. */
  onClose?(): Promise<void>
}

/**
 * Listens, and stops on SIGTERM, SIGINT or an unexpected error: answers in flight are finished, idle
 * connections closed. A second signal, or the end of the grace period, ends the process with 1.
 *
 * @throws ConfigError CONFIG_LISTEN_FAILED
 */
export async function runService(
  options: RunOptions,
): Promise<{ url: string; close(): Promise<void> }> {
  const { app, port, log, graceMs = GRACE_MS, onReload, onClose } = options
  // Fastify would open a second listener for ::1, which no new certificate would reach.
  const host = options.host === 'localhost' ? '127.0.0.1' : options.host
  await app.ready()
  limitConnections(app.server, log)
  const url = await app.listen({ host, port }).catch((error: unknown) => {
    throw listenError(error, { host, port })
  })

  async function stop(): Promise<void> {
    process.off('SIGHUP', reload)
    // A connection turns idle only when its answer is out, and would then be kept for the next request.
    const sweep = setInterval(() => app.server.closeIdleConnections(), SWEEP_MS)
    await app.close().finally(() => clearInterval(sweep))
    await onClose?.()
  }
  const signals = closeWithGrace(
    { delay: graceMs, logger: log, ...(onReload && { skip: ['SIGHUP'] }) },
    async ({ signal, err }) => {
      if (err) log.fatal({ err }, 'unexpected error, stopping')
      else log.info({ signal }, 'stopping')
      const stopped = stop()
      stopping.push(stopped)
      await stopped
      log.info('stopped')
      await Promise.all(stopping)
    },
  )
  const reload = reloader(log, onReload)
  if (onReload) process.on('SIGHUP', reload)
  return {
    url,
    async close() {
      signals.uninstall()
      await stop()
    },
  }
}

/** One reload at a time; a signal during it counts once more. */
function reloader(log: Logger, onReload: RunOptions['onReload']): () => void {
  let running = Promise.resolve()
  return () => {
    running = running
      .then(() => onReload?.())
      .then(
        () => log.info('configuration reloaded'),
        (error) => log.error({ err: error }, 'configuration not reloaded, the old one stays'),
      )
  }
}

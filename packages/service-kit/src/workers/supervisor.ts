import closeWithGrace from 'close-with-grace'
import type { Logger } from 'pino'
import { announceReady } from '../ready.ts'
import { GRACE_MS } from '../run-app.ts'
import { listenMetrics } from '../telemetry/metrics.ts'
import { Crew } from './crew.ts'
import { CrewMetrics } from './metrics.ts'

/** Workers end by themselves before that, and Docker kills after 10 s. */
const STOP_MS = GRACE_MS + 500
const LAST_MS = STOP_MS + 500
const RELOAD_MS = 30_000

interface SupervisorOptions {
  readonly program: string
  readonly name: string
  readonly version: string
  /** The number of workers. */
  readonly count: number
  readonly metrics: { readonly enabled: boolean; readonly host: string; readonly port: number }
  readonly log: Logger
  readonly env: NodeJS.ProcessEnv
}

/**
 * Runs a service in several processes that share its ports: starts them, replaces those that end,
 * serves the sum of their metrics, and passes signals on. Resolves when all are ready.
 *
 * @throws ConfigError CONFIG_LISTEN_FAILED for the metrics; DescribedError if a worker cannot start
 */
export async function supervise(options: SupervisorOptions): Promise<void> {
  const { log } = options
  const crew = new Crew({ ...options, onLost })
  const metrics = new CrewMetrics(options, crew)
  const listener = options.metrics.enabled
    ? await listenMetrics(metrics, options.metrics)
    : undefined

  async function close(): Promise<void> {
    const isClean = await crew.stop(STOP_MS)
    await listener?.close()
    if (!isClean) throw new Error('not every worker ended in order')
  }
  function onLost(): void {
    log.fatal('no worker can be started')
    process.exit(1)
  }
  const url = await crew.start().catch(async (error: unknown) => {
    await close().catch(() => {})
    throw error
  })
  announceReady({ url, workers: crew.ready.map(({ pid }) => pid) }, options)
  process.on('SIGHUP', () => void reload(crew, log))
  closeWithGrace({ delay: LAST_MS, logger: log, skip: ['SIGHUP'] }, async ({ signal, err }) => {
    if (err) log.fatal({ err }, 'unexpected error, stopping')
    else log.info({ signal }, 'stopping all workers')
    await close()
    log.info('all workers stopped')
  })
}

/** Reloads all workers, also those that are starting: they may have read the file before it changed. */
async function reload(crew: Crew, log: Logger): Promise<void> {
  const { members } = crew
  const outcomes = await Promise.all(
    members.map((member) => member.ask<boolean>('reload', undefined, RELOAD_MS).catch(() => false)),
  )
  const failed = members
    .filter(({ outcome }, at) => outcome === undefined && outcomes[at] !== true)
    .map(({ pid }) => pid)
  if (failed.length === 0) log.info({ workers: members.length }, 'all workers reloaded')
  else log.error({ failed }, 'not every worker reloaded')
}

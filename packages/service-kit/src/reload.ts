import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Loaded } from './config/load.ts'
import { watchFiles } from './files.ts'
import type { Metrics } from './telemetry/metrics.ts'

/** Applies a prepared configuration, synchronously and completely. It must not throw. */
type Commit = () => void

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Registers what a plugin does when the configuration has changed. `prepare` computes everything
     * that can fail and changes nothing yet; the function that it returns applies the result.
     */
    onReload<Config>(prepare: (config: Config) => Commit | Promise<Commit>): void
    /**
     * Calls every registered `prepare`, in the order of registration. The returned function applies
     * all of the results at once. If one `prepare` throws, this rejects and nothing has changed.
     */
    prepareReload<Config>(config: Config): Promise<Commit>
    /** Adds a decorator with what `make` makes of the configuration, and again of each changed one. */
    decorateReloaded<Config, K extends keyof FastifyInstance>(
      name: K,
      config: Config,
      make: (config: Config) => FastifyInstance[K] | Promise<FastifyInstance[K]>,
    ): Promise<void>
  }
}

/** Lets each plugin of a service apply a changed configuration, all of them together or none. */
export const reload = fp(
  async (app: FastifyInstance) => {
    const prepares: ((config: never) => Commit | Promise<Commit>)[] = []
    app.decorate('onReload', (prepare) => void prepares.push(prepare))
    app.decorate('prepareReload', async (config) => {
      const commits: Commit[] = []
      for (const prepare of prepares) commits.push(await prepare(config as never))
      return () => {
        for (const commit of commits) commit()
      }
    })
    app.decorate('decorateReloaded', async (name, config, make) => {
      app.decorate<unknown>(name, await make(config))
      app.onReload<typeof config>(async (changed) => {
        const next = await make(changed)
        return () => void Object.assign(app, { [name]: next })
      })
    })
  },
  { name: 'service-kit/reload' },
)

/** A section of a configuration, or a key of one such as `server.port`. */
export type SettingPath<Config> = (keyof Config & string) | `${keyof Config & string}.${string}`

type Watched<Config> = Pick<Loaded<Config>, 'value' | 'secretFiles'>

interface ReloadOptions<Config extends object> {
  readonly loaded: Watched<Config>
  load(): Promise<Watched<Config>>
  /** Prepares a configuration, as `prepareReload` of the app does. */
  prepare(config: Config): Promise<Commit>
  /** Settings that are read only at the start. */
  readonly readOnce: readonly SettingPath<Config>[]
  /** Called after each reload, with whether it succeeded. */
  onReload?(isApplied: boolean): void
  readonly log: Record<'warn' | 'error', (fields: object, message: string) => void>
}

/**
 * Returns the function that applies a changed configuration, and calls it when the file of a secret
 * changes. It rejects, and changes nothing, if the new configuration has a fault. Reloads run one after
 * the other, so that an older configuration never replaces a newer one.
 */
export function watchConfig<Config extends object>(
  options: ReloadOptions<Config>,
): { reload(): Promise<void>; close(): void } {
  const { loaded, load, prepare, readOnce, onReload, log } = options
  let latest = Promise.resolve()
  let isClosed = false
  let watcher = watchSecrets(loaded.secretFiles)

  function watchSecrets(files: readonly string[]): { close(): void } {
    return watchFiles(files, () => {
      reload().catch((error) =>
        log.error({ err: error }, 'changed secrets were not applied; the old ones stay in use'),
      )
    })
  }

  function reload(): Promise<void> {
    const next = latest.then(reloadOnce)
    latest = next.then(
      () => onReload?.(true),
      () => onReload?.(false),
    )
    return next
  }

  async function reloadOnce(): Promise<void> {
    const { value, secretFiles } = await load()
    const fresh = watchSecrets(secretFiles)
    try {
      const commit = await prepare(value)
      commit()
    } catch (error) {
      fresh.close()
      throw error
    }
    watcher.close()
    watcher = fresh
    if (isClosed) fresh.close()
    const sections = readOnce.filter((path) => textAt(loaded.value, path) !== textAt(value, path))
    if (sections.length > 0) log.warn({ sections }, 'changes need a restart')
  }

  return {
    reload,
    close() {
      isClosed = true
      watcher.close()
    },
  }
}

function textAt(config: object, path: string): string | undefined {
  const value = path
    .split('.')
    .reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], config)
  return JSON.stringify(value)
}

/**
 * Measures when the configuration was last applied, and whether the last reload succeeded. Call the
 * returned function after each reload.
 *
 * @param now - milliseconds since the epoch
 */
export function measureReloads(metrics: Metrics, now: () => number): (isApplied: boolean) => void {
  const loaded = metrics.gauge({
    name: 'gatehouse_config_loaded_seconds',
    help: 'When the configuration that is in use was taken up, as a Unix time.',
  })
  const success = metrics.gauge({
    name: 'gatehouse_config_reload_success',
    help: 'Whether the last reload of the configuration was taken up: 1 or 0.',
  })
  function reloaded(isApplied: boolean): void {
    success.set(isApplied ? 1 : 0)
    if (isApplied) loaded.set(Math.floor(now() / 1000))
  }
  reloaded(true)
  return reloaded
}

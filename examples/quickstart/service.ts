import { join } from 'node:path'
import { createLogger, type LogOptions } from '@gatehouse/service-kit/telemetry'
import type { Environment, Settings } from './settings.ts'

/** A server that listens on an origin until it is closed. */
export interface Running {
  readonly url: string
  close(): Promise<void>
}

interface LoadedService {
  readonly value: { readonly log: Omit<LogOptions, 'name'> }
}
interface ServeOptions<Loaded> {
  readonly loaded: Loaded
  readonly log: ReturnType<typeof createLogger>
  load(): Promise<Loaded>
}

/** Runs a service like its own program, with the configuration file of its name. */
export async function startService<Loaded extends LoadedService, Serving extends Running>(
  name: string,
  { env }: Settings,
  load: (file: string, environment: Environment) => Promise<Loaded>,
  serve: (options: ServeOptions<Loaded>) => Promise<Serving>,
): Promise<Serving> {
  const read = () => load(join(import.meta.dirname, `${name}.yaml`), env)
  const loaded = await read()
  return serve({ loaded, log: createLogger({ ...loaded.value.log, name }), load: read })
}

import { type LoadedConfig, loadConfig } from '@gatehouse/service-kit'
import { checkConfig } from './check.ts'
import { ForwardAuthSchema } from './schema.ts'

/** A configuration file of forward-auth, read. */
export type Loaded = LoadedConfig<typeof ForwardAuthSchema>

/**
 * Reads a configuration file.
 *
 * @throws ConfigError with every fault of it
 */
export function loadForwardAuthConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Loaded> {
  return loadConfig({ schema: ForwardAuthSchema, file, env, check: checkConfig })
}

import { type LoadedConfig, type LoadOptions, loadConfig } from '@gatehouse/service-kit'
import { CONFIG_RULES } from './check.ts'
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
  options: Pick<LoadOptions<typeof ForwardAuthSchema>, 'withoutSecrets'> = {},
): Promise<Loaded> {
  return loadConfig({ schema: ForwardAuthSchema, file, env, rules: CONFIG_RULES, ...options })
}

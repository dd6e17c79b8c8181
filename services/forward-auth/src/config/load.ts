import { type LoadedConfig, type LoadOptions, loadConfig } from '@gatehouse/service-kit'
import { CONFIG_RULES } from './check.ts'
import { ForwardAuthSchema } from './schema.ts'
import { loadStartRules } from './start-rules.ts'

/** A configuration file of forward-auth, read. */
export type Loaded = LoadedConfig<typeof ForwardAuthSchema>

export interface LoadSettings
  extends Pick<LoadOptions<typeof ForwardAuthSchema>, 'withoutSecrets'> {
  /** Judges what only a start needs, too: the files that are named, and where things are kept. */
  readonly beforeStart?: boolean
}

/**
 * Reads a configuration file.
 *
 * @throws ConfigError with every fault of it
 */
export async function loadForwardAuthConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  { beforeStart = false, ...options }: LoadSettings = {},
): Promise<Loaded> {
  const rules = beforeStart ? [...CONFIG_RULES, ...(await loadStartRules())] : CONFIG_RULES
  return loadConfig({ schema: ForwardAuthSchema, file, env, rules, ...options })
}

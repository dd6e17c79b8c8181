import { type LoadedConfig, type LoadOptions, loadConfig } from '@gatehouse/service-kit'
import { CONFIG_RULES } from './check.ts'
import { CertServiceSchema } from './schema.ts'
import { START_RULES } from './start-rules.ts'

/** A configuration file of cert-service, read. */
export type Loaded = LoadedConfig<typeof CertServiceSchema>

export interface LoadSettings
  extends Pick<LoadOptions<typeof CertServiceSchema>, 'withoutSecrets'> {
  /** Judges what only a start needs, too: the files that are named, and where things are kept. */
  readonly beforeStart?: boolean
}

/**
 * Reads a configuration file.
 *
 * @throws ConfigError with every fault of it
 */
export function loadCertConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  { beforeStart = false, ...options }: LoadSettings = {},
): Promise<Loaded> {
  const rules = beforeStart ? [...CONFIG_RULES, ...START_RULES] : CONFIG_RULES
  return loadConfig({ schema: CertServiceSchema, file, env, rules, ...options })
}

import { type LoadedConfig, type LoadOptions, loadConfig } from '@gatehouse/service-kit'
import { CONFIG_RULES } from './check.ts'
import { CertServiceSchema } from './schema.ts'

/** A configuration file of cert-service, read. */
export type Loaded = LoadedConfig<typeof CertServiceSchema>

/**
 * Reads a configuration file.
 *
 * @throws ConfigError with every fault of it
 */
export function loadCertConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  options: Pick<LoadOptions<typeof CertServiceSchema>, 'withoutSecrets'> = {},
): Promise<Loaded> {
  return loadConfig({ schema: CertServiceSchema, file, env, rules: CONFIG_RULES, ...options })
}

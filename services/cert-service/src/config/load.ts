import { type LoadedConfig, loadConfig } from '@gatehouse/service-kit'
import { checkConfig } from './check.ts'
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
): Promise<Loaded> {
  return loadConfig({ schema: CertServiceSchema, file, env, check: checkConfig })
}

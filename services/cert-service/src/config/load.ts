import { type Loaded, type LoadSettings, loadConfig } from '@gatehouse/service-kit'
import { CONFIG_RULES } from './check.ts'
import { type CertServiceConfig, CertServiceSchema } from './schema.ts'
import { START_RULES } from './start-rules.ts'

/**
 * Reads a configuration file.
 *
 * @throws ConfigError with every fault of it
 */
export function loadCertConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  { beforeStart = false, ...options }: LoadSettings = {},
): Promise<Loaded<CertServiceConfig>> {
  const rules = beforeStart ? [...CONFIG_RULES, ...START_RULES] : CONFIG_RULES
  return loadConfig({ schema: CertServiceSchema, file, env, rules, ...options })
}

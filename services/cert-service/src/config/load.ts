import { type Loaded, type LoadSettings, loadConfig } from '@gatehouse/service-kit'
import { CONFIG_RULES } from './check.ts'
import { START_RULES } from './check-files.ts'
import { type CertServiceConfig, CertServiceSchema } from './schema.ts'

/**
 * Reads a configuration file.
 *
 * @throws ConfigError with all of its errors
 */
export function loadCertConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  { beforeStart = false, ...options }: LoadSettings = {},
): Promise<Loaded<CertServiceConfig>> {
  const rules = beforeStart ? [...CONFIG_RULES, ...START_RULES] : CONFIG_RULES
  return loadConfig({ schema: CertServiceSchema, file, env, rules, ...options })
}

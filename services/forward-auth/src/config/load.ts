import { type Loaded, type LoadSettings, loadConfig } from '@gatehouse/service-kit'
import { CONFIG_RULES } from './rules.ts'
import { type ForwardAuthConfig, ForwardAuthSchema } from './schema.ts'
import { loadStartRules } from './start-rules.ts'

/**
 * Reads a configuration file.
 *
 * @throws ConfigError with all faults of the file
 */
export async function loadForwardAuthConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  { beforeStart = false, ...options }: LoadSettings = {},
): Promise<Loaded<ForwardAuthConfig>> {
  const rules = beforeStart ? [...CONFIG_RULES, ...(await loadStartRules())] : CONFIG_RULES
  return loadConfig({ schema: ForwardAuthSchema, file, env, rules, ...options })
}

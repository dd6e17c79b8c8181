import { access } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { ConfigError } from '../errors.ts'

/**
 * Finds the configuration file of a service: `flag`, else `$GATEHOUSE_CONFIG`, else `config.yaml` in
 * the working directory, else the service's folder in the system's configuration directory.
 *
 * @throws ConfigError CONFIG_NOT_FOUND
 */
export async function locateConfig(options: {
  flag?: string
  env: Readonly<Record<string, string | undefined>>
  name: string
}): Promise<string> {
  const named = options.flag ?? (options.env.GATEHOUSE_CONFIG || undefined)
  if (named !== undefined) return resolve(named)

  const system =
    process.platform === 'win32' ? (options.env.ProgramData ?? 'C:\\ProgramData') : '/etc'
  const places = [resolve('config.yaml'), join(system, 'gatehouse', options.name, 'config.yaml')]
  for (const place of places) if (await exists(place)) return place
  throw new ConfigError(
    'CONFIG_NOT_FOUND',
    `no configuration file: neither --config nor $GATEHOUSE_CONFIG is given, and there is no ${places.join(' and no ')}`,
  )
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  )
}

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { ConfigError, type ConfigFault, readNamedFile } from '@gatehouse/service-kit'
import { loadForwardAuthConfig } from '../config/load.ts'
import { type ForeignName, migrate as migrateText } from '../migrate/migrate.ts'

const MAX_BYTES = 1_048_576

/**
 * Prints our configuration for a file of another program.
 * @returns its text, and how many places of it are marked
 * @throws ConfigError CONFIG_NOT_FOUND, CONFIG_UNREADABLE, CONFIG_NOT_THEIRS
 */
export async function migrate(name: ForeignName, file: string) {
  const read = readNamedFile(file, MAX_BYTES)
  if ('fault' in read) throw new ConfigError('CONFIG_UNREADABLE', `${file} ${read.fault}`)
  return migrateText(
    name,
    { text: read.text, file },
    {
      readFile(named) {
        const found = readNamedFile(resolve(dirname(file), named), MAX_BYTES)
        return 'text' in found ? found.text : undefined
      },
      check: faultsOf,
    },
  )
}

async function faultsOf(yaml: string): Promise<readonly ConfigFault[]> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-migrate-'))
  const file = join(folder, 'config.yaml')
  try {
    await writeFile(file, yaml, { mode: 0o600 })
    await loadForwardAuthConfig(file, {}, { beforeStart: true, withoutSecrets: true })
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.faults
    throw error
  } finally {
    await rm(folder, { recursive: true })
  }
}

import { type Migrated, migrate as migrateFile } from '@gatehouse/service-kit'
import { loadForwardAuthConfig } from '../config/load.ts'
import { PROGRAMS, type ProgramName } from '../migrate/programs.ts'

/**
 * Our configuration for the file of another program.
 * @throws ConfigError CONFIG_UNREADABLE, CONFIG_NOT_THEIRS
 */
export function migrate(name: ProgramName, file: string): Promise<Migrated> {
  const load = (ours: string) =>
    loadForwardAuthConfig(ours, {}, { beforeStart: true, withoutSecrets: true })
  return migrateFile({ foreign: PROGRAMS[name], name, file, service: 'forward-auth', load })
}

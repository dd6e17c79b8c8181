import { type Migrated, migrate as migrateFile } from '@gatehouse/service-kit'
import { loadCertConfig } from '../config/load.ts'
import { PROGRAMS, type ProgramName } from '../migrate/programs.ts'
import { START_RULES } from './start-rules.ts'

/**
 * Our configuration for the file of another program.
 * @throws ConfigError CONFIG_UNREADABLE, CONFIG_NOT_THEIRS
 */
export function migrate(name: ProgramName, file: string): Promise<Migrated> {
  const load = (ours: string) =>
    loadCertConfig(ours, {}, { startRules: START_RULES, withoutSecrets: true })
  return migrateFile({ foreign: PROGRAMS[name], name, file, service: 'cert-service', load })
}

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { ConfigError, type ConfigFault, readNamedFile } from '@gatehouse/service-kit/config'
import { Draft, type Path } from './draft.ts'
import type { ReadFile, Service } from './foreign.ts'
import { PROGRAMS, type ProgramName } from './programs.ts'
import { notTheirs, placeOf, SourceConfig, type SourceSetting } from './source.ts'
import { remarkOnUnused, rowOf } from './table.ts'

export interface Migrated {
  readonly yaml: string
  /** The number of marked places, which a person has to decide about. */
  readonly todos: number
}

const MAX_BYTES = 1_048_576
const TO_DECIDE = 3

/** Reads a configuration of ours, and throws a ConfigError if it is refused. */
type Load = (
  file: string,
  env: NodeJS.ProcessEnv,
  settings: { readonly beforeStart: true; readonly withoutSecrets: true },
) => Promise<unknown>

/**
 * Makes our configuration of the file of another program. Where it cannot say the same, it lets nobody in who was
 * kept out: such places are marked, and `check-config` refuses the file until they are gone.
 * @param name - the program
 * @param load - reads a configuration of our service
 * @throws ConfigError CONFIG_UNREADABLE, CONFIG_NOT_THEIRS
 */
export async function migrate(name: ProgramName, file: string, load: Load): Promise<Migrated> {
  const { service, tables, read, translate, refuse } = PROGRAMS[name]
  const text = textOf(file)
  const table = Object.values(tables).flat()
  const settings = await read(text, file)
  if (!settings.some((setting) => rowOf(table, setting.name)))
    throw notTheirs(file, 1, `has no setting of ${name}`)
  const source = new SourceConfig(settings)
  const draft = new Draft()
  const steps = translate(source, draft, readBeside(file))
  const restrictions = remarkOnUnused(source, draft, table)
  if (restrictions.length > 0) refuse(draft, restrictionText(restrictions))
  const texts = {
    title: `The configuration of ${service}, made of that of ${name}: ${file}`,
    steps,
  }
  for (const { path, message } of await faultsOf(draft.print(texts), load)) {
    const place = pathOf(path)
    const key = place.at(-1) ?? 'the file'
    const what = typeof key === 'number' ? `item ${key + 1}` : key
    if (!draft.isMarked(place)) draft.todo(place, `${what} ${message}.`)
  }
  return { yaml: draft.print(texts), todos: draft.todos }
}

/** Gives the output of a command `migrate`. If places are marked, stderr says so, and the exit code is 3. */
export function printMigrated(
  { yaml, todos }: Migrated,
  process: Pick<NodeJS.Process, 'stderr' | 'exitCode'>,
): string {
  if (todos > 0) {
    process.exitCode = TO_DECIDE
    const places = todos === 1 ? '1 place is' : `${todos} places are`
    process.stderr.write(`${places} marked TODO; check-config refuses the file until you decide\n`)
  }
  return yaml
}

/** Finds the program whose configuration a file of a service is: at least two settings, and half of all, are its own. */
export async function recognise(
  service: Service,
  text: string,
  file: string,
): Promise<string | undefined> {
  const programs = Object.entries(PROGRAMS).filter(([, program]) => program.service === service)
  for (const [name, { tables, read, isOnlyTheirs }] of programs) {
    const table = Object.values(tables).flat()
    const settings = await read(text, file).catch(() => [])
    const matches = settings.filter((setting) => rowOf(table, setting.name))
    if (matches.length * 2 >= settings.length && matches.filter(isOnlyTheirs).length > 1)
      return name
  }
  return undefined
}

function textOf(file: string): string {
  const read = readNamedFile(file, MAX_BYTES)
  if ('text' in read) return read.text
  throw new ConfigError('CONFIG_UNREADABLE', `the command ${read.fault}: ${file}`)
}

function readBeside(file: string): ReadFile {
  return (named) => {
    const read = readNamedFile(resolve(dirname(file), named), MAX_BYTES)
    return 'text' in read ? read.text : undefined
  }
}

function restrictionText(restrictions: readonly SourceSetting[]): string {
  const names = restrictions.map(placeOf).join(', ')
  return `${names} may keep people out, and cannot be translated: say who may come in.`
}

/** Keys and numbers of a JSON pointer. */
function pathOf(pointer: string): Path {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part))
}

async function faultsOf(yaml: string, load: Load): Promise<readonly ConfigFault[]> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-migrate-'))
  const file = join(folder, 'config.yaml')
  try {
    await writeFile(file, yaml, { mode: 0o600 })
    await load(file, {}, { beforeStart: true, withoutSecrets: true })
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.faults
    throw error
  } finally {
    await rm(folder, { recursive: true })
  }
}

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { readNamedFile } from '../config/files.ts'
import { ConfigError, type ConfigFault } from '../errors.ts'
import { Draft, type Path } from './draft.ts'
import { Given, type GivenSetting, notTheirs } from './given.ts'
import { remarkOnRest, rowOf, type SettingTable } from './table.ts'

/** A program that people move from. */
export interface Foreign {
  /** Its settings, by the version whose reference they are from. */
  readonly tables: Readonly<Record<string, SettingTable>>
  /** @throws ConfigError CONFIG_NOT_THEIRS */
  readonly read: (text: string, file: string) => Promise<readonly GivenSetting[]>
  readonly translate: Translate
  /** Marks the draft so that nobody comes in before a person has decided. */
  readonly refuse: (draft: Draft, why: string) => void
  /** Whether a setting is one that no configuration of ours has. */
  readonly isOnlyTheirs: (setting: GivenSetting) => boolean
}

/** Translates the settings of a program into a draft, and gives steps for the operator, each a sentence. */
export type Translate = (
  given: Given,
  draft: Draft,
  deps: TranslateDeps,
) => { readonly steps: readonly string[] }

export interface TranslateDeps {
  /** Reads a file that the settings name; undefined if it cannot be read. */
  readonly readFile: (file: string) => string | undefined
}

/** What became of a configuration. */
export interface Migrated {
  readonly yaml: string
  /** How many places are marked, which a person has to decide about. */
  readonly todos: number
}

const MAX_BYTES = 1_048_576
const TO_DECIDE = 3

interface Migration {
  readonly foreign: Foreign
  /** Name of the program, and its file. */
  readonly name: string
  readonly file: string
  /** Our service, and how it reads a configuration whose secrets may be absent. */
  readonly service: string
  readonly load: (file: string) => Promise<unknown>
}

/**
 * Our configuration for the file of another program. Where it cannot say the same, it lets nobody in who was
 * kept out: such places are marked, and `check-config` refuses the file until they are gone.
 * @throws ConfigError CONFIG_UNREADABLE, CONFIG_NOT_THEIRS
 */
export async function migrate({
  foreign,
  name,
  file,
  service,
  load,
}: Migration): Promise<Migrated> {
  const { tables, read, translate, refuse } = foreign
  const text = textOf(file)
  const table = Object.values(tables).flat()
  const all = await read(text, file)
  if (!all.some((setting) => rowOf(table, setting.name)))
    throw notTheirs(file, 1, `has no setting of ${name}`)
  const given = new Given(all)
  const draft = new Draft()
  const { steps } = translate(given, draft, { readFile: readBeside(file) })
  const lost = remarkOnRest(given, draft, table)
  if (lost.length > 0) refuse(draft, lostText(lost))
  const texts = {
    title: `The configuration of ${service}, made of that of ${name}: ${file}`,
    steps,
  }
  for (const { path, message } of await faultsOf(draft.print(texts), load)) {
    const at = pathOf(path)
    const last = at.at(-1) ?? 'the file'
    const what = typeof last === 'number' ? `item ${last + 1}` : last
    if (!draft.isMarked(at)) draft.todo(at, `${what} ${message}.`)
  }
  return { yaml: draft.print(texts), todos: draft.todos }
}

/** The output of a command `migrate`. If places are marked, stderr says so, and the exit code is 3. */
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

/** The program whose configuration a file is: at least two settings, and half of all, are its own. */
export async function recognise(
  programs: Readonly<Record<string, Foreign>>,
  text: string,
  file: string,
): Promise<string | undefined> {
  for (const [name, { tables, read, isOnlyTheirs }] of Object.entries(programs)) {
    const table = Object.values(tables).flat()
    const settings = await read(text, file).catch(() => [])
    const known = settings.filter((setting) => rowOf(table, setting.name))
    if (known.length * 2 >= settings.length && known.filter(isOnlyTheirs).length > 1) return name
  }
  return undefined
}

function textOf(file: string): string {
  const read = readNamedFile(file, MAX_BYTES)
  if ('text' in read) return read.text
  throw new ConfigError('CONFIG_UNREADABLE', `the command ${read.fault}: ${file}`)
}

function readBeside(file: string): TranslateDeps['readFile'] {
  return (named) => {
    const read = readNamedFile(resolve(dirname(file), named), MAX_BYTES)
    return 'text' in read ? read.text : undefined
  }
}

function lostText(lost: readonly GivenSetting[]): string {
  const names = lost.map(({ written, line }) => `${written} (line ${line})`).join(', ')
  return `${names} may keep people out, and cannot be translated: say who may come in.`
}

/** Keys and numbers of a JSON pointer. */
function pathOf(pointer: string): Path {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part))
}

async function faultsOf(yaml: string, load: Migration['load']): Promise<readonly ConfigFault[]> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-migrate-'))
  const file = join(folder, 'config.yaml')
  try {
    await writeFile(file, yaml, { mode: 0o600 })
    await load(file)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.faults
    throw error
  } finally {
    await rm(folder, { recursive: true })
  }
}

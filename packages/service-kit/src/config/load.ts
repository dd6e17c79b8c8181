import { readFile, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { TObject } from 'typebox'
import { type Document, LineCounter, parseDocument } from 'yaml'
import { ConfigError } from '../errors.ts'
import { applyRules, type Rule } from './fault.ts'
import { readValue } from './read.ts'
import type { RawFault, Reading } from './reading.ts'
import type { ConfigOf, ConfigSchema } from './schema.ts'

const MAX_FILE_BYTES = 1_048_576
const MAX_FAULTS = 100

/** What to load, and by which schema. */
export interface LoadOptions<S extends TObject> {
  schema: S
  file: string
  env: Readonly<Record<string, string | undefined>>
  /** What else holds of the value. They judge what is known of a value with faults, too. */
  rules?: readonly Rule<ConfigOf<S>>[]
  /** Takes a file although secrets of it are absent; what needs them is then not judged. */
  withoutSecrets?: boolean
}

/** A configuration file that was read. */
export interface Loaded<Config> {
  readonly value: Config
  /** Absolute path. */
  readonly file: string
  /** Absolute paths of the files that secrets were read from. */
  readonly secretFiles: readonly string[]
  /** How many secrets and files are absent; 0 unless `withoutSecrets`, where the value is for reports only. */
  readonly absent: number
}

/**
 * Reads a YAML file into the value of the schema, or reports every fault of it at once.
 *
 * @throws ConfigError CONFIG_NOT_FOUND, CONFIG_UNREADABLE, CONFIG_INVALID
 */
export async function loadConfig<S extends TObject>(
  options: LoadOptions<S>,
): Promise<Loaded<ConfigOf<S>>> {
  const file = resolve(options.file)
  const text = await readBounded(file)
  const lines = new LineCounter()
  const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const reading: Reading = {
    doc,
    env: options.env,
    folder: dirname(file),
    faults: yamlFaults(doc),
    offsets: new Map(),
    secretFiles: new Set(),
    aliases: { count: 0 },
  }
  const value = hasMeaning(doc) ? readAndJudge(reading, options) : undefined
  const isPassedOver = ({ absent }: RawFault) => options.withoutSecrets && absent
  const faults = reading.faults.filter((fault) => !isPassedOver(fault))
  if (value === undefined || faults.length > 0) throw invalid(file, lines, faults)
  const absent = reading.faults.length - faults.length
  return { value, file, secretFiles: [...reading.secretFiles], absent }
}

function readAndJudge<S extends TObject>(
  reading: Reading,
  { schema, rules = [] }: LoadOptions<S>,
): ConfigOf<S> | undefined {
  const root = { path: '', offset: 0 }
  const value = readValue(reading, schema as ConfigSchema, reading.doc.contents, root)
  if (value === undefined) return undefined
  for (const fault of applyRules(value as ConfigOf<S>, rules))
    reading.faults.push({ ...fault, offset: offsetOf(reading, fault.path) })
  return value as ConfigOf<S>
}

/** The messages of the YAML parser may quote the file, its codes do not. */
function yamlFaults({ errors, warnings }: Document): RawFault[] {
  return [...errors, ...warnings].map(({ pos, code }) => ({
    offset: pos[0],
    path: '',
    message: `is not valid YAML: ${code.toLowerCase().replaceAll('_', ' ')}`,
  }))
}

/** Whether a document can be read further although it may have faults as YAML. */
function hasMeaning({ errors }: Document): boolean {
  return errors.every(({ code }) => code === 'DUPLICATE_KEY' || code === 'MULTIPLE_DOCS')
}

async function readBounded(file: string): Promise<string> {
  try {
    const { size } = await stat(file)
    if (size <= MAX_FILE_BYTES) return await readFile(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw code === 'ENOENT'
      ? new ConfigError('CONFIG_NOT_FOUND', `${file} does not exist`, { cause: error })
      : new ConfigError('CONFIG_UNREADABLE', `${file} cannot be read (${code})`, { cause: error })
  }
  throw new ConfigError('CONFIG_UNREADABLE', `${file} is larger than ${MAX_FILE_BYTES} bytes`)
}

/** Of the value at the path, or of the nearest one around it that the file has. */
function offsetOf({ offsets }: Reading, path: string): number {
  const offset = offsets.get(path)
  if (offset !== undefined || path === '') return offset ?? 0
  return offsetOf({ offsets } as Reading, path.slice(0, path.lastIndexOf('/')))
}

function invalid(file: string, lines: LineCounter, raw: readonly RawFault[]): ConfigError {
  const faults = raw
    .toSorted((a, b) => a.offset - b.offset || a.path.localeCompare(b.path))
    .slice(0, MAX_FAULTS)
    .map(({ offset, path, message }) => {
      const { line, col } = lines.linePos(offset)
      return { file, line: Math.max(line, 1), column: Math.max(col, 1), path, message }
    })
  const report = faults.map(
    ({ line, column, path, message }) => `${file}:${line}:${column} ${path} ${message}`,
  )
  return new ConfigError('CONFIG_INVALID', report.join('\n'), { faults })
}

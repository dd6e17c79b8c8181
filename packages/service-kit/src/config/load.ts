import { constants, existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Static, TObject } from 'typebox'
import { type Document, LineCounter, parseDocument } from 'yaml'
import { ConfigError, type ConfigFault } from '../errors.ts'
import { ConfigReader, type RawFault } from './reader.ts'
import { applyRules, type ConfigRule, checkProxyNames, type Fault } from './rules.ts'
import type { ConfigSchema } from './schema.ts'

const MAX_FILE_BYTES = 1_048_576
const MAX_FAULTS = 100
const PIPE_POLL_MS = 20

/** The strictness with which the configuration of a service is read. */
export interface LoadSettings {
  /** Checks also what only a start needs: named files exist, and folders can be written to. */
  readonly beforeStart?: boolean
  /** Accepts a file whose secrets are absent on this machine. Rules that read them are skipped. */
  readonly withoutSecrets?: boolean
  /** Looks up the host names of proxies. A service does so by itself. */
  readonly looksUp?: boolean
}

interface LoadOptions<S extends TObject> extends Pick<LoadSettings, 'withoutSecrets' | 'looksUp'> {
  schema: S
  file: string
  env: NodeJS.ProcessEnv
  /** Further checks. They also run on a value with faults, for the parts that could be read. */
  rules?: readonly ConfigRule<Static<S>>[]
}

/** A configuration file that was read. */
export interface Loaded<Config> {
  readonly value: Config
  /** Absolute path. */
  readonly file: string
  /** Absolute paths of the files that secrets were read from. */
  readonly secretFiles: readonly string[]
  /** The number of secrets and files that are absent; 0 unless `withoutSecrets`. */
  readonly absent: number
  /** Values that are probably not meant, each with its line and column. */
  readonly warnings: readonly string[]
}

/**
 * Reads a YAML file into the value of the schema. Reports all faults at once, with line and column.
 *
 * @throws ConfigError CONFIG_UNREADABLE, CONFIG_INVALID
 */
export async function loadConfig<S extends TObject>({
  schema,
  env,
  rules = [],
  looksUp,
  withoutSecrets,
  ...options
}: LoadOptions<S>): Promise<Loaded<Static<S>>> {
  const file = resolve(options.file)
  const lines = new LineCounter()
  const bytes = await readBounded(file)
  const text = bytes.toString()
  const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const reader = new ConfigReader(doc, env, dirname(file))
  reader.faults.push(...utf8Faults(bytes, text), ...yamlFaults(doc))
  const value = isReadable(doc) ? (reader.read(schema as ConfigSchema) as Static<S>) : undefined
  if (value !== undefined)
    for (const fault of applyRules(value, rules))
      reader.faults.push(withPlace(fault, reader, lines))
  if (looksUp && reader.faults.every(({ isWarning }) => isWarning))
    for (const fault of await checkProxyNames(value))
      reader.faults.push(withPlace(fault, reader, lines))

  const warnings = reader.faults.filter(({ isWarning }) => isWarning)
  const errors = reader.faults.filter(({ isWarning }) => !isWarning)
  const faults = errors.filter(({ absent }) => !(withoutSecrets && absent))
  if (value === undefined || faults.length > 0) {
    const located = locate(file, lines, faults)
    throw new ConfigError('CONFIG_INVALID', located.map(describe).join('\n'), { faults: located })
  }
  return {
    value,
    file,
    secretFiles: [...reader.secretFiles],
    absent: errors.length,
    warnings: locate(file, lines, warnings).map(describe),
  }
}

/**
 * Finds the configuration file of a service: `flag`, else `$GATEHOUSE_CONFIG`, else `config.yaml` in
 * the working directory, else in the folder of the service below `/etc/gatehouse`.
 *
 * @throws ConfigError CONFIG_UNREADABLE
 */
export async function locateConfig(options: {
  flag?: string | undefined
  env: NodeJS.ProcessEnv
  name: string
}): Promise<string> {
  const named = options.flag ?? (options.env.GATEHOUSE_CONFIG || undefined)
  if (named !== undefined) return resolve(named)

  const system =
    process.platform === 'win32' ? (options.env.ProgramData ?? 'C:\\ProgramData') : '/etc'
  const files = [resolve('config.yaml'), join(system, 'gatehouse', options.name, 'config.yaml')]
  const file = files.find((file) => existsSync(file))
  if (file !== undefined) return file
  throw new ConfigError(
    'CONFIG_UNREADABLE',
    `no configuration file: neither --config nor $GATEHOUSE_CONFIG is given, and there is no ${files.join(' and no ')}`,
  )
}

/** The faults of the YAML parser by their codes alone, since its messages quote the file. */
function yamlFaults({ errors, warnings }: Document): RawFault[] {
  return [...errors, ...warnings].map(({ pos, code }) => ({
    offset: pos[0],
    path: '',
    message: `is not valid YAML: ${code.toLowerCase().replaceAll('_', ' ')}`,
  }))
}

/** Whether a document has a value although it may not be valid YAML. */
function isReadable({ errors }: Document): boolean {
  return errors.every(({ code }) => code === 'DUPLICATE_KEY' || code === 'MULTIPLE_DOCS')
}

/** The first byte that was replaced, since the text would be another than was meant. */
function utf8Faults(bytes: Buffer, text: string): RawFault[] {
  const read = Buffer.from(text)
  const first = bytes.findIndex((byte, index) => byte !== read[index])
  if (first < 0) return []
  const offset = bytes.subarray(0, first).toString().length
  return [{ offset, path: '', message: 'is not valid UTF-8' }]
}

/** A pipe, such as `/dev/stdin`, is read to its end; one that nobody writes to ends at once. */
async function readBounded(file: string): Promise<Buffer> {
  try {
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const bytes = Buffer.alloc(MAX_FILE_BYTES + 1)
    for (let length = 0; length <= MAX_FILE_BYTES; ) {
      const read = await handle.read(bytes, length).catch(async (error) => {
        if (error.code !== 'EAGAIN') throw error
        await setTimeout(PIPE_POLL_MS)
      })
      if (read?.bytesRead === 0) return bytes.subarray(0, length)
      length += read?.bytesRead ?? 0
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw code === 'ENOENT'
      ? new ConfigError('CONFIG_UNREADABLE', `${file} does not exist`, { cause: error })
      : new ConfigError('CONFIG_UNREADABLE', `${file} cannot be read (${code})`, { cause: error })
  }
  throw new ConfigError('CONFIG_UNREADABLE', `${file} is larger than ${MAX_FILE_BYTES} bytes`)
}

/** The fault at its offset, with the position of the other key in its message. */
function withPlace(fault: Fault, reader: ConfigReader, lines: LineCounter): RawFault {
  const { path, relatedPath, message } = fault
  const offset = reader.offsetOf(path)
  if (relatedPath === undefined) return { ...fault, offset }
  const { line, col } = lines.linePos(reader.offsetOf(relatedPath))
  return { ...fault, offset, message: `${message} (line ${line}, column ${col})` }
}

function locate(file: string, lines: LineCounter, raw: readonly RawFault[]): ConfigFault[] {
  return raw
    .toSorted((a, b) => a.offset - b.offset || a.path.localeCompare(b.path))
    .slice(0, MAX_FAULTS)
    .map(({ offset, path, message }) => {
      const { line, col } = lines.linePos(offset)
      return { file, line: Math.max(line, 1), column: Math.max(col, 1), path, message }
    })
}

function describe({ file, line, column, path, message }: ConfigFault): string {
  return `${file}:${line}:${column} ${path} ${message}`
}

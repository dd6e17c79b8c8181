import { ConfigError } from '@gatehouse/service-kit/config'
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type Scalar } from 'yaml'

/** A setting as a file has it. */
export interface RawSetting {
  /** The name as the file has it. */
  readonly spelling: string
  readonly values: readonly string[]
  /** The line, from 1. */
  readonly line: number
}

/** A setting in the configuration file of another program. */
export interface SourceSetting extends RawSetting {
  /** The name in the reference of that program; items of lists by their numbers, as in `portals.0.name`. */
  readonly name: string
}

/** The settings of a configuration file of another program. Keeps track of those that were asked for. */
export class SourceConfig {
  readonly settings: readonly SourceSetting[]
  readonly #taken = new Set<SourceSetting>()

  constructor(settings: readonly SourceSetting[]) {
    this.settings = settings
  }

  /** Finds a setting, unless it is missing or empty. The last one with the name counts. */
  take(name: string): SourceSetting | undefined {
    const matches = this.settings.filter((setting) => setting.name === name)
    for (const setting of matches) this.#taken.add(setting)
    const latest = matches.at(-1)
    return latest?.values.some((value) => value !== '') ? latest : undefined
  }

  text(name: string): string | undefined {
    return this.take(name)?.values[0]
  }

  list(name: string): readonly string[] {
    return this.take(name)?.values.filter((value) => value !== '') ?? []
  }

  ifOn(name: string): SourceSetting | undefined {
    const setting = this.take(name)
    return /^(1|t|true|yes|on)$/i.test(setting?.values[0] ?? '') ? setting : undefined
  }

  /** Lists the numbers of the items of a list, such as `portals`. */
  itemsOf(list: string): readonly number[] {
    const numbers = this.settings.flatMap(({ name }) =>
      name.startsWith(`${list}.`) ? (/^\d+/.exec(name.slice(list.length + 1))?.[0] ?? []) : [],
    )
    return [...new Set(numbers)].map(Number)
  }

  has(start: string): boolean {
    return this.settings.some(({ name }) => name === start || name.startsWith(`${start}.`))
  }

  isTaken(setting: SourceSetting): boolean {
    return this.#taken.has(setting)
  }
}

/**
 * Reads the settings of a YAML file, each by its path.
 * @throws ConfigError CONFIG_NOT_THEIRS if it is not YAML with a mapping; nothing of the file is quoted
 */
export function readYamlSettings(text: string, file: string): SourceSetting[] {
  const lines = new LineCounter()
  const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const [error] = doc.errors
  if (error) throw notTheirs(file, lines.linePos(error.pos[0]).line, 'is not valid YAML')
  if (!isMap(doc.contents)) throw notTheirs(file, 1, 'is not a mapping of keys to values')
  const settings: SourceSetting[] = []
  const lineOf = (node: Node) => lines.linePos(node.range?.[0] ?? 0).line
  const add = (name: string, values: readonly string[], line: number) =>
    settings.push({ name, spelling: name.replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]'), values, line })

  function walk(node: unknown, path: string, line: number): void {
    if (isMap<Node, Node>(node)) {
      for (const { key, value } of node.items)
        if (isScalar(key)) walk(value, path ? `${path}.${key.value}` : `${key.value}`, lineOf(key))
    } else if (isSeq<Node>(node)) {
      if (node.items.every((item) => isScalar(item))) add(path, node.items.map(textOf), line)
      else for (const [index, item] of node.items.entries()) walk(item, `${path}.${index}`, line)
    } else if (isScalar(node) && node.value !== null) add(path, [textOf(node)], line)
  }
  walk(doc.contents, '', 1)
  return settings
}

function textOf({ value, source }: Scalar): string {
  return typeof value === 'string' ? value : (source ?? String(value))
}

export const placeOf = ({ spelling, line }: RawSetting) => `${spelling} (line ${line})`

/** @param fault - the end of a sentence that begins with the file */
export function notTheirs(file: string, line: number, fault: string): ConfigError {
  return new ConfigError('CONFIG_NOT_THEIRS', `${file}:${line} ${fault}`)
}

/** Gives the text of a URL without user name, password and query; undefined if it has them or is none. */
export function plainUrl(text: string): string | undefined {
  const url = URL.parse(text)
  return url && url.username === '' && url.password === '' && url.search === '' ? text : undefined
}

const UNIT_MS = { ns: 1e-6, us: 1e-3, µs: 1e-3, ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Converts a duration of Go to milliseconds, such as `168h0m0s`, or of nanoseconds; undefined if it is none. */
export function goDurationMs(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Number(text) / 1e6
  if (!/^([\d.]+(ns|us|µs|ms|s|m|h))+$/.test(text)) return undefined
  const parts = [...text.matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h)/gy)]
  const ms = parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS],
    0,
  )
  return Number.isFinite(ms) ? ms : undefined
}

/** Cuts off fractions of a second. */
export const wholeSeconds = (ms: number): number => Math.floor(ms / 1_000) * 1_000

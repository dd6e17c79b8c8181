import { type Static, type TSchema, type TStringOptions, Type } from 'typebox'

/** The loaded form of a configuration schema: secrets read, paths absolute, durations in milliseconds. */
export type ConfigOf<S extends TSchema> = Static<S>

/** What the loader and the reference read of a schema, beyond what TypeBox's types tell. */
export interface ConfigSchema {
  readonly type?: string
  readonly description?: string
  readonly default?: unknown
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly ConfigSchema[]
  readonly items?: ConfigSchema
  readonly properties?: Readonly<Record<string, ConfigSchema>>
  readonly patternProperties?: Readonly<Record<string, ConfigSchema>>
  readonly required?: readonly string[]
  readonly pattern?: string
  readonly secret?: boolean
  readonly duration?: boolean
  /** The shortest and the longest duration. */
  readonly from?: string
  readonly to?: string
  readonly filePath?: boolean
}

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const DURATION = '^(0|[1-9][0-9]{0,5})(ms|s|m|h|d)$'

/** A string that no fault ever shows; `<key>File` may name a file that holds it instead. */
export function Secret(options: TStringOptions = {}) {
  return Type.String({ ...options, secret: true })
}

/** A time span such as `500ms`, `30s`, `5m`, `2h` or `7d`, loaded as milliseconds. */
export function Duration(
  options: { description?: string; default?: string; from?: string; to?: string } = {},
) {
  return Type.Unsafe<number>({ ...options, type: 'string', pattern: DURATION, duration: true })
}

/** A path; a relative one is resolved against the folder of the configuration file. */
export function FilePath(options: TStringOptions = {}) {
  return Type.String({ minLength: 1, ...options, filePath: true })
}

/** What is wrong with the length of a duration that matches the schema. */
export function spanFault({ from, to }: ConfigSchema, text: string): string | undefined {
  const ms = durationMs(text)
  if (ms >= durationMs(from ?? '0s') && (to === undefined || ms <= durationMs(to))) return undefined
  return to === undefined ? `must be at least ${from}` : `must be from ${from ?? '0s'} to ${to}`
}

/** Milliseconds of a duration that matches the schema. */
export function durationMs(text: string): number {
  const [, count, unit] = /^(\d+)([a-z]+)$/.exec(text) ?? []
  return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS]
}

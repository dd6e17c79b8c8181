import { type TProperties, type TSchema, type TStringOptions, Type } from 'typebox'
import type { Fault } from './rules.ts'

/** The keywords of a schema that loading and the reference use. */
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
  /** Lists of members of a mapping, of each of which exactly one is written. */
  readonly exactlyOne?: readonly (readonly string[])[]
  /** Lists of members of a mapping, of each of which at least one is written. */
  readonly atLeastOne?: readonly (readonly string[])[]
  /** Members of a mapping, each with those that it needs beside it. */
  readonly needs?: Readonly<Record<string, readonly string[]>>
  /** Members of a mapping, each with those that must not stand beside it. */
  readonly excludes?: Readonly<Record<string, readonly string[]>>
  /** Schemas that a mapping matches where it matches `when`, each with the fault at the path below it. */
  readonly demands?: readonly (Pick<Fault, 'path' | 'message'> & { when: object; schema: object })[]
  /** Keys that a mapping must not have, each with what to do instead. */
  readonly removed?: Readonly<Record<string, string>>
  /** The text to write where something else is given, or nothing. */
  readonly write?: string
}

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const DURATION = '^(0|[1-9][0-9]{0,5})(ms|s|m|h|d)$'

/** A string that is not empty. */
export function Text(description: string, options: TStringOptions = {}) {
  return Type.String({ minLength: 1, ...options, description })
}

/** A name that may be a part of URLs, log lines and other options. */
export function Name(description: string) {
  return Type.String({ pattern: '^[a-z][a-z0-9-]{0,31}$', description })
}

/** A switch that is off by default. */
export function Flag(description: string) {
  return Type.Boolean({ default: false, description })
}

/** Members that may be absent. */
export function optional<Members extends TProperties>(members: Members) {
  return Type.Partial(Type.Object(members)).properties
}

/** A list with at least one item, where it is given. */
export function OptionalList<Item extends TSchema>(item: Item, description: string) {
  return Type.Optional(Type.Array(item, { minItems: 1, description }))
}

/** A string that no error shows. `<key>File` may name a file with it instead. */
export function Secret(description: string, options: TStringOptions = {}) {
  return Type.String({ ...options, description, secret: true })
}

/** A duration such as `500ms`, `30s`, `5m`, `2h` or `7d`, loaded as milliseconds. */
export function Duration(
  options: { description?: string; default?: string; from?: string; to?: string } = {},
) {
  return Type.Unsafe<number>({ ...options, type: 'string', pattern: DURATION, duration: true })
}

/** A path. Relative paths are resolved against the folder of the configuration file. */
export function FilePath(description: string, options: TStringOptions = {}) {
  return Text(description, { ...options, filePath: true })
}

/** Host and port of a listener; without a default, the port must be given. */
export function listener(port?: number) {
  return {
    host: Text('Address to listen on.', { default: '127.0.0.1' }),
    port: Type.Integer({
      minimum: 0,
      maximum: 65_535,
      ...(port !== undefined && { default: port }),
      description: 'Port to listen on.',
    }),
  }
}

/** The section `metrics`. */
export function MetricsSchema(port: number) {
  return Type.Object({
    enabled: Type.Boolean({ default: true, description: 'Whether `/metrics` is served.' }),
    ...listener(port),
  })
}

/** The section `log`. */
export const LogSchema = Type.Object({
  level: Type.Enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace'], {
    default: 'info',
    description: 'Lowest level that is logged.',
  }),
  format: Type.Enum(['auto', 'json', 'pretty'], {
    default: 'auto',
    description: '`auto` is `pretty` on a terminal and `json` otherwise.',
  }),
})

/** The member that has a different constant in each variant. */
export function tagOf(variants: readonly ConfigSchema[]): string | undefined {
  return Object.keys(variants[0]?.properties ?? {}).find((key) =>
    variants.every(({ properties }) => properties?.[key]?.const !== undefined),
  )
}

/** Milliseconds of a duration such as `24h`; undefined if the text is none. */
export function durationOf(text: string): number | undefined {
  return new RegExp(DURATION).test(text) ? durationMs(text) : undefined
}

/** Milliseconds of a duration that matches the schema. */
export function durationMs(text: string): number {
  const [, count, unit] = /^(\d+)([a-z]+)$/.exec(text) ?? []
  return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS]
}

/** Writes milliseconds as a duration in whole units, the largest that do: `7d`. */
export function durationText(ms: number): string {
  const [unit, size] = Object.entries(UNIT_MS).findLast(([, size]) => ms % size === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}

/** The fault of a duration that is too short or too long. */
export function spanFault(schema: ConfigSchema, text: string): string | undefined {
  const { from, to } = schema
  const ms = durationMs(text)
  if (ms >= durationMs(from ?? '0s') && (to === undefined || ms <= durationMs(to))) return undefined
  return `must be ${spanOf(schema)}`
}

function spanOf({ from, to }: ConfigSchema): string {
  return to === undefined ? `at least ${from}` : `from ${from ?? '0s'} to ${to}`
}

/** The expected value, as the end of a sentence: `an integer`, `"a" or "b"`. */
export function expectation(schema: ConfigSchema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' or ')
  if (schema.duration && (schema.from ?? schema.to) !== undefined)
    return `a duration such as ${schema.to ?? schema.from}, ${spanOf(schema)}`
  if (schema.duration) return 'a duration such as 30s, 5m, 2h or 7d'
  return EXPECTATIONS[schema.type ?? ''] ?? 'a value'
}

const EXPECTATIONS: Readonly<Record<string, string>> = {
  string: 'a string',
  integer: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping of keys to values',
}

/** The message of a failed keyword. It never has the value, which may be a secret. */
export function explain(
  schema: ConfigSchema,
  keyword: string,
  message: string,
  value: unknown,
): string {
  if (keyword === 'pattern' && !schema.duration) return `must match ${schema.pattern}`
  if (!['type', 'const', 'enum', 'pattern'].includes(keyword)) return message
  const isText = schema.type === 'string' && !schema.duration
  const isUnquoted = isText && ['number', 'boolean'].includes(typeof value)
  return `must be ${expectation(schema)}${isUnquoted ? ': put it in quotes' : ''}`
}

import { Errors } from 'typebox/schema'
import type { Document } from 'yaml'
import type { Fault } from './fault.ts'
import type { ConfigSchema } from './schema.ts'

/** A fault before its offset has become a line and a column. */
export interface RawFault extends Fault {
  readonly offset: number
}

/** What reading one document needs, and what it finds out beside the value. */
export interface Reading {
  readonly doc: Document
  readonly env: Readonly<Record<string, string | undefined>>
  /** Relative paths are resolved against it. */
  readonly folder: string
  readonly faults: RawFault[]
  /** Where each value stands: JSON pointer -> offset. */
  readonly offsets: Map<string, number>
  readonly secretFiles: Set<string>
  readonly aliases: { count: number }
}

/** Where something is expected: its JSON pointer, and the offset to blame. */
export interface Place {
  readonly path: string
  readonly offset: number
}

export function fault(reading: Reading, { path, offset }: Place, message: string): undefined {
  reading.faults.push({ path, offset, message })
}

/** A secret that is not on this machine. */
export function absent(reading: Reading, { path, offset }: Place, message: string): undefined {
  reading.faults.push({ path, offset, message, absent: true })
}

/** Checks the value itself, not its members; whether it passed. */
export function check(
  reading: Reading,
  schema: ConfigSchema,
  value: unknown,
  place: Place,
): boolean {
  const { properties, patternProperties, required, items, anyOf, ...own } = schema
  const [passed, errors] = Errors({ ...own, additionalProperties: true }, value)
  for (const { keyword, message } of errors)
    fault(reading, place, explain(schema, keyword, message, value))
  return passed
}

/** What the schema wants, as the end of a sentence: `an integer`, `"a" or "b"`. */
export function expectation(schema: ConfigSchema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' or ')
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

/** Never with the value: it may be a secret. */
function explain(schema: ConfigSchema, keyword: string, message: string, value: unknown): string {
  if (keyword === 'pattern' && !schema.duration) return `must match ${schema.pattern}`
  if (!['type', 'const', 'enum', 'pattern'].includes(keyword)) return message
  const isText = schema.type === 'string' && !schema.duration
  const isUnquoted = isText && ['number', 'boolean'].includes(typeof value)
  return `must be ${expectation(schema)}${isUnquoted ? ': put it in quotes' : ''}`
}

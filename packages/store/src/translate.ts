import type { SQLInputValue } from 'node:sqlite'
import type { Parameter } from './engine.ts'

/** The replacements that make SQLite's SQL of PostgreSQL's, in this order. */
const RULES: readonly (readonly [RegExp, string])[] = [
  // Parameters.
  [/\$(\d+)/g, '?$1'],
  // Casts: SQLite's parameters have the type of their value.
  [/::[a-z]\w*/g, ''],
  // Types of columns that the engine computes.
  [/\bbigint\b/g, 'INTEGER'],
  // Locks: one transaction writes at a time.
  [/\bFOR (?:NO KEY )?(?:UPDATE|SHARE)(?: OF \w+)?(?: SKIP LOCKED)?/g, ''],
  // Lists are JSON.
  [/\bjson_array_elements_text\(/g, 'json_each('],
  // Functions of other names. Of NULL and a value, SQLite's give NULL.
  [/\bleast\(/g, 'min('],
  [/\bgreatest\(/g, 'max('],
  [/\bstrpos\(/g, 'instr('],
  // SQLite compares bytes.
  [/ COLLATE "C"/g, ''],
  // Columns that an index only carries; not for a unique one.
  [/\)\s+INCLUDE \(/g, ', '],
]

/** The SQL of a statement for SQLite. No text of it is of a caller. */
export function toSqlite(sql: string): string {
  return RULES.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), sql)
}

/** Binds a value: SQLite has no booleans, and would take a number for a fraction, so that 7 / 2 would be 3.5. */
export function bound(value: Parameter): SQLInputValue {
  if (value === undefined) return null
  if (typeof value === 'boolean' || Number.isSafeInteger(value)) return BigInt(value as number)
  return value
}

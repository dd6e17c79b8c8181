import type { SQLInputValue, SQLOutputValue } from 'node:sqlite'
import type { ArrayElement } from '@gatehouse/postgres'
import { bytesArray, indexable, textArray } from '../postgres/text.ts'

/** A value as it is compared, the same from both engines. */
export type Value =
  | null
  | number
  | string
  | boolean
  | Buffer
  | readonly string[]
  | readonly Buffer[]

/** How SQLite refers to chains, which PostgreSQL has by their digest. */
export interface ChainNumbers {
  numberOf(digest: Buffer): number
  digestOf(number: number): Buffer
}

/** A column of both engines, and how its values other than NULL are converted. */
export interface Column {
  /** Of PostgreSQL, within `unnest`. */
  readonly type: 'bigint' | 'text' | 'bytea' | 'boolean'
  /** Its own type, if that is another. */
  readonly cast?: 'text[]' | 'bytea[]' | 'numeric'
  toPostgres(value: Value): ArrayElement
  fromPostgres(value: unknown): Value
  toSqlite(value: Value, chains: ChainNumbers): SQLInputValue
  fromSqlite(value: SQLOutputValue, chains: ChainNumbers): Value
  /** What PostgreSQL selects in place of the column. */
  readonly selectPostgres?: string
  /** What SQLite selects in place of the column. */
  readonly selectSqlite?: string
  /** Its name in SQLite, or `null` if it has no such column. Default: the same. */
  readonly nameSqlite?: string | null
}

const bufferOf = (value: unknown): Buffer => {
  const { buffer, byteOffset, byteLength } = value as Uint8Array
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
}
const same = (value: unknown) => value as never

export const INTEGER: Column = {
  type: 'bigint',
  ...{ toPostgres: same, fromPostgres: same, toSqlite: same, fromSqlite: same },
}

/** PostgreSQL has no text with NUL in it. */
export const TEXT: Column = {
  ...INTEGER,
  type: 'text',
  fromSqlite: (text) => (text as string).replaceAll('\0', '\u{fffd}'),
}

/** A text that PostgreSQL keeps in an index, and so its digest if it is long. */
export const INDEXED: Column = {
  ...TEXT,
  fromSqlite: (text, chains) => indexable(TEXT.fromSqlite(text, chains) as string),
}

/** The same with the whole text in a column of its own. */
export const LINEAGE: Column = {
  ...TEXT,
  toPostgres: (text) => indexable(text as string),
  selectPostgres: 'coalesce(long_lineage, lineage)',
}

export const DECIMAL: Column = { ...TEXT, cast: 'numeric' }

export const BOOLEAN: Column = {
  ...INTEGER,
  type: 'boolean',
  toSqlite: (value) => Number(value),
  fromSqlite: (value) => value === 1,
}

export const BYTES: Column = {
  ...INTEGER,
  type: 'bytea',
  fromPostgres: bufferOf,
  fromSqlite: bufferOf,
}

/** Bytes that SQLite has in hexadecimal. */
export const HEX: Column = {
  ...BYTES,
  toSqlite: (bytes) => (bytes as Buffer).toString('hex'),
  fromSqlite: (hex) => Buffer.from(hex as string, 'hex'),
}

export const TEXTS: Column = {
  ...TEXT,
  cast: 'text[]',
  toPostgres: (texts) => textArray(texts as readonly string[]),
  toSqlite: (texts) => JSON.stringify(texts),
  fromSqlite: (json) => JSON.parse(json as string),
}

export const CERTIFICATES: Column = {
  ...TEXT,
  cast: 'bytea[]',
  toPostgres: (all) => bytesArray(all as readonly Buffer[]),
  fromPostgres: (all) => (all as readonly Buffer[]).map(bufferOf),
  toSqlite: (all) =>
    JSON.stringify((all as readonly Buffer[]).map((der) => der.toString('base64'))),
  fromSqlite: (json) => {
    const texts: readonly string[] = JSON.parse(json as string)
    return texts.map((text) => Buffer.from(text, 'base64'))
  },
}

export const CHAIN: Column = {
  ...BYTES,
  toSqlite: (digest, chains) => chains.numberOf(digest as Buffer),
  fromSqlite: (number, chains) => chains.digestOf(number as number),
}

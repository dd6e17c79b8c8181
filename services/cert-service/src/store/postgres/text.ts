import { hash } from 'node:crypto'
import type { ArrayElement, Parameter, Turn } from '@gatehouse/postgres'

/** Bytes. A row of an index has room for 2,704. */
const MAX_INDEXED = 1_000

/** A text as it is indexed: one that is too long, such as of a hundred names, by its SHA-256. */
export function indexable(text: string): string {
  return isLong(text) ? `sha256:${hash('sha256', text)}` : text
}

/** The text itself, if it is indexed by its SHA-256. */
export function ifLong(text: string): string | null {
  return isLong(text) ? text : null
}

/** Names as they are searched by an index, unless they are too long for one. */
export function searchable(names: readonly string[]): string | null {
  const text = names.join(' ')
  return isLong(text) ? null : text
}

function isLong(text: string): boolean {
  return text.length > MAX_INDEXED || Buffer.byteLength(text) > MAX_INDEXED
}

/** The type of a column, and what an item has in it. */
export type Column<Item> = readonly [type: string, of: (item: Item) => ArrayElement | undefined]

/** Items as the rows of a statement. */
export interface Items<Item> {
  /** A table `item` with these columns, and with `n`, which counts from 1. Its parameters are the first. */
  readonly sql: string
  /** The parameter at this position, from 1, after those of the items. */
  next(position: number): string
  /** One array for each column. */
  params(items: readonly Item[]): Parameter[]
}

export function itemsOf<Item>(columns: Readonly<Record<string, Column<Item>>>): Items<Item> {
  const arrays = Object.values(columns).map(([type], i) => `$${i + 1}::${type}[]`)
  const names = [...Object.keys(columns), 'n']
  return {
    sql: `unnest(${arrays}) WITH ORDINALITY AS item (${names})`,
    next: (position) => `$${arrays.length + position}`,
    params: (items) =>
      Object.values(columns).map(([, of]) => items.map((item) => of(item) ?? null)),
  }
}

/** The row of a lineage; those of several are read together. In the SQL, `$1::text[]` are the lineages. */
export function rowOfLineage<R extends { readonly lineage: string }>(
  sql: string,
): Turn<string, R | undefined> {
  return {
    readOnly: true,
    statements: (lineages) => [{ sql, params: [lineages.map(indexable)] }],
    settle: ([rows], lineages) => {
      const found = new Map((rows as unknown as R[]).map((row) => [row.lineage, row]))
      return lineages.map((lineage) => found.get(lineage))
    },
  }
}

/** An array within an array, as text that is cast to `text[]`. */
export function textArray(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replace(/["\\]/g, '\\$&')}"`)}}`
}

/** The same for `bytea[]`. */
export function bytesArray(all: readonly Uint8Array[]): string {
  return `{${all.map((bytes) => `"\\\\x${Buffer.from(bytes).toString('hex')}"`)}}`
}

/** SHA-256. */
export function digestOf(...parts: readonly (Uint8Array | string)[]): Buffer {
  return hash('sha256', Buffer.concat(parts.map((part) => Buffer.from(part))), 'buffer')
}

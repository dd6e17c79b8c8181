import type { ArrayElement, Row as RawRow } from '@gatehouse/postgres'
import type { Database } from '../postgres/database.ts'
import { type Items, itemsOf } from '../postgres/text.ts'
import type { Row, Table } from './tables.ts'

/** Reads the rows after a key; `last` is that of the page before. */
export function readAfter(
  db: Database,
  { name, key, columns }: Table,
  {
    select,
    last,
    limit,
  }: { readonly select: string; readonly last: unknown; readonly limit: number },
): Promise<readonly RawRow[]> {
  const { type = 'text' } = columns[key] ?? {}
  // No key is as small.
  const least = { bigint: -1, text: '', bytea: Buffer.alloc(0), boolean: false }[type]
  const sql = `SELECT ${select} FROM ${name} WHERE ${key} > $1::${type} ORDER BY ${key} LIMIT $2`
  return db.all(sql, (last ?? least) as ArrayElement, limit)
}

/** The columns of a table, to be selected. */
export function selected({ columns }: Table): string {
  return Object.entries(columns)
    .map(([column, { selectPostgres = column }]) => `${selectPostgres} AS "${column}"`)
    .join()
}

export function rowOf({ columns }: Table, row: RawRow): Row {
  const values = Object.entries(columns).map(([column, { fromPostgres }]) => {
    const value = row[column]
    return [column, value === null ? null : fromPostgres(value)]
  })
  return Object.fromEntries(values)
}

/** The statement that adds rows, and its parameters. */
export function insertionOf({ name, columns, derived = {}, hasSequence }: Table): {
  readonly sql: string
  readonly items: Items<Row>
} {
  const own = Object.entries(columns).map(([column, { type, toPostgres }]) => {
    const of = ({ [column]: value = null }: Row) => (value === null ? null : toPostgres(value))
    return [column, [type, of]]
  })
  const items = itemsOf<Row>({ ...Object.fromEntries(own), ...derived })
  const names = [...Object.keys(columns), ...Object.keys(derived)]
  const values = names.map((column) => {
    const { cast } = columns[column] ?? {}
    return cast ? `item.${column}::${cast}` : `item.${column}`
  })
  const overriding = hasSequence ? 'OVERRIDING SYSTEM VALUE' : ''
  const sql = `INSERT INTO ${name} (${names}) ${overriding} SELECT ${values} FROM ${items.sql} ORDER BY n`
  return { sql, items }
}

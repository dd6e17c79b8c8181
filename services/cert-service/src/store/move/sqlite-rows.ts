import type { DatabaseSync, SQLInputValue, SQLOutputValue } from 'node:sqlite'
import { chainId } from '../postgres/records.ts'
import { CERTIFICATES, type ChainNumbers } from './columns.ts'
import type { Page } from './side.ts'
import type { Row, Table } from './tables.ts'

/** The rows of a store in one file. */
export class Rows {
  readonly sqlite: DatabaseSync
  readonly #chains: Chains

  constructor(sqlite: DatabaseSync) {
    this.sqlite = sqlite
    this.#chains = new Chains(sqlite)
  }

  page(table: Table, after: Page<unknown> | undefined, limit: number): Page<unknown> {
    const { name, key } = table
    const where = after ? `WHERE ${key} > :after` : ''
    const sql = `SELECT ${key} AS "own key", ${selected(table)} FROM ${name} ${where} ORDER BY ${key} LIMIT :limit`
    const params = after ? { limit, after: after.last as SQLInputValue } : { limit }
    const rows = this.sqlite.prepare(sql).all(params)
    return { rows: rows.map((row) => this.#rowOf(table, row)), last: rows.at(-1)?.['own key'] }
  }

  find(table: Table, rows: readonly Row[]): readonly Row[] {
    const { name, key } = table
    const sql = `SELECT ${selected(table)} FROM ${name} WHERE ${key} IN (SELECT value FROM json_each(:keys))`
    const found = this.sqlite.prepare(sql).all({ keys: this.#keysOf(table, rows) })
    return found.map((row) => this.#rowOf(table, row))
  }

  insert(table: Table, rows: readonly Row[]): void {
    const columns = Object.entries(table.columns).flatMap(([column, { nameSqlite, toSqlite }]) =>
      nameSqlite === null ? [] : [{ column, name: nameSqlite ?? column, toSqlite }],
    )
    const names = columns.map(({ name }) => name)
    const insert = this.sqlite.prepare(
      `INSERT INTO ${table.name} (${names}) VALUES (${names.map(() => '?')})`,
    )
    for (const row of rows) {
      const values = columns.map(({ column, toSqlite }) => {
        const { [column]: value = null } = row
        return value === null ? null : toSqlite(value, this.#chains)
      })
      insert.run(...values)
    }
    if (table.afterSqlite)
      this.sqlite.prepare(table.afterSqlite).run({ keys: this.#keysOf(table, rows) })
  }

  #keysOf({ key, columns }: Table, rows: readonly Row[]): string {
    const toKey = columns[key]?.toSqlite
    return JSON.stringify(rows.map((row) => toKey?.(row[key] ?? null, this.#chains)))
  }

  #rowOf({ columns }: Table, row: Readonly<Record<string, SQLOutputValue>>): Row {
    const values = Object.entries(columns).map(([column, { fromSqlite }]) => {
      const { [column]: value = null } = row
      return [column, value === null ? null : fromSqlite(value, this.#chains)]
    })
    return Object.fromEntries(values)
  }
}

function selected({ columns }: Table): string {
  return Object.entries(columns)
    .map(([column, { selectSqlite = column }]) => `${selectSqlite} AS "${column}"`)
    .join()
}

/** There is one chain for each issuing certificate, so they all fit into memory. */
class Chains implements ChainNumbers {
  readonly #numbers = new Map<string, number>()
  readonly #digests = new Map<number, Buffer>()

  constructor(sqlite: DatabaseSync) {
    for (const row of sqlite.prepare('SELECT id, certificates FROM chains').iterate()) {
      const chain = CERTIFICATES.fromSqlite(row.certificates as string, this)
      this.#add(chainId(chain as readonly Buffer[]), row.id as number)
    }
  }

  numberOf(digest: Buffer): number {
    return this.#numbers.get(digest.toString('latin1')) ?? this.#add(digest, this.#numbers.size + 1)
  }

  digestOf(number: number): Buffer {
    return this.#digests.get(number) ?? Buffer.alloc(0)
  }

  #add(digest: Buffer, number: number): number {
    this.#numbers.set(digest.toString('latin1'), number)
    this.#digests.set(number, digest)
    return number
  }
}

import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { TABLES, type Table } from '../../../src/store/move/tables.ts'
import { migrate } from '../../../src/store/sqlite/migrations.ts'
import { newSchema, openReplica, testServer } from '../../helpers/engines.ts'

/** The columns of each table, without those that the engine computes. */
type Schema = Readonly<Record<string, readonly string[]>>

/** What a trigger fills, and what is moved as a counter. */
const NOT_ROWS = ['certificate_names', 'run_time']
/** What ends with a process, and what replicas tell each other. */
const OF_REPLICAS = ['leases', 'reservations', 'replicas', 'changes', 'confirmations', 'writes']

function schemaOf(rows: readonly Readonly<Record<string, unknown>>[]): Schema {
  const byTable = [...Map.groupBy(rows, ({ name }) => `${name}`)]
  return sorted(
    Object.fromEntries(byTable.map(([name, all]) => [name, all.map(({ column }) => `${column}`)])),
  )
}

function sorted(schema: Schema): Schema {
  const entries = Object.entries(schema).map(([name, columns]) => [name, columns.toSorted()])
  return Object.fromEntries(entries.sort())
}

function listed(columnsOf: (table: Table) => readonly string[]): Schema {
  return sorted(Object.fromEntries(TABLES.map((table) => [table.name, columnsOf(table)])))
}

function sqliteSchema(): Schema {
  using sqlite = new DatabaseSync(':memory:')
  migrate(sqlite)
  const rows = sqlite.prepare(`
    SELECT tables.name AS name, columns.name AS "column"
    FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns
    WHERE tables.type = 'table' AND columns.hidden = 0 AND tables.name NOT LIKE 'sqlite_%'
      AND tables.name NOT IN (SELECT value FROM json_each(?))`)
  return schemaOf(rows.all(JSON.stringify(NOT_ROWS)))
}

t.test('a move has each column of a folder', (t) => {
  const columns = listed(({ columns }) =>
    Object.entries(columns).flatMap(([name, { nameSqlite = name }]) => nameSqlite ?? []),
  )
  t.strictSame(columns, sqliteSchema())
  t.end()
})

t.test('a move has each column of a database', async (t) => {
  const schema = newSchema()
  await openReplica(t, { schema })
  const left = [...NOT_ROWS, ...OF_REPLICAS, 'migrations'].map((name) => `'${name}'`)
  const rows = await (await testServer()).sql<{ name: string; column: string }>(`
    SELECT table_name AS name, column_name AS column FROM information_schema.columns
    WHERE table_schema = '${schema}' AND is_generated = 'NEVER' AND table_name NOT IN (${left})`)
  const columns = listed(({ columns, derived = {} }) => [
    ...Object.keys(columns),
    ...Object.keys(derived),
  ])
  t.strictSame(columns, schemaOf(rows))
})

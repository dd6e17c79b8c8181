import { DatabaseSync } from 'node:sqlite'
import {
  columns,
  migrateSqlite,
  openPostgres,
  parsePostgresUrl,
  type Table,
} from '@gatehouse/store'
import t from 'tap'
import { MIGRATIONS, OF_PROCESSES, TABLES } from '../../src/schema/tables.ts'
import { newSchema, testServer } from '../helpers/engines.ts'

/** The tables of a store with their columns, but for those that the engine computes. */
type Schema = Readonly<Record<string, readonly string[]>>

/** What each store has beside its tables, and what replicas tell each other. */
const OTHERS = ['schema_versions', 'run_time', 'writes', 'replicas', 'changes', 'confirmations']

function listed(tables: readonly Table[]): Schema {
  // `keyType` is selected as `key_type AS "keyType"`.
  const columnOf = (member: string) => columns(member).split(' ')[0] ?? ''
  const entries = tables.map(({ name, members }) => [name, members.map(columnOf)] as const)
  return sorted(Object.fromEntries(entries))
}

function found(rows: readonly Readonly<Record<string, unknown>>[]): Schema {
  const byTable = Map.groupBy(rows, ({ name }) => `${name}`)
  for (const name of OTHERS) byTable.delete(name)
  const entries = [...byTable].map(([name, all]) => [name, all.map(({ column }) => `${column}`)])
  return sorted(Object.fromEntries(entries))
}

/** In any order: a column that is added comes last. */
function sorted(schema: Schema): Schema {
  const entries = Object.entries(schema).map(([name, columns]) => [name, columns.toSorted()])
  return Object.fromEntries(entries.sort())
}

t.test('a store in SQLite has the columns that are listed, and no others', async (t) => {
  using sqlite = new DatabaseSync(':memory:')
  migrateSqlite(sqlite, MIGRATIONS)
  const rows = sqlite.prepare(`
    SELECT tables.name AS name, columns.name AS "column"
    FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns
    WHERE tables.type = 'table' AND columns.hidden = 0 AND tables.name NOT LIKE 'sqlite_%'`)
  t.strictSame(found(rows.all()), listed(TABLES))
})

t.test('and so has a store in PostgreSQL', async (t) => {
  const { url } = await testServer()
  const log = { info() {}, warn() {} }
  const options = { url: parsePostgresUrl(url), schema: newSchema(), name: 'test', log }
  await using postgres = await openPostgres({ ...options, migrations: MIGRATIONS })
  const rows = await postgres.all(`
    SELECT table_name AS name, column_name AS column FROM information_schema.columns
    WHERE table_schema = current_schema() AND is_generated = 'NEVER'`)
  t.strictSame(found(rows), listed([...TABLES, ...OF_PROCESSES]))
})

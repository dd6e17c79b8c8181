import { SharedSqlite } from '../../src/sqlite/sqlite.ts'
import { MIGRATIONS, ROWS } from './rows.ts'

/** A process of its own that adds rows to a file: `adds-rows.ts FILE PREFIX COUNT`. */
const [, , path = '', prefix = '', count = ''] = process.argv
const store = new SharedSqlite(path, MIGRATIONS)
for (let i = 0; i < Number(count); i++)
  await store.transaction((tx) => ROWS.add(tx, { name: `${prefix}${i}`, size: i }))
await store.close()

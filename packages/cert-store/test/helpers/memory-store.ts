import { DatabaseSync } from 'node:sqlite'
import { migrateSqlite } from '@gatehouse/store'
import { sqliteStore } from '../../src/engines/sqlite.ts'
import type { Store } from '../../src/port/store.ts'
import { MIGRATIONS } from '../../src/schema/tables.ts'

/** A store that is in memory alone, for tests that need many and restart none. */
export function memoryStore(): Store {
  const sqlite = new DatabaseSync(':memory:')
  migrateSqlite(sqlite, MIGRATIONS)
  return sqliteStore(sqlite, { file: ':memory:', closed() {} })
}

import { DatabaseSync } from 'node:sqlite'
import { migrateSqlite } from '@gatehouse/store'
import { sqliteStore } from '../../src/sqlite.ts'
import type { Store } from '../../src/store.ts'
import { MIGRATIONS } from '../../src/tables.ts'

/** A store that is in memory alone, for tests that need many and restart none. */
export function memoryStore(): Store {
  const sqlite = new DatabaseSync(':memory:')
  migrateSqlite(sqlite, MIGRATIONS)
  return sqliteStore(sqlite, { file: ':memory:', closed() {} })
}

import { DatabaseSync } from 'node:sqlite'
import { migrate } from '../../src/store/sqlite/migrations.ts'
import { createStore } from '../../src/store/sqlite/store.ts'
import type { Store } from '../../src/store/store.ts'

/** A store that is in memory alone, for tests that need many and restart none. */
export function memoryStore(): Store {
  const sqlite = new DatabaseSync(':memory:')
  migrate(sqlite)
  return createStore(sqlite, { file: ':memory:', closed() {} })
}

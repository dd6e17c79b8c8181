import { DatabaseSync } from 'node:sqlite'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import {
  assertKnown,
  costlyInSqlite,
  fillSqlite,
  neverRun,
  recordSqlite,
} from '../../../../packages/store/test/plans.ts'
import { SqliteStore, STATE_FILE } from '../../src/store/sqlite/sqlite-store.ts'
import { driveAll, KNOWN, KNOWN_BY, LARGE, LOG, SOURCES, sqlOf } from './drive.ts'

t.test('no statement reads many rows of a folder', async (t) => {
  const texts = recordSqlite(t)
  const folder = testFolder(t)
  const store = new SqliteStore(folder, { log: LOG })
  await driveAll(store)
  await store.close()
  const sources = [...SOURCES.both, ...SOURCES.sqlite]
  const unknown = sources.flatMap((file) =>
    neverRun(new URL(`../../src/store/${file}`, import.meta.url), texts),
  )
  t.strictSame(unknown, [], 'each statement is run')
  using sqlite = new DatabaseSync(`${folder}/${STATE_FILE}`)
  fillSqlite(sqlite, LARGE, sqlOf)
  assertKnown(t, costlyInSqlite(sqlite, LARGE, texts), { ...KNOWN, ...KNOWN_BY.sqlite })
})

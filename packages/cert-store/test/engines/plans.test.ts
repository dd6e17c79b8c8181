import { copyFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import {
  assertKnown,
  costlyInSqlite,
  fillSqlite,
  neverRun,
  recordSqlite,
} from '../../../store/test/plans.ts'
import { storeFile } from '../../src/engines/sqlite.ts'
import { OF_PROCESSES } from '../../src/schema/tables.ts'
import { driveAll, KNOWN, KNOWN_BY, LARGE, OF_POSTGRES, SOURCES, sqlOf } from '../helpers/drive.ts'
import { testStore } from '../helpers/store.ts'

t.test('no statement reads many rows of a folder', async (t) => {
  const texts = recordSqlite(t)
  const { folder, ...opened } = await testStore(t)
  const sql = async (text: string) => {
    using sqlite = new DatabaseSync(storeFile(folder))
    return sqlite.prepare(text.replaceAll('@', '')).all() as never[]
  }
  await driveAll({ ...opened, sql })
  await opened.store.close()
  const unknown = SOURCES.both.flatMap((file) =>
    neverRun(new URL(`../../src/${file}`, import.meta.url), texts),
  )
  const isOther = (text: string) => OF_POSTGRES.some((pattern) => pattern.test(text))
  t.strictSame(
    unknown.filter((text) => !isOther(text)),
    [],
    'each statement is run',
  )
  const file = `${folder}/planned.db`
  copyFileSync(storeFile(folder), file)
  using sqlite = new DatabaseSync(file)
  // They are temporary in a store.
  for (const table of OF_PROCESSES) sqlite.exec(table.createdBy('sqlite'))
  fillSqlite(sqlite, LARGE, sqlOf)
  assertKnown(t, costlyInSqlite(sqlite, LARGE, texts), { ...KNOWN, ...KNOWN_BY.sqlite })
})

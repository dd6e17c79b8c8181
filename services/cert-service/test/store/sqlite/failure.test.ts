import t from 'tap'
import { storeFailure } from '../../../src/store/sqlite/database.ts'

t.test('a failure of SQLite is told in plain words', async (t) => {
  const table: [errcode: number, what: string, words: string][] = [
    [13, 'SQLITE_FULL', 'the disk is full'],
    [4874, 'SQLITE_IOERR_SHMSIZE, at the start on a full disk', 'the disk is full'],
    [10, 'SQLITE_IOERR', 'the disk failed'],
    [1546, 'SQLITE_IOERR_TRUNCATE', 'the disk failed'],
    [8, 'SQLITE_READONLY', 'it is read-only'],
    [5, 'SQLITE_BUSY', 'it is locked by another program'],
  ]
  for (const [errcode, what, words] of table)
    t.match(
      storeFailure(Object.assign(new Error('x'), { errcode })),
      { code: 'CERT_STORE_UNAVAILABLE', message: `The store cannot be used: ${words}.` },
      what,
    )
  t.match(storeFailure(Object.assign(new Error('x'), { errcode: 11 })), {
    code: 'CERT_STORE_CORRUPT',
  })
  t.equal(storeFailure(Object.assign(new Error('x'), { errcode: 19 })), undefined, 'a constraint')
})

import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { openSqliteStore } from '../../../src/engines/sqlite.ts'

t.test('the run time goes on at the next start', async (t) => {
  const folder = testFolder(t)
  for (const before of [0, 5_000, 10_000]) {
    let passed = 77_000
    const store = await openSqliteStore({ folder, elapsed: () => passed })
    t.equal(store.runTime(), before)
    passed += 5_000
    t.equal(store.runTime(), before + 5_000)
    await store.close()
  }
})

import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'

t.test('each folder of a test is another one, and lasts until the test has ended', async (t) => {
  const folders: string[] = []
  const existing = () => folders.filter((folder) => existsSync(join(folder, 'store.db')))
  let atTeardown: readonly string[] = []
  await t.test('of two services', async (t) => {
    folders.push(testFolder(t, { 'store.db': '' }), testFolder(t, { 'store.db': '' }))
    t.teardown(() => {
      atTeardown = existing()
    })
  })
  t.equal(new Set(folders).size, 2)
  t.ok(folders.every((folder) => folder.startsWith(tmpdir())))
  t.same(atTeardown, folders)
  t.same(existing(), [])
})

import { existsSync, mkdirSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { lockFile } from '../src/lock.ts'

t.test('a lock is for its owner only, and is free again', async (t) => {
  const file = join(t.testdir(), 'lock')
  for (const _ of [1, 2]) {
    const unlock = lockFile(file)
    t.ok(unlock)
    t.equal(lockFile(file), undefined, 'another one waits')
    unlock?.()
  }
  t.equal(statSync(file).mode & 0o777, 0o600)
})

t.test('what is no file of its own is no lock, and a link makes no file elsewhere', async (t) => {
  const folder = t.testdir({ file: '' })
  symlinkSync(join(folder, 'elsewhere'), join(folder, 'dangling'))
  symlinkSync(join(folder, 'file'), join(folder, 'link'))
  mkdirSync(join(folder, 'folder'))
  for (const name of ['dangling', 'link', 'folder'])
    t.throws(() => lockFile(join(folder, name)), { code: 'EEXIST' }, name)
  t.notOk(existsSync(join(folder, 'elsewhere')))
})

import { chmodSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { makeFolder } from '../src/files.ts'

const modeOf = (path: string) => statSync(path).mode & 0o777

t.test('creates missing folders for their owner only', async (t) => {
  const folder = t.testdir()
  makeFolder(join(folder, 'a/b/c'))
  for (const made of ['a', 'a/b', 'a/b/c']) t.equal(modeOf(join(folder, made)), 0o700, made)
})

t.test('leaves existing folders unchanged', async (t) => {
  const folder = t.testdir({ old: {} })
  const old = join(folder, 'old')
  chmodSync(old, 0o755)
  makeFolder(old)
  makeFolder(join(old, 'new'))
  t.equal(modeOf(old), 0o755)
  symlinkSync(old, join(folder, 'link'))
  makeFolder(join(folder, 'link/newer'))
  makeFolder(join(folder, 'link'))
  t.ok(existsSync(join(old, 'newer')))
})

t.test('reports why a folder cannot be created', async (t) => {
  const folder = t.testdir()
  writeFileSync(join(folder, 'file'), '')
  symlinkSync(join(folder, 'nowhere'), join(folder, 'dangling'))
  mkdirSync(join(folder, 'sub'))
  const table: [path: string, code: RegExp][] = [
    [join(folder, 'file'), /EEXIST/],
    [join(folder, 'file/a/b'), /ENOTDIR/],
    [join(folder, 'dangling'), /EEXIST/],
    [join(folder, 'dangling/a'), /ENOENT|EEXIST/],
    [join(folder, `${'x'.repeat(300)}/a`), /ENAMETOOLONG/],
  ]
  // Nobody can make a folder there, and the system says that there is none.
  if (existsSync('/proc/self')) table.push(['/proc/gatehouse/data', /ENOENT/])
  for (const [path, code] of table) t.throws(() => makeFolder(path), { code }, path)
})

import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { isOfSystem, statePrefix, writeNewFiles } from '../src/new-files.ts'

const FILES = {
  '.': { text: 'a: 1\n', mode: 0o644 },
  'keys/a.key': { text: 'secret\n', mode: 0o600 },
}

t.test('writes files with their modes, and gives their paths', async (t) => {
  const file = join(t.testdir({}), 'new/config.yaml')
  const [config = '', key = ''] = await writeNewFiles(file, FILES)
  t.equal(readFileSync(config, 'utf8'), 'a: 1\n')
  t.equal(key, join(file, '../keys/a.key'))
  t.equal(statSync(key).mode & 0o777, 0o600)
})

t.test('replaces nothing, and leaves nothing half done', async (t) => {
  const folder = t.testdir({ keys: { 'a.key': 'mine' }, file: '' })
  const write = async (file: string) => writeNewFiles(join(folder, file), FILES)
  await t.rejects(write('config.yaml'), { message: /a\.key exists and is not replaced/ })
  t.notOk(existsSync(join(folder, 'config.yaml')))
  t.equal(readFileSync(join(folder, 'keys/a.key'), 'utf8'), 'mine')
  await t.rejects(write('file/config.yaml'), { code: /EEXIST|ENOTDIR/ })
  const other = { '.': { text: 'a', mode: 0o600 }, 'file/b': { text: 'b', mode: 0o600 } }
  await t.rejects(writeNewFiles(join(folder, 'other.yaml'), other), { code: /EEXIST|ENOTDIR/ })
  t.notOk(existsSync(join(folder, 'other.yaml')), 'none of them stays')
  if (existsSync('/proc/self'))
    await t.rejects(writeNewFiles('/proc/x/config.yaml', FILES), { code: 'ENOENT' })
})

t.test('keeps the data of a service of the system out of /etc', async (t) => {
  const rows: [file: string, isOfSystem: boolean, prefix: string][] = [
    ['/etc/gatehouse/svc/config.yaml', true, '/var/lib/gatehouse/svc/'],
    ['/home/ada/../../etc/config.yaml', true, '/var/lib/gatehouse/svc/'],
    ['config.yaml', false, ''],
    ['/etcetera/config.yaml', false, ''],
  ]
  for (const [file, ofSystem, prefix] of rows)
    t.strictSame([isOfSystem(file), statePrefix(file, 'svc')], [ofSystem, prefix], file)
})

import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import {
  checkIntegrity,
  connect,
  storeFile,
} from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { createHome, runMain, startService } from '../helpers/service.ts'

const home = (t: Test) => createHome(join(testFolder(t), 'service'))

t.test('a running service and others at its store', async (t) => {
  expectWarnings(t, 'STORE_UNAVAILABLE')
  const place = home(t)
  const service = await startService(t, place)
  const { certificate } = (await service.obtain('held.example')).body

  for (const command of ['serve', 'rekey']) {
    const { code, stderr } = await runMain(t, place, [command])
    t.equal(code, 1)
    t.match(stderr, /^gatehouse-certs: Another process is using [^\n]+\n$/, `${command} is refused`)
  }

  // The service writes now and then, on a busy machine for a moment.
  const other = new DatabaseSync(storeFile(place.folder), { timeout: 60_000 })
  other.exec('BEGIN EXCLUSIVE')
  const refused = await service.obtain('new.example')
  const unavailable = { status: 503, retryAfter: '5', body: { code: 'STORE_UNAVAILABLE' } }
  t.match(refused, unavailable, 'a locked database is told with a time to come back')
  t.notMatch(JSON.stringify(refused), /locked|sqlite/i, 'and its cause to the log alone')
  const held = await service.obtain('held.example')
  t.match(held, { status: 200, body: { certificate } }, 'what is held is answered')
  other.exec('ROLLBACK')
  other.close()

  t.equal((await service.obtain('new.example')).status, 200, 'and then it serves as before')
  await service.stop()
  const sqlite = connect(storeFile(place.folder))
  t.doesNotThrow(() => checkIntegrity(sqlite))
  sqlite.close()
})

t.test(
  'a wrong or absent master key stops the start with its name, and none is made',
  async (t) => {
    const place = home(t)
    const file = place.masterKeyFile
    const first = await startService(t, place)
    t.equal((await first.obtain('app.example')).status, 200)
    await first.stop()
    const kept = join(place.base, 'kept.key')
    copyFileSync(file, kept)

    rmSync(file)
    const absent = await runMain(t, place, ['serve'])
    const missing =
      /^[^\n]+:4:\d+ \/storage\/masterKeyFile names no file, and the store needs its key: /
    t.match(absent, { code: 1, stdout: '', stderr: missing })
    t.notOk(existsSync(file))

    writeFileSync(file, `${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 })
    const wrong = await runMain(t, place, ['serve'])
    const line =
      /^gatehouse-certs: The key in [^\n]+ is not the key of this store\. \[CERT_MASTER_KEY_UNUSABLE\]\n$/
    t.match(wrong, { code: 1, stdout: '', stderr: line })

    copyFileSync(kept, file)
    const service = await startService(t, place)
    t.match(await service.obtain('app.example'), { body: { cached: true } }, 'put back, it serves')
    await service.stop()
  },
)

t.test('a master key without its store ends the start, unless a new one is wanted', async (t) => {
  const place = home(t)
  const first = await startService(t, place)
  await first.obtain('app.example')
  await first.stop()
  rmSync(place.folder, { recursive: true })
  const refused = await runMain(t, place, ['serve'])
  const line = /^gatehouse-certs: [^\n]+ there is none in [^\n]+--new[^\n]+\n$/
  t.match(refused, { code: 1, stdout: '', stderr: line })
  t.notOk(existsSync(storeFile(place.folder)))
  t.match(await runMain(t, place, ['rekey', '--new']), { code: 2 }, 'a flag of serve alone')

  const service = await startService(t, place, ['--new'])
  t.equal((await service.obtain('app.example')).status, 200)
  await service.stop()
})

t.test('a backup, restored on another machine, answers with the same certificates', async (t) => {
  const place = home(t)
  const service = await startService(t, place)
  const { body } = await service.obtain('app.example')
  const file = join(place.base, 'copy.db')
  t.match(await runMain(t, place, ['backup', file]), { code: 0, stderr: '' }, 'while it runs')
  await service.stop()

  const elsewhere = createHome(join(t.testdirName, 'elsewhere'))
  const asked = await runMain(t, elsewhere, ['restore', file])
  t.match(asked, {
    code: 1,
    stdout: '',
    stderr: /Nothing says what was taken back .*CERT_BACKUP_REFUSED/,
  })
  const over = ['--over', join(place.base, 'data')]
  t.match(await runMain(t, elsewhere, ['restore', file, ...over]), {
    code: 0,
    stderr: '',
    stdout: / as of \d{4}-\S+Z\n$/,
  })
  mkdirSync(join(elsewhere.base, 'keys'))
  copyFileSync(place.masterKeyFile, elsewhere.masterKeyFile)
  t.match(await runMain(t, elsewhere, ['rekey']), { code: 0, stderr: '' })
  const restored = await startService(t, elsewhere)
  t.same((await restored.obtain('app.example')).body, { ...body, cached: true })
  await restored.stop()
})

import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { loadKeys } from '../../src/session/keys.ts'
import { storedSecret } from '../../src/store/sqlite/secret-file.ts'
import { keysOf, NEW_SECRET, OLD_SECRET } from './kit.ts'

const storeOn = (folder: string) => ({
  secret: (name: 'session' | 'assertion') => storedSecret(folder, name),
})

t.test('derives a different key for each purpose and each secret', async (t) => {
  const { session, login } = await keysOf(OLD_SECRET, NEW_SECRET)
  const all = [...session.keys, ...login.keys]
  t.equal(new Set(all.map(({ secret }) => secret.toString('hex'))).size, 4)
  t.equal(new Set(all.map(({ kid }) => kid)).size, 4)
  for (const { secret } of all) t.equal(secret.length, 32)
  t.equal(session.first, session.keys[0])
  t.strictSame((await keysOf(OLD_SECRET)).session.first, session.first)
  const told = all.map(({ kid }) => kid).join()
  t.notOk(told.includes(OLD_SECRET) || told.includes(session.first.secret.toString('base64url')))
})

t.test('a key is made once and kept for its owner alone', async (t) => {
  const folder = `${testFolder(t)}/data`
  const made = await loadKeys(undefined, storeOn(folder))
  const again = await loadKeys(undefined, storeOn(folder))
  t.strictSame(again.session, made.session)
  t.equal(again.assertion.present(0).jwk.kid, made.assertion.present(0).jwk.kid)
  for (const file of ['session.key', 'assertion.key'])
    t.equal((await stat(`${folder}/${file}`)).mode & 0o777, 0o600)
  t.equal((await stat(folder)).mode & 0o777, 0o700)
  t.match(await readFile(`${folder}/session.key`, 'utf8'), /^[\w-]{43}\n$/)
  const other = await loadKeys(undefined, storeOn(`${folder}/other`))
  t.not(other.session.first.kid, made.session.first.kid)
})

t.test('instances that start at once on one folder take the same key', async (t) => {
  const folder = testFolder(t)
  const all = await Promise.all(
    Array.from({ length: 8 }, () => loadKeys(undefined, storeOn(folder))),
  )
  t.equal(new Set(all.map(({ session }) => session.first.kid)).size, 1)
  t.strictSame((await readdir(folder)).sort(), ['assertion.key', 'session.key'])
  t.equal(new Set(all.map(({ assertion }) => assertion.present(0).jwk.kid)).size, 1)
})

t.test('what is no key stops the start, and is not told', async (t) => {
  const folder = testFolder(t)
  const fails = (secrets?: string[], at = folder) =>
    t.rejects(loadKeys(secrets, storeOn(at)), {
      code: 'FWA_KEY_UNUSABLE',
      message: /^(?!.*hunter2)/,
    })
  await fails(['hunter2'])
  await fails([])
  await writeFile(`${folder}/session.key`, 'hunter2\n')
  await fails()
  await mkdir(`${folder}/other/session.key`, { recursive: true })
  await fails(undefined, `${folder}/other`)
})

import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { openClientCa } from '../src/own-tls.ts'

const FIXTURES = fileURLToPath(import.meta.resolve('./fixtures'))
const log = createLogger({ name: 'test', level: 'silent', format: 'json' })

t.test('a reload reads the client CA, and takes it up only when all else is ready', async (t) => {
  const file = join(testFolder(t), 'clients.pem')
  const [first, second] = ['client-ca', 'stranger'].map((name) => `${FIXTURES}/${name}.cert.pem`)
  await copyFile(first!, file)
  let changes = 0
  const ca = await openClientCa(file, log, () => (changes += 1))
  t.teardown(ca.close)
  t.equal(ca.current(), await readFile(first!, 'utf8'))

  const unchanged = await ca.prepare()
  unchanged()
  t.equal(changes, 0)

  await copyFile(second!, file)
  const commit = await ca.prepare()
  t.equal(ca.current(), await readFile(first!, 'utf8'), 'prepared only')
  commit()
  t.equal(ca.current(), await readFile(second!, 'utf8'))
  t.equal(changes, 1)

  await writeFile(file, 'no certificate')
  await t.rejects(ca.prepare(), { code: 'CONFIG_TLS_INVALID' })
  t.equal(ca.current(), await readFile(second!, 'utf8'), 'refused')
})

t.test('without a client CA there is nothing to read', async (t) => {
  const ca = await openClientCa(undefined, log, () => t.fail())
  const commit = await ca.prepare()
  commit()
  t.equal(ca.current(), undefined)
  ca.close()
})

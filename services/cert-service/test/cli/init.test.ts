import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { init } from '../../src/cli/init.ts'
import { START_RULES } from '../../src/cli/start-rules.ts'
import { loadCertConfig } from '../../src/config/load.ts'

t.test('init writes a configuration that is valid as it is', async (t) => {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  t.match(await init(file), `--config ${file}`)
  const { value, warnings, absent } = await loadCertConfig(file, {}, { startRules: START_RULES })
  t.match(value, { auth: { psk: { keys: [{ name: 'admin' }] } } })
  t.strictSame([warnings, absent], [[], 0])
  const secret = join(folder, 'keys/admin.key')
  t.equal(statSync(secret).mode & 0o777, 0o600)
  t.notMatch(readFileSync(file, 'utf8'), readFileSync(secret, 'utf8').trim())
})

t.test('init replaces nothing', async (t) => {
  const file = join(testFolder(t, { 'config.yaml': 'mine' }), 'config.yaml')
  await t.rejects(init(file), { message: /exists and is not replaced/ })
  t.equal(readFileSync(file, 'utf8'), 'mine')
})

t.test('init puts a schema for editors beside the configuration, which names it', async (t) => {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  await init(file)
  const [first = ''] = readFileSync(file, 'utf8').split('\n')
  const [, schema = ''] = /^# yaml-language-server: \$schema=(.+)$/.exec(first) ?? []
  const { title } = JSON.parse(readFileSync(join(folder, schema), 'utf8'))
  t.equal(title, 'Configuration of cert-service')
})

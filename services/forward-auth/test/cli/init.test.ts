import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { init } from '../../src/cli/init.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'

t.test('init writes a configuration that is valid as it is', async (t) => {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  t.match(await init(file, 'acme.com'), `--config ${file}`)
  const { value, warnings, absent } = await loadForwardAuthConfig(file, {}, { beforeStart: true })
  t.match(value, {
    domains: [{ domain: 'acme.com', authHost: 'auth.acme.com' }],
    portals: [{ name: 'main' }],
  })
  t.strictSame([warnings, absent], [[], 0])
  const secret = join(folder, 'client-secret')
  t.equal(statSync(secret).mode & 0o777, 0o600)
  t.notMatch(readFileSync(file, 'utf8'), readFileSync(secret, 'utf8').trim())
})

t.test('init replaces nothing', async (t) => {
  const file = join(testFolder(t, { 'config.yaml': 'mine' }), 'config.yaml')
  await t.rejects(init(file, 'acme.com'), { message: /exists and is not replaced/ })
  t.equal(readFileSync(file, 'utf8'), 'mine')
})

t.test('init puts a schema for editors beside the configuration, which names it', async (t) => {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  await init(file, 'acme.com')
  const [first = ''] = readFileSync(file, 'utf8').split('\n')
  const [, schema = ''] = /^# yaml-language-server: \$schema=(.+)$/.exec(first) ?? []
  const { title } = JSON.parse(readFileSync(join(folder, schema), 'utf8'))
  t.equal(title, 'Configuration of forward-auth')
})

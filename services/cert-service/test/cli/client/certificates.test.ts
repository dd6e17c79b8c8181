import { writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { remove, renew } from '../../../src/cli/client/certificates.ts'
import { DAY, KEY, start } from '../../helpers/app.ts'

t.test('text is for people, and JSON for everything else', async (t) => {
  const running = await start(t)
  await running.app.listen({ port: 0, host: '127.0.0.1' })
  const keyFile = join(running.folder, 'api.key')
  writeFileSync(keyFile, KEY, { mode: 0o600 })
  const { port } = running.app.server.address() as AddressInfo
  const options = { url: `http://127.0.0.1:${port}`, keyFile }
  const people = { env: {}, stdout: { isTTY: true }, stderr: { write() {} } }
  const program = { ...people, stdout: {} }
  for (const domain of ['a.test', 'b.test', 'c.test'])
    await running.call('POST', '/api/certificate', { domain })
  running.clock.shift(4 * DAY)

  t.equal(await renew('a.test', options, people), 'a.test has a new certificate\n')
  t.same(JSON.parse(await renew('b.test', options, program)), { domain: 'b.test', status: 'done' })
  t.match(await remove('a.test', options, people), /^a\.test is no longer answered/)
  t.same(JSON.parse(await remove('b.test', options, program)), {
    domain: 'b.test',
    unconfirmed: [],
  })
  t.same(JSON.parse(await remove('c.test', { ...options, json: true }, people)).domain, 'c.test')
})

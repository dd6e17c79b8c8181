import { X509Certificate } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { startAcme } from '../helpers/acme-service.ts'
import { settle, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'STORE_UNAVAILABLE')

t.test('a store that vanished: degraded within seconds, and no new CA in its place', async (t) => {
  const folder = testFolder(t)
  const running = await startAcme(t, {}, { folder })
  running.service.start()
  await settle()
  const { body } = await running.call('POST', '/api/certificate', { domain: 'a.test' })
  t.equal((await running.call('GET', '/readyz')).status, 200)
  rmSync(join(folder, 'data'), { recursive: true })
  await running.clock.advance(5_000)
  await settle(() => running.logged.some((line) => line.includes('the store cannot be used')))
  const lost = { status: 200, body: { degraded: ['store'] } }
  t.match(await running.call('GET', '/readyz'), lost)
  const refused = await running.call('POST', '/api/certificate', { domain: 'b.test' })
  t.match(refused, { status: 503, body: { code: 'STORE_UNAVAILABLE' } })
  t.match(await running.client.order(['a.example.com']), {
    status: 503,
    headers: { 'retry-after': /^\d+$/, 'replay-nonce': String },
    body: { type: 'urn:ietf:params:acme:error:serverInternal' },
  })
  const held = await running.call('POST', '/api/certificate', { domain: 'a.test' })
  t.equal(held.body.serialNumber, body.serialNumber, 'what is held is answered')
  await running.close()

  const again = start(t, {}, { folder, clock: running.clock })
  await t.rejects(again, { code: 'STORE_MISSING', message: /--new/ })
  t.notOk(existsSync(join(folder, 'data', 'store.db')), 'and nothing is made')

  const fresh = await start(t, {}, { folder, clock: running.clock, isNew: true })
  t.equal((await fresh.call('POST', '/api/certificate', { domain: 'a.test' })).status, 200)
})

t.test('each start logs the fingerprint of the root', async (t) => {
  const { service, logged } = await start(t)
  const { fingerprint256 } = new X509Certificate(service.ca.root()!)
  t.ok(logged.some((line) => line.includes(fingerprint256)))
})

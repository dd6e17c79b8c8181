import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { createIdp, DAY, KEY, NOW, type Running, reload, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'nearly `limits.perName.certificates`')

const LIMITED = { authorization: 'APIKey a-key-limited-to-names' }
const auth = {
  psk: {
    keys: [
      { name: 'operator', key: KEY },
      { name: 'limited', key: 'a-key-limited-to-names', domains: ['*.a.test'] },
    ],
  },
}

const post = ({ call }: Running, domain: string, more: object = {}, headers: object = LIMITED) =>
  call('POST', '/api/certificate', { domain, ...more }, headers)

t.test('names count until their certificate ends, and a renewal takes no more', async (t) => {
  const running = await start(t, { auth, limits: { perCaller: { names: 1 } } })
  const { clock, call } = running
  const first = await post(running, 'x.a.test')
  await clock.advance(5 * DAY)
  const renewed = await call('POST', '/api/certificate/renew', { domain: 'x.a.test' }, LIMITED)
  t.equal(renewed.status, 200)
  t.not(renewed.body.serialNumber, first.body.serialNumber)
  t.equal((await post(running, 'y.a.test')).status, 429)
  await call('DELETE', '/api/certificate/x.a.test')
  t.equal((await post(running, 'y.a.test')).status, 429, 'deleting makes no room at once')
  await clock.advance(7 * DAY)
  t.equal((await post(running, 'y.a.test')).status, 200)
})

t.test(
  'certificates from before these limits count for no caller, nor do their renewals',
  async (t) => {
    const running = await start(t, { auth, limits: { perCaller: { names: 1 } } })
    const { service, clock, config, call } = running
    t.equal((await post(running, 'a.a.test')).status, 200)
    const names = async () => (await service.store.countNames('psk:limited', clock.now())).count
    t.equal(await names(), 1)
    const db = new DatabaseSync(join(config.storage.path, 'store.db'), { timeout: 5_000 })
    db.exec('UPDATE certificates SET asked_by = NULL') // as the migration leaves them
    db.close()
    await clock.advance(5 * DAY)
    const renewed = await call('POST', '/api/certificate/renew', { domain: 'a.a.test' }, LIMITED)
    t.equal(renewed.status, 200)
    t.equal(await names(), 0)
    t.equal((await post(running, 'b.a.test')).status, 200)
  },
)

t.test('each subject of tokens has limits of its own, and a reload changes them', async (t) => {
  const idp = await createIdp(t, () => NOW)
  const jwt = { issuerUrl: idp.issuerUrl, audience: 'certs' }
  const running = await start(t, {
    auth: { ...auth, jwt },
    rules: [{ issuer: idp.issuerUrl, names: ['*.a.test'] }],
    limits: { perCaller: { names: 1 } },
  })
  const by = (sub: string) => ({ authorization: `Bearer ${idp.token({ sub })}` })
  t.equal((await post(running, 'a.a.test', {}, by('one'))).status, 200)
  t.equal((await post(running, 'b.a.test', {}, by('one'))).status, 429)
  t.equal((await post(running, 'b.a.test', {}, by('two'))).status, 200)
  const { config } = running
  const perCaller = { ...config.limits.perCaller, names: 2 }
  await reload(running, { ...config, limits: { ...config.limits, perCaller } })
  t.equal((await post(running, 'c.a.test', {}, by('one'))).status, 200)
})

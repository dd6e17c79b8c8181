import { randomBytes } from 'node:crypto'
import t from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import { settle, start } from '../helpers/app.ts'

t.test(
  'a database that refuses writes: told within seconds, and what is held is answered',
  async (t) => {
    expectWarnings(t, 'STORE_REFUSED')
    const server = await startPostgres(t)
    const storage = {
      url: server.url,
      schema: 'certs',
      masterKey: randomBytes(32).toString('base64'),
    }
    const { service, clock, logged, call } = await start(t, { storage })
    service.start()
    const obtain = (domain: string) => call('POST', '/api/certificate', { domain })
    const degraded = async () => (await call('GET', '/readyz')).body.degraded
    const check = () => clock.advance(5_000)
    const { body } = await obtain('a.test')
    t.strictSame(await degraded(), [])

    await server.sql('REVOKE INSERT ON certs.certificates FROM gatehouse')
    const refused = await obtain('b.test')
    t.match(refused, { status: 503, body: { code: 'STORE_REFUSED' } })
    t.match(refused.headers, { 'retry-after': /^\d+$/ })
    t.strictSame(await degraded(), ['store'])
    t.equal((await call('GET', '/readyz')).status, 200, 'other replicas could do no more')
    t.equal((await obtain('a.test')).body.serialNumber, body.serialNumber)
    await check()
    await settle(() => logged.some((line) => line.includes('the store cannot be used')))
    t.match(logged.join(''), 'The database refuses: the user lacks a right.')
    t.strictSame(await degraded(), ['store'], 'other tables that can be written do not end it')

    await server.sql('GRANT INSERT ON certs.certificates TO gatehouse')
    await check()
    await until(async () => (await degraded()).length === 0)
    t.equal((await obtain('b.test')).status, 200)
  },
)

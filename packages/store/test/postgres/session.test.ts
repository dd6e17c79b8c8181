import t from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { newSchema, open, until } from '../kit.ts'
import { Relay } from './relay.ts'

const server = await startPostgres(t)

t.test('one leads, until it ends', async (t) => {
  const schema = newSchema()
  const [a, b] = [await open(t, server, { schema }), await open(t, server, { schema })]
  t.equal(a.leads('crl'), false)
  t.strictSame(await Promise.all([a.tryLead('crl'), a.tryLead('crl')]), [true, true])
  t.equal(await b.tryLead('crl'), false)
  t.equal(await b.tryLead('other'), true, 'of another thing')
  t.strictSame([a.leads('crl'), b.leads('crl')], [true, false])
  const elsewhere = await open(t, server)
  t.equal(await elsewhere.tryLead('crl'), true, 'of another schema')
  await a.close()
  t.equal(a.leads('crl'), false)
  await until(() => b.tryLead('crl'))
})

t.test('whoever loses the connection leads no longer', async (t) => {
  const schema = newSchema()
  const relay = await Relay.start(t, server)
  const a = await open(t, server, { schema, url: relay.through(server.url) })
  const b = await open(t, server, { schema })
  t.equal(await a.tryLead('crl'), true)
  relay.refuse()
  relay.reset()
  await until(() => !a.leads('crl'))
  t.equal(await a.tryLead('crl'), false, 'not without a connection')
  await until(() => b.tryLead('crl'))
  relay.refuse(false)
  await until(() => !a.failure())
  t.equal(await a.tryLead('crl'), false)
})

t.test('a server that no longer answers takes the leadership away', async (t) => {
  const relay = await Relay.start(t, server)
  const a = await open(t, server, { url: relay.through(server.url) })
  t.equal(await a.tryLead('crl'), true)
  relay.mute()
  await until(() => !a.leads('crl'))
})

t.test('the clock is that of the database, whatever the own one says', async (t) => {
  const db = await open(t, server)
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  Date.now = () => 0
  const before = db.clock.now()
  const [row] = await db.all<{ now: number }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8 AS now',
  )
  const after = db.clock.now()
  t.ok(before - 1_000 < row!.now && row!.now < after + 1_000)
  t.ok(Number.isInteger(before))
})

import { createMetrics } from '@gatehouse/service-kit/telemetry'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { post, problem, startAcme } from '../helpers/acme.ts'
import { start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'CERT_RATE_LIMITED')

const HOUR = 3_600_000

t.test('no order is placed that the CA would refuse, and the error names the limit', async (t) => {
  expectWarnings(t, 'ACME_DNS')
  const metrics = createMetrics({ service: 'test', version: '0' })
  const limits = { orders: { count: 2, per: '10h' }, failures: { count: 1, per: '2h' } }
  const fails = new Set(['c.example.com'])
  const { ca, clock, running } = await startAcme(
    t,
    {
      validate: async ({ identifier }) => (fails.has(identifier.value) ? 'dns' : undefined),
    },
    { issuerOptions: { limits }, metrics },
  )
  t.equal((await post(running, 'a.example.com')).status, 200)
  t.equal((await post(running, 'c.example.com')).status, 503, 'no proof')
  const refused = await post(running, 'b.example.com')
  t.match(refused, { status: 429, body: { code: 'CERT_RATE_LIMITED' } })
  t.match(refused.body.detail, '2 orders in 10h for the account; none is left until 2030-01-01T05:')
  t.equal(refused.headers['retry-after'], String(5 * 3600))
  t.equal(ca.count('newOrder'), 2)

  const dry = async () =>
    (await running.call('POST', '/api/certificate?dryRun=true', { domain: 'c.example.com' })).body
  t.match((await dry()).budgets, [
    { limit: 'orders', left: 0, freeAt: '2030-01-01T05:00:00Z' },
    { limit: 'failures', left: 0 },
  ])
  t.equal((await post(running, 'a.example.com')).status, 200, 'what is held is answered')

  const text = await metrics.text()
  for (const line of [
    'gatehouse_certs_orders_total{issuer="acme"} 2',
    'gatehouse_certs_failed_total{class="dns"} 1',
    'gatehouse_certs_failed_total{class="limit"} 1',
    'gatehouse_certs_issued_total{action="issue"} 1',
  ])
    t.ok(text.includes(`\n${line}\n`), `${line} in ${text.match(/^gatehouse_certs_(f|o).*/gm)}`)

  await clock.advance(5 * HOUR)
  t.equal((await post(running, 'b.example.com')).status, 200)
  t.equal(ca.count('newOrder'), 3)
})

t.test('no account is registered that the CA would refuse', async (t) => {
  const issuerOptions = { limits: { accounts: { count: 1, per: '2h' } } }
  const { ca, clock, running } = await startAcme(t, {}, { issuerOptions })
  t.equal((await post(running, 'a.example.com')).status, 200)
  ca.answer('newOrder', problem(400, 'accountDoesNotExist', 'who?'))
  const refused = await post(running, 'b.example.com')
  t.match(refused, { status: 429, body: { code: 'CERT_RATE_LIMITED' } })
  t.match(refused.body.detail, '1 new accounts in 2h for the address of this host')
  t.equal(ca.count('newAccount'), 1)

  await clock.advance(2 * HOUR)
  t.equal((await post(running, 'b.example.com')).status, 200)
  t.equal(ca.count('newAccount'), 2)
})

t.test('issuers of one CA have one ledger, also with accounts of their own', async (t) => {
  const named = (name: string, names: string[], limits: object, account?: string) => ({
    name,
    ...(account && { account }),
    type: 'acme',
    directory: 'https://ca.test/directory',
    names,
    limits,
    challenges: [{ type: 'http-01' }],
  })
  const server = { plainHttp: { port: 0 } }
  const one = { orders: { count: 1, per: '1h' } }
  const two = { orders: { count: 2, per: '1h' } }
  const startWith = (first: object, second: object, account?: string) => {
    const issuers = [named('x', ['x.test'], first), named('y', ['y.test'], second, account)]
    return start(t, { server, issuers })
  }
  const refusal = /issuers\/1\/limits must be those of x, which orders from the same CA/
  await t.rejects(startWith(one, two), refusal)
  await t.rejects(startWith(one, two, 'own'), refusal)
  await t.rejects(startWith({ orders: { count: 1, per: '0s' } }, one), /per must be at least 1s/)
  for (const account of [undefined, 'own']) {
    const { service, close } = await startWith(one, one, account)
    const order = { directory: 'https://ca.test/directory', names: ['x.test'], renewal: false }
    await service.ledger.ordered({ ...order, issuer: 'x' })
    t.match(await service.ledger.budgets('y', ['y.test']), [{ kind: 'orders', left: 0 }])
    t.strictSame(await service.ledger.budgets('ca', ['z.test']), [])
    await close()
  }
})

// Mistakes of comparable services that must not happen here. docs/threats.md lists them.

import { createPrivateKey } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { openOwnTls } from '../src/lifecycle/own-tls.ts'
import { briskClock, issuerAt, post, problem, startAcme, startCa, WAIT } from './helpers/acme.ts'
import { createIdp, DAY, KEY, NOW, settle, start } from './helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_CAA', 'every token may have every name')

const refusal = problem(400, 'caa', 'CAA')
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value)

t.test('a valid certificate is served while its CA fails', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  const { serialNumber } = (await post(running)).body
  await clock.advance(70 * DAY)
  ca.answer('newOrder', ...times(20, refusal))
  running.service.start()
  await settle(() => ca.count('newOrder') === 2)
  for (let n = 0; n < 5; n++)
    t.match(await post(running), { status: 200, body: { cached: true, serialNumber } })
})

t.test('an order goes on when its caller hangs up', async (t) => {
  const { ca, running } = await startAcme(t)
  const url = await running.app.listen({ host: '127.0.0.1', port: 0 })
  const caller = request(`${url}/api/certificate`, {
    method: 'POST',
    headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
  })
  caller.on('error', () => {}).end(JSON.stringify({ domain: 'app.example.com' }))
  await settle(() => ca.count('newOrder') === 1)
  caller.destroy()
  await settle(() => running.service.issuance.flights.size === 0)
  t.match(await post(running), { status: 200, body: { cached: true } })
  t.equal(ca.count('newOrder'), 1)
})

t.test('an order that outlasts the request is answered with 202 and can be polled', async (t) => {
  const dns = Promise.withResolvers<void>()
  const { running, clock } = await startAcme(
    t,
    {},
    {
      createSolver: () => ({ type: 'dns-01', present: () => dns.promise, cleanUp: async () => {} }),
    },
  )
  const answer = post(running)
  await settle(
    () => running.service.issuance.flights.values().next().value?.order.step === 'waiting for DNS',
  )
  await clock.advance(WAIT)
  const { status, headers } = await answer
  t.equal(status, 202)
  const poll = async () => (await running.call('GET', String(headers.location))).body
  t.match(await poll(), { status: 'pending', step: 'waiting for DNS' })
  dns.resolve()
  await settle(() => running.service.issuance.flights.size === 0)
  t.match(await poll(), { status: 'done' })
  t.match(await post(running), { status: 200, body: { cached: true } })
})

t.test('certificates of every lifetime are reused until a share of it has passed', async (t) => {
  for (const days of [1, 6, 29, 45, 90]) {
    const { ca, running, clock } = await startAcme(t, { lifetimeMs: days * DAY })
    running.service.start()
    for (let n = 0; n < 8; n++) {
      t.equal((await post(running)).status, 200)
      await clock.advance((days * DAY) / 20)
      await settle(() => running.service.issuance.flights.size === 0)
    }
    t.equal(ca.count('newOrder'), 1, `${days} days, up to 40 %`)
    await running.close()
  }
})

t.test('a failed order is not repeated at once, and not at all when nobody asks', async (t) => {
  const folder = testFolder(t)
  const { ca, running, clock } = await startAcme(t, {}, { folder })
  ca.answer('newOrder', ...times(9, refusal))
  for (let n = 0; n < 20; n++) t.equal((await post(running)).status, 422)
  t.equal(ca.count('newOrder'), 1)
  await running.close()
  const again = await startAcme(t, {}, { folder, ca, clock })
  t.equal((await post(again.running)).status, 422)
  again.running.service.start()
  for (let n = 0; n < 30; n++) {
    await clock.advance(DAY)
    await settle(() => again.running.service.issuance.flights.size === 0)
  }
  t.equal(ca.count('newOrder'), 1, 'nobody asks for it, so neither do we')
})

t.test('a certificate of the staging CA is not served for the production CA', async (t) => {
  const clock = briskClock()
  const [staging, production] = [await startCa(t, clock), await startCa(t, clock)]
  const folder = testFolder(t)
  const first = await startAcme(t, {}, { folder, clock, ca: staging })
  const { serialNumber } = (await post(first.running)).body
  await first.running.close()
  const { running } = await startAcme(t, {}, { folder, clock, ca: production })
  const { body } = await post(running)
  t.match(body, { issuer: 'acme', cached: false })
  t.not(body.serialNumber, serialNumber)
  t.equal(production.count('newOrder'), 1)
})

t.test('a renewal and a request for the same name share one order', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  await post(running)
  await clock.advance(91 * DAY)
  const answers = await Promise.all([
    post(running),
    running.call('POST', '/api/certificate/renew', { domain: 'app.example.com' }),
    post(running),
  ])
  t.same(
    answers.map(({ status }) => status),
    [200, 200, 200],
  )
  t.equal(new Set(answers.map(({ body }) => body.serialNumber)).size, 1)
  t.equal(ca.count('newOrder'), 2)
})

t.test('a DNS provider without a required option stops the start', async (t) => {
  const ca = await startCa(t, briskClock())
  const withExec = (options: object) => ({
    issuers: [
      issuerAt(ca, { challenges: [{ type: 'dns-01', providers: [{ type: 'exec', ...options }] }] }),
    ],
  })
  await t.rejects(start(t, withExec({})), { message: /providers\/0\/command is missing/ })
  await t.resolves(start(t, withExec({ command: ['/usr/local/bin/dns-hook'] })))
})

t.test(
  'a rotated key of the token issuer is accepted, a token without exp is refused',
  async (t) => {
    const clock = briskClock()
    const idp = await createIdp(t, clock.now)
    const auth = { jwt: { issuerUrl: idp.issuerUrl, audience: 'certs' } }
    const { running } = await startAcme(t, {}, { clock, config: { auth } })
    const status = async (claims: object = {}) => {
      const headers = { authorization: `Bearer ${idp.token({ sub: 'ci', ...claims })}` }
      return (await running.call('POST', '/api/certificate', { domain: 'a.test' }, headers)).status
    }
    t.equal(await status(), 200)
    t.equal(await status({ exp: undefined }), 401)
    idp.rotate()
    await clock.advance(10 * 60_000)
    t.equal(await status(), 200)
  },
)

t.test('every spelling of a name gets the same certificate', async (t) => {
  const { ca, running } = await startAcme(t)
  for (const domain of ['example.com', 'Example.COM', 'example.com.'])
    t.match(await post(running, domain), { status: 200, body: { names: ['example.com'] } })
  t.equal(ca.count('newOrder'), 1)
})

t.test('the service renews its own certificate while it runs', async (t) => {
  const { running, clock, ca } = await startAcme(t)
  const { config, app } = running
  const taken: unknown[] = []
  const source = await openOwnTls(app, config.server, (tls) => taken.push(tls))
  t.teardown(() => source.close())
  await clock.advance(5 * DAY)
  await settle(() => taken.length > 0)
  t.equal(taken.length, 1)
  t.equal(ca.exchanges.length, 0, 'and no other CA is needed for it')
})

t.test('a stop during an order is quick, and the next start resumes the order', async (t) => {
  const folder = testFolder(t)
  const { ca, running, clock } = await startAcme(t, {}, { folder })
  ca.answer('challenge', 'hang')
  const caller = post(running)
  await settle(() => ca.count('challenge') === 1)
  await running.close()
  t.equal((await caller).status, 202)
  t.match(
    running.logged.filter((line) => line.includes('could not be issued')),
    { length: 0 },
  )

  const again = await startAcme(t, {}, { folder, ca, clock })
  t.match(await again.running.service.store.listPendingOrders(), [{ checkpoint: {} }])
  await again.running.service.issuance.resume()
  await settle(() => again.running.service.issuance.flights.size === 0)
  t.match(await post(again.running), { status: 200, body: { cached: true } })
  t.equal(ca.count('newOrder'), 1)
})

t.test('no private key is stored unsealed, and none is reused for a renewal', async (t) => {
  expectWarnings(t, 'ACME_UNREACHABLE')
  const { ca, running, clock } = await startAcme(t)
  ca.always('certificate', 'reset')
  t.equal((await post(running)).status, 503)
  ca.always('certificate')
  await clock.advance(60_000)
  const { privateKey } = (await post(running)).body
  const { d = '' } = createPrivateKey(privateKey).export({ format: 'jwk' })
  const folder = join(running.folder, 'data')
  for (const file of await readdir(folder)) {
    const bytes = await readFile(join(folder, file))
    t.notOk(bytes.includes(Buffer.from(d, 'base64url')), `${file} and the key of the certificate`)
    // PKCS#8 of any P-256 key, that of the account as well.
    t.notOk(bytes.includes(Buffer.from('308187020100301306072a8648ce3d02', 'hex')), file)
  }
  await clock.advance(91 * DAY)
  t.not((await post(running)).body.privateKey, privateKey)
  t.ok(clock.now() > NOW)
})

import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { request } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Ca, Issuer } from '@gatehouse/issuance/issuers'
import { fromPem, type Name, PkiError, parseName } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import { StoreError } from '@gatehouse/store'
import t from 'tap'
import type { IssuerRequest } from '../../../../packages/issuance/src/issuers/issuer.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, KEY, NOW, type Running, settle, start, written } from '../helpers/app.ts'
import { makeCsr } from '../helpers/csr.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'CERT_ISSUE_FAILED', 'a certificate could not be issued')

const WAIT = 20_000
const MINUTE = 60_000

/** An issuer that answers when told to. */
function slowIssuer() {
  let ca: Ca
  const asked: { request: IssuerRequest; end(): void; fail(error: Error): void }[] = []
  const issuer: Issuer = {
    name: 'slow',
    permits: () => true,
    issue(request, io) {
      io.report('asking')
      return new Promise((resolve, reject) => {
        asked.push({ request, end: () => resolve(ca.issue(request)), fail: reject })
      })
    },
  }
  return {
    asked,
    deps: {
      issuer(own: Ca) {
        ca = own
        return issuer
      },
    },
  }
}

const post = ({ call }: Running, body: object = { domain: 'a.test' }) =>
  call('POST', '/api/certificate', body)

/** Makes an order that nobody works on any more: the store fails as its certificate comes. Gives the answer for it. */
async function dropOrder(running: Running, asked: ReturnType<typeof slowIssuer>['asked']) {
  const { store, issuance } = running.service
  const { addCertificate } = store
  const fail = async () => {
    throw new StoreError('STORE_UNAVAILABLE', 'the disk is full', { retryAfter: 5 })
  }
  const answer = post(running)
  await settle(() => asked.length > 0)
  await running.clock.advance(WAIT)
  Object.assign(store, { addCertificate: fail })
  asked[0]!.end()
  await settle(() => issuance.flights.size === 0)
  Object.assign(store, { addCertificate })
  return answer
}

t.test('50 callers share one flight', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const answers = Array.from({ length: 50 }, () => post(running))
  await settle()
  t.equal(asked.length, 1)
  asked[0]!.end()
  const bodies = (await Promise.all(answers)).map(({ body }) => body)
  t.equal(new Set(bodies.map(({ serialNumber }) => serialNumber)).size, 1)
  t.ok(bodies.every(({ cached }) => cached === false))

  await running.service.audit.close()
  const rows = await running.service.store.listAudit({ limit: 10 })
  const actions = rows.map(({ action, count }) => `${action} ${count}`).sort()
  t.match(actions, [/^hand-out/, 'issue 1'], 'one was issued to, the others were handed it')
})

t.test('two callers, one name, different CSRs at the same moment: each gets its own', async (t) => {
  const running = await start(t)
  const keys = [1, 2].map(() => generateKeyPairSync('ec', { namedCurve: 'P-256' }))
  const answers = await Promise.all(
    keys.flatMap((pair) =>
      [1, 2].map(() => post(running, { domain: 'a.test', csr: makeCsr({ pair }) })),
    ),
  )
  for (const [index, { status, body }] of answers.entries()) {
    t.equal(status, 200)
    t.notOk('privateKey' in body)
    const own = keys[Math.floor(index / 2)]!
    t.ok(new X509Certificate(body.certificate).checkPrivateKey(own.privateKey))
  }
  t.equal(new Set(answers.map(({ body }) => body.serialNumber)).size, 2)
})

t.test('the names of a CSR are asked for as well', async (t) => {
  const running = await start(t, {
    auth: {
      psk: { keys: [{ name: 'one', key: 'a-key-that-may-do-everything', domains: ['a.test'] }] },
    },
  })
  const csr = makeCsr({ names: ['b.test'] })
  t.match(await post(running, { domain: 'a.test', csr }), {
    status: 403,
    body: { code: 'CERT_NAME_NOT_ALLOWED', detail: /b\.test/ },
  })
})

t.test('issuing that outlasts the wait gives an order, and then the certificate', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const { call, clock } = running
  const answer = post(running)
  await settle(() => asked.length > 0)
  await clock.advance(WAIT)
  const { status, headers, body } = await answer
  t.match(
    { status, body },
    { status: 202, body: { status: 'pending', step: 'asking', since: '2030-01-01T00:00:00Z' } },
  )
  const url = `/api/orders/${body.id}`
  t.equal(headers.location, url)
  t.ok(Number(headers['retry-after']) > 0)
  t.match((await call('GET', url)).body, { id: body.id, status: 'pending', names: ['a.test'] })

  const second = post(running)
  await settle()
  t.equal(asked.length, 1, 'who asks meanwhile joins')
  asked[0]!.end()
  t.equal((await second).status, 200)
  t.match((await call('GET', url)).body, { status: 'done' })
  t.match((await post(running)).body, { cached: true })
})

t.test('an order outlives the process', async (t) => {
  const first = slowIssuer()
  const folder = testFolder(t)
  const running = await start(t, {}, { ...first.deps, folder })
  const answer = post(running)
  await settle(() => first.asked.length > 0)
  await running.clock.advance(WAIT)
  const { id } = (await answer).body
  const closing = running.close()
  await settle()
  await running.clock.advance(3_000)
  await closing

  const second = slowIssuer()
  const again = await start(t, {}, { ...second.deps, folder, clock: running.clock })
  again.service.start()
  await settle(() => second.asked.length > 0)
  t.equal(second.asked.length, 1, 'it is taken up again')
  second.asked[0]!.end()
  await settle()
  t.match((await again.call('GET', `/api/orders/${id}`)).body, { status: 'done' })
  t.match((await post(again)).body, { cached: true })
})

t.test('a service that stops ends the waiting, and not the orders', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const waiting = [post(running), post(running), post(running, { domain: 'b.test' })]
  await settle(() => asked.length === 2)
  running.service.issuance.stopWaiting()
  for (const { status, headers } of await Promise.all(waiting)) {
    t.equal(status, 202)
    t.match((await running.call('GET', String(headers.location))).body, { status: 'pending' })
  }

  const brief = post(running, { domain: 'c.test' })
  await settle(() => asked.length === 3)
  asked[2]!.end()
  t.equal((await brief).status, 200, 'what takes a moment is waited for')
  const long = post(running)
  await settle()
  await running.clock.advance(500)
  t.equal((await long).status, 202, 'and no longer')
  for (const { end } of asked) end()
  await settle()
  t.match((await post(running)).body, { cached: true }, 'the work went on')
})

t.test('a caller that hangs up loses nothing', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const url = await running.app.listen({ port: 0 })
  const client = request(`${url}/api/certificate`, {
    method: 'POST',
    headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
  })
  client.on('error', () => {})
  client.end('{"domain":"a.test"}')
  await settle(() => asked.length > 0)
  client.destroy()
  await settle()
  asked[0]!.end()
  await settle()
  t.match((await post(running)).body, { cached: true })
})

t.test('a failure is stored across restarts and answered with Retry-After', async (t) => {
  expectWarnings(t, 'PKI_CA_EXPIRED')
  const { asked, deps } = slowIssuer()
  const folder = testFolder(t)
  const running = await start(t, {}, { ...deps, folder })
  const answer = post(running)
  await settle(() => asked.length > 0)
  asked[0]!.fail(new Error('the secret reason'))
  const failed = await answer
  t.match(failed, {
    status: 503,
    headers: { 'retry-after': '60' },
    body: { code: 'CERT_ISSUE_FAILED' },
  })
  t.notOk(failed.text.includes('secret'))
  const order = await running.call('GET', String(failed.headers.location))
  t.match(order, { status: 200, body: { status: 'failed' } }, 'where the caller learns more')
  t.ok(
    running.logged.some((line) => line.includes('the secret reason')),
    'the log has the cause',
  )
  t.ok(running.logged.some((line) => line.includes('a certificate could not be issued')))
  await running.clock.advance(10_000)
  t.match(await post(running), { status: 503, headers: { 'retry-after': '50' } })
  t.equal(asked.length, 1, 'nobody was asked')
  await running.close()

  const next = slowIssuer()
  const again = await start(t, {}, { ...next.deps, folder, clock: running.clock })
  t.match(await post(again), { status: 503, headers: { 'retry-after': '50' } })
  for (const [wait, following] of [
    [MINUTE, 600],
    [10 * MINUTE, 6_000],
    [100 * MINUTE, 86_400],
  ] as const) {
    await again.clock.advance(wait)
    const known = next.asked.length
    const retry = post(again)
    await settle(() => next.asked.length > known)
    next.asked.at(-1)!.fail(new PkiError('PKI_CA_EXPIRED', 'again'))
    t.match(await retry, { status: 503, headers: { 'retry-after': String(following) } })
  }
  await again.clock.advance(DAY)
  const success = post(again)
  await settle(() => next.asked.length === 4)
  next.asked.at(-1)!.end()
  t.equal((await success).status, 200)
  t.equal(next.asked.length, 4)
  const rows = await again.service.store.listAudit({ limit: 20 })
  t.equal(rows.filter(({ action }) => action === 'fail').length, 4)
})

t.test('a certificate that is valid is answered while its renewal fails', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const answer = post(running)
  await settle(() => asked.length > 0)
  asked[0]!.end()
  const first = (await answer).body
  await running.clock.advance(4 * DAY)
  const renewal = running.call('POST', '/api/certificate/renew', { domain: 'a.test' })
  await settle(() => asked.length === 2)
  t.strictSame((await post(running)).body, { ...first, cached: true }, 'under way')
  asked[1]!.fail(new Error('no'))
  t.equal((await renewal).status, 503)
  t.strictSame((await post(running)).body, { ...first, cached: true }, 'failed')
})

t.test('a certificate withdrawn while it is being issued stays withdrawn', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const answer = post(running)
  await settle(() => asked.length > 0)
  const deletion = running.call('DELETE', '/api/certificate/a.test')
  await settle()
  asked[0]!.end()
  t.equal((await answer).status, 200)
  t.equal((await deletion).status, 204)
  t.equal((await running.call('GET', '/api/certificate/a.test')).status, 404)
})

t.test('an order is hidden from callers that may not read its names', async (t) => {
  const { asked, deps } = slowIssuer()
  const keys = [
    { name: 'all', key: 'a-key-that-may-do-everything' },
    { name: 'b', key: 'a-key-that-may-have-b', domains: ['b.test'] },
  ]
  const running = await start(t, { auth: { psk: { keys } } }, deps)
  const answer = post(running)
  await settle(() => asked.length > 0)
  await running.clock.advance(WAIT)
  const { id } = (await answer).body
  const url = `/api/orders/${id}`
  const headers = { authorization: 'APIKey a-key-that-may-have-b' }
  t.match(await running.call('GET', url, undefined, headers), {
    status: 404,
    body: { code: 'CERT_ORDER_NOT_FOUND' },
  })
  asked[0]!.end()
})

t.test('names outside of ca.permitted are refused before anything is done', async (t) => {
  const running = await start(t, {
    ca: { permitted: ['*.corp.test', '10.0.0.0/8'] },
    server: { tls: 'off' },
  })
  for (const domain of ['a.test', 'corp.test', '*.corp.test', '192.0.2.1'])
    t.match(await post(running, { domain }), {
      status: 422,
      body: { code: 'CERT_NOT_PERMITTED', errors: [{ pointer: '/domain' }] },
    })
  t.equal(await written(running), 0)
  t.equal((await post(running, { domain: 'a.corp.test', names: ['10.0.0.1'] })).status, 200)
})

t.test('a failing store is a 503 with Retry-After and leaves no failure behind', async (t) => {
  expectWarnings(t, 'STORE_UNAVAILABLE')
  const running = await start(t)
  const { store } = running.service
  const { addCertificate } = store
  Object.assign(store, {
    addCertificate: async () => {
      throw new StoreError('STORE_UNAVAILABLE', 'the disk is full', { retryAfter: 5 })
    },
  })
  t.match(await post(running), {
    status: 503,
    headers: { 'retry-after': '5' },
    body: { code: 'STORE_UNAVAILABLE' },
  })
  Object.assign(store, { addCertificate })
  t.equal((await post(running)).status, 200)
})

t.test('names keep their meaning from request to store', async (t) => {
  const running = await start(t)
  await post(running, { domain: 'B.test', names: ['a.test', 'b.test.', '*.A.test'] })
  const [record] = await running.service.store.findByDomain('b.test')
  t.strictSame(record?.names, ['b.test', 'a.test', '*.a.test'])
  t.strictSame(
    record?.names.map((text) => parseName(text).text),
    record?.names,
  )
  const kinds: Name['kind'][] = record?.names.map((text) => parseName(text).kind) ?? []
  t.strictSame(kinds, ['dns', 'dns', 'wildcard'])
  t.equal(record?.fetchedAt, NOW)
})

t.test('an order that was dropped when the store failed is resumed', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  running.service.start()
  const { id } = (await dropOrder(running, asked)).body
  t.match((await running.call('GET', `/api/orders/${id}`)).body, { status: 'pending' })
  await running.clock.advance(30_000)
  await settle(() => asked.length === 2)
  asked[1]!.end()
  await settle(() => running.service.issuance.flights.size === 0)
  t.match((await running.call('GET', `/api/orders/${id}`)).body, { id, status: 'done' })
})

t.test('who asks for what is just being resumed shares the work', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const { store, issuance } = running.service
  t.equal((await dropOrder(running, asked)).status, 202)

  const { findCurrent } = store
  const [looking, looked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  Object.assign(store, {
    async findCurrent(requestKey: string) {
      Object.assign(store, { findCurrent })
      looking.resolve()
      await looked.promise
      return findCurrent(requestKey)
    },
  })
  const resumed = issuance.resume()
  await looking.promise
  const second = post(running)
  await settle(() => asked.length > 1)
  const [flight] = issuance.flights.values()
  looked.resolve()
  await resumed
  t.strictSame([...issuance.flights.values()], [flight], 'it is the only one')
  asked[1]!.end()
  t.match(await second, { status: 200, body: { cached: false } })
  t.equal(asked.length, 2, 'the issuer is asked once')
})

t.test(
  'a CSR that only an older version accepted is renewed, but refused in a new request',
  async (t) => {
    const running = await start(t)
    const { config, clock, call } = running
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const names = ['a.test']
    const first = await post(running, { domain: 'a.test', csr: makeCsr({ pair, names }) })
    t.equal(first.status, 200)
    const old = makeCsr({ pair, names, old: true })
    const db = new DatabaseSync(join(config.storage.path, 'store.db'), { timeout: 5_000 })
    db.prepare('UPDATE certificates SET csr = ?').run(fromPem(old)[0] ?? null)
    db.close()
    await clock.advance(5 * DAY)
    const renewed = await call('POST', '/api/certificate/renew', { domain: 'a.test' })
    t.equal(renewed.status, 200)
    t.not(renewed.body.serialNumber, first.body.serialNumber)
    const { publicKey } = new X509Certificate(renewed.body.certificate)
    t.ok(publicKey.equals(pair.publicKey))
    t.match(await post(running, { domain: 'a.test', csr: old }), { status: 400 })
  },
)

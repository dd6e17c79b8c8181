import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { type Name, PkiError, parseName } from '@gatehouse/pki'
import { StoreError } from '@gatehouse/store'
import t from 'tap'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { makeCsr } from './helpers/csr.ts'
import { slowIssuer } from './helpers/slow-issuer.ts'
import { currentOf, DAY, NOW, obtain, openStage, renew, type Stage, WAIT } from './helpers/stage.ts'
import { settle } from './leap-clock.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'CERT_ISSUE_FAILED', 'a certificate could not be issued')

const MINUTE = 60_000

/** Makes an order that nobody works on any more: the store fails as its certificate comes. Gives the answer for it. */
async function dropOrder(stage: Stage, requests: ReturnType<typeof slowIssuer>['requests']) {
  const { store, issuance, clock } = stage
  const { addCertificate } = store
  const fail = async () => {
    throw new StoreError('STORE_UNAVAILABLE', 'the disk is full', { retryAfter: 5 })
  }
  const answer = obtain(stage)
  await settle(() => requests.length > 0)
  await clock.advance(WAIT)
  Object.assign(store, { addCertificate: fail })
  requests[0]!.end()
  await settle(() => issuance.flights.size === 0)
  Object.assign(store, { addCertificate })
  return answer
}

t.test('50 callers share one flight', async (t) => {
  const { requests, issuer } = slowIssuer()
  const stage = await openStage(t, { issuer })
  const answers = Array.from({ length: 50 }, () => obtain(stage))
  await settle()
  t.equal(requests.length, 1)
  requests[0]!.end()
  const certificates = await Promise.all(answers)
  t.equal(new Set(certificates.map(({ serialNumber }) => serialNumber)).size, 1)
  t.ok(certificates.every(({ cached }) => cached === false))
  t.match(await stage.audit(), [{ action: 'issue', actor: 'psk:operator' }])
  t.equal(stage.deliveries.length, 49, 'one was issued to, the others were handed it')
  t.match(stage.events, [{ type: 'issued' }])
})

t.test('two callers, one name, different CSRs at the same moment: each gets its own', async (t) => {
  const stage = await openStage(t)
  const keys = [1, 2].map(() => generateKeyPairSync('ec', { namedCurve: 'P-256' }))
  const answers = await Promise.all(
    keys.flatMap((pair) => [1, 2].map(() => obtain(stage, { csr: makeCsr({ pair }) }))),
  )
  for (const [index, answer] of answers.entries()) {
    t.notOk('privateKey' in answer)
    const { privateKey } = keys[Math.floor(index / 2)]!
    t.ok(new X509Certificate(answer.certificate).checkPrivateKey(privateKey))
  }
  t.equal(new Set(answers.map(({ serialNumber }) => serialNumber)).size, 2)
})

t.test('issuing that outlasts the wait gives an order, and then the certificate', async (t) => {
  const { requests, issuer } = slowIssuer()
  const stage = await openStage(t, { issuer })
  const answer = obtain(stage)
  await settle(() => requests.length > 0)
  await stage.clock.advance(WAIT)
  const { order } = await answer
  t.match(order, { status: 'pending', step: 'signing', since: NOW, names: ['a.test'] })
  t.match(await stage.store.findOrder(order.id), { status: 'pending' })

  const second = obtain(stage)
  await settle()
  t.equal(requests.length, 1, 'who asks meanwhile joins')
  requests[0]!.end()
  t.match(await second, { cached: false })
  t.match(await stage.store.findOrder(order.id), { status: 'done' })
  t.match(await obtain(stage), { cached: true })
})

t.test('an order outlives the process', async (t) => {
  const first = slowIssuer()
  const stage = await openStage(t, { issuer: first.issuer })
  const { folder, clock } = stage
  const answer = obtain(stage)
  await settle(() => first.requests.length > 0)
  await clock.advance(WAIT)
  const { id } = (await answer).order
  const closing = stage.close()
  await settle()
  await clock.advance(3_000)
  await closing

  const second = slowIssuer()
  const again = await openStage(t, { issuer: second.issuer, folder, clock })
  await again.start()
  await settle(() => second.requests.length > 0)
  t.equal(second.requests.length, 1, 'it is taken up again')
  t.match(await again.store.findOrder(id), { status: 'pending' })
  second.requests[0]!.end()
  await settle()
  t.match(await again.store.findOrder(id), { status: 'done' })
  t.match(await obtain(again), { cached: true })
})

t.test('a service that stops ends the waiting, and not the orders', async (t) => {
  const { requests, issuer } = slowIssuer()
  const stage = await openStage(t, { issuer })
  const waiting = [obtain(stage), obtain(stage), obtain(stage, { domain: 'b.test' })]
  await settle(() => requests.length === 2)
  stage.issuance.stopWaiting()
  for (const { order } of await Promise.all(waiting)) {
    t.match(order, { status: 'pending' })
    t.match(await stage.store.findOrder(order.id), { status: 'pending' })
  }

  const brief = obtain(stage, { domain: 'c.test' })
  await settle(() => requests.length === 3)
  requests[2]!.end()
  t.match(await brief, { cached: false }, 'what takes a moment is waited for')
  const long = obtain(stage)
  await settle()
  await stage.clock.advance(500)
  t.match(await long, { order: { status: 'pending' } }, 'and no longer')
  for (const { end } of requests) end()
  await settle()
  t.match(await obtain(stage), { cached: true }, 'the work went on')
})

t.test('a failure is stored across restarts and answered with the time to wait', async (t) => {
  expectWarnings(t, 'PKI_KEY_INVALID')
  const { requests, issuer } = slowIssuer()
  const stage = await openStage(t, { issuer })
  const { folder, clock } = stage
  const answer = obtain(stage)
  await settle(() => requests.length > 0)
  requests[0]!.fail(new Error('the secret reason'))
  const failed = await answer
  t.match(failed, { code: 'CERT_ISSUE_FAILED', retryAfter: 60 })
  t.notMatch(failed.detail, /secret/)
  const order = await stage.store.findOrder(failed.orderUrl.split('/').at(-1))
  t.match(order, { status: 'failed' }, 'where the caller learns more')
  t.ok(
    stage.logged.some((line) => line.includes('the secret reason')),
    'the log has the cause',
  )
  t.match(stage.events, [{ type: 'failing', order: { names: ['a.test'] } }])
  await clock.advance(10_000)
  t.match(await obtain(stage), { retryAfter: 50 })
  t.equal(requests.length, 1, 'nobody was asked')
  await stage.close()

  const next = slowIssuer()
  const again = await openStage(t, { issuer: next.issuer, folder, clock })
  t.match(await obtain(again), { retryAfter: 50 })
  for (const [wait, following] of [
    [MINUTE, 600],
    [10 * MINUTE, 6_000],
    [100 * MINUTE, 86_400],
  ] as const) {
    await clock.advance(wait)
    const { length } = next.requests
    const retried = obtain(again)
    await settle(() => next.requests.length > length)
    next.requests.at(-1)!.fail(new PkiError('PKI_KEY_INVALID', 'again'))
    t.match(await retried, { retryAfter: following })
  }
  await clock.advance(DAY)
  const success = obtain(again)
  await settle(() => next.requests.length === 4)
  next.requests.at(-1)!.end()
  t.match(await success, { cached: false })
  t.equal(next.requests.length, 4)
  const rows = await again.audit()
  t.equal(rows.filter(({ action }) => action === 'fail').length, 4)
})

t.test('a certificate that is valid is answered while its renewal fails', async (t) => {
  const { requests, issuer } = slowIssuer()
  const stage = await openStage(t, { issuer })
  const answer = obtain(stage)
  await settle(() => requests.length > 0)
  requests[0]!.end()
  const first = await answer
  await stage.clock.advance(4 * DAY)
  const renewal = renew(stage)
  await settle(() => requests.length === 2)
  t.strictSame(await obtain(stage), { ...first, cached: true }, 'under way')
  requests[1]!.fail(new Error('no'))
  t.match(await renewal, { code: 'CERT_ISSUE_FAILED' })
  t.strictSame(await obtain(stage), { ...first, cached: true }, 'failed')
})

t.test('names outside of ca.permitted are refused before anything is done', async (t) => {
  const stage = await openStage(t, { ca: { permitted: ['*.corp.test', '10.0.0.0/8'] } })
  for (const domain of ['a.test', 'corp.test', '*.corp.test', '192.0.2.1'])
    t.match(await obtain(stage, { domain }), {
      code: 'CERT_NOT_PERMITTED',
      errors: [{ pointer: '/domain' }],
    })
  t.strictSame(await stage.audit(), [])
  t.match(await obtain(stage, { domain: 'a.corp.test', names: ['10.0.0.1'] }), { cached: false })
})

t.test('a failing store says when to try again, and leaves no failure behind', async (t) => {
  const stage = await openStage(t)
  const { store } = stage
  const { addCertificate } = store
  Object.assign(store, {
    addCertificate: async () => {
      throw new StoreError('STORE_UNAVAILABLE', 'the disk is full', { retryAfter: 5 })
    },
  })
  t.match(await obtain(stage), { code: 'STORE_UNAVAILABLE', retryAfter: 5 })
  Object.assign(store, { addCertificate })
  t.match(await obtain(stage), { cached: false })
})

t.test('names keep their meaning from request to store', async (t) => {
  const stage = await openStage(t)
  await obtain(stage, { domain: 'B.test', names: ['a.test', 'b.test.', '*.A.test'] })
  const record = await currentOf(stage, 'b.test')
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
  const { requests, issuer } = slowIssuer()
  const stage = await openStage(t, { issuer })
  await stage.start()
  const { id } = (await dropOrder(stage, requests)).order
  t.match(await stage.store.findOrder(id), { status: 'pending' })
  await stage.clock.advance(30_000)
  await settle(() => requests.length === 2)
  requests[1]!.end()
  await settle(() => stage.issuance.flights.size === 0)
  t.match(await stage.store.findOrder(id), { id, status: 'done' })
})

t.test('who asks for what is just being resumed shares the work', async (t) => {
  const { requests, issuer } = slowIssuer()
  const stage = await openStage(t, { issuer })
  const { store, issuance } = stage
  t.match(await dropOrder(stage, requests), { order: { status: 'pending' } })

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
  const second = obtain(stage)
  await settle(() => requests.length > 1)
  const [flight] = issuance.flights.values()
  looked.resolve()
  await resumed
  t.strictSame([...issuance.flights.values()], [flight], 'it is the only one')
  requests[1]!.end()
  t.match(await second, { cached: false })
  t.equal(requests.length, 2, 'the issuer is asked once')
})

t.test('an order whose issuer no longer signs is ended', async (t) => {
  const { requests, issuer } = slowIssuer()
  const stage = await openStage(t, { issuer })
  const { folder, clock } = stage
  const answer = obtain(stage)
  await settle(() => requests.length > 0)
  await clock.advance(WAIT)
  const { id } = (await answer).order
  const closing = stage.close()
  await settle()
  await clock.advance(3_000)
  await closing
  const again = await openStage(t, { folder, clock })
  await again.issuance.resume()
  t.match(await again.store.findOrder(id), {
    status: 'failed',
    lastError: { code: 'CERT_NOT_PERMITTED', at: clock.now() },
  })
})

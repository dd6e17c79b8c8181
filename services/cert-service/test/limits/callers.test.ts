import { generateKeyPairSync } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Callers } from '@gatehouse/issuance'
import type { IssuanceRequest } from '@gatehouse/issuance/request'
import { hasCode } from '@gatehouse/net'
import { parseName } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t from 'tap'
import { openStore } from '../../../../packages/cert-store/src/open.ts'
import { until } from '../../../../packages/cert-store/test/helpers/engines.ts'
import {
  newAudit,
  newCertificate,
  testStore,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { AppDeps } from '../../src/app.ts'
import { startAcme, WAIT } from '../helpers/acme.ts'
import { createIdp, DAY, KEY, NOW, type Running, reload, settle, start } from '../helpers/app.ts'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'nearly `limits.perName.certificates`')

const LIMITED = { authorization: 'APIKey a-key-limited-to-names' }
const OTHER = { authorization: 'APIKey another-key-with-names' }
const auth = {
  psk: {
    keys: [
      { name: 'operator', key: KEY },
      { name: 'limited', key: 'a-key-limited-to-names', domains: ['*.a.test'] },
      { name: 'other', key: 'another-key-with-names', domains: ['*.a.test'] },
    ],
  },
}

const post = ({ call }: Running, domain: string, more: object = {}, headers: object = LIMITED) =>
  call('POST', '/api/certificate', { domain, ...more }, headers)
const get = ({ call }: Running, domain: string, headers: object = LIMITED) =>
  call('GET', `/api/certificate/${domain}`, undefined, headers)
const log = { warn() {} }
const newCsr = () =>
  makeCsr({ pair: generateKeyPairSync('ec', { namedCurve: 'P-256' }), names: ['x.a.test'] })

t.test(
  'beyond the limit of a name, no other certificate is issued, and none makes room',
  async (t) => {
    const running = await start(t, { auth, limits: { perName: { certificates: 3 } } })
    const { call } = running
    const csr = newCsr()
    const first = await post(running, 'x.a.test', { csr })
    t.equal((await post(running, 'x.a.test')).status, 200)
    t.equal((await post(running, 'x.a.test', { names: ['y.a.test'] })).status, 200)
    const refused = await post(running, 'x.a.test', { csr: newCsr() })
    t.match(refused, {
      status: 429,
      headers: { 'retry-after': '86400' },
      body: {
        code: 'CERT_CALLER_LIMITED',
        limit: 'perName.certificates',
        detail:
          '3 certificates are in use whose first name is x.a.test; an operator can raise `limits.perName.certificates`',
      },
    })
    t.equal(
      (await post(running, 'x.a.test', { names: ['z.a.test'] })).status,
      429,
      'nor a key of ours',
    )
    t.match((await post(running, 'x.a.test')).body, { cached: true }, 'those held are answered')
    const { serialNumber } = first.body
    t.match((await post(running, 'x.a.test', { csr })).body, { cached: true, serialNumber })
    t.equal((await post(running, 'y.a.test')).status, 200, 'other names are free')

    const warned = () =>
      running.logged.filter((line) => line.includes('nearly `limits.perName.certificates`'))
    t.equal(warned().length, 1, 'the log warns once an hour')
    t.match(warned()[0], '"domain":"x.a.test","count":3,"limit":3')
    await call('DELETE', '/api/certificate/x.a.test')
    t.equal(
      (await post(running, 'x.a.test', { csr: newCsr() })).status,
      200,
      'what is deleted makes room',
    )
  },
)

t.test('the names of a caller are limited, also after a restart', async (t) => {
  const limits = { perCaller: { names: 4 } }
  const first = await start(t, { auth, limits })
  t.equal((await post(first, 'a.a.test', { names: ['b.a.test', 'c.a.test'] })).status, 200)
  const refused = await post(first, 'd.a.test', { names: ['e.a.test'] })
  t.match(refused, {
    status: 429,
    headers: { 'retry-after': /^\d+$/ },
    body: {
      code: 'CERT_CALLER_LIMITED',
      limit: 'perCaller.names',
      detail: '3 of 4 names are in use, and this takes 2',
    },
  })
  t.equal((await post(first, 'd.a.test', { names: ['e.a.test'] }, OTHER)).status, 200)
  await first.close()

  const second = await start(t, { auth, limits }, { folder: first.folder })
  t.equal((await post(second, 'd.a.test', { names: ['e.a.test'] })).status, 200, 'held by another')
  t.equal((await post(second, 'f.a.test')).status, 200)
  t.equal((await post(second, 'g.a.test')).status, 429)
  const together = await Promise.all(
    Array.from({ length: 6 }, (_, n) => post(second, `n${n}.a.test`, {}, OTHER)),
  )
  t.ok(together.filter(({ status }) => status === 200).length === 2, 'at the same time as well')
  for (let n = 0; n < 6; n += 1)
    await post(second, `o${n}.a.test`, {}, { authorization: `APIKey ${KEY}` })
  t.equal((await get(second, 'o5.a.test')).status, 200, 'operators have no limit')
})

t.test('an order that a restart interrupts still counts for its caller', async (t) => {
  const slow = new Set<() => void>()
  const createSolver: AppDeps['createSolver'] = ({ type }) => ({
    type,
    present: ({ identifier: { value } }) =>
      value === 'x.a.test' ? new Promise((done) => slow.add(done)) : Promise.resolve(),
    cleanUp: async () => {},
  })
  const config = { auth, limits: { perCaller: { names: 1 } } }
  const folder = testFolder(t)
  const { ca, clock, running: first } = await startAcme(t, {}, { folder, config, createSolver })
  const answer = post(first, 'x.a.test')
  await settle(() => slow.size === 1)
  await clock.advance(WAIT)
  t.equal((await answer).status, 202)
  t.equal((await post(first, 'y.a.test')).status, 429, 'before the restart')
  await first.close()

  const { running } = await startAcme(t, {}, { folder, config, createSolver, ca, clock })
  running.service.start()
  await settle(() => slow.size === 2)
  t.equal((await post(running, 'y.a.test')).status, 429, 'while it goes on')
  t.equal((await post(running, 'z.a.test', {}, OTHER)).status, 200)
  for (const done of slow) done()
  await settle(() => running.service.issuance.flights.size === 0)
  t.match((await post(running, 'x.a.test')).body, { cached: true })
  t.match(await running.service.store.countNames('psk:limited', NOW), { count: 1 })
  t.equal((await post(running, 'y.a.test')).status, 429, 'once it is there')
})

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

t.test('the rate of new certificates is limited', async (t) => {
  const limits = { perCaller: { issuancesPerMinute: 2, burst: 3 } }
  const running = await start(t, { auth, limits })
  const { clock } = running
  const statuses = async (count: number, prefix: string, headers: object = LIMITED) => {
    const all: number[] = []
    for (let n = 0; n < count; n += 1)
      all.push((await post(running, `${prefix}${n}.a.test`, {}, headers)).status)
    return all
  }
  await clock.advance(30 * DAY)
  t.strictSame(await statuses(4, 'a'), [200, 200, 200, 429])
  t.match(await post(running, 'b.a.test'), {
    headers: { 'retry-after': '30' },
    body: { limit: 'perCaller.issuancesPerMinute' },
  })
  t.strictSame(await statuses(3, 'a'), [200, 200, 200], 'those held cost nothing')
  t.strictSame(await statuses(1, 'other', OTHER), [200], 'another caller')
  const operator = { authorization: `APIKey ${KEY}` }
  t.strictSame(await statuses(9, 'ops', operator), Array(9).fill(200), 'an operator')
  await clock.advance(30_000)
  t.strictSame(await statuses(2, 'c'), [200, 429], 'one comes back in half a minute')
  await clock.advance(-20 * DAY)
  t.strictSame(await statuses(1, 'd'), [429], 'a clock set back: empty at worst')
  await clock.advance(90_000)
  t.strictSame(await statuses(4, 'e'), [200, 200, 200, 429], 'and full after its time')
})

t.test('a restart does not reset the rate', async (t) => {
  const limits = { perCaller: { issuancesPerMinute: 1, burst: 1 } }
  const first = await start(t, { auth, limits })
  t.equal((await post(first, 'a.a.test')).status, 200)
  t.equal((await post(first, 'b.a.test')).status, 429)
  await first.close()
  const second = await start(t, { auth, limits }, { folder: first.folder, clock: first.clock })
  t.equal((await post(second, 'b.a.test')).status, 429)
  await second.clock.advance(60_000)
  t.equal((await post(second, 'b.a.test')).status, 200)
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

t.test('operators have limits of their own', async (t) => {
  const running = await start(t, { limits: { perOperator: { names: 2 } } })
  const operator = { authorization: `APIKey ${KEY}` }
  t.equal((await post(running, 'a.test', {}, operator)).status, 200)
  t.equal((await post(running, 'b.test', {}, operator)).status, 200)
  t.match(await post(running, 'c.test', {}, operator), {
    status: 429,
    body: { limit: 'perOperator.names' },
  })
})

t.test('CSRs sent at the same time are admitted like CSRs sent one by one', async (t) => {
  const running = await start(t, { auth, limits: { perName: { certificates: 2 } } })
  let answered = 0
  const posts = Array.from({ length: 6 }, async () => {
    const answer = await post(running, 'x.a.test', { csr: newCsr() })
    answered += 1
    return answer
  })
  // Those who see that others are too many count again a moment later.
  await until(async () => {
    await running.clock.advance(50)
    return answered === posts.length
  })
  const answers = await Promise.all(posts)
  t.strictSame(answers.map(({ status }) => status).sort(), [200, 200, 429, 429, 429, 429])
  t.equal((await running.service.store.findByDomain('x.a.test')).length, 2)
})

t.test(
  'who waited for the work of a caller that is refused is served by its own right',
  async (t) => {
    const { openStore, gate } = gatedLeases()
    const limits = { perCaller: { names: 1 } }
    const running = await start(t, { auth, limits }, { openStore })
    const { store, issuance } = running.service
    t.equal((await post(running, 'a.a.test')).status, 200)

    const open = gate()
    const first = post(running, 'x.a.test')
    await settle(() => issuance.flights.size === 1)
    const joined = [post(running, 'x.a.test', {}, OTHER), post(running, 'x.a.test', {}, OTHER)]
    const again = post(running, 'x.a.test')
    await settle()
    t.equal(issuance.flights.size, 1)
    open()
    t.match(await first, { status: 429, body: { limit: 'perCaller.names' } })
    const served = await Promise.all(joined)
    t.strictSame(
      served.map(({ status }) => status),
      [200, 200],
    )
    t.equal(served[0]?.body.serialNumber, served[1]?.body.serialNumber)
    t.equal((await again).status, 200, 'also the refused one, of what is there now')
    t.match(await store.countNames('psk:limited', NOW), { count: 1 })
    t.match(
      await store.countNames('psk:other', NOW),
      { count: 1 },
      'it counts for who was admitted',
    )
    const issued = (await store.listAudit({ limit: 100 })).filter(
      ({ action }) => action === 'issue',
    )
    t.match(issued, [
      { actor: 'psk:other', names: ['x.a.test'] },
      { actor: 'psk:limited', names: ['a.a.test'] },
    ])

    const close = gate()
    const theirs = post(running, 'y.a.test', {}, OTHER)
    await settle(() => issuance.flights.size === 1)
    const mine = post(running, 'y.a.test')
    await settle()
    close()
    for (const answer of [theirs, mine])
      t.match(await answer, { status: 429, body: { limit: 'perCaller.names' } }, 'each by its own')
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

t.test(
  'property: whatever the clock does, nobody has more than the burst at once, nor waits longer than its time',
  async (t) => {
    const { store } = await testStore(t)
    const step = fc.integer({ min: -600_000, max: 600_000 })
    let callers = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
        let now = NOW
        const limits = {
          perName: { certificates: 8 },
          perCaller: { names: 100, issuancesPerMinute: 6, burst: 4 },
        }
        const gate = new Callers(limits, {
          store,
          log,
          clock: { ...systemClock, now: () => now },
        })
        const actor = `psk:${callers++}`
        const request = { names: [parseName('a.test')] } as unknown as IssuanceRequest
        const admit = async () => {
          try {
            await gate.admit(request, { actor }, false)
            return true
          } catch (error) {
            if (hasCode(error, 'CERT_CALLER_LIMITED')) return false
            throw error
          }
        }
        for (const step of steps) {
          now += step
          let admitted = 0
          while (await admit()) admitted += 1
          if (admitted > limits.perCaller.burst) return false
          now += 40_000
          if (!(await admit())) return false
        }
        return true
      }),
      { numRuns: 200 },
    )
  },
)

t.test('the names of a caller are counted only near the limit', async (t) => {
  const { store } = await testStore(t)
  const counts = t.capture(store, 'countNames', store.countNames)
  let counted = 0
  const assertCounts = (expected: number, why = `${expected} times`) => {
    counted += counts().length
    t.equal(counted, expected, why)
  }
  let now = NOW
  let asked = 0
  const limits = {
    perName: { certificates: 8 },
    perCaller: { names: 100, issuancesPerMinute: 1_000, burst: 1_000 },
  }
  const gate = new Callers(limits, { store, log, clock: { ...systemClock, now: () => now } })
  const issue = async (lifetime: number) => {
    const name = `n${asked++}.test`
    const request = { names: [parseName(name)], csr: null } as unknown as IssuanceRequest
    const certificate = newCertificate({ names: [name], notAfter: now + lifetime })
    const { requestKey } = certificate
    const work = { requestKey, domain: name, names: 1, askedBy: 'psk:a' }
    const lease = (await store.takeLease(work))!
    try {
      await gate.admit(request, { actor: 'psk:a' }, false)
      await store.addCertificate({ ...certificate, askedBy: 'psk:a' }, newAudit(), { lease })
    } finally {
      await store.releaseLease(lease)
    }
  }
  for (let n = 0; n < 100; n += 1) await issue(n < 50 ? DAY : 7 * DAY)
  assertCounts(1)
  await t.rejects(issue(DAY), {
    code: 'CERT_CALLER_LIMITED',
    message: '100 of 100 names are in use, and this takes 1',
  })
  assertCounts(2)
  now += 2 * DAY
  for (let n = 0; n < 50; n += 1) await issue(DAY)
  assertCounts(3, 'and again once some have ended')

  now += 2 * DAY
  await issue(DAY)
  assertCounts(4)
  await issue(DAY)
  assertCounts(4)
  now -= 2 * DAY
  await t.rejects(issue(DAY), { code: 'CERT_CALLER_LIMITED' }, 'a clock set back')
})

t.test('a request that is refused as too many are under way takes no names', async (t) => {
  expectWarnings(t, 'CERT_BUSY')
  const running = await start(t, { auth, limits: { perCaller: { names: 1 } } })
  const flights = running.service.issuance.flights as Map<string, object>
  for (let n = 0; n < 10_000; n += 1) flights.set(`other ${n}`, {})
  t.match(await post(running, 'x.a.test'), { status: 503, body: { code: 'CERT_BUSY' } })
  flights.clear()
  t.match(await post(running, 'x.a.test'), { status: 200 })
})

/** A store that gives leases only while its gate is open. */
function gatedLeases() {
  let opened: Promise<void> | undefined
  const open: AppDeps['openStore'] = async (options) => {
    const store = await openStore(options)
    return {
      ...store,
      async takeLease(work) {
        await opened
        return store.takeLease(work)
      },
    }
  }
  return {
    openStore: open,
    /** Closes the gate. Gives what opens it. */
    gate() {
      const { promise, resolve } = Promise.withResolvers<void>()
      opened = promise
      return resolve
    },
  }
}

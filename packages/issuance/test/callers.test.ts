import { generateKeyPairSync } from 'node:crypto'
import { hasCode } from '@gatehouse/net'
import { parseName } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t from 'tap'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { until } from '../../cert-store/test/helpers/engines.ts'
import { newAudit, newCertificate, testStore } from '../../cert-store/test/helpers/store.ts'
import { Callers } from '../src/admission.ts'
import type { IssuanceRequest } from '../src/request.ts'
import { openAcmeStage, WAIT } from './helpers/acme.ts'
import { makeCsr } from './helpers/csr.ts'
import { DAY, NOW, obtain, openStage, type StageOptions } from './helpers/stage.ts'
import { settle } from './leap-clock.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'nearly `limits.perName.certificates`')

const LIMITED = { actor: { actor: 'psk:limited' } }
const OTHER = { actor: { actor: 'psk:other' } }

const log = { warn() {} }
const newCsr = () =>
  makeCsr({ pair: generateKeyPairSync('ec', { namedCurve: 'P-256' }), names: ['x.a.test'] })

t.test(
  'beyond the limit of a name, no other certificate is issued, and none makes room',
  async (t) => {
    const stage = await openStage(t, { limits: { perName: { certificates: 3 } } })
    const csr = newCsr()
    const first = await obtain(stage, { domain: 'x.a.test', csr }, LIMITED)
    t.ok((await obtain(stage, { domain: 'x.a.test' }, LIMITED)).certificate)
    t.ok((await obtain(stage, { domain: 'x.a.test', names: ['y.a.test'] }, LIMITED)).certificate)
    const refused = await obtain(stage, { domain: 'x.a.test', csr: newCsr() }, LIMITED)
    t.match(refused, {
      retryAfter: 86_400,
      code: 'CERT_CALLER_LIMITED',
      limit: 'perName.certificates',
      detail:
        '3 certificates are in use whose first name is x.a.test; an operator can raise `limits.perName.certificates`',
    })
    t.equal(
      (await obtain(stage, { domain: 'x.a.test', names: ['z.a.test'] }, LIMITED)).code,
      'CERT_CALLER_LIMITED',
      'nor a key of ours',
    )
    t.match(
      await obtain(stage, { domain: 'x.a.test' }, LIMITED),
      { cached: true },
      'those held are answered',
    )
    const { serialNumber } = first
    t.match(await obtain(stage, { domain: 'x.a.test', csr }, LIMITED), {
      cached: true,
      serialNumber,
    })
    t.ok((await obtain(stage, { domain: 'y.a.test' }, LIMITED)).certificate, 'other names are free')

    const warned = () =>
      stage.logged.filter((line) => line.includes('nearly `limits.perName.certificates`'))
    t.equal(warned().length, 1, 'the log warns once an hour')
    t.match(warned()[0], '"domain":"x.a.test","count":3,"limit":3')
  },
)

t.test('the names of a caller are limited, also after a restart', async (t) => {
  const limits = { perCaller: { names: 4 } }
  const first = await openStage(t, { limits })
  t.ok(
    (await obtain(first, { domain: 'a.a.test', names: ['b.a.test', 'c.a.test'] }, LIMITED))
      .certificate,
  )
  const refused = await obtain(first, { domain: 'd.a.test', names: ['e.a.test'] }, LIMITED)
  t.match(refused, {
    retryAfter: Number,
    code: 'CERT_CALLER_LIMITED',
    limit: 'perCaller.names',
    detail: '3 of 4 names are in use, and this takes 2',
  })
  t.ok((await obtain(first, { domain: 'd.a.test', names: ['e.a.test'] }, OTHER)).certificate)
  await first.close()

  const second = await openStage(t, { limits, folder: first.folder })
  t.ok(
    (await obtain(second, { domain: 'd.a.test', names: ['e.a.test'] }, LIMITED)).certificate,
    'held by another',
  )
  t.ok((await obtain(second, { domain: 'f.a.test' }, LIMITED)).certificate)
  t.equal((await obtain(second, { domain: 'g.a.test' }, LIMITED)).code, 'CERT_CALLER_LIMITED')
  const together = await Promise.all(
    Array.from({ length: 6 }, (_, n) => obtain(second, { domain: `n${n}.a.test` }, OTHER)),
  )
  t.ok(together.filter(({ certificate }) => certificate).length === 2, 'at the same time as well')
  for (let n = 0; n < 6; n += 1)
    t.ok((await obtain(second, { domain: `o${n}.a.test` })).certificate, 'operators have no limit')
})

t.test('an order that a restart interrupts still counts for its caller', async (t) => {
  const slow = new Set<() => void>()
  const createSolver: StageOptions['createSolver'] = ({ type }) => ({
    type,
    present: ({ identifier: { value } }) =>
      value === 'x.a.test' ? new Promise((done) => slow.add(done)) : Promise.resolve(),
    cleanUp: async () => {},
  })
  const limits = { perCaller: { names: 1 } }
  const folder = testFolder(t)
  const { ca, clock, stage: first } = await openAcmeStage(t, {}, { folder, limits, createSolver })
  const answer = obtain(first, { domain: 'x.a.test' }, LIMITED)
  await settle(() => slow.size === 1)
  await clock.advance(WAIT)
  t.match(await answer, { order: { status: 'pending' } })
  t.equal(
    (await obtain(first, { domain: 'y.a.test' }, LIMITED)).code,
    'CERT_CALLER_LIMITED',
    'before the restart',
  )
  await first.close()

  const { stage } = await openAcmeStage(t, {}, { folder, limits, createSolver, acme: ca, clock })
  await stage.start()
  await settle(() => slow.size === 2)
  t.equal(
    (await obtain(stage, { domain: 'y.a.test' }, LIMITED)).code,
    'CERT_CALLER_LIMITED',
    'while it goes on',
  )
  t.ok((await obtain(stage, { domain: 'z.a.test' }, OTHER)).certificate)
  for (const done of slow) done()
  await settle(() => stage.issuance.flights.size === 0)
  t.match(await obtain(stage, { domain: 'x.a.test' }, LIMITED), { cached: true })
  t.match(await stage.store.countNames('psk:limited', NOW), { count: 1 })
  t.equal(
    (await obtain(stage, { domain: 'y.a.test' }, LIMITED)).code,
    'CERT_CALLER_LIMITED',
    'once it is there',
  )
})

t.test('the rate of new certificates is limited', async (t) => {
  const limits = { perCaller: { issuancesPerMinute: 2, burst: 3 } }
  const stage = await openStage(t, { limits })
  const { clock } = stage
  /** How many of so many requests are admitted. */
  const admitted = async (count: number, prefix: string, caller: object = LIMITED) => {
    let sum = 0
    for (let n = 0; n < count; n += 1) {
      const answer = await obtain(stage, { domain: `${prefix}${n}.a.test` }, caller)
      if (answer.certificate) sum += 1
    }
    return sum
  }
  await clock.advance(30 * DAY)
  t.equal(await admitted(4, 'a'), 3)
  t.match(await obtain(stage, { domain: 'b.a.test' }, LIMITED), {
    retryAfter: 30,
    limit: 'perCaller.issuancesPerMinute',
  })
  t.equal(await admitted(3, 'a'), 3, 'those held cost nothing')
  t.equal(await admitted(1, 'other', OTHER), 1, 'another caller')
  t.equal(await admitted(9, 'ops', {}), 9, 'an operator')
  await clock.advance(30_000)
  t.equal(await admitted(2, 'c'), 1, 'one comes back in half a minute')
  await clock.advance(-20 * DAY)
  t.equal(await admitted(1, 'd'), 0, 'a clock set back: empty at worst')
  await clock.advance(90_000)
  t.equal(await admitted(4, 'e'), 3, 'and full after its time')
})

t.test('a restart does not reset the rate', async (t) => {
  const limits = { perCaller: { issuancesPerMinute: 1, burst: 1 } }
  const first = await openStage(t, { limits })
  t.ok((await obtain(first, { domain: 'a.a.test' }, LIMITED)).certificate)
  t.equal((await obtain(first, { domain: 'b.a.test' }, LIMITED)).code, 'CERT_CALLER_LIMITED')
  await first.close()
  const second = await openStage(t, { limits, folder: first.folder, clock: first.clock })
  t.equal((await obtain(second, { domain: 'b.a.test' }, LIMITED)).code, 'CERT_CALLER_LIMITED')
  await second.clock.advance(60_000)
  t.ok((await obtain(second, { domain: 'b.a.test' }, LIMITED)).certificate)
})

t.test('operators have limits of their own', async (t) => {
  const stage = await openStage(t, { limits: { perOperator: { names: 2 } } })
  t.ok((await obtain(stage, { domain: 'a.test' })).certificate)
  t.ok((await obtain(stage, { domain: 'b.test' })).certificate)
  t.match(await obtain(stage, { domain: 'c.test' }), { limit: 'perOperator.names' })
})

t.test('CSRs sent at the same time are admitted like CSRs sent one by one', async (t) => {
  const stage = await openStage(t, { limits: { perName: { certificates: 2 } } })
  let answered = 0
  const posts = Array.from({ length: 6 }, async () => {
    const answer = await obtain(stage, { domain: 'x.a.test', csr: newCsr() }, LIMITED)
    answered += 1
    return answer
  })
  // Those who see that others are too many count again a moment later.
  await until(async () => {
    await stage.clock.advance(50)
    return answered === posts.length
  })
  const answers = await Promise.all(posts)
  t.equal(answers.filter(({ certificate }) => certificate).length, 2)
  t.equal(answers.filter(({ code }) => code === 'CERT_CALLER_LIMITED').length, 4)
  t.equal((await stage.store.findByDomain('x.a.test')).length, 2)
})

t.test(
  'who waited for the work of a caller that is refused is served by its own right',
  async (t) => {
    const { withStore, gate } = gatedLeases()
    const limits = { perCaller: { names: 1 } }
    const stage = await openStage(t, { limits, withStore })
    const { store, issuance } = stage
    t.ok((await obtain(stage, { domain: 'a.a.test' }, LIMITED)).certificate)

    const open = gate()
    const first = obtain(stage, { domain: 'x.a.test' }, LIMITED)
    await settle(() => issuance.flights.size === 1)
    const joined = [
      obtain(stage, { domain: 'x.a.test' }, OTHER),
      obtain(stage, { domain: 'x.a.test' }, OTHER),
    ]
    const again = obtain(stage, { domain: 'x.a.test' }, LIMITED)
    await settle()
    t.equal(issuance.flights.size, 1)
    open()
    t.match(await first, { limit: 'perCaller.names' })
    const served = await Promise.all(joined)
    t.ok(served[0].serialNumber)
    t.equal(served[0].serialNumber, served[1].serialNumber)
    t.ok((await again).certificate, 'also the refused one, of what is there now')
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
    const theirs = obtain(stage, { domain: 'y.a.test' }, OTHER)
    await settle(() => issuance.flights.size === 1)
    const mine = obtain(stage, { domain: 'y.a.test' }, LIMITED)
    await settle()
    close()
    for (const answer of [theirs, mine])
      t.match(await answer, { limit: 'perCaller.names' }, 'each by its own')
  },
)

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
      { numRuns: Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 400 },
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
  await t.rejects(issue(DAY), { message: /of 100 names are in use/ }, 'a clock set back')
})

t.test('a request that is refused as too many are under way takes no names', async (t) => {
  expectWarnings(t, 'CERT_BUSY')
  const stage = await openStage(t, { limits: { perCaller: { names: 1 } } })
  const flights = stage.issuance.flights as Map<string, object>
  for (let n = 0; n < 10_000; n += 1) flights.set(`other ${n}`, {})
  t.match(await obtain(stage, { domain: 'x.a.test' }, LIMITED), { code: 'CERT_BUSY' })
  flights.clear()
  t.ok((await obtain(stage, { domain: 'x.a.test' }, LIMITED)).certificate)
})

/** A store that gives leases only while its gate is open. */
function gatedLeases() {
  let opened: Promise<void> | undefined
  const withStore: StageOptions['withStore'] = (store) => ({
    ...store,
    async takeLease(work) {
      await opened
      return store.takeLease(work)
    },
  })
  return {
    withStore,
    /** Closes the gate. Gives what opens it. */
    gate() {
      const { promise, resolve } = Promise.withResolvers<void>()
      opened = promise
      return resolve
    },
  }
}

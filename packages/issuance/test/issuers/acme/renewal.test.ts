import { X509Certificate } from 'node:crypto'
import { renewalId } from '@gatehouse/acme'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import type { Exchange } from '../../../../acme/test/scripted-ca/index.ts'
import { openAcmeStage, problem } from '../../helpers/acme.ts'
import { currentOf, DAY, NOW, obtain, type Stage } from '../../helpers/stage.ts'
import { type LeapClock, rest, settle } from '../../leap-clock.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'ACME_')

const HOUR = DAY / 24

/** Lets time pass in steps, each of which finds what is due. */
async function pass({ issuance }: Stage, clock: LeapClock, ms: number, step = 6 * HOUR) {
  for (let at = 0; at < ms; at += step) {
    await clock.advance(step)
    await rest(clock, issuance)
  }
}

const current = async (stage: Stage) => (await currentOf(stage))!

const orders = ({ exchanges }: { exchanges: readonly Exchange[] }) =>
  exchanges.filter(({ kind }) => kind === 'newOrder').map(({ payload }) => payload)

const time = (at: number) => new Date(at).toISOString()

t.test('without ARI: by the share of the lifetime, with a new key', async (t) => {
  for (const [days, before, after] of [
    [90, 56, 61],
    [6, 2.5, 3.25],
  ] as const)
    await t.test(`${days} days`, async (t) => {
      const { ca, stage, clock } = await openAcmeStage(t, { lifetimeMs: days * DAY })
      await stage.start()
      const first = await obtain(stage)
      await pass(stage, clock, before * DAY)
      t.equal(ca.count('newOrder'), 1, 'not before')
      await pass(stage, clock, (after - before) * DAY)
      t.equal(ca.count('newOrder'), 2, 'and not much later')
      const second = await obtain(stage)
      t.match(second, { cached: true })
      t.not(second.privateKey, first.privateKey)
      t.match(orders(ca)[1], { replaces: undefined })
    })
})

t.test('with ARI: at one moment in the window of the CA, telling what is replaced', async (t) => {
  const asked: string[] = []
  const window = { start: NOW + 10 * DAY, end: NOW + 12 * DAY }
  const { ca, stage, clock } = await openAcmeStage(
    t,
    {
      renewalWindow: (id) => {
        asked.push(id)
        return { start: time(window.start), end: time(window.end) }
      },
    },
    { random: () => 0.5 },
  )
  await stage.start()
  const { certificate } = await obtain(stage)
  const id = renewalId(new X509Certificate(certificate).raw)
  await pass(stage, clock, DAY)
  t.equal(asked[0], id)
  t.ok(asked.length >= 2, 'asked at least twice a day')
  t.ok(asked.length <= 5, 'and no more often than the CA wants')
  const { renewAt } = await current(stage)
  t.equal(renewAt, NOW + 11 * DAY)

  await pass(stage, clock, 9 * DAY)
  t.equal((await current(stage)).renewAt, renewAt, 'the moment was drawn once')
  t.equal(ca.count('newOrder'), 1)
  window.end += 40 * DAY
  await pass(stage, clock, DAY / 2)
  t.equal((await current(stage)).renewAt, NOW + 31 * DAY, 'a new window, a new moment')
  window.start = NOW - DAY
  window.end = NOW
  await pass(stage, clock, DAY / 2)
  t.match(orders(ca), [{}, { replaces: id }], 'a window in the past: at once')
  t.not((await obtain(stage)).certificate, certificate)
})

t.test('a window that outlasts the certificate is no advice', async (t) => {
  const { stage, clock } = await openAcmeStage(t, {
    lifetimeMs: 6 * DAY,
    renewalWindow: () => ({ start: time(NOW), end: time(NOW + 400 * DAY) }),
  })
  await stage.start()
  await obtain(stage)
  const planned = (await current(stage)).renewAt
  await pass(stage, clock, DAY)
  t.equal((await current(stage)).renewAt, planned)
})

t.test('where `replaces` is refused the order is placed without it', async (t) => {
  const renewalWindow = () => ({ start: time(NOW + DAY), end: time(NOW + 2 * DAY) })
  const { ca, stage, clock } = await openAcmeStage(t, { renewalWindow })
  await stage.start()
  await obtain(stage)
  ca.answer('newOrder', problem(409, 'alreadyReplaced', 'replaced'))
  await pass(stage, clock, 3 * DAY)
  t.match(
    orders(ca)
      .slice(1, 3)
      .map(({ replaces }) => typeof replaces),
    ['string', 'undefined'],
  )
  t.ok((await current(stage)).notBefore > NOW)
})

t.test(
  'a renewal that fails leaves the certificate in use to its end, and no longer',
  async (t) => {
    const { ca, stage, clock } = await openAcmeStage(t, { lifetimeMs: 6 * DAY })
    await stage.start()
    const { serialNumber } = await obtain(stage)
    const gone = problem(400, 'caa', 'no')
    ca.answer('newOrder', ...Array.from({ length: 50 }, () => gone))
    await pass(stage, clock, 5.75 * DAY)
    t.ok(ca.count('newOrder') > 2)
    t.match(await obtain(stage), { cached: true, serialNumber })
    await pass(stage, clock, DAY / 2)
    t.match(await obtain(stage), { code: 'ACME_CAA' })
  },
)

t.test('a clock that jumps makes a renewal late by one look, and none too many', async (t) => {
  const { ca, stage, clock } = await openAcmeStage(t)
  await stage.start()
  await obtain(stage)
  await clock.advance(80 * DAY)
  await settle(() => ca.count('newOrder') === 2)
  await settle(() => stage.issuance.flights.size === 0)
  await pass(stage, clock, 3 * DAY)
  t.equal(ca.count('newOrder'), 2)
})

t.test('the service ends at once, whatever is due and however long the CA takes', async (t) => {
  for (const kind of ['newOrder', 'renewalInfo'] as const)
    await t.test(kind, async (t) => {
      const renewalWindow = () => ({ start: time(NOW + 60 * DAY), end: time(NOW + 61 * DAY) })
      const { ca, stage, clock } = await openAcmeStage(t, { renewalWindow })
      await Promise.all(
        Array.from({ length: 40 }, (_, n) => obtain(stage, { domain: `n${n}.test` })),
      )
      ca.answer(kind, ...Array.from({ length: 40 }, () => 'hang' as const))
      if (kind === 'newOrder') await clock.advance(70 * DAY)
      const placed = ca.count('newOrder')
      await stage.start()
      await settle(() => ca.count(kind) >= (kind === 'newOrder' ? placed + 16 : 16))
      await stage.close()
      t.equal(ca.count(kind), kind === 'newOrder' ? placed + 16 : 16, 'and begins nothing')
    })
})

t.test('thousands of renewals are spread, though all were issued at once', async (t) => {
  let n = 0
  const { stage } = await openAcmeStage(t, {}, { random: () => (n++ % 10) / 10 })
  const bodies = await Promise.all(
    Array.from({ length: 10 }, async (_, i) => obtain(stage, { domain: `n${i}.test` })),
  )
  const moments = bodies.map(({ renewAt }) => Date.parse(renewAt))
  t.equal(new Set(moments).size, 10)
  t.ok(Math.max(...moments) - Math.min(...moments) > 3 * DAY)
})

t.test('a certificate follows its names to another issuer when it is renewed', async (t) => {
  const folder = testFolder(t)
  const { ca, stage, clock } = await openAcmeStage(t, {}, { folder, issuers: [] })
  t.match(await obtain(stage), { issuer: 'ca' })
  await stage.close()
  const again = await openAcmeStage(t, {}, { folder, acme: ca, clock })
  await again.stage.start()
  await pass(again.stage, clock, 4 * DAY)
  t.ok((await again.stage.store.findByDomain('a.test')).some(({ issuer }) => issuer === 'acme'))
  await pass(again.stage, clock, 20 * DAY)
  t.equal(ca.count('newOrder'), 1, 'and the old one is let go')
})

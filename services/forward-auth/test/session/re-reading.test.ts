import { setImmediate } from 'node:timers/promises'
import { ProviderError, type RedirectProvider } from '@gatehouse/identity-providers'
import { fromClaims, type Profile } from '@gatehouse/profile'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import type { Portal } from '../../src/portal/portals.ts'
import { mailOf, type Session } from '../../src/session/session.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { createFakeProvider } from '../fake-provider.ts'
import { SHAPES } from '../shapes.ts'
import { createVisitor } from '../visitor.ts'
import {
  ADA,
  breakStore,
  countCalls,
  HOST,
  hold,
  type Instance,
  portalNamed,
  startInstances,
} from './kit.ts'
import { createModel } from './model.ts'

type ReRead = Awaited<ReturnType<RedirectProvider['reRead']>>
type ProviderTokens = Parameters<RedirectProvider['reRead']>[0]

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const REFRESH = 10 * MINUTE
const SESSION = { lifetime: 12 * HOUR, refresh: REFRESH, grace: HOUR }
const PATIENCE = 3 * SECOND
const LEASE = 15 * SECOND

const OUTAGE = new ProviderError('FWA_PROVIDER_UNREACHABLE', 'the provider plays away')
const fault = (isUsed = false, tokens?: ProviderTokens): ReRead => ({
  ...{ kind: 'fault', error: OUTAGE, isUsed },
  ...(tokens && { tokens }),
})
const withGroups = (...groups: string[]) => fromClaims('corp', { ...ADA.claims, groups })
const read = (tokens: ProviderTokens, profile = withGroups('anew')): ReRead => ({
  ...{ kind: 'read', signedIn: { profile, tokens } },
})

/** A provider that is asked again, with what it was asked with. By default it rotates refresh tokens. */
function createProvider() {
  const { provider } = createFakeProvider()
  const asked: (string | undefined)[] = []
  const state = {
    reReads: true,
    answer: (tokens: ProviderTokens, _before: Profile): ReRead | Promise<ReRead> =>
      read({ ...tokens, refresh: `${tokens.refresh}+` }),
  }
  const reRead = async (tokens: ProviderTokens, before: Profile) => {
    asked.push(tokens.refresh ?? tokens.access)
    return state.answer(tokens, before)
  }
  const whole = Object.defineProperties(
    { ...provider, reRead },
    {
      reReads: { get: () => state.reReads },
    },
  )
  return { provider: whole, asked, state }
}

/** Instances, and somebody who has signed in at the first one. */
async function start(
  t: Test,
  { count = 1, tokens = { refresh: 'r' }, session = {} as Partial<Portal['session']> } = {},
) {
  const corp = createProvider()
  const portals = [portalNamed('main', [corp.provider], { ...SESSION, ...session })]
  const all = await startInstances(t, count, { portals })
  const [here, there] = all as [Instance, Instance]
  const ada = await here.begin({ tokens, sid: 'at the provider', issuedAt: 1_000 })
  const { cookie } = ada
  const groupsAt = async (instance: Instance) => (await instance.check(cookie))?.profile.groups
  for (const each of all) await groupsAt(each)
  return { ...corp, all, here, there, clock: here.clock, ada, cookie, groupsAt }
}

/** What is under way in memory has come to rest. */
const settle = () => setImmediate()

t.test('what the provider said is asked for again by its age', async (t) => {
  const rows: [what: string, age: number, isAsked: boolean, groups: string[]][] = [
    ['young', 0.8 * REFRESH - 1, false, ['admin', 'ops']],
    ['due: beside the check', REFRESH - 1, true, ['admin', 'ops']],
    ['overdue: before it', REFRESH, true, ['anew']],
    ['long overdue, past all grace', 5 * HOUR, true, ['anew']],
  ]
  for (const [what, age, isAsked, groups] of rows) {
    const { here, asked, groupsAt, clock } = await start(t)
    await clock.advance(age)
    t.strictSame(await groupsAt(here), groups, what)
    await until(() => asked.length === Number(isAsked))
    if (!isAsked) continue
    await until(async () => (await groupsAt(here))?.[0] === 'anew')
    t.strictSame(asked, ['r'], `${what}: once`)
    await clock.advance(REFRESH)
    t.strictSame(await groupsAt(here), ['anew'])
    t.strictSame(asked, ['r', 'r+'], 'the next time with the newest token')
  }
})

t.test('sessions that began together are not asked about together', async (t) => {
  const { here, asked, clock } = await start(t)
  const all = await Promise.all(
    Array.from({ length: 60 }, (_, i) => here.begin({ tokens: { refresh: `${i}` } })),
  )
  await clock.advance(0.9 * REFRESH)
  for (const { cookie } of all) t.ok(await here.check(cookie))
  await until(() => asked.length > 15)
  for (let turn = 0; turn < 50; turn++) await settle()
  t.ok(asked.length < 45, `${asked.length} of 60 in half of the time`)
})

t.test('nobody is asked who cannot or need not be', async (t) => {
  const rows: [what: string, options: Parameters<typeof start>[1], reReads: boolean][] = [
    ['switched off', { session: { refresh: undefined } }, true],
    ['no token', { tokens: {} as { refresh: string } }, true],
    ['the provider cannot', {}, false],
  ]
  for (const [what, options, reReads] of rows) {
    const { here, asked, state, groupsAt, clock } = await start(t, options)
    state.reReads = reReads
    await clock.advance(11 * HOUR)
    t.strictSame(await groupsAt(here), ['admin', 'ops'], what)
    t.strictSame(asked, [], what)
    const told =
      what === 'no token' ? [/^the provider returned no refresh token, .* offline_access$/] : []
    t.match(here.log, told, `${what}, once`)
    t.equal(here.log.length, told.length)
    const degraded = told.map(() => 'provider main/corp')
    t.strictSame(here.app.readiness().degraded ?? [], degraded)
    const anew = await here.begin({ tokens: { refresh: 'new' } })
    t.ok(await here.check(anew.cookie))
    t.strictSame(here.app.readiness().degraded ?? [], [], `${what}, until it gives one`)
  }
})

t.test('a request waits for the provider for three seconds, and then grace counts', async (t) => {
  const rows: [what: string, age: number, passes: boolean][] = [
    ['within grace', REFRESH + HOUR - PATIENCE - 1, true],
    ['after it', REFRESH + HOUR, false],
  ]
  for (const [what, age, passes] of rows) {
    const { here, state, groupsAt, clock, asked } = await start(t)
    const answer = Promise.withResolvers<ReRead>()
    state.answer = () => answer.promise
    await clock.advance(age)
    let isAnswered = false
    const waiting = groupsAt(here).then((groups) => {
      isAnswered = true
      return groups
    })
    await until(() => asked.length === 1)
    await clock.advance(PATIENCE - 1)
    t.notOk(isAnswered, what)
    await clock.advance(1)
    t.strictSame(await waiting, passes ? ['admin', 'ops'] : undefined, what)
    answer.resolve(read({}))
    await until(async () => (await groupsAt(here))?.[0] === 'anew')
    t.pass('and whoever comes when it has answered is in')
  }
})

t.test('a provider that is away: nobody is out before grace, nobody in after it', async (t) => {
  const grace = 10 * MINUTE
  const { here, asked, state, groupsAt, clock, ada } = await start(t, { session: { grace } })
  state.answer = () => fault()
  const { begun } = ada.session
  const last = begun + REFRESH + grace
  await clock.advance(REFRESH)
  for (; clock.now() < last; await clock.advance(MINUTE)) {
    const before = asked.length
    t.ok(await groupsAt(here))
    await until(() => asked.length > before)
    await until(async () => (await here.records.open(ada.sid))?.row.lease === 0)
  }
  for (let i = 0; i < 3; i++) {
    t.equal(await groupsAt(here), undefined)
    await clock.advance(MINUTE)
  }
  t.ok(await here.records.open(ada.sid), 'which is no end')
  t.strictSame(new Set(asked), new Set(['r']), 'with the token that may not have been used')
  state.answer = (tokens) => read(tokens)
  t.strictSame(await groupsAt(here), ['anew'], 'it is back')
})

t.test('after a fault a session is left alone for half a minute', async (t) => {
  const { here, asked, state, groupsAt, clock } = await start(t)
  state.answer = () => fault()
  await clock.advance(REFRESH)
  const leases = countCalls(here, 'leaseSession')
  for (let i = 0; i < 100; i++) t.ok(await groupsAt(here))
  t.match([asked.length, leases.count], [1, 1])
  await clock.advance(30 * SECOND)
  await groupsAt(here)
  await until(() => asked.length === 2)
  state.answer = (tokens) => read(tokens)
  await clock.advance(30 * SECOND)
  t.strictSame(await groupsAt(here), ['admin', 'ops'], 'nobody waits for a provider that is away')
  await until(async () => (await groupsAt(here))?.[0] === 'anew')
})

t.test('a person whom the provider does not know any more is out, everywhere', async (t) => {
  const { here, there, state, groupsAt, clock, ada, asked } = await start(t, { count: 2 })
  state.answer = () => ({ kind: 'ended', why: 'invalid_grant' })
  await clock.advance(REFRESH)
  t.equal(await groupsAt(here), undefined)
  await there.catchUp()
  t.equal(await groupsAt(there), undefined)
  t.equal(await here.arrive(ada.own), undefined)
  t.equal(await here.records.open(ada.sid), undefined)
  t.strictSame(asked, ['r'])
  t.match(here.audit, [{ event: 'session-ended', ender: { endedBy: 'provider', actor: 'corp' } }])
})

t.test('an end by the provider that the store does not take', async (t) => {
  const { here, state, groupsAt, clock, ada } = await start(t)
  state.answer = () => ({ kind: 'ended', why: 'invalid_grant' })
  const repair = breakStore(here, 'endSessions')
  await clock.advance(REFRESH)
  t.equal(await groupsAt(here), undefined)
  t.ok(here.records.isUnsaved(ada.sid))
  repair()
  await clock.advance(SECOND)
  await until(() => !here.records.isUnsaved(ada.sid))
  t.equal(await here.store.findSession(ada.sid), undefined)
})

t.test(
  'a client that the provider refuses keeps people in for grace, and is told once',
  async (t) => {
    const { here, state, groupsAt, clock, ada, asked } = await start(t)
    const bob = await here.begin({
      tokens: { refresh: 'b' },
      profile: fromClaims('corp', { sub: 'b' }),
    })
    const error = new ProviderError('FWA_CLIENT_REFUSED', 'invalid_client')
    state.answer = () => ({ kind: 'misconfigured', error })
    await clock.advance(REFRESH)
    for (let i = 0; i < 5; i++) {
      t.ok(await groupsAt(here))
      t.ok(await here.check(bob.cookie))
      await clock.advance(MINUTE)
    }
    t.equal(asked.length, 10)
    const told = () => here.log.filter((line) => line === 'the provider refuses our client').length
    t.equal(told(), 1)
    t.match(here.app.readiness(), { degraded: ['provider main/corp'] })

    state.answer = (tokens) => read(tokens)
    t.strictSame(await groupsAt(here), ['anew'], 'corrected')
    t.strictSame(here.app.readiness().degraded, [])
    state.answer = () => ({ kind: 'misconfigured', error })
    await clock.advance(REFRESH)
    t.ok(await groupsAt(here))
    t.equal(told(), 2)
    await clock.advance(HOUR)
    t.equal(await groupsAt(here), undefined, 'after grace')
    t.ok(await here.records.open(ada.sid))
  },
)

t.test('a session whose provider has no token for it is not asked about again', async (t) => {
  const { here, state, groupsAt, clock, asked, ada } = await start(t)
  state.answer = () => ({ kind: 'impossible' })
  for (let i = 0; i < 11; i++) {
    await clock.advance(HOUR)
    t.strictSame(await groupsAt(here), ['admin', 'ops'])
  }
  t.strictSame(asked, ['r'])
  t.match(here.log, [/^the provider returned no refresh token, .* offline_access$/], 'once')
  t.strictSame(here.app.readiness().degraded, ['provider main/corp'])

  const again = await here.begin({ before: ada.session, tokens: { refresh: 'new' } })
  state.answer = (tokens) => read(tokens)
  await clock.advance(REFRESH)
  t.ok(await here.check(again.cookie))
  t.strictSame(here.app.readiness().degraded, [], 'until it gives refresh tokens')
})

t.test('a token that is good once and may have been used is never sent again', async (t) => {
  const { here, there, state, groupsAt, clock, asked } = await start(t, { count: 2 })
  await clock.advance(REFRESH)
  t.strictSame(await groupsAt(here), ['anew'])
  const readAt = clock.now()
  state.answer = () => fault(true)
  await clock.advance(REFRESH)
  t.ok(await groupsAt(here))
  await there.catchUp()
  state.answer = (tokens) => read(tokens)
  for (; clock.now() < readAt + REFRESH + HOUR; await clock.advance(5 * MINUTE))
    for (const instance of [here, there]) t.ok(await groupsAt(instance), 'grace')
  for (const instance of [here, there]) t.equal(await groupsAt(instance), undefined)
  t.strictSame(asked, ['r', 'r+'])
})

t.test('a token of a provider that never gave another one is sent again', async (t) => {
  const { here, state, groupsAt, clock, asked } = await start(t)
  state.answer = () => fault(true)
  await clock.advance(REFRESH)
  t.ok(await groupsAt(here))
  state.answer = (tokens) => read(tokens)
  await clock.advance(MINUTE)
  await until(async () => (await groupsAt(here))?.[0] === 'anew')
  t.strictSame(asked, ['r', 'r'])
})

t.test('where a provider has no sessions, the token of the newest sign-in counts', async (t) => {
  const rows: [what: string, newest: ProviderTokens, asked: string[], passes: boolean][] = [
    ['another one', { access: 'new' }, ['old', 'new'], true],
    ['the same one', { access: 'old' }, ['old'], false],
    ['none', {}, ['old'], false],
    ['one that is refused, too', { access: 'void' }, ['old', 'void'], false],
  ]
  for (const [what, newest, expected, passes] of rows) {
    const tokens = { access: 'old' } as object as { refresh: string }
    const { here, provider, state, groupsAt, clock, asked } = await start(t, { tokens })
    Object.assign(provider, { relation: undefined })
    state.answer = ({ access }) =>
      access === 'new' ? read({ access }) : { kind: 'ended', why: 'its token is void' }
    await clock.advance(1)
    await here.begin({ tokens: newest })
    await clock.advance(REFRESH)
    await groupsAt(here)
    const groups = await groupsAt(here)
    t.strictSame(groups, passes ? ['anew'] : undefined, what)
    t.strictSame(asked, expected, what)
  }
})

t.test('tokens that came before a fault replace those of before', async (t) => {
  const { here, state, groupsAt, clock, asked } = await start(t)
  state.answer = () => fault(true, { refresh: 'r2' })
  await clock.advance(REFRESH)
  t.ok(await groupsAt(here))
  state.answer = (tokens) => read(tokens)
  await clock.advance(MINUTE)
  await until(async () => (await groupsAt(here))?.[0] === 'anew')
  t.strictSame(asked, ['r', 'r2'])
})

t.test('64 requests at each of three instances use one token once', async (t) => {
  for (const age of [REFRESH - 1, REFRESH, 5 * HOUR]) {
    const { all, state, groupsAt, clock, asked } = await start(t, {
      count: 3,
      session: { grace: 0 },
    })
    const used = new Set<string | undefined>()
    // As a provider does that takes the second use of a token for a theft.
    state.answer = async (tokens) => {
      if (used.has(tokens.refresh)) return { kind: 'ended', why: 'invalid_grant' }
      used.add(tokens.refresh)
      await settle()
      return read({ refresh: `${tokens.refresh}+` })
    }
    await clock.advance(age)
    let isOver = false
    const asking = all.flatMap((each) => Array.from({ length: 64 }, () => groupsAt(each)))
    const answers = Promise.all(asking).finally(() => {
      isOver = true
    })
    await until(async () => {
      for (const each of all) await each.catchUp()
      return isOver
    })
    t.equal((await answers).filter((groups) => groups === undefined).length, 0, `at ${age}`)
    await until(async () => {
      for (const each of all) await each.catchUp()
      const groups = await Promise.all(all.map(groupsAt))
      return groups.every((each) => each?.[0] === 'anew')
    })
    t.strictSame(asked, ['r'])
  }
})

/** Waits for those that are asked about beside a request. */
async function restOf({ records }: Instance, sid: string) {
  for (let turn = 0; turn < 20; turn++) await settle()
  return records.open(sid)
}

t.test('an instance that is gone while it asked keeps nobody from asking', async (t) => {
  for (const rotates of [false, true]) {
    const { here, there, groupsAt, clock, asked, ada, state } = await start(t, { count: 2 })
    if (!rotates) state.answer = (tokens) => read(tokens)
    await clock.advance(REFRESH)
    t.strictSame(await groupsAt(here), ['anew'])
    state.answer = (tokens) => read(tokens, withGroups('later'))
    await clock.advance(REFRESH)
    t.ok(await there.store.leaseSession(ada.sid, 2, 0, clock.now() + LEASE))
    await there.close()
    const begun = clock.now()
    await clock.advance(SECOND)
    for (; clock.now() <= begun + LEASE; await clock.advance(SECOND)) {
      t.strictSame(await groupsAt(here), ['anew'], 'nobody waits, and nobody asks')
      t.match(await restOf(here, ada.sid), { row: { rev: 2 } })
    }
    t.strictSame(await groupsAt(here), ['anew'])
    await until(async () => (await here.records.open(ada.sid))?.row.lease === 0)
    t.strictSame(await groupsAt(here), [rotates ? 'anew' : 'later'])
    const { row, contents } = (await here.records.open(ada.sid))!
    t.equal(row.rev, 3)
    if (!rotates) {
      t.strictSame(asked, ['r', 'r'], 'a token that is good more than once is sent again')
      continue
    }
    t.strictSame([contents.tokens, asked], [undefined, ['r']], 'one that is good once is not')
    await clock.advance(HOUR)
    t.equal(await groupsAt(here), undefined, 'until the end of grace')
    const again = await here.begin({ before: ada.session, tokens: { refresh: 'new' } })
    t.ok(await here.check(again.cookie), 'a sign-in brings a new one')
  }
})

t.test('a lease lasts for as long as its question is out', async (t) => {
  const { here, there, groupsAt, clock, asked, ada, state } = await start(t, { count: 2 })
  const answer = Promise.withResolvers<ReRead>()
  state.answer = () => answer.promise
  await clock.advance(REFRESH)
  const waiting = groupsAt(here)
  await until(() => asked.length === 1)
  for (let i = 0; i < 10; i++) {
    await clock.advance(LEASE / 3)
    await here.written()
    // Who comes just after a prolongation waits for a second.
    const found = groupsAt(there)
    let isFound = false
    found.then(() => (isFound = true)).catch(() => {})
    await until(async () => {
      await clock.advance(SECOND / 10)
      return isFound
    })
    t.ok(await found)
    const { lease = 0 } = (await restOf(there, ada.sid))?.row ?? {}
    t.ok(lease > clock.now(), 'it is held')
  }
  t.strictSame(await waiting, ['admin', 'ops'], 'though nobody waits any more')
  answer.resolve(read({ refresh: 'r+' }))
  await until(async () => (await groupsAt(here))?.[0] === 'anew')
  await there.catchUp()
  t.strictSame(await groupsAt(there), ['anew'], 'and what came late counts')
  t.strictSame(asked, ['r'])
  const leases = countCalls(here, 'leaseSession')
  await clock.advance(MINUTE)
  t.equal(leases.count, 0, 'it is given back')
})

t.test('whoever waits for another instance does so whatever else is read again', async (t) => {
  const { all, here, there, state, groupsAt, clock, ada } = await start(t, {
    count: 2,
    session: { grace: 0 },
  })
  const answer = Promise.withResolvers<void>()
  state.answer = async (tokens) => {
    await answer.promise
    return read(tokens)
  }
  await clock.advance(5 * HOUR)
  const asking = [groupsAt(there)]
  await until(async () => (await here.records.open(ada.sid))?.row.lease !== 0)
  const reads = countCalls(here, 'findSession')
  asking.push(groupsAt(here))
  // Of the session, and of its lease.
  await until(() => reads.done >= 2)
  await settle()
  here.records.learn([], true)
  here.records.forget(ada.sid)
  await settle()
  answer.resolve()
  await until(async () => (await there.records.open(ada.sid))?.row.lease === 0)
  for (const each of all) await each.catchUp()
  t.strictSame(await Promise.all(asking), [['anew'], ['anew']])
})

t.test('an instance that stood still: what another one did meanwhile counts', async (t) => {
  const { here, there, groupsAt, clock, asked, ada } = await start(t, { count: 2 })
  await clock.advance(REFRESH)
  const leasing = hold(here, 'leaseSession', 'before')
  const waiting = groupsAt(here)
  await leasing.entered
  t.ok(await there.store.leaseSession(ada.sid, 1, 0, clock.now() + LEASE))
  await there.close()
  await clock.advance(LEASE + SECOND)
  leasing.release()
  t.strictSame(await waiting, ['admin', 'ops'])
  await restOf(here, ada.sid)
  t.strictSame(asked, [], 'it has no lease')
})

t.test('an end that meets a re-reading', async (t) => {
  const answers: [what: string, answer: ReRead][] = [
    ['read', read({ refresh: 'r+' })],
    ['a fault', fault()],
    ['a used token', fault(true)],
    ['impossible', { kind: 'impossible' }],
    ['ended', { kind: 'ended', why: 'invalid_grant' }],
  ]
  for (const [what, given] of answers)
    for (const where of ['here', 'there'] as const) {
      const started = await start(t, { count: 2 })
      const { here, there, state, groupsAt, clock, ada, asked } = started
      const answer = Promise.withResolvers<ReRead>()
      state.answer = () => answer.promise
      await clock.advance(REFRESH)
      const waiting = groupsAt(here)
      await until(() => asked.length === 1)
      await started[where].records.endOne(ada.session)
      answer.resolve(given)
      await here.catchUp()
      t.equal(await waiting, undefined, `${what}, ended ${where}`)
      await there.catchUp()
      for (const instance of [here, there]) {
        instance.records.forget(ada.sid)
        t.equal(await groupsAt(instance), undefined, what)
      }
      t.equal(await here.store.findSession(ada.sid), undefined, what)
      t.strictSame(here.audit, [], 'it has not ended twice')
    }
})

t.test('a sign-in that meets a re-reading wins', async (t) => {
  const answers: [what: string, answer: ReRead][] = [
    ['read', read({ refresh: 'r+' }, withGroups('old'))],
    ['ended', { kind: 'ended', why: 'its old token is void' }],
    ['a used token', fault(true)],
  ]
  for (const [what, given] of answers) {
    const { here, there, state, groupsAt, clock, ada, asked } = await start(t, { count: 2 })
    const answer = Promise.withResolvers<ReRead>()
    state.answer = () => answer.promise
    await clock.advance(REFRESH)
    const waiting = groupsAt(here)
    await until(() => asked.length === 1)
    const tokens = { refresh: 'n' }
    const next = await there.begin({ before: ada.session, profile: withGroups('new'), tokens })
    t.equal(next.sid, ada.sid)
    await here.catchUp()
    answer.resolve(given)
    t.strictSame(await waiting, ['new'], what)
    t.match(await here.records.open(ada.sid), { row: { rev: 2 }, contents: { tokens } })
    for (const instance of [here, there]) t.strictSame(await groupsAt(instance), ['new'], what)
  }
})

t.test('a re-reading elsewhere that meets one here', async (t) => {
  const rows: [what: string, grace: number, seen: string[]][] = [
    ['is waited for', 0, ['anew']],
    ['is waited for at most a second within grace', HOUR, ['admin', 'ops']],
  ]
  for (const [what, grace, seen] of rows) {
    const { here, there, state, groupsAt, clock, asked } = await start(t, {
      count: 2,
      session: { grace },
    })
    const answer = Promise.withResolvers<ReRead>()
    state.answer = () => answer.promise
    await clock.advance(REFRESH)
    const leasing = hold(here, 'leaseSession', 'before')
    const second = groupsAt(here)
    await leasing.entered
    const first = groupsAt(there)
    await until(() => asked.length === 1)
    leasing.release()
    if (grace > 0) {
      await clock.advance(SECOND)
      t.strictSame(await second, seen, what)
    }
    answer.resolve(read({ refresh: 'r+' }))
    t.strictSame(await first, ['anew'])
    await settle()
    await here.catchUp()
    t.strictSame(await second, seen, what)
    t.strictSame(asked, ['r'])
  }
})

t.test('a store that is away while the provider is to be asked', async (t) => {
  const { here, groupsAt, clock, asked } = await start(t)
  await clock.advance(REFRESH)
  const repair = breakStore(here, 'leaseSession')
  for (let i = 0; i < 20; i++) t.ok(await groupsAt(here), 'grace')
  t.strictSame(asked, [], 'nobody uses a token without the lease')
  t.strictSame(here.log, ['a session could not be refreshed'], 'and it is told once')
  await clock.advance(HOUR)
  t.equal(await groupsAt(here), undefined)
  repair()
  await clock.advance(MINUTE)
  t.ok(await groupsAt(here))
})

t.test('what was read cannot be stored: the token is not used again', async (t) => {
  const { here, groupsAt, clock, asked, ada } = await start(t)
  await clock.advance(REFRESH)
  const repair = breakStore(here, 'updateSession')
  t.strictSame(await groupsAt(here), ['admin', 'ops'])
  repair()
  await clock.advance(MINUTE)
  t.ok(await groupsAt(here))
  await until(async () => (await here.records.open(ada.sid))?.row.lease === 0)
  t.match(await here.records.open(ada.sid), { contents: { tokens: undefined } })
  t.strictSame(asked, ['r'])
})

t.test('a session keeps the names by which it is found, and follows them', async (t) => {
  const { here, state, groupsAt, clock, ada } = await start(t)
  const before = (await here.store.findSession(ada.sid))!
  state.answer = (tokens) =>
    read(tokens, fromClaims('corp', { sub: 'ada', email: 'countess@example.com' }))
  await clock.advance(REFRESH)
  await groupsAt(here)
  const after = (await here.store.findSession(ada.sid))!
  const { person, subject, providerSid, issuedAt, begun, ends } = before
  t.match(after, { person, subject, providerSid, issuedAt, begun, ends, rev: 2, lease: 0 })
  t.equal(after.mail, mailOf('main', 'countess@example.com'))
  t.equal(after.reRead, clock.now())
  const ended = await here.records.end({ providerSid: providerSid!, issuedUntil: 1_000 })
  t.equal(ended.length, 1, 'the provider still ends it')
})

t.test('somebody who works is asked about before the provider takes them for idle', async (t) => {
  const idle = 40 * SECOND
  const { here, state, clock, asked } = await start(t, {
    session: { refresh: MINUTE, grace: MINUTE },
  })
  // A disk would not know of a clock that stands still.
  const { sessions } = createModel()
  Object.assign(here.store, sessions)
  t.teardown(() => {
    for (const name of Object.keys(sessions)) Reflect.deleteProperty(here.store, name)
  })
  let liveUntil = clock.now() + idle
  const tokens = () => ({ refresh: 'r', refreshUntil: liveUntil })
  state.answer = () => {
    if (clock.now() >= liveUntil) return { kind: 'ended', why: 'idle' }
    liveUntil = clock.now() + idle
    return read(tokens())
  }
  const ada = await here.begin({ tokens: tokens() })
  for (let second = 0; second < 300; second += 5) {
    t.ok(await here.check(ada.cookie), `after ${second} s`)
    for (let turn = 0; turn < 20; turn++) await settle()
    await clock.advance(5 * SECOND)
  }
  t.ok(asked.length >= 8 && asked.length <= 14, `${asked.length} questions`)
  const message = 'the provider ends sessions that are idle for less than `refresh`'
  t.strictSame(here.log, [`${message}: people sign in again after a pause`], 'which is told once')
  await here.begin({ tokens: tokens() })
  t.equal(here.log.length, 1)
  await clock.advance(idle + MINUTE)
  t.equal(await here.check(ada.cookie), undefined, 'whoever pauses is out')
})

t.test('a clock that was set back asks nobody', async (t) => {
  const { here, asked, ada, clock } = await start(t)
  const { reRead } = ada.session
  const later = { ...ada.session, reRead: reRead + 20 * SECOND } satisfies Session
  t.equal(clock.now() < later.reRead, true)
  t.ok(await here.check(ada.cookie))
  t.strictSame(asked, [])
})

const RULES = `allow: { groups: [staff, admin] }, policies: { admin: 'Group("admin")' },
  headers: [remote-*], assertion: { hosts: ["*.example.com"] }, session: { refresh: 10m }`
const claimsOf = (token: unknown) =>
  JSON.parse(String(Buffer.from(String(token).split('.')[1] ?? '', 'base64url')) || '{}')

/** The service with a provider that can be asked again. */
async function startService(t: Test) {
  const corp = createProvider()
  const yaml = yamlOf(portalOf('main', RULES.replace(/\s+/g, ' ')))
  const test = await startApp(t, yaml, ({ portals }: FastifyInstance) => {
    for (const [name, portal] of portals) {
      const providers = new Map([['corp', corp.provider]])
      ;(portals as Map<string, Portal>).set(name, { ...portal, providers })
    }
  })
  const { sessions, portals, sites } = test.app
  const at = { portal: portals.get('main')!, site: sites.list[0]! }
  const signedIn = { profile: withGroups('admin'), tokens: { refresh: 'r' } }
  const browser = { userAgent: '', address: undefined }
  const session = (await sessions.begin({ ...at, signedIn, browser }))!
  const cookie = `__Host-gatehouse-app.main=${sessions.appToken(session, at.site, HOST)}`
  const own = `__Host-gatehouse.main=${sessions.sessionToken(session, at.site)}`
  return { ...test, ...corp, cookie, own, at }
}

t.test('claims count anew at once: allow, policies, headers and assertions', async (t) => {
  expectWarnings(t, 'access refused')
  const { check, state, clock, cookie } = await startService(t)
  const ask = async (query = '') => {
    const { statusCode, headers } = await check(SHAPES[0]!, { cookie }, { query })
    const { groups } = claimsOf(headers['x-gatehouse-assertion'])
    return { status: statusCode, remote: headers['remote-groups'], groups }
  }
  const ADMIN = '?policy=admin'
  t.match(await ask(ADMIN), { status: 200, remote: 'admin', groups: ['admin'] })
  t.match(await ask(), { status: 200 })

  state.answer = (tokens) => read(tokens, withGroups('staff'))
  await clock.advance(REFRESH)
  t.match(await ask(), { status: 200, remote: 'staff', groups: ['staff'] })
  t.match(await ask(ADMIN), { status: 403 }, 'no admin any more')

  state.answer = (tokens) => read(tokens, withGroups('staff', 'admin'))
  await clock.advance(REFRESH)
  t.match(await ask(ADMIN), { status: 200, groups: ['staff', 'admin'] }, 'and again')

  state.answer = (tokens) => read(tokens, withGroups('guests'))
  await clock.advance(REFRESH)
  t.match(await ask(), { status: 403, remote: undefined, groups: undefined }, 'not even allowed')
})

t.test('a session token of before is replaced at the sign-in host', async (t) => {
  const { app, clock, own, at } = await startService(t)
  const visitor = createVisitor(app)
  const open = async (cookie: string) => {
    const url = 'https://auth.example.com/portals/main/account'
    const answer = await visitor.open(url, { headers: { cookie } })
    const [line = ''] = [answer.headers['set-cookie'] ?? []].flat()
    return { status: answer.statusCode, cookie: line.split(';')[0] ?? '' }
  }
  t.match(await open(own), { status: 200, cookie: '' }, 'it is the newest')
  await clock.advance(REFRESH)
  const renewed = await open(own)
  t.match(renewed, { status: 200, cookie: /^__Host-gatehouse\.main=/ })
  t.match(claimsOf(renewed.cookie.split('=')[1]), { rev: 2, groups: ['anew'] })
  t.match(await open(renewed.cookie), { status: 200, cookie: '' })
  const [, token = ''] = own.split('=')
  const { session } = (await app.sessions.verify(at.portal, token))!
  t.strictSame(session.profile.groups, ['anew'], '`verify` takes it, and answers from the record')
})

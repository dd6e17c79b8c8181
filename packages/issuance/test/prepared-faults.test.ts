import { generateKeyPairSync, randomBytes, X509Certificate } from 'node:crypto'
import type { ChallengeTask, Solver } from '@gatehouse/acme'
import { openKeyring } from '@gatehouse/cert-store'
import type { Store } from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t from 'tap'
import { type Reply, startScriptedCa } from '../../acme/test/scripted-ca/index.ts'
import { newSchema, openReplica, testServer } from '../../cert-store/test/helpers/engines.ts'
import { Callers, Holdings, Issuance } from '../src/index.ts'
import { openIssuers } from '../src/open-issuers.ts'
import type { IssuerConfig } from '../src/options/issuers.ts'
import { parseRequest } from '../src/request.ts'
import { makeCsr } from './helpers/csr.ts'

const RUNS = Number(process.env.GATEHOUSE_PREPARED_RUNS ?? 6)
const SEED = process.env.GATEHOUSE_FAULT_SEED
const HOUR = 3_600_000
/** What callers are made to wait. */
const WAIT = 60_000
const REPLICAS = 2

/** What goes wrong at a point: a request to the CA, or the begin or the end of a write. */
type Fault = { readonly what: 'kill' | 'term' } | { readonly reply: Reply; readonly done: boolean }

const never = new Promise<never>(() => {})
const LOST: readonly Reply[] = [
  'reset',
  { status: 500, body: '' },
  { status: 503, body: '' },
  { status: 404, body: '' },
]
const fault: fc.Arbitrary<Fault> = fc.oneof(
  fc.record({ reply: fc.constantFrom(...LOST), done: fc.boolean() }),
  fc.record({ what: fc.constantFrom('kill' as const, 'term' as const) }),
)
const act = fc.record({
  /** Proves the names, or asks for the certificate of a key; 0 is one of ours. */
  key: fc.option(fc.nat(2), { freq: 2 }),
  on: fc.nat(REPLICAS - 1),
  isAwaited: fc.boolean(),
})
const scene = fc.record({
  acts: fc.array(act, { minLength: 2, maxLength: 7 }),
  faults: fc.array(fc.tuple(fc.nat(80), fault), { maxLength: 10 }),
  reuseOrders: fc.boolean(),
})

interface Replica extends Pick<Awaited<ReturnType<typeof openIssuers>>, 'issuers'> {
  readonly issuance: Issuance
  readonly store: Store
  /** The fault at the next point, which may be the end of this replica. */
  next(): Fault | undefined
  isLive(): boolean
  /** Until it ends, or the replica does. */
  within<T>(work: Promise<T>): Promise<T | 'ended'>
}

/** Short waits pass at once, and take the time with them. */
function briskClock(): Clock & { pass(ms: number): void } {
  let now = Date.UTC(2030, 0, 1)
  return {
    now: () => now,
    pass(ms) {
      now += ms
    },
    setTimer(fn, ms) {
      const timer = setTimeout(
        () => {
          if (ms < WAIT) now += ms
          fn()
        },
        ms < WAIT ? 2 : 5_000,
      )
      return { cancel: () => clearTimeout(timer) }
    },
  }
}

t.test(
  `${RUNS} orders that are prepared and finalized at ${REPLICAS} replicas, whatever fails`,
  { timeout: 3_600_000 },
  async (t) => {
    const server = await testServer()
    const schema = newSchema()
    const masterKey = randomBytes(32).toString('base64')
    const clock = briskClock()
    const records = new Map<string, ChallengeTask>()
    const options: {
      now: () => number
      validating: number
      processing: number
      reuseOrders: boolean
    } = { now: clock.now, validating: 1, processing: 1, reuseOrders: false }
    const cas = await Promise.all(
      [false, true].map((reuseOrders) => startScriptedCa({ ...options, reuseOrders })),
    )
    t.teardown(() => Promise.all(cas.map((ca) => ca.close())))
    const solver: Solver = {
      type: 'http-01',
      present: async (task) => void records.set(task.token, task),
      cleanUp: async (task) => void records.delete(task.token),
    }
    let points = 0
    let faults: ReadonlyMap<number, Fault> = new Map()
    const byAgent = new Map<string, Replica>()
    const log = { info() {}, warn() {} }
    let opened = 0

    async function open(): Promise<Replica> {
      const agent = `replica-${opened++}`
      const store = await openReplica(t, { schema, name: agent })
      const ended = Promise.withResolvers<'ended'>()
      let isDead = false
      const next = (): Fault | undefined => {
        const fault = faults.get(points++)
        if (fault && 'what' in fault) end(fault.what)
        return fault
      }
      const own = new Proxy(store, {
        get(target, key) {
          const value = Reflect.get(target, key)
          if (key !== 'saveOrder' && key !== 'addCertificate') return value
          return async (...args: unknown[]) => {
            next()
            if (isDead) return never
            const result = await value(...args)
            next()
            return isDead ? never : result
          }
        },
      }) as Store
      const folder = testFolder(t)
      const keyring = await openKeyring({ masterKey, masterKeyFile: '', folder, store })
      const deps = { store: own, keyring, clock, log, userAgent: agent }
      const issuing = await openIssuers(
        {
          ca: { name: 'Test', permitted: ['lan'], leafLifetime: 86_400_000 } as never,
          issuers: cas.map((ca, n) => configOf(`acme-${n}`, ca.directoryUrl.href)),
          createSolver: () => solver,
        },
        deps as never,
      )
      const issuance = new Issuance({
        ...deps,
        issuers: issuing.issuers,
        holdings: new Holdings({ store: own, keyring, clock }),
        callers: new Callers(LIMITS, { store: own, clock, log }),
        audit: { recordDelivery: () => undefined, recordUse() {} },
        events: undefined,
        metrics: undefined,
        wait: WAIT,
        random: () => 0,
      })
      function end(how: 'kill' | 'term') {
        if (how === 'kill') isDead = true
        byAgent.delete(agent)
        ended.resolve('ended')
        const closed = how === 'kill' ? Promise.resolve() : issuance.close()
        void closed.then(() => issuing.close()).then(() => store.close())
      }
      const replica: Replica = {
        issuance,
        issuers: issuing.issuers,
        store,
        next,
        isLive: () => byAgent.get(agent) === replica,
        within: (work) => Promise.race([ended.promise, work]),
      }
      byAgent.set(agent, replica)
      return replica
    }

    for (const ca of cas)
      for (const kind of KINDS)
        ca.always(kind, ({ headers }) => {
          const replica = byAgent.get(String(headers['user-agent']))
          if (!replica) return 'reset'
          const fault = replica.next()
          if (!fault || 'what' in fault) return replica.isLive() ? undefined : 'reset'
          return fault.done ? { instead: fault.reply } : fault.reply
        })

    const replicas = await Promise.all(Array.from({ length: REPLICAS }, open))
    // They last for seconds of the database, and there is an hour here.
    const endLeases = () =>
      server.sql(`UPDATE ${schema}.leases SET until = 0
        WHERE holder NOT IN (SELECT id FROM ${schema}.replicas)`)
    const live = async (n: number): Promise<Replica> => {
      const replica = replicas[n] as Replica
      if (replica.isLive()) return replica
      replicas[n] = await open()
      return live(n)
    }

    let runs = 0
    async function check({
      acts,
      reuseOrders,
      ...planned
    }: typeof scene extends fc.Arbitrary<infer S> ? S : never) {
      const run = runs++
      const domain = `r${run}.ca${Number(reuseOrders)}.example`
      const ca = cas[Number(reuseOrders)] as (typeof cas)[number]
      const pairs = [1, 2].map(() => generateKeyPairSync('ec', { namedCurve: 'P-256' }))
      const csrs = [undefined, ...pairs.map((pair) => makeCsr({ pair, names: [domain] }))]
      const keys = new Set<number>()
      const obtain = async (replica: Replica, key: number) => {
        const request = parseRequest({ domain, csr: csrs[key] }, replica.issuers, () => Infinity)
        const answer = await replica.within(
          Promise.resolve(replica.issuance.obtain(request, BY)).catch(() => undefined),
        )
        return answer === 'ended' ? undefined : answer?.certificate
      }
      const authorize = (replica: Replica) =>
        replica.within(
          replica.issuance
            .authorize(
              parseRequest({ domain }, replica.issuers, () => Infinity),
              BY,
            )
            .catch(() => {}),
        )

      points = 0
      faults = new Map(planned.faults)
      const underway: Promise<unknown>[] = []
      for (const { key, on, isAwaited } of acts) {
        const replica = await live(on)
        if (key !== null) keys.add(key)
        const work = key === null ? authorize(replica) : obtain(replica, key)
        if (isAwaited) await work
        else underway.push(work)
      }
      await Promise.all(underway)
      faults = new Map()

      for (const key of keys) {
        let held = await obtain(await live(0), key)
        for (let tries = 0; !held && tries < 60; tries += 1) {
          clock.pass(HOUR)
          await endLeases()
          for (let n = 0; n < REPLICAS; n += 1) await (await live(n)).issuance.resume()
          held = await obtain(await live(tries % REPLICAS), key)
        }
        demand(held, `key ${key}: no certificate`)
        const pair = pairs[key - 1]
        const certificate = new X509Certificate(held.chain)
        if (pair) demand(certificate.checkPrivateKey(pair.privateKey), `key ${key}: of another key`)
      }
      const { store, issuance } = await live(0)
      for (let tries = 0; (await store.listPendingOrders()).length > 0; tries += 1) {
        demand(tries < 100, 'an order has no end')
        clock.pass(HOUR)
        await endLeases()
        await issuance.resume()
        await Promise.allSettled([...issuance.flights.values()].map(({ result }) => result))
      }
      demand(ca.issued(domain) === keys.size, `${ca.issued(domain)} of ${keys.size} certificates`)
      if (acts.some(({ key }) => key === null)) prepared += 1
    }

    let prepared = 0
    await fc.assert(fc.asyncProperty(scene, check), {
      numRuns: RUNS,
      ...(SEED !== undefined && { seed: Number(SEED) }),
      endOnFailure: true,
    })
    t.ok(prepared > 0)
  },
)

const BY = { actor: 'psk:web' }
const LIMITS = {
  perName: { certificates: 500 },
  perCaller: { names: 100_000, issuancesPerMinute: 100_000, burst: 100_000 },
}
const KINDS = [
  'directory',
  'newNonce',
  'newAccount',
  'newOrder',
  'order',
  'authorization',
  'challenge',
  'finalize',
  'certificate',
] as const

function configOf(name: string, directory: string): IssuerConfig {
  return {
    name,
    directory,
    names: [`*.ca${name.slice(-1)}.example`],
    agreeToTerms: true,
    challenges: [{ type: 'http-01' }],
  } as unknown as IssuerConfig
}

function demand(holds: unknown, message: string): asserts holds {
  if (!holds) throw new Error(message)
}

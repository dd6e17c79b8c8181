import { generateKeyPairSync, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { openStore } from '../../../../packages/cert-store/src/open.ts'
import {
  newSchema,
  testServer,
  until,
} from '../../../../packages/cert-store/test/helpers/engines.ts'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { AppDeps } from '../../src/app.ts'
import { startAcme } from '../helpers/acme.ts'
import { type Answer, DAY, type Running, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'nearly `limits.perName.certificates`')

const HOUR = DAY / 24
const MINUTE = HOUR / 60
const NAME = 'app.a.test'
const LIMITED = { authorization: 'APIKey a-key-limited-to-names' }
const auth = {
  psk: { keys: [{ name: 'fleet', key: 'a-key-limited-to-names', domains: ['*.a.test'] }] },
}

/** What `gatehouse-certs get --csr` does on a machine each time that cron starts it. */
/** @param isForgetful - whether it makes a new key each time, as in a container without a volume */
function machine({ call }: Running, isForgetful = false) {
  // It asks for the newest certificate of the name before it sends its CSR.
  let held: string | undefined
  let csr = newKey()
  return {
    /** How often it wrote files and reloaded its server. */
    reloads: 0,
    async run(): Promise<Answer> {
      if (isForgetful) [held, csr] = [undefined, newKey()]
      const tag = { 'if-none-match': `"${held}-chain"` }
      const headers = { ...LIMITED, ...tag }
      const newest = held && (await call('GET', `/api/certificate/${NAME}`, undefined, headers))
      if (newest && newest.status === 304) return newest
      const answer = await call('POST', '/api/certificate', { domain: NAME, csr }, LIMITED)
      if (answer.status !== 200 || answer.body.fingerprint256 === held) return answer
      held = answer.body.fingerprint256
      this.reloads += 1
      return answer
    },
  }
}

function newKey(): string {
  return makeCsr({ pair: generateKeyPairSync('ec', { namedCurve: 'P-256' }), names: [NAME] })
}

/** Both engines, by the clock of the test. */
const ENGINES: Readonly<Record<string, () => Promise<object>>> = {
  SQLite: async () => ({}),
  PostgreSQL: async () => {
    const { url } = await testServer()
    const masterKey = randomBytes(32).toString('base64')
    return { storage: { url, schema: newSchema(), masterKey } }
  },
}
const openUntimed: AppDeps['openStore'] = async (options) => {
  const { now: _, ...store } = await openStore(options)
  return store
}

async function fleet(
  t: Test,
  storage: object,
  size: number,
  { limits = {}, isForgetful = false } = {},
) {
  const running = await start(t, { auth, limits, ...storage }, { openStore: openUntimed })
  running.service.start()
  const machines = Array.from({ length: size }, () => machine(running, isForgetful))
  /** Cron starts all of them in the same minute. */
  const round = () => Promise.all(machines.map((one) => one.run()))
  return { running, machines, round, ...watch(running) }
}

function watch({ service, clock }: Running) {
  const listing = { order: 'next', state: 'due' } as const
  const isIdle = async () => {
    const now = clock.now()
    return (await service.store.listCertificates({ ...listing, now }, { limit: 1 })).length === 0
  }
  return {
    /** Lets time pass, and the service renew what is due meanwhile. */
    async pass(ms: number) {
      for (let at = 0; at < ms; at += 12 * HOUR) {
        await clock.advance(Math.min(ms, 12 * HOUR))
        let looks = 0
        await until(async () => {
          if (await isIdle()) return true
          if (++looks % 50 === 0) await clock.advance(MINUTE)
          return false
        })
      }
    },
    async actions() {
      const all = await service.store.listAudit({ limit: 10_000 })
      return (action: string) => all.filter((entry) => entry.action === action).length
    },
  }
}

for (const [engine, storage] of Object.entries(ENGINES))
  for (const size of [8, 9, 200])
    t.test(`${size} machines with keys of their own under one name: ${engine}`, async (t) => {
      const { running, machines, round, pass, actions } = await fleet(t, await storage(), size)
      await round()
      // More than the burst of a caller come at once: the client tries again within its five minutes.
      await pass(2 * MINUTE)
      await round()
      t.strictSame(
        machines.map(({ reloads }) => reloads),
        Array(size).fill(1),
        'each has one',
      )
      for (let day = 1; day <= 8; day += 1) {
        await pass(DAY)
        const statuses = (await round()).map(({ status }) => status)
        t.ok(
          statuses.every((status) => status === 200 || status === 304),
          `day ${day}`,
        )
      }
      const count = await actions()
      t.equal(count('issue'), size, 'none is issued twice')
      t.equal(count('delete'), 0)
      t.equal(count('renew'), 2 * size, 'each is renewed when it is due')
      t.strictSame(
        new Set(machines.map(({ reloads }) => reloads)),
        new Set([3]),
        'and only then reloads',
      )
      const { store } = running.service
      const now = running.clock.now()
      t.match(await store.countInUse(NAME, now), { count: size })
      t.match(await store.countNames('psk:fleet', now), { count: size })
    })

t.test(
  'at the limit the next machine is refused, and the others keep what they have',
  async (t) => {
    const limits = { perName: { certificates: 8 } }
    const { running, machines, round, pass, actions } = await fleet(t, {}, 8, { limits })
    await round()
    const ninth = machine(running)
    for (let day = 1; day <= 15; day += 1) {
      await pass(DAY)
      t.ok(
        (await round()).every(({ status }) => status === 200 || status === 304),
        `day ${day}`,
      )
      t.match(await ninth.run(), { status: 429, body: { limit: 'perName.certificates' } })
    }
    t.equal((await actions())('issue'), 8)
    t.equal(ninth.reloads, 0)

    const gone = machines.shift()
    for (let day = 1; day <= 7; day += 1) {
      t.equal((await ninth.run()).status, 429)
      await pass(DAY)
      await round()
    }
    await pass(DAY)
    t.equal((await ninth.run()).status, 200, 'after the lifetime of what one that is gone had')
    t.equal(
      (await gone?.run())?.status,
      200,
      'which is still answered for as long as it is renewed',
    )
  },
)

t.test('machines that make a new key each time take no more than a lifetime of them', async (t) => {
  const { running, round, pass } = await fleet(t, {}, 4, { isForgetful: true })
  for (let day = 1; day <= 30; day += 1) {
    t.ok(
      (await round()).every(({ status }) => status === 200),
      `day ${day}`,
    )
    await pass(DAY)
  }
  t.match(await running.service.store.countInUse(NAME, running.clock.now()), { count: 4 * 7 })
})

t.test('a fleet at a CA that limits certificates for the same names is told so', async (t) => {
  expectWarnings(t, 'CERT_RATE_LIMITED')
  const issuerOptions = { limits: { names: { count: 5, per: '7d' } } }
  const { ca, clock, running } = await startAcme(t, {}, { config: { auth }, issuerOptions })
  const machines = Array.from({ length: 8 }, () => machine(running))
  const answers = []
  for (const one of machines) answers.push(await one.run())
  t.strictSame(
    answers.map(({ status }) => status),
    [...Array(5).fill(200), ...Array(3).fill(429)],
  )
  t.match(answers.at(-1)?.body, {
    code: 'CERT_RATE_LIMITED',
    detail:
      /limit of acme is used up: 5 certificates in 7d for exactly these names; none is left until /,
    action: /without `--csr`/,
  })
  await clock.advance(HOUR)
  const again = []
  for (const one of machines) again.push(await one.run())
  t.equal(again.filter(({ status }) => status === 429).length, 3)
  t.equal(ca.count('newOrder'), 5, 'nothing is ordered that the CA would refuse')
  t.strictSame(
    machines.map(({ reloads }) => reloads),
    [1, 1, 1, 1, 1, 0, 0, 0],
  )
})

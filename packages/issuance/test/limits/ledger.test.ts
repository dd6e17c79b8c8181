import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { openSqliteStore, storeFile } from '../../../cert-store/src/engines/sqlite.ts'
import { memoryStore } from '../../../cert-store/test/helpers/memory-store.ts'
import { NOW, testStore } from '../../../cert-store/test/helpers/store.ts'
import { IssuanceError } from '../../src/errors.ts'
import { emptyAt, freeAt, left, take } from '../../src/limits/bucket.ts'
import {
  type CaLimits,
  caLimitsOf,
  type LimitedOrder,
  loadRegisteredDomain,
} from '../../src/limits/ca-limits.ts'
import { Ledger } from '../../src/limits/ledger.ts'
import type { IssuerConfig } from '../../src/options/issuers.ts'
import { type AllLimits, createLimitedCa } from './ca.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
type LedgerStore = Parameters<typeof Ledger.open>[0]['store']

const DIRECTORY = 'https://ca.test/directory'

t.test('what was taken from a bucket comes back one by one', (t) => {
  const limit = { count: 3, per: 30 }
  for (const [fullAt, now, expected] of [
    [0, 100, 3],
    [100, 100, 3],
    [101, 100, 2],
    [110, 100, 2],
    [111, 100, 1],
    [120, 100, 1],
    [130, 100, 0],
    [900, 100, 0],
  ] as const)
    t.equal(left(fullAt, limit, now), expected, `full at ${fullAt}, now ${now}`)
  let bucket = 0
  for (const expected of [110, 120, 130]) {
    bucket = take(bucket, limit, 100)
    t.equal(bucket, expected)
  }
  t.equal(bucket, emptyAt(limit, 100))
  t.equal(freeAt(bucket, limit, 1), 110)
  t.equal(freeAt(bucket, limit, 3), 130)
  t.equal(take(0, { count: 3, per: 10 }, 100), 104, 'never before the CA')
  t.end()
})

t.test('CAs count by registered domain', async (t) => {
  const registeredDomain = await loadRegisteredDomain()
  for (const [name, expected] of [
    ['example.com', 'example.com'],
    ['a.b.example.com', 'example.com'],
    ['*.example.com', 'example.com'],
    ['a.example.co.uk', 'example.co.uk'],
    ['a.site.github.io', 'site.github.io'],
    ['github.io', 'github.io'],
    ['host', 'host'],
    ['192.0.2.7', '192.0.2.7'],
    ['2001:db8::1', '2001:db8::/64'],
    ['2001:db8:0:0:ffff::1', '2001:db8::/64'],
    ['2001:db8:0:1::1', '2001:db8:0:1::/64'],
  ] as const)
    t.equal(registeredDomain(name), expected, name)
})

t.test('unless configured, limits are those that the CA published', (t) => {
  const of = (directory: string, limits?: CaLimits) =>
    caLimitsOf({ directory, ...(limits && { limits }) } as IssuerConfig)
  t.match(of('letsencrypt'), { orders: { count: 300 }, domain: { count: 50 }, names: { count: 5 } })
  t.match(of('https://acme-v02.api.letsencrypt.org/directory'), { failures: { per: HOUR } })
  t.match(of('letsencrypt-staging'), { orders: { count: 1500 }, domain: undefined })
  t.strictSame(of('zerossl'), {})
  const more = of('letsencrypt', { orders: { count: 1000, per: HOUR } })
  t.match(more, { orders: { count: 1000 }, domain: { count: 50 } })
  t.end()
})

const refused = [
  {
    limit: 'orders',
    names: (n: number) => [`app.a${n}.test`],
    after: (ledger: Ledger, order: LimitedOrder) => ledger.ordered(order),
    count: 300,
    detail: '300 orders in 3h for the account',
    retryAfter: 36,
  },
  {
    limit: 'domain',
    names: (n: number) => [`app${n}.example.test`],
    after: (ledger: Ledger, order: LimitedOrder) => ledger.issued(order),
    count: 50,
    detail: '50 certificates in 7d for example.test',
    retryAfter: (7 * DAY) / 50 / 1000,
  },
  {
    limit: 'orders of the domain that are under way',
    names: (n: number) => [`app${n}.example.test`],
    after: async () => {},
    count: 50,
    detail: '50 certificates in 7d for example.test',
    retryAfter: 3600,
  },
  {
    limit: 'names',
    names: (n: number) => (n % 2 ? ['b.test', 'a.test'] : ['a.test', 'b.test']),
    after: (ledger: Ledger, order: LimitedOrder) => ledger.issued(order),
    count: 5,
    detail: '5 certificates in 7d for exactly these names',
    retryAfter: (7 * DAY) / 5 / 1000,
  },
  {
    limit: 'failures',
    names: (n: number) => (n % 2 ? ['a.test', 'b.test'] : ['*.a.test']),
    after: (ledger: Ledger, order: LimitedOrder) => ledger.failed(order, order.names.slice(0, 1)),
    count: 5,
    detail: '5 failed proofs in 1h for a.test',
    retryAfter: 720,
  },
  {
    limit: 'failures in a row',
    names: () => ['*.a.test'],
    after: (ledger: Ledger, order: LimitedOrder) => ledger.failed(order, order.names),
    limits: { failures: undefined },
    count: 1152,
    detail: '1152 failed proofs in a row in 1152d for a.test',
    retryAfter: DAY / 1000,
  },
] as const

for (const { limit, names, after, count, detail, retryAfter, ...rest } of refused)
  t.test(`refuses before the CA would: ${limit}`, async (t) => {
    const { ledger, clock } = await open(t, 'limits' in rest ? rest.limits : {})
    for (let n = 0; n < count; n += 1) {
      const order = orderOf(names(n))
      await ledger.admit(order)
      await after(ledger, order)
    }
    const error = await refusalOf(ledger, orderOf(names(count)))
    t.match(error.message, detail)
    t.equal(error.code, 'CERT_RATE_LIMITED')
    t.equal(error.retryAfter, retryAfter)
    await t.resolves(ledger.admit(orderOf(['quite.other.example'], limit === 'orders')))

    clock.at += retryAfter * 1000 - 1000
    t.equal((await refusalOf(ledger, orderOf(names(count)))).retryAfter, 1)
    clock.at += 1000
    await t.resolves(ledger.admit(orderOf(names(count))))
  })

t.test('a certificate resets only the failures in a row of its names', async (t) => {
  const inARow = { count: 2, per: 2 * DAY }
  const { ledger } = await open(t, { failures: undefined, failuresInARow: inARow })
  const order = orderOf(['a.test', 'b.test'])
  const fail = async () => {
    for (const name of ['a.test', 'c.test']) await ledger.failed(order, [name])
  }
  await fail()
  await issue(ledger, order)
  await fail()
  const leftOf = async (name: string) =>
    (await ledger.budgets('acme', [name])).find(({ kind }) => kind === 'failuresInARow')?.left
  t.strictSame(await Promise.all(['a.test', 'b.test', 'c.test'].map(leftOf)), [1, 2, 0])
})

t.test('accounts', async (t) => {
  const { ledger, clock } = await open(t)
  const account = { issuer: 'acme', directory: DIRECTORY }
  for (let n = 0; n < 10; n += 1) {
    await ledger.admitAccount(account)
    await ledger.registered(account)
  }
  const refusal = () => catchRefusal(ledger.admitAccount(account))
  t.match((await refusal()).message, '10 new accounts in 3h for the address of this host')
  t.equal((await refusal()).retryAfter, (3 * HOUR) / 10 / 1000)
  await t.resolves(ledger.admitAccount({ ...account, directory: 'https://other.test/' }))
  await t.resolves(ledger.admit(orderOf(['a.test'])), 'orders are of accounts that are there')
  clock.at += (3 * HOUR) / 10
  await t.resolves(ledger.admitAccount(account))
})

t.test('an order from before a restart keeps its share of the domain', async (t) => {
  const { ledger } = await open(t, { domain: { count: 1, per: DAY }, orders: undefined })
  const order = orderOf(['a.example.test'])
  await ledger.resumed(order)
  t.equal((await refusalOf(ledger, orderOf(['b.example.test']))).retryAfter, HOUR / 1000)
  await ledger.failed(order, [])
  await t.resolves(ledger.admit(orderOf(['b.example.test'])))
})

t.test('renewals', async (t) => {
  await t.test('ARI renewals are exempt from all', async (t) => {
    const { ledger } = await open(t)
    const ari = orderOf(['a.test'], true)
    for (let n = 0; n < 400; n += 1) {
      await ledger.admit(ari)
      await ledger.ordered(ari)
      if (n % 2) await ledger.issued(ari)
      else await ledger.failed(ari, ['a.test'])
    }
    await t.resolves(ledger.admit(ari))
    t.match((await refusalOf(ledger, orderOf(['a.test']))).message, /of acme is used up/)
  })

  await t.test('the same names again are exempt from orders and domain', async (t) => {
    const { ledger, clock } = await open(t)
    for (let n = 0; n < 50; n += 1) await issue(ledger, orderOf([`app${n}.example.test`]))
    await refusalOf(ledger, orderOf(['app50.example.test']))
    await t.resolves(ledger.admit(orderOf(['app1.example.test'])))
    const budgets = () => ledger.budgets('acme', ['app1.example.test'])
    t.strictSame(
      (await budgets()).map(({ kind, left }) => [kind, left]),
      [
        ['names', 4],
        ['failures', 5],
        ['failuresInARow', 1152],
      ],
    )
    clock.at += 91 * DAY
    t.equal((await budgets()).length, 5, 'nobody knows for certain')
  })

  await t.test('but not where the CA does not exempt them', async (t) => {
    const { ledger } = await open(t, { renewalsExempt: false, domain: { count: 1, per: DAY } })
    await issue(ledger, orderOf(['a.test']))
    const refusal = await refusalOf(ledger, orderOf(['a.test']))
    t.match(refusal.message, '1 certificates in 1d for a.test')
  })
})

const WEEK = 7 * DAY
const counted = { orders: undefined, names: undefined, renewalsExempt: false }

t.test('one caller gets 30 % of the window for a registered domain', async (t) => {
  for (const [count, share] of [
    [1, 1],
    [3, 1],
    [5, 1],
    [10, 3],
    [50, 15],
  ] as const) {
    const limits = { ...counted, renewalsExempt: true, domain: { count, per: WEEK } }
    const { ledger, clock } = await open(t, limits)
    const asked = (n: number, askedBy?: string) =>
      orderOf([`app${n}.example.test`], false, { askedBy })
    for (let n = 0; n < share; n += 1) await issue(ledger, asked(n, 'psk:a'))
    if (share === count) continue
    const next = asked(share, 'psk:a')
    const refusal = await refusalOf(ledger, next)
    const parts = `${share} certificates in 7d for example.test by one caller that is no operator;`
    t.match(refusal.message, parts, `${share} of ${count}`)
    t.equal(refusal.retryAfter, Math.ceil(WEEK / share / 1000))
    await t.resolves(ledger.admit(asked(101, 'psk:b')), 'another caller')
    await t.resolves(ledger.admit(asked(102)), 'an operator, or the service itself')
    await t.resolves(ledger.admit(orderOf(['app.other.test'], false, { askedBy: 'psk:a' })))
    await t.resolves(ledger.admit(asked(0, 'psk:a')), 'names that the CA knows')
    clock.at += Number(refusal.retryAfter) * 1000 - 1
    await refusalOf(ledger, next)
    clock.at += 1
    await t.resolves(ledger.admit(next))
  }
})

t.test('what a caller has under way counts for its share, whoever it is', async (t) => {
  for (const askedBy of ['psk:a', `jwt:https://idp.test#${'x'.repeat(3_000)}`]) {
    const { ledger, clock } = await open(t, { ...counted, domain: { count: 10, per: WEEK } })
    const asked = (n: number) => orderOf([`app${n}.example.test`], false, { askedBy })
    for (let n = 0; n < 3; n += 1) await ledger.admit(asked(n))
    t.equal((await refusalOf(ledger, asked(3))).retryAfter, HOUR / 1000)
    await ledger.failed(asked(0), [])
    await t.resolves(ledger.admit(asked(3)))
    const leftOf = async () =>
      (await ledger.budgets('acme', ['b.example.test'], askedBy)).find(({ key }) =>
        key.startsWith('share'),
      )?.left
    t.equal(await leftOf(), 0)
    clock.at += HOUR
    t.equal(await leftOf(), 3, 'what was abandoned does not')
    await ledger.resumed(asked(1))
    t.equal(await leftOf(), 2, 'unless it is taken up')
  }
})

t.test('the last 30 % of a window are for renewals, where the CA counts them', async (t) => {
  const { ledger, clock } = await open(t, { ...counted, domain: { count: 10, per: WEEK } })
  const app = (n: number, more: Partial<LimitedOrder> = {}) =>
    orderOf([`app${n}.example.test`], false, more)
  await issue(ledger, app(0))
  clock.at += WEEK
  for (let n = 1; n <= 7; n += 1) await issue(ledger, app(n))
  const refusal = await refusalOf(ledger, app(8))
  t.match(refusal.message, '10 certificates in 7d for example.test, without 3 for renewals;')
  t.equal(refusal.retryAfter, WEEK / 10 / 1000)
  t.match(
    (await ledger.budgets('acme', ['app8.example.test'])).filter(({ kind }) => kind === 'domain'),
    [{ left: 0, kept: 3, freeAt: clock.at + WEEK / 10 }],
  )
  // A second one at once is no renewal.
  await refusalOf(ledger, app(7))
  await issue(ledger, app(0, { askedBy: 'psk:a' }))
  await refusalOf(ledger, app(0, { askedBy: 'psk:a' }))
  for (const n of [1, 2]) await issue(ledger, app(n, { isRenewal: true, askedBy: 'psk:a' }))
  const last = await refusalOf(ledger, app(3, { isRenewal: true }))
  t.match(last.message, '10 certificates in 7d for example.test; none')
})

t.test('the share of a caller is not used up by its renewals', async (t) => {
  const { ledger, clock } = await open(t, { ...counted, domain: { count: 10, per: WEEK } })
  const app = (n: number) => orderOf([`app${n}.example.test`], false, { askedBy: 'psk:a' })
  for (let n = 0; n < 3; n += 1) await issue(ledger, app(n))
  clock.at += WEEK
  for (let n = 0; n < 3; n += 1) await issue(ledger, app(n))
  for (let n = 3; n < 6; n += 1) await issue(ledger, app(n))
  await refusalOf(ledger, app(6))
})

t.test('no room is kept where the CA does not count renewals', async (t) => {
  const { ledger } = await open(t)
  for (let n = 0; n < 50; n += 1) await issue(ledger, orderOf([`app${n}.example.test`]))
  t.match(
    (await refusalOf(ledger, orderOf(['app50.example.test']))).message,
    '50 certificates in 7d for example.test; none is left until',
  )
})

t.test('the ledger survives a restart and forgets what came back', async (t) => {
  const { folder, store } = await testStore(t)
  const clock = { at: NOW }
  const first = await open(t, {}, { store, clock })
  for (let n = 0; n < 5; n += 1) await issue(first.ledger, orderOf(['a.test']))
  await store.close()
  let ran = 0
  await using reopened = await openSqliteStore({ folder, elapsed: () => ran })
  const again = await open(t, {}, { store: reopened, clock })
  t.match((await refusalOf(again.ledger, orderOf(['a.test']))).message, 'exactly these names')

  t.equal(countUsage(folder), 4, 'orders, domain, names, issued')
  clock.at += 91 * DAY
  await reopened.pruneUsage(clock.at)
  t.equal(countUsage(folder), 4, 'not by the clock alone')
  ran += 7 * DAY
  await reopened.pruneUsage(clock.at)
  t.equal(countUsage(folder), 0)
})

t.test('nothing is forgotten while a clock is ahead', async (t) => {
  const { folder, store, pass } = await testStore(t)
  const clock = { at: NOW }
  const { ledger } = await open(t, {}, { store, clock })
  for (let n = 0; n < 5; n += 1) await issue(ledger, orderOf(['a.test']))
  clock.at += 340 * DAY
  await store.pruneUsage(clock.at)
  pass(DAY)
  await store.pruneUsage(clock.at)
  clock.at = NOW
  t.match((await refusalOf(ledger, orderOf(['a.test']))).message, 'exactly these names')
  await store.pruneUsage(clock.at)
  pass(30 * DAY)
  await store.pruneUsage(clock.at)
  t.equal(countUsage(folder), 4, 'nor later')
})

t.test('after a clock was ahead, a bucket is empty at worst', async (t) => {
  const { ledger, clock } = await open(t)
  clock.at += 1000 * DAY
  for (let n = 0; n < 5; n += 1) await ledger.failed(orderOf(['a.test']), ['a.test'])
  clock.at = NOW
  t.equal((await refusalOf(ledger, orderOf(['a.test']))).retryAfter, 720)
  clock.at += 720_000
  await t.resolves(ledger.admit(orderOf(['a.test'])))
})

t.test('an order of a clock that was ahead is counted for an hour, and no longer', async (t) => {
  const { ledger, clock } = await open(t, { orders: { count: 1, per: 3 * HOUR } })
  clock.at += 340 * DAY
  await ledger.admit(orderOf(['a.test']))
  clock.at = NOW
  const refusal = await refusalOf(ledger, orderOf(['b.test']))
  t.equal(refusal.retryAfter, 3600, 'it may be under way still')
  clock.at += HOUR
  await t.resolves(ledger.admit(orderOf(['b.test'])))
})

t.test('unknown issuers have no limits', async (t) => {
  const { ledger } = await open(t)
  const order = { ...orderOf(['a.test']), issuer: 'other' }
  for (let n = 0; n < 400; n += 1) await issue(ledger, order)
  t.strictSame(await ledger.budgets('other', ['a.test']), [])
})

t.test('while the store is away no order begins, and what has happened is warned of', async (t) => {
  const warned: string[] = []
  const { store } = await testStore(t)
  await store.close()
  const ledger = await Ledger.open({
    issuers: [issuerConfig({})],
    store,
    now: () => NOW,
    log: { warn: (_, message) => void warned.push(message) },
  })
  const order = orderOf(['a.test'])
  const account = { issuer: 'acme', directory: DIRECTORY }
  const unavailable = { code: 'STORE_UNAVAILABLE' }
  await t.rejects(ledger.admit(order), unavailable)
  await t.rejects(ledger.resumed(order), unavailable)
  await t.rejects(ledger.admitAccount(account), unavailable)
  await t.rejects(ledger.budgets('acme', ['a.test']), unavailable)
  t.strictSame(warned, [])
  for (const fact of [
    ledger.ordered(order),
    ledger.failed(order, ['a.test']),
    ledger.issued(order),
    ledger.registered(account),
  ])
    await t.resolves(fact)
  t.equal(warned.length, 4)
})

const NAMES = [
  ['a.example.test'],
  ['b.example.test'],
  ['*.example.test', 'example.test'],
  ['c.example.test', 'd.other.test'],
  ['a.other.test'],
] as const

const act = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      order: fc.nat(NAMES.length - 1),
      ari: fc.boolean(),
      askedBy: fc.constantFrom('a', 'b', undefined),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      end: fc.nat(9),
      how: fc.constantFrom('issued' as const, 'failed' as const, 'lost' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ pass: fc.integer({ min: 0, max: 6 * HOUR }) }) },
)

t.test('the CA accepts whatever the ledger admits', async (t) => {
  const limits: AllLimits = {
    orders: { count: 7, per: 3 * HOUR },
    domain: { count: 2, per: 11 * HOUR },
    names: { count: 3, per: 13 * HOUR },
    failures: { count: 2, per: HOUR },
    failuresInARow: { count: 3, per: 90 * HOUR },
    renewalsExempt: true,
  }
  await fc.assert(
    fc.asyncProperty(fc.array(act, { maxLength: 80, size: 'max' }), async (acts) => {
      const clock = { at: NOW }
      const { ledger } = await open(t, limits, { clock })
      const ca = createLimitedCa(limits, () => clock.at)
      let underway: { order: LimitedOrder; id: string }[] = []

      for (const one of acts) {
        if ('pass' in one) {
          underway = []
          clock.at += one.pass
        } else if ('order' in one) {
          const names = NAMES[one.order] ?? []
          const id = names.join()
          // The issuer takes the orders of a set of names in turn.
          if (underway.some((other) => other.id === id)) continue
          const order = orderOf(names, one.ari, { askedBy: one.askedBy })
          if (!(await isAdmitted(ledger, order))) continue
          if (!ca.order(names, one.ari)) return false
          await ledger.ordered(order)
          underway.push({ order, id })
        } else if (underway.length > 0) {
          const [ended] = underway.splice(one.end % underway.length, 1)
          if (!ended) throw new Error('there is one')
          const { order } = ended
          if (one.how === 'issued' && !ca.issue(order.names, order.renewal)) return false
          if (one.how === 'failed') ca.fail(order.names)
          if (one.how === 'issued') await ledger.issued(order)
          if (one.how === 'failed') await ledger.failed(order, order.names)
        }
      }
      return true
    }),
    { numRuns: Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 100 },
  )
})

interface Opened {
  readonly ledger: Ledger
  readonly clock: { at: number }
}

async function open(
  t: Test,
  limits: CaLimits = {},
  {
    store = memoryStore(),
    clock = { at: NOW },
  }: { store?: LedgerStore; clock?: { at: number } } = {},
): Promise<Opened> {
  const log = { warn: (_: object, message: string) => t.fail(message) }
  const issuers = [issuerConfig(limits)]
  return { ledger: await Ledger.open({ issuers, store, now: () => clock.at, log }), clock }
}

/** With the limits of Let's Encrypt, as far as no others are given. */
function issuerConfig(limits: CaLimits): IssuerConfig {
  const published = caLimitsOf({ directory: 'letsencrypt' } as IssuerConfig)
  return { name: 'acme', directory: DIRECTORY, limits: { ...published, ...limits } } as IssuerConfig
}

function orderOf(
  names: readonly string[],
  renewal = false,
  more: Partial<LimitedOrder> = {},
): LimitedOrder {
  return { issuer: 'acme', directory: DIRECTORY, names, renewal, ...more }
}

async function issue(ledger: Ledger, order: LimitedOrder): Promise<void> {
  await ledger.admit(order)
  await ledger.ordered(order)
  await ledger.issued(order)
}

function refusalOf(ledger: Ledger, order: LimitedOrder): Promise<IssuanceError> {
  return catchRefusal(ledger.admit(order))
}

async function catchRefusal(admission: Promise<void>): Promise<IssuanceError> {
  try {
    await admission
  } catch (error) {
    if (error instanceof IssuanceError && error.code === 'CERT_RATE_LIMITED') return error
    throw error
  }
  throw new Error('it was admitted')
}

async function isAdmitted(ledger: Ledger, order: LimitedOrder): Promise<boolean> {
  try {
    await ledger.admit(order)
    return true
  } catch (error) {
    if (error instanceof IssuanceError && error.code === 'CERT_RATE_LIMITED') return false
    throw error
  }
}

/** How many rows of usage are in the file of a store. */
function countUsage(folder: string): number {
  using sqlite = new DatabaseSync(storeFile(folder), { readOnly: true })
  return Number(sqlite.prepare('SELECT count(*) AS total FROM usage').get()?.total)
}

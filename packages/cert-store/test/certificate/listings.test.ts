import { hash, randomUUID } from 'node:crypto'
import fc from 'fast-check'
import type { Test } from 'tap'
import { listAll, positionOf } from '../../src/port/listing.ts'
import type {
  CertificateState,
  Listed,
  Listing,
  ListOrder,
  OrderRecord,
  Position,
  Search,
  Store,
} from '../../src/port/store.ts'
import { onBothEngines } from '../helpers/engines.ts'
import { failedOrders, NOW, newAudit, newCertificate, newOrder } from '../helpers/store.ts'

const DAY = 86_400_000
const domains = (all: readonly Listed[]) => all.map(({ names }) => names[0])

async function add(store: Store, overrides: Parameters<typeof newCertificate>[0]) {
  return store.addCertificate(newCertificate(overrides), newAudit())
}

async function fail(store: Store, name: string, overrides: Partial<OrderRecord> = {}) {
  const requestKey = `ca|server|p256|${name}`
  const order = { id: name, requestKey, names: [name], status: 'failed' } as const
  await store.saveOrder(newOrder({ ...order, ...overrides }))
}

/** All pages of a listing, one after the other. */
async function readAll(store: Store, listing: Listing, limit: number, isBackwards = false) {
  const read: Listed[] = []
  for (let from: Position | undefined; ; ) {
    const page = await listAll(store, listing, { from, isBackwards, limit })
    read.push(...page)
    const last = page.at(-1)
    if (!last) return read
    from = positionOf(last, listing.order)
  }
}

/** Certificates in every state, orders without one, and some that stand in the same place. */
async function fill(store: Store) {
  await add(store, { names: ['late.example'], renewAt: NOW + 6 * DAY, issuer: 'other' })
  await add(store, { names: ['a.example', 'alias.example'], renewAt: NOW + DAY })
  await add(store, { names: ['b.example'], renewAt: NOW + DAY, requestKey: 'b of a' })
  await add(store, { names: ['b.example'], renewAt: NOW + 2 * DAY, requestKey: 'b of b' })
  await add(store, { names: ['never.example'], renewAt: null, notAfter: NOW + 5 * DAY })
  await add(store, { names: ['due.example'], renewAt: NOW })
  await add(store, { names: ['failing.example'], renewAt: NOW - DAY, issuer: 'other' })
  await add(store, { names: ['failing-late.example'], renewAt: null, notAfter: NOW + 8 * DAY })
  await add(store, { names: ['ended.example'], renewAt: null, notAfter: NOW })
  await add(store, { names: ['failed.example'], renewAt: NOW - 2 * DAY, notAfter: NOW - DAY })
  await add(store, { names: ['gone.example'], renewAt: NOW, serialNumber: 'beef' })
  await add(store, { names: ['gone.example'], renewAt: NOW + 2 * DAY, serialNumber: 'cafe' })
  for (const name of ['failing.example', 'failing-late.example', 'failed.example'])
    await fail(store, name)
  await fail(store, 'none-x.example', { nextTryAt: NOW + DAY })
  await fail(store, 'none-y.example', { nextTryAt: NOW + DAY / 2, issuer: 'other', since: NOW + 1 })
  await store.saveOrder(newOrder({ id: 'under way', requestKey: 'under way' }))
}

async function holdPages(t: Test, store: Store, listing: Listing, found: string[], why: string) {
  for (const limit of [1, 2, 20]) {
    const onwards = await readAll(store, listing, limit)
    t.same(domains(onwards), found, `${why}, ${limit} at a time`)
    const backwards = await readAll(store, listing, limit, true)
    t.same(domains(backwards.toReversed()), found, `${why}, ${limit} at a time, backwards`)
  }
}

onBothEngines('every order, page by page in both directions', async (t, { store }) => {
  await fill(store)
  const cases: [order: ListOrder, found: string][] = [
    ['next', 'failed failing due ended none-y a b none-x b gone never late failing-late'],
    ['expiry', 'failed ended never late a b b due failing gone failing-late none-y none-x'],
    ['name', 'a b b due ended failed failing-late failing gone late never none-x none-y'],
    ['newest', 'none-y none-x gone failed ended failing-late failing due never b b a late'],
  ]
  for (const [order, found] of cases) {
    const names = found.split(' ').map((name) => `${name}.example`)
    await holdPages(t, store, { order, now: NOW }, names, order)
  }
})

onBothEngines('every state', async (t, { store }) => {
  await fill(store)
  const cases: [state: CertificateState, found: string][] = [
    ['renews', 'a b b gone late'],
    ['due', 'due'],
    ['unrenewed', 'never'],
    ['failing', 'failed failing-late failing none-x none-y'],
    ['ended', 'ended'],
  ]
  for (const [state, found] of cases) {
    const names = found.split(' ').map((name) => `${name}.example`)
    await holdPages(t, store, { order: 'name', state, now: NOW }, names, state)
    for (const order of ['next', 'expiry', 'newest'] as const) {
      const listed = await readAll(store, { order, state, now: NOW }, 20)
      t.same(domains(listed).toSorted(), names.toSorted(), `${state} by ${order}`)
    }
  }
  const failing = { order: 'next', state: 'failing', issuer: 'other', now: NOW } as const
  await holdPages(t, store, failing, ['failing.example', 'none-y.example'], 'with its issuer')
  const other = { order: 'newest', issuer: 'other', now: NOW } as const
  const ofOther = ['none-y.example', 'failing.example', 'late.example']
  await holdPages(t, store, other, ofOther, 'an issuer')
  await holdPages(t, store, { ...other, issuer: 'none' }, [], 'an issuer without certificates')
  const without = { order: 'newest', without: 'ca', now: NOW } as const
  await holdPages(t, store, without, ofOther, 'all but those of an issuer')
})

onBothEngines('what is searched', async (t, { store }) => {
  await fill(store)
  const many = Array.from({ length: 100 }, (_, n) => `host-${n}.a-department.example.com`)
  await add(store, { names: many, renewAt: NOW + 6.5 * DAY })
  const cases: [why: string, search: Search, found: string[]][] = [
    ['part of any name', { part: 'alias' }, ['a.example']],
    ['part of several', { part: 'b.ex' }, ['b.example', 'b.example']],
    [
      'part of one of too many for an index',
      { part: 'host-99.' },
      ['host-0.a-department.example.com'],
    ],
    ['a serial number', { serialNumber: 'cafe' }, ['gone.example']],
    ['not part of one', { serialNumber: 'caf' }, []],
    ['not what was replaced', { serialNumber: 'beef' }, []],
    ['either', { part: 'alias', serialNumber: 'cafe' }, ['a.example', 'gone.example']],
    ['a whole name', { wildcard: 'alias.example' }, ['a.example']],
    ['a first name', { wildcard: 'late.example' }, ['late.example']],
    ['not part of one', { wildcard: 'example' }, []],
    [
      'one of too many for an index',
      { wildcard: 'host-7.a-department.example.com' },
      ['host-0.a-department.example.com'],
    ],
    ['a name that never had one', { part: 'none-' }, ['none-y.example', 'none-x.example']],
    ['all of its name', { wildcard: 'none-x.example' }, ['none-x.example']],
    ['no pattern', { part: '%' }, []],
    ...['"', ',', '","', '["', 'e"]', '\\'].map((part): [string, Search, string[]] => [
      `nothing between names: ${part}`,
      { part },
      [],
    ]),
    ['either, if a part is of no name', { part: '"', serialNumber: 'cafe' }, ['gone.example']],
  ]
  for (const [why, search, found] of cases)
    await holdPages(t, store, { order: 'next', search, now: NOW }, found, why)
  const search = { part: 'failing' }
  const both = { order: 'expiry', search, state: 'failing', issuer: 'other', now: NOW } as const
  await holdPages(t, store, both, ['failing.example'], 'with a state and an issuer')
})

onBothEngines('any certificates and orders come in any order once each', async (t, { store }) => {
  const moments = fc.record({
    name: fc.constantFrom('a', 'a-b', 'a.b', 'b', '*.b', '10.0.0.1', 'xn--bcher-kva'),
    renewAt: fc.option(fc.integer({ min: -2, max: 2 })),
    notAfter: fc.integer({ min: -1, max: 2 }),
  })
  let n = 0
  for (const { name, renewAt, notAfter } of fc.sample(moments, 40)) {
    n += 1
    const next = NOW + (renewAt ?? 0) * DAY
    if (n % 3 === 0) {
      await fail(store, name, {
        id: randomUUID(),
        requestKey: `l${n}`,
        nextTryAt: next,
        since: next,
      })
      continue
    }
    await add(store, {
      requestKey: `l${n}`,
      names: [name],
      renewAt: renewAt === null ? null : NOW + renewAt * DAY,
      notAfter: NOW + notAfter * DAY,
    })
  }
  const orders = await failedOrders(store)
  const all = [...(await store.list({ after: 0, limit: 99 })), ...orders]
  t.equal(all.length, 40)
  for (const order of ['next', 'expiry', 'name', 'newest'] as const) {
    const sorted = all.toSorted((a, b) => {
      const [one, other] = [positionOf(a, order), positionOf(b, order)]
      const isSame = typeof one.id === typeof other.id
      const isFirst = isSame ? one.id < other.id : typeof one.id === 'number'
      const isBefore = one.key === other.key ? isFirst : one.key < other.key
      return (isBefore ? -1 : 1) * (order === 'newest' ? -1 : 1)
    })
    const ids = sorted.map(({ id }) => id)
    const read = await readAll(store, { order, now: NOW }, 7)
    t.same(
      read.map(({ id }) => id),
      ids,
      order,
    )
  }
})

onBothEngines(
  'a fingerprint finds a certificate, and whether it is current',
  async (t, { store }) => {
    const replaced = await add(store, { names: ['a.example'] })
    const current = await add(store, { names: ['a.example'] })
    for (let n = 0; n < 3; n += 1) await add(store, { names: [`${n}.example`] })
    const find = (certificate: Uint8Array) => store.findIssued(hash('sha256', certificate))
    t.match(await find(current.certificate), { ...current, isCurrent: true })
    t.match(await find(replaced.certificate), { id: replaced.id, isCurrent: false })
    t.equal(await store.findIssued('ab'.repeat(32)), undefined)
  },
)

onBothEngines('what there is in each state, and what is ahead', async (t, { store }) => {
  const starts = [NOW, NOW + DAY, NOW + 3 * DAY, NOW + 5 * DAY]
  t.strictSame(await store.tally(NOW, starts), {
    counts: { renews: 0, due: 0, unrenewed: 0, failing: 0, ended: 0 },
    renewals: [0, 0, 0, 0],
    ends: [0, 0, 0, 0],
  })
  await fill(store)
  const counted = await store.tally(NOW, starts)
  t.strictSame(counted, {
    counts: { renews: 5, due: 1, unrenewed: 1, failing: 5, ended: 1 },
    // A moment on the edge of two spans is in the first one.
    renewals: [2, 2, 0, 1],
    ends: [0, 0, 1, 2],
  })
  const { ends } = await store.tally(NOW, [NOW, NOW + 7 * DAY])
  t.strictSame(ends, [2, 1], 'nor is an end on the edge in the second one')
  for (const [state, count] of Object.entries(counted.counts)) {
    const listing = { order: 'next', state: state as CertificateState, now: NOW } as const
    t.equal((await readAll(store, listing, 20)).length, count, `${state}: as it is listed`)
  }
})

import type { CertificateRecord, Store } from '@gatehouse/cert-store/port'
import { storeUnavailable } from '@gatehouse/store'
import t from 'tap'
import { NOW, newCertificate } from '../../cert-store/test/helpers/store.ts'
import { Holdings } from '../src/holdings.ts'
import { leapClock, settle } from './leap-clock.ts'

const MANY = 6_000

function setup(store: Partial<Store> = {}) {
  const deps = { store: { onChange() {}, ...store }, clock: leapClock(NOW), keyring: {} }
  return new Holdings(deps as unknown as ConstructorParameters<typeof Holdings>[0])
}

const record = (n: number): CertificateRecord => ({
  ...newCertificate({ names: [`n${n}.test`], requestKey: `l${n}`, sealedKey: null }),
  id: n,
})

t.test('thousands of names that are asked for in turn are answered from memory', async (t) => {
  const holdings = setup()
  for (let n = 0; n < MANY; n += 1) holdings.put(record(n))
  const missing = Array.from({ length: MANY }, (_, n) => n).filter((n) => !holdings.peek(`l${n}`))
  t.strictSame(missing, [])
})

t.test('an answer says what was asked for, whoever asks first', async (t) => {
  const held = setup().put(record(1))
  const read = (...about: Parameters<typeof held.json>) => JSON.parse(held.json(...about))
  const usual = read('n1.test', true)
  t.match(usual, { domain: 'n1.test', names: ['n1.test'], certificate: /BEGIN/, cached: true })
  t.strictSame(read('n1.test', false), { ...usual, cached: false })
  t.strictSame(read('www.n1.test', true), { ...usual, domain: 'www.n1.test' })
  t.strictSame(read('n1.test', false, ['OU']), { ...usual, cached: false, ignored: ['OU'] })
  t.equal(held.json('n1.test', true), held.json('n1.test', true))
})

t.test('the certificates of a fleet are read once until something changes', async (t) => {
  const fleet = Array.from({ length: 100 }, (_, n) => record(n))
  let reads = 0
  const findByDomain = async () => {
    reads += 1
    return fleet
  }
  const holdings = setup({ findByDomain })
  for (let n = 0; n < 5; n += 1) await holdings.findByDomain('n.test', 0)
  t.equal(reads, 1)
  // The least used ones go once more certificates are in the lists than are kept.
  for (let n = 0; n < 100; n += 1) await holdings.findByDomain(`other${n}.test`, 0)
  t.equal(holdings.peekByDomain('n.test'), undefined)
  t.equal(holdings.peekByDomain('other99.test'), fleet)
  holdings.put(record(7))
  t.equal(holdings.peekByDomain('other99.test'), undefined)
})

const away = storeUnavailable('for a test')

/** Holdings of a shared store, of which a test decides what it has, and when and whether it answers. */
function shared() {
  const stored = new Map<string, CertificateRecord | Error>()
  const state = { open: Promise.resolve(), reads: 0 }
  let listener: Parameters<Store['onChange']>[0] = () => {}
  const holdings = setup({
    isShared: true,
    onChange(added) {
      listener = added
    },
    async findCurrent(requestKey) {
      state.reads += 1
      await state.open
      const found = stored.get(requestKey)
      if (found instanceof Error) throw found
      return found
    },
  })
  const hold = async (n: number) => {
    stored.set(`l${n}`, record(n))
    return holdings.of(record(n), holdings.changes())
  }
  const tell: typeof listener = async (change) => listener(change)
  const compare = async () => tell({ requestKeys: 'all', isUrgent: true })
  return { holdings, stored, state, hold, tell, compare }
}

t.test('a full read compares what is cached with the store', async (t) => {
  const changes: [
    what: string,
    now: CertificateRecord | Error | undefined,
    then: object | undefined,
  ][] = [
    ['nothing', record(0), { id: 0, renewAt: record(0).renewAt }],
    ['renewed', { ...record(1), id: 99 }, { id: 99 }],
    ['planned again', { ...record(2), renewAt: NOW + 1 }, { id: 2, renewAt: NOW + 1 }],
    ['explained', { ...record(3), explanationUrl: 'https://ca.test' }, { id: 3 }],
    ['revoked or deleted', undefined, undefined],
    ['unreadable', new Error('for a test'), undefined],
  ]
  const { holdings, stored, state, hold, compare } = shared()
  const before = await Promise.all(changes.map((_, n) => hold(n)))
  for (const [n, [, now]] of changes.entries())
    if (now) stored.set(`l${n}`, now)
    else stored.delete(`l${n}`)
  const { promise, resolve } = Promise.withResolvers<void>()
  state.open = promise
  const compared = compare()
  for (const [n, [what]] of changes.entries())
    t.equal(holdings.peek(`l${n}`), undefined, `${what}: not answered before it is compared`)
  resolve()
  await compared
  t.equal(state.reads, changes.length)
  for (const [n, [what, , then]] of changes.entries())
    t.match(holdings.peek(`l${n}`)?.record, then, what)
  t.equal(holdings.peek('l0'), before[0], 'what is the same is kept as it is')
  t.match(holdings.peek('l3')?.json('n3.test', true), 'https://ca.test')
})

t.test('what is not compared yet is answered while the store is away, and only then', async (t) => {
  const { holdings, stored, hold, compare } = shared()
  await Promise.all([hold(1), hold(2)])
  for (const requestKey of ['l1', 'l2', 'l3']) stored.set(requestKey, away)
  for (let outages = 0; outages < 3; outages += 1) {
    await t.rejects(compare(), away)
    t.equal(holdings.peek('l1'), undefined)
    t.equal((await holdings.find('l1'))?.record.id, 1)
    t.strictSame(
      holdings.remembered(['n2.test'], away).map(({ id }) => id),
      [2],
    )
    t.equal(holdings.peek('l1'), undefined, 'which makes it no better known')
  }
  await t.rejects(holdings.find('l3'), away, 'as what was never held')
  stored.set('l1', record(1))
  stored.delete('l2')
  await compare()
  t.ok(holdings.peek('l1'))
  stored.set('l2', away)
  await t.rejects(holdings.find('l2'), away)
})

t.test('what is changed here while it is compared stays so', async (t) => {
  const { holdings, state, hold, compare } = shared()
  await Promise.all([hold(1), hold(2), hold(3)])
  const { promise, resolve } = Promise.withResolvers<void>()
  state.open = promise
  const compared = compare()
  holdings.forget(['l1'])
  holdings.put({ ...record(2), id: 99 })
  resolve()
  await compared
  const ids = ['l1', 'l2', 'l3'].map((requestKey) => holdings.peek(requestKey)?.record.id)
  t.strictSame(ids, [undefined, 99, 3])
})

t.test('what was read before a change is answered, and cached when it is read again', async (t) => {
  const { holdings, stored, state } = shared()
  const changes = holdings.changes()
  stored.set('l1', { ...record(1), id: 99 })
  holdings.forget(['l1', 'l2'])
  t.equal((await holdings.of(record(1), changes)).record.id, 1)
  t.equal((await holdings.of(record(2), changes)).record.id, 2)
  await settle()
  t.equal(holdings.peek('l1')?.record.id, 99)
  t.equal(holdings.peek('l2'), undefined, 'it was revoked')
  t.equal(state.reads, 2)
})

t.test('a change of another replica is compared, a revocation forgets at once', async (t) => {
  const { holdings, stored, state, hold, tell } = shared()
  await Promise.all([hold(1), hold(2), hold(3)])
  stored.set('l1', { ...record(1), id: 99 })
  stored.delete('l2')
  await tell({ requestKeys: ['l1', 'l9'], isUrgent: false })
  t.equal(holdings.peek('l1')?.record.id, 99)
  t.ok(holdings.peek('l3'))
  t.equal(state.reads, 1, 'of what is not cached, nothing is read')
  void tell({ requestKeys: ['l2'], isUrgent: true })
  t.strictSame(holdings.remembered(['n2.test'], away), [])
  t.equal(state.reads, 1)
})

t.test('of those with a name, the same are preferred as in the store', async (t) => {
  const named = (id: number, names: readonly string[], sealedKey: Buffer | null) => ({
    ...record(id),
    ...{ requestKey: `l${id}`, names, sealedKey },
  })
  const key = Buffer.from('sealed')
  const { holdings } = shared()
  for (const one of [
    named(1, ['a.test'], null),
    named(2, ['b.test', 'a.test'], key),
    named(3, ['a.test'], key),
    named(4, ['a.test', 'b.test'], key),
    named(5, ['c.test'], key),
    named(6, ['*.test'], key),
  ])
    holdings.put(one)
  const idsOf = (names: string[], error: unknown = away) =>
    holdings.remembered(names, error).map(({ id }) => id)
  t.strictSame(idsOf(['a.test']), [4, 3, 1, 2])
  t.strictSame(idsOf(['a.test', '*.test']), [4, 3, 1, 2, 6])
  t.strictSame(idsOf(['x.test', '*.test']), [6])
  t.strictSame(idsOf(['x.test']), [])
  t.strictSame(idsOf(['a.test'], new Error('for a test')), [], 'only if the store is away')
})

import { onBothEngines } from './helpers/engines.ts'
import { NOW } from './helpers/store.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const KEPT_FOR = { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY }
const OLD = ['0123456789abcdef']
const BOTH = [...OLD, 'fedcba9876543210']

onBothEngines('the last word of each caller at each address', async (t, { store }) => {
  const web = { caller: 'psk:web', address: '10.0.0.1', roots: OLD, seenAt: NOW }
  const other = { ...web, address: '10.0.0.2' }
  const fetched = { caller: '', address: '10.0.0.1', roots: BOTH, seenAt: NOW + 1 }
  await store.addRootHolders([web, other, fetched])
  t.same(await store.listRootHolders(0), [fetched, web, other])
  await store.addRootHolders([{ ...web, roots: BOTH, seenAt: NOW + HOUR }])
  const updated = { ...web, roots: BOTH, seenAt: NOW + HOUR }
  t.same(await store.listRootHolders(0), [updated, fetched, other])
  t.same(await store.listRootHolders(NOW + 2), [updated])
  await store.addRootHolders([])
  t.equal(await store.prune(NOW + 90 * DAY + 2, KEPT_FOR), 2)
  t.same(await store.listRootHolders(0), [updated])
  t.equal(await store.prune(NOW - DAY, KEPT_FOR), 1, 'what a clock wrote that was ahead')
})

onBothEngines('many addresses of one caller do not push out those of others', async (t, opened) => {
  const { store, sql } = opened
  await store.addRootHolders([{ caller: 'other', address: 'a', roots: [], seenAt: NOW - DAY }])
  const fill = (caller: string, from: number, to: number) =>
    sql(`
    INSERT INTO @root_holders (caller, address, roots, seen_at)
    WITH RECURSIVE n (n) AS (SELECT ${from} UNION ALL SELECT n + 1 FROM n WHERE n < ${to})
    SELECT '${caller}', 'a' || n, '[]', ${NOW} + n FROM n`)
  await fill('one', 1, 1_000)
  await store.addRootHolders([{ caller: 'one', address: 'new', roots: [], seenAt: NOW + DAY }])
  const list = await store.listRootHolders(0)
  const addresses = list.filter(({ caller }) => caller === 'one').map(({ address }) => address)
  t.strictSame([addresses.length, addresses[0], addresses.at(-1)], [1_000, 'new', 'a2'])
  t.ok(list.some(({ caller }) => caller === 'other'))

  for (let n = 2; n <= 10; n += 1) await fill(`caller ${n}`, 1, 1_000)
  await store.addRootHolders([{ caller: 'last', address: 'a', roots: [], seenAt: NOW }])
  const all = await store.listRootHolders(0)
  t.equal(all.length, 10_000)
  t.notOk(
    all.some(({ caller }) => caller === 'other'),
    'who was not seen for longest',
  )
})

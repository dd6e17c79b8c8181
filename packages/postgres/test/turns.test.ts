import t from 'tap'
import { startPostgres } from '../../../scripts/test/postgres.ts'
import type { Postgres, Turn } from '../src/index.ts'
import { failureOf, insert, numbers, open } from './kit.ts'

const server = await startPostgres(t)

const kind: Turn<number, number> = {
  statements: (items) => [
    {
      sql: 'INSERT INTO numbers (n) SELECT * FROM unnest($1::int[]) RETURNING n',
      params: [items],
    },
  ],
  settle: ([rows], items) => items.map((_, i) => rows?.[i]?.n as number),
}

/** The number of transactions that committed a write. */
async function commits(db: Postgres): Promise<number> {
  const [row] = await db.all<{ count: number }>(
    'SELECT count(DISTINCT xmin::text) AS count FROM numbers',
  )
  return row?.count as number
}

t.test('what is added in one turn of the event loop is one transaction', async (t) => {
  const db = await open(t, server)
  const add = db.turn(kind)
  const addMore = db.turn<number, string>({
    ...kind,
    settle: (rows, items) => items.map((n) => `${n} of ${rows.length}`),
  })
  const results = await Promise.all([add(1), addMore(2), add(3), addMore(4)])
  t.strictSame(results, [1, '2 of 1', 3, '4 of 1'])
  t.equal(await commits(db), 1)
  const [row] = await db.all('SELECT count(*) AS count FROM writes')
  t.strictSame(row, { count: 1 })
})

t.test('what comes while a write is under way is the next transaction', async (t) => {
  const db = await open(t, server)
  const add = db.turn(kind)
  const first = add(0)
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  const others: Promise<number>[] = []
  for (let n = 1; n <= 100; n++) {
    others.push(add(n))
    await Promise.resolve()
  }
  await Promise.all([first, ...others])
  t.equal(await commits(db), 2)
})

t.test('thousands are several transactions, and all of them are written', async (t) => {
  const db = await open(t, server)
  const add = db.turn(kind)
  const all = Array.from({ length: 4096 }, (_, i) => i)
  t.strictSame(await Promise.all(all.map(add)), all)
  t.equal(await commits(db), 4)
})

t.test('more than 4096 are refused', async (t) => {
  const db = await open(t, server)
  const add = db.turn(kind)
  const all = Array.from({ length: 4097 }, (_, i) => add(i))
  t.match(await failureOf(all[4096] as Promise<number>), {
    code: 'POSTGRES_UNAVAILABLE',
    message: /too much waits for it\.$/,
  })
  await Promise.all(all.slice(0, 4096))
  t.equal(await add(5000), 5000)
})

t.test('only the item at fault fails', async (t) => {
  const db = await open(t, server)
  const add = db.turn(kind)
  const addOther = db.turn({ ...kind })
  await db.write([insert(13), insert(17)])
  const all = Array.from({ length: 32 }, (_, i) => (i % 2 ? add : addOther)(i))
  const results = await Promise.allSettled(all)
  results.forEach((result, i) => {
    if (i === 13 || i === 17)
      t.match(result, { status: 'rejected', reason: { constraint: 'numbers_pkey' } })
    else t.strictSame(result, { status: 'fulfilled', value: i })
  })
  t.equal((await numbers(db)).length, 32)
})

t.test('statements that cannot be made fail their item', async (t) => {
  const db = await open(t, server)
  const add = db.turn<number, number>({
    ...kind,
    statements(items) {
      if (items.includes(2)) throw new RangeError('two')
      return kind.statements(items)
    },
  })
  const results = await Promise.allSettled([1, 2, 3].map(add))
  t.match(results, [{ value: 1 }, { reason: RangeError }, { value: 3 }])
  t.strictSame(await numbers(db), [1, 3])
})

t.test('an item may fail though it was written, by what settle gives', async (t) => {
  const db = await open(t, server)
  const add = db.turn<number, number>({
    ...kind,
    settle: (_, items) => items.map((n) => (n === 2 ? new RangeError('two') : n)),
  })
  const broken = db.turn<number, number>({
    ...kind,
    settle() {
      throw new RangeError('all')
    },
  })
  const results = await Promise.allSettled([add(1), add(2), broken(3), broken(4)])
  const all = { reason: { message: 'all' } }
  t.match(results, [{ value: 1 }, { reason: { message: 'two' } }, all, all])
  t.strictSame(await numbers(db), [1, 2, 3, 4])
})

t.test('kinds that need not be durable have transactions of their own', async (t) => {
  const db = await open(t, server)
  const ask = {
    statements: () => [{ sql: `SELECT current_setting('synchronous_commit') AS value` }],
    settle: ([rows]: readonly (readonly Record<string, unknown>[])[], items: readonly number[]) =>
      items.map(() => rows?.[0]?.value),
  }
  const [durable, fast] = [db.turn(ask), db.turn({ ...ask, durable: false })]
  t.strictSame(await Promise.all([durable(1), fast(1), durable(2)]), ['on', 'off', 'on'])
})

t.test('reads share round trips, and are no writes', async (t) => {
  const db = await open(t, server)
  await db.write([1, 2, 3].map((n) => insert(n)))
  const together: number[][] = []
  const find = db.turn<number, boolean>({
    readOnly: true,
    statements(items) {
      together.push([...items])
      return [{ sql: 'SELECT n FROM numbers WHERE n = ANY ($1::int[])', params: [items] }]
    },
    settle: ([rows], items) => items.map((item) => rows?.some(({ n }) => n === item) ?? false),
  })
  const first = find(1)
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  const others = [find(2), find(4), find(3)]
  t.strictSame(await Promise.all([first, ...others]), [true, true, false, true])
  t.strictSame(together, [[1], [2, 4, 3]])
  t.match(await failureOf(find(1e10)), { message: /a value is not valid/ })
  const [beside] = await Promise.allSettled([find(3), find(1e10)])
  t.strictSame(beside, { status: 'fulfilled', value: true }, 'only the item at fault fails')
  t.strictSame(await db.all('SELECT count(*) AS count FROM writes'), [{ count: 1 }])
})

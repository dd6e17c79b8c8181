import t from 'tap'
import { type Engine, groupCommit, type Transaction } from '../../src/index.ts'
import { failureOf, insert, numbers, onBothEngines, open, testServer, until } from '../kit.ts'
import { Relay } from '../postgres/relay.ts'

const range = (count: number) => Array.from({ length: count }, (_, i) => i + 1)
const violation = { code: 'STORE_STATEMENT_FAILED', constraint: /numbers/ }

/** Adds numbers, of which the write is told as groups. A negative one throws. */
function adding(db: Engine) {
  const groups: (readonly number[])[] = []
  const write = (tx: Transaction, items: readonly number[]) => {
    groups.push(items)
    return Promise.all(
      items.map(async (n) => {
        if (n < 0) throw new RangeError('own')
        await insert(tx, n)
        return `added ${n}`
      }),
    )
  }
  return { add: groupCommit(db, write), groups }
}

onBothEngines('what waits shares a transaction, and each gets its own result', async (t, db) => {
  const { add, groups } = adding(db)
  const all = range(200)
  t.strictSame(
    await Promise.all(all.map(add)),
    all.map((n) => `added ${n}`),
  )
  t.strictSame(
    groups.map(({ length }) => length),
    [64, 64, 64, 8],
  )
  t.equal(await add(201), 'added 201')
  t.strictSame(await numbers(db), range(201))
})

onBothEngines(
  'one group is written at a time, and the next is of all that waits',
  async (t, db) => {
    const others: Promise<number>[] = []
    const groups: (readonly number[])[] = []
    const add = groupCommit(db, async (tx, items: readonly number[]) => {
      groups.push(items)
      const isFirst = items.includes(1)
      if (isFirst) others.push(add(2))
      for (const _ of range(isFirst ? 20 : 0)) await tx.get('SELECT 1')
      if (isFirst) others.push(add(3))
      return Promise.all(items.map((n) => insert(tx, n)))
    })
    // Each has a connection by now.
    await Promise.all(range(3).map(() => db.transaction((tx) => tx.get('SELECT 1'))))
    t.equal(await add(1), 1)
    t.strictSame(await Promise.all(others), [1, 1])
    t.strictSame(groups, [[1], [2, 3]])
    t.strictSame(await numbers(db), [1, 2, 3])
  },
)

onBothEngines('an item that fails, fails alone', async (t, db) => {
  const { add, groups } = adding(db)
  await insert(db, 2)
  const added = await Promise.allSettled([1, 2, 3, -1].map(add))
  t.match(added, [
    { status: 'fulfilled', value: 'added 1' },
    { status: 'rejected', reason: violation },
    { status: 'fulfilled', value: 'added 3' },
    { status: 'rejected', reason: new RangeError('own') },
  ])
  const [first, ...others] = groups
  t.strictSame(first, [1, 2, 3, -1])
  t.ok(others.every(({ length }) => length === 1))
  t.strictSame(await numbers(db), [1, 2, 3])
})

onBothEngines('what waits when the store is closed is written first', async (t, db) => {
  const { add } = adding(db)
  const added = Promise.all(range(3).map(add))
  await db.close()
  t.strictSame(await added, ['added 1', 'added 2', 'added 3'])
  const late = await Promise.all(range(3).map((n) => failureOf(add(n))))
  for (const error of late) t.match(error, { code: 'STORE_UNAVAILABLE' })
})

for (const cut of ['before', 'during', 'after'] as const)
  t.test(`a group whose connection is cut ${cut} its commit is written once`, async (t) => {
    const server = await testServer()
    const relay = await Relay.start(t, server)
    const db = await open(t, server, { url: relay.through(server.url) })
    const { add } = adding(db)
    relay.cut(cut)
    t.strictSame(await Promise.all([1, 2].map(add)), ['added 1', 'added 2'])
    t.equal(relay.left, 0)
    t.strictSame(await numbers(db), [1, 2])
  })

t.test('of a group whose outcome cannot be found out, nothing is written again', async (t) => {
  const server = await testServer()
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url) })
  const { add, groups } = adding(db)
  relay.cut('after')
  relay.refuse()
  const failures = await Promise.all([1, 2].map((n) => failureOf(add(n))))
  for (const error of failures)
    t.match(error, { code: 'STORE_UNAVAILABLE', message: 'is not known' })
  relay.refuse(false)
  await until(() => !db.failure())
  t.strictSame(groups, [[1, 2]])
  t.strictSame(await numbers(db), [1, 2])
})

t.test('a group is as durable as it is asked to be', async (t) => {
  const db = await open(t, await testServer())
  const settingOf = (options?: { durable: boolean }) =>
    groupCommit(
      db,
      (tx: Transaction, names: readonly string[]) =>
        Promise.all(
          names.map((name) => tx.get<{ is: string }>('SELECT current_setting($1) AS is', name)),
        ),
      options,
    )('synchronous_commit')
  t.strictSame(await settingOf(), { is: 'on' })
  t.strictSame(await settingOf({ durable: false }), { is: 'off' })
})

t.test('what runs again writes the same', async (t) => {
  const groups: (readonly number[])[] = []
  const write = async (_: Transaction, items: readonly number[]) => {
    groups.push([...items])
    // Somebody comes before it runs again.
    if (groups.length === 1) others.push(add(2))
    return items
  }
  const others: Promise<number>[] = []
  const runsTwice: Engine['transaction'] = async (job, { after } = {}) => {
    await after
    await job({} as Transaction)
    return job({} as Transaction)
  }
  const add = groupCommit({ transaction: runsTwice } as Engine, write)
  t.equal(await add(1), 1)
  t.strictSame(await Promise.all(others), [2])
  t.strictSame(groups, [[1], [1], [2], [2]])
})

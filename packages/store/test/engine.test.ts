import t from 'tap'
import type { Transaction } from '../src/index.ts'
import { failureOf, insert, numbers, onBothEngines } from './kit.ts'

const violation = { code: 'STORE_STATEMENT_FAILED', constraint: /numbers/ }

onBothEngines('values go in and come out', async (t, db) => {
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  const values = [1, 'a "quoted" \\ {text}, ü', bytes] as const
  await db.run('INSERT INTO numbers (n, text, bytes) VALUES ($1, $2, $3)', ...values)
  await db.run('INSERT INTO numbers (n, text, bytes) VALUES ($1, $2, $3)', 2, null, undefined)
  const [first, second] = await db.all('SELECT n, text, bytes FROM numbers ORDER BY n')
  const got = { ...first, bytes: Uint8Array.from((first?.bytes ?? []) as Uint8Array) }
  t.strictSame(got, { n: 1, text: values[1], bytes })
  t.strictSame(second, { n: 2, text: null, bytes: null })
  t.strictSame(await db.get('SELECT n FROM numbers WHERE n = $1', 2n), { n: 2 })
  t.equal(await db.get('SELECT n FROM numbers WHERE n = 3'), undefined)
  t.strictSame(await db.all('SELECT n FROM numbers WHERE n = 3'), [])
})

onBothEngines('a whole number is one', async (t, db) => {
  const row = await db.get(`SELECT $1::bigint / 2 AS half, $1::bigint || '' AS text`, 7)
  t.strictSame(row, { half: 3, text: '7' })
})

onBothEngines('a list is a parameter of JSON', async (t, db) => {
  for (const n of [1, 2, 3]) await insert(db, n)
  const sql = `SELECT n FROM numbers
    WHERE n IN (SELECT value::bigint FROM json_array_elements_text($1::json)) ORDER BY n`
  t.strictSame(await db.all(sql, JSON.stringify([3, 1, 7])), [{ n: 1 }, { n: 3 }])
})

onBothEngines('a write tells how many rows it changed', async (t, db) => {
  t.equal(await insert(db, 1), 1)
  t.equal(await insert(db, 2), 1)
  t.equal(await db.run(`UPDATE numbers SET text = 'a'`), 2)
  t.equal(await db.run('INSERT INTO numbers (n) VALUES (1) ON CONFLICT DO NOTHING'), 0)
  t.equal(await db.run('DELETE FROM numbers WHERE n > 2'), 0)
})

onBothEngines('a transaction is written whole, and gives what its job does', async (t, db) => {
  const given = await db.transaction(async (tx) => {
    t.equal(await insert(tx, 1), 1)
    t.strictSame(await tx.get('SELECT n FROM numbers'), { n: 1 }, 'it sees what it has written')
    return Promise.all([insert(tx, 2), numbers(tx), insert(tx, 3), numbers(tx)])
  })
  t.strictSame(given, [1, [1, 2], 1, [1, 2, 3]], 'in the order in which they were issued')
  t.strictSame(await numbers(db), [1, 2, 3])
})

onBothEngines('what a job does not await is written with the rest', async (t, db) => {
  const job = (tx: Transaction, n: number) => {
    insert(tx, n).catch(() => {})
    return Promise.resolve(`given ${n}`)
  }
  t.equal(await db.transaction((tx) => job(tx, 1)), 'given 1')
  t.match(await failureOf(db.transaction((tx) => job(tx, 1))), violation)
  const throwing = db.transaction(async (tx) => {
    await job(tx, 2)
    throw new RangeError('own')
  })
  await t.rejects(throwing, RangeError)
  t.strictSame(await numbers(db), [1])
})

onBothEngines('a job that throws writes nothing, and is told what it threw', async (t, db) => {
  const failing = db.transaction(async (tx) => {
    await insert(tx, 1)
    throw new RangeError('own')
  })
  await t.rejects(failing, RangeError)
  t.strictSame(await numbers(db), [])
  t.equal(db.failure(), undefined)
})

const jobs: [what: string, job: (tx: Transaction) => Promise<unknown>][] = [
  ['alone', (tx) => insert(tx, 1)],
  ['beside others', (tx) => Promise.all([insert(tx, 2), insert(tx, 1), insert(tx, 3)])],
  [
    'in a job that hides it',
    (tx) => insert(tx, 1).catch((error) => void t.match(error, violation)),
  ],
  ['in a job that goes on', (tx) => insert(tx, 1).catch(() => insert(tx, 4))],
  [
    'in a job that throws something else',
    (tx) => insert(tx, 1).catch(() => Promise.reject(new RangeError())),
  ],
  [
    'in one of two branches',
    (tx) => Promise.all([insert(tx, 1), numbers(tx).then(() => insert(tx, 5))]),
  ],
]
for (const [what, job] of jobs)
  onBothEngines(`a statement that fails ${what} fails the transaction`, async (t, db) => {
    await insert(db, 1)
    t.match(await failureOf(db.transaction(job)), violation)
    await insert(db, 6)
    t.strictSame(await numbers(db), [1, 6])
    t.equal(db.failure(), undefined, 'the store is fine')
  })

onBothEngines('what is repeatable gives its rows, and fails as a whole', async (t, db) => {
  const add = (...all: number[]) =>
    db.transaction((tx) => Promise.all(all.map((n) => insert(tx, n))), { repeatable: true })
  t.strictSame(await add(1, 2), [1, 1])
  t.match(await failureOf(add(3, 2, 4)), violation)
  t.strictSame(await add(5), [1])
  t.strictSame(await numbers(db), [1, 2, 5])
})

onBothEngines('a statement after one that failed is not run', async (t, db) => {
  await insert(db, 1)
  const job = async (tx: Transaction) => {
    const results = await Promise.allSettled([insert(tx, 1), tx.get('SELECT 1'), insert(tx, 2)])
    for (const result of results)
      t.match(result, { status: 'rejected', reason: { code: 'STORE_STATEMENT_FAILED' } })
  }
  t.match(await failureOf(db.transaction(job)), violation)
})

onBothEngines('a statement after the end of its transaction does nothing', async (t, db) => {
  const kept = await db.transaction(async (tx) => tx)
  for (const statement of [kept.run, kept.all, kept.get])
    t.match(await failureOf(statement('INSERT INTO numbers (n) VALUES (1)')), {
      message: 'The transaction is over',
    })
  t.strictSame(await numbers(db), [])
})

onBothEngines(
  'what a statement is at fault for is told, outside of a job as well',
  async (t, db) => {
    await insert(db, 1)
    t.match(await failureOf(insert(db, 1)), violation)
    for (const sql of ['SELECT * FROM absent', 'nonsense'])
      t.match(await failureOf(db.all(sql)), {
        code: 'STORE_STATEMENT_FAILED',
        constraint: undefined,
      })
    t.equal(db.failure(), undefined)
    await db.check()
  },
)

onBothEngines('what is being written is written before it closes', async (t, db) => {
  const writes = Promise.all([1, 2, 3, 4, 5, 6].map((n) => insert(db, n)))
  await db.close()
  t.strictSame(await writes, Array(6).fill(1))
  const closed = { code: 'STORE_UNAVAILABLE', message: /it is closed\.$/ }
  for (const call of [() => db.all('SELECT 1'), () => insert(db, 7), () => db.check()])
    t.match(await failureOf(call()), closed)
  await db.close()
})

import { existsSync, mkdirSync, readFileSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { migrateSqlite, Sqlite, StoreError, type Transaction } from '../../src/index.ts'
import { failureOf, insert, numbers, openSqlite } from '../kit.ts'

const UNAVAILABLE = { code: 'STORE_UNAVAILABLE', retryAfter: 5 }

/** What another connection sees: what is committed. */
const committed = (other: DatabaseSync) =>
  other
    .prepare('SELECT n FROM numbers ORDER BY n')
    .all()
    .map(({ n }) => n)

t.test('the writes of a turn are one transaction, answered after its commit', async (t) => {
  const { db, other, sqlite } = openSqlite(t)
  sqlite.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  const seen: unknown[] = []
  const writes = [1, 2, 3].map((n) => insert(db, n).then(() => seen.push(committed(other))))
  t.same(committed(other), [], 'nothing is written while the turn lasts')
  await Promise.all(writes)
  t.same(seen[0], [1, 2, 3], 'the first answer comes when all are committed')
  const { log } = sqlite.prepare('PRAGMA wal_checkpoint').get() ?? {}
  t.equal(log, 2, 'one commit: a page of the table, a page of its index')
})

t.test('a job at fault fails alone, and the others of its turn are written', async (t) => {
  const { db, other } = openSqlite(t)
  const throwing = db.transaction(async (tx) => {
    await insert(tx, 4)
    throw new RangeError('own')
  })
  const results = await Promise.allSettled([1, 2, 1, 3].map((n) => insert(db, n)).concat(throwing))
  t.match(results, [
    { value: 1 },
    { value: 1 },
    { reason: { code: 'STORE_STATEMENT_FAILED', constraint: /UNIQUE.*numbers\.n/ } },
    { value: 1 },
    { reason: RangeError },
  ])
  t.same(committed(other), [1, 2, 3])
  t.equal(db.failure(), undefined)
})

t.test('of two jobs, too, one fails alone', async (t) => {
  const { db, other } = openSqlite(t)
  const results = await Promise.allSettled([1, 1].map((n) => insert(db, n)))
  t.match(results, [{ value: 1 }, { reason: { code: 'STORE_STATEMENT_FAILED' } }])
  t.same(committed(other), [1])
})

t.test('a turn waits for the disk if one of its writes has to', async (t) => {
  const { db } = openSqlite(t)
  const [fast, full] = [{ synchronous: 1 }, { synchronous: 2 }]
  const write = (durable: boolean) =>
    db.transaction((tx) => tx.get('PRAGMA synchronous'), { durable })
  t.strictSame(await write(false), fast)
  t.strictSame(await Promise.all([write(false), write(false)]), [fast, fast])
  t.strictSame(await Promise.all([write(false), write(true)]), [full, full])
  t.strictSame(await db.transaction((tx) => tx.get('PRAGMA synchronous')), full, 'by default')
})

t.test('jobs run one after the other, in their order', async (t) => {
  const { db } = openSqlite(t)
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve))
  const steps: string[] = []
  const jobs: Promise<unknown>[] = []
  for (const name of 'abcd') {
    const job = db.transaction(async (tx) => {
      for (const step of [1, 2, 3]) {
        steps.push(`${name}${step}`)
        await tx.get('SELECT 1')
        // Longer than a job should take: the next one comes meanwhile.
        await nextTurn()
      }
    })
    jobs.push(job)
    await nextTurn()
  }
  await Promise.all(jobs)
  t.equal(steps.join(' '), 'a1 a2 a3 b1 b2 b3 c1 c2 c3 d1 d2 d3')
})

t.test('reads wait for the transaction that is under way, and see nothing of it', async (t) => {
  const { db } = openSqlite(t)
  const begun = Promise.withResolvers<void>()
  const goOn = Promise.withResolvers<void>()
  let isOver = false
  const writing = db.transaction(async (tx) => {
    await insert(tx, 1)
    begun.resolve()
    await goOn.promise
    await insert(tx, 2)
    isOver = true
    throw new RangeError('own')
  })
  const failing = failureOf(writing)
  await begun.promise
  const reads = Promise.all([numbers(db), numbers(db), db.get('SELECT n FROM numbers')])
  const seen = reads.then((rows) => ({ rows, isOver }))
  const next = insert(db, 3)
  goOn.resolve()
  t.match(await failing, RangeError)
  t.strictSame(await seen, { rows: [[], [], undefined], isOver: true })
  await next
  t.strictSame(await numbers(db), [3])
})

t.test('the writes that wait are bounded', async (t) => {
  const { db } = openSqlite(t)
  const results = await Promise.allSettled(Array.from({ length: 4_100 }, (_, n) => insert(db, n)))
  const refused = results.filter(({ status }) => status === 'rejected')
  t.equal(refused.length, 4_100 - 4_096)
  t.match(refused[0], { reason: { ...UNAVAILABLE, message: /too many writes wait\.$/ } })
  await insert(db, 5_000)
  t.equal((await numbers(db)).length, 4_097)
})

t.test('writes can be refused, and reads go on', async (t) => {
  const { db } = openSqlite(t)
  await insert(db, 1)
  const damaged = new StoreError('STORE_CORRUPT', 'It is damaged.')
  db.refuseWrites(damaged)
  t.equal(await failureOf(insert(db, 2)), damaged)
  t.equal(await failureOf(db.check()), damaged)
  t.equal(db.failure(), damaged)
  t.strictSame(await numbers(db), [1])
  db.refuseWrites(undefined)
  await db.check()
  t.equal(db.failure(), undefined)
  await insert(db, 2)
})

t.test('nothing is written at the end into what refuses writes', async (t) => {
  let passed = 0
  const { db, other } = openSqlite(t, undefined, () => passed)
  passed = 5_000
  db.refuseWrites(new StoreError('STORE_CORRUPT', 'It is damaged.'))
  await db.close()
  t.equal(other.prepare('SELECT ms FROM run_time').get()?.ms, 0)
})

interface Harm {
  readonly reason: RegExp
  harm(of: ReturnType<typeof openSqlite>): void
  mend(of: ReturnType<typeof openSqlite>): void
}

const pagesOf = (sqlite: DatabaseSync) =>
  Number(sqlite.prepare('PRAGMA page_count').get()?.page_count)
const BIG = 'INSERT INTO numbers (n, bytes) VALUES (2, zeroblob(100000))'

/** Ways in which a database refuses writes. */
const harms: Readonly<Record<string, Harm>> = {
  'another program locks': {
    reason: /it is locked by another program/,
    harm: ({ other }) => other.exec('BEGIN IMMEDIATE'),
    mend: ({ other }) => other.exec('ROLLBACK'),
  },
  'is full': {
    reason: /the disk is full/,
    harm: ({ sqlite }) => sqlite.exec(`PRAGMA max_page_count = ${pagesOf(sqlite)}`),
    mend: ({ sqlite }) => sqlite.exec('PRAGMA max_page_count = 4294967294'),
  },
  'is read-only': {
    reason: /it is read-only/,
    harm: ({ sqlite }) => sqlite.exec('PRAGMA query_only = ON'),
    mend: ({ sqlite }) => sqlite.exec('PRAGMA query_only = OFF'),
  },
}

t.test('after a failure, room for a commit is demanded beside the file', async (t) => {
  const { db, sqlite, file } = openSqlite(t)
  const room = `${file}.room`
  sqlite.exec(`PRAGMA max_page_count = ${pagesOf(sqlite)}`)
  t.match(await failureOf(db.run(BIG)), UNAVAILABLE)
  sqlite.exec('PRAGMA max_page_count = 4294967294')
  const obstacles: [reason: RegExp, place: () => void, remove: () => void][] = [
    [/its folder gives EISDIR/, () => mkdirSync(room), () => rmdirSync(room)],
    [/the disk is full/, () => symlinkSync('/dev/full', room), () => {}],
  ]
  for (const [message, place, remove] of obstacles) {
    place()
    t.match(await failureOf(db.check()), { ...UNAVAILABLE, message })
    remove()
  }
  await db.check()
  t.equal(db.failure(), undefined)
  t.notOk(existsSync(room))
})

for (const [what, { reason, harm, mend }] of Object.entries(harms))
  t.test(`a database that ${what} is told, and is written again afterwards`, async (t) => {
    const opened = openSqlite(t)
    const { db, other, sqlite } = opened
    await insert(db, 1)
    sqlite.exec('CREATE TEMP TABLE own (n)')
    const inMemory = (tx: Transaction) => tx.run('INSERT INTO own VALUES (1)')
    harm(opened)
    const writes = [db.run(BIG), insert(db, 3)].map(failureOf)
    for (const error of await Promise.all(writes))
      t.match(error, { ...UNAVAILABLE, message: reason })
    t.match(db.failure(), { ...UNAVAILABLE, message: reason })
    t.strictSame(await numbers(db), [1], 'reads go on')
    t.match(db.failure(), UNAVAILABLE, 'and do not cure it')
    await db.transaction(inMemory, { durable: false }).catch(() => {})
    t.match(db.failure(), UNAVAILABLE, 'nor does what is in memory alone')
    await insert(db, 4).catch(() => {})
    for (let i = 0; i < 3; i++)
      t.match(await failureOf(db.check()), { ...UNAVAILABLE, message: reason })
    t.match(db.failure(), UNAVAILABLE, 'nor a smaller write')
    mend(opened)
    await db.check()
    t.equal(db.failure(), undefined)
    await db.run(BIG)
    t.match(committed(other), [1, 2])
  })

t.test('a job that goes on after SQLite has ended its transaction writes nothing', async (t) => {
  const { db, sqlite, other } = openSqlite(t)
  sqlite.exec(`PRAGMA max_page_count = ${pagesOf(sqlite)}`)
  const job = async (tx: Transaction) => {
    await insert(tx, 1)
    await tx.run(BIG).catch(() => insert(tx, 3))
  }
  t.match(await failureOf(db.transaction(job)), UNAVAILABLE)
  t.same(committed(other), [])
})

t.test('a read that failed counts until it works again', async (t) => {
  const { db, sqlite, other } = openSqlite(t)
  // In which a writer can keep readers out.
  sqlite.exec('PRAGMA journal_mode = DELETE')
  await insert(db, 1)
  other.exec('BEGIN EXCLUSIVE')
  t.match(await failureOf(db.get('SELECT n FROM numbers WHERE n = $1', 1)), UNAVAILABLE)
  t.match(db.failure(), UNAVAILABLE)
  t.match(await failureOf(db.check()), UNAVAILABLE)
  other.exec('ROLLBACK')
  await insert(db, 2)
  t.strictSame(await numbers(db), [1, 2])
  t.match(db.failure(), UNAVAILABLE, 'neither a write nor another read cures it')
  await db.check()
  t.equal(db.failure(), undefined)
})

t.test('a read of what is damaged fails for as long as it is', async (t) => {
  const { db, file } = openSqlite(t)
  const text = 'a'.repeat(1_000)
  await Promise.all(Array.from({ length: 100 }, (_, n) => insert(db, n, text)))
  await db.close()
  const bytes = readFileSync(file)
  writeFileSync(file, Buffer.from(bytes).fill(7, bytes.length - 6 * 4_096))
  const damaged = new Sqlite(new DatabaseSync(file))
  const corrupt = { code: 'STORE_CORRUPT' }
  t.match(await failureOf(damaged.all('SELECT text FROM numbers')), corrupt)
  t.match(damaged.failure(), corrupt)
  for (let i = 0; i < 3; i++) t.match(await failureOf(damaged.check()), corrupt)
  await damaged.close()
  writeFileSync(file, bytes)
  await using mended = new Sqlite(new DatabaseSync(file))
  await mended.check()
})

t.test('a write into what is damaged fails for as long as it is', async (t) => {
  const { db, file } = openSqlite(t)
  await Promise.all(Array.from({ length: 100 }, (_, n) => insert(db, n, 'a'.repeat(1_000))))
  await db.run('CREATE TABLE sound (n)')
  await db.close()
  const bytes = readFileSync(file)
  writeFileSync(file, Buffer.from(bytes).fill(7, bytes.length - 7 * 4_096, bytes.length - 4_096))
  const damaged = new Sqlite(new DatabaseSync(file))
  const corrupt = { code: 'STORE_CORRUPT' }
  t.match(await failureOf(damaged.run('UPDATE numbers SET text = $1', 'b')), corrupt)
  await damaged.run('INSERT INTO sound VALUES (1)')
  t.match(damaged.failure(), corrupt, 'another write does not cure it')
  for (let i = 0; i < 3; i++) t.match(await failureOf(damaged.check()), corrupt)
  await damaged.close()
})

t.test('what failed is tried again without effect', async (t) => {
  const { db, sqlite, other } = openSqlite(t)
  sqlite.exec(`PRAGMA max_page_count = ${pagesOf(sqlite)}`)
  t.match(await failureOf(db.run(BIG)), UNAVAILABLE)
  sqlite.exec('PRAGMA max_page_count = 4294967294')
  await db.check()
  t.equal(db.failure(), undefined)
  t.same(committed(other), [])
})

t.test('the run time goes on at the next start', async (t) => {
  let passed = 77_000
  const { db, file } = openSqlite(t, undefined, () => passed)
  const stored = () => {
    using sqlite = new DatabaseSync(file)
    return sqlite.prepare('SELECT ms FROM run_time').get()?.ms
  }
  t.equal(db.runTime(), 0)
  passed -= 1_000
  t.equal(db.runTime(), 0, 'never less')
  passed += 6_000
  t.strictSame([db.runTime(), stored()], [5_000, 0])
  await db.check()
  t.equal(stored(), 5_000)
  passed += 2_000
  await db.close()
  t.equal(stored(), 7_000)
  const again = new Sqlite(new DatabaseSync(file), { elapsed: () => passed })
  t.equal(again.runTime(), 7_000)
  passed += 1.5
  t.equal(again.runTime(), 7_001)
  await again.close()
})

t.test('a thread reads the reports of a large file, as any read', async (t) => {
  const path = `${t.testdir()}/large.db`
  const sqlite = new DatabaseSync(path)
  sqlite.exec('PRAGMA journal_mode = WAL')
  migrateSqlite(sqlite, [() => 'CREATE TABLE numbers (n INTEGER, filled BLOB) STRICT'])
  const db = new Sqlite(sqlite, { file: path })
  t.teardown(() => db.close())
  const prepared: string[] = []
  const { prepare } = sqlite
  sqlite.prepare = (sql) => {
    prepared.push(sql)
    return prepare.call(sqlite, sql)
  }
  const count = async (of: string) =>
    (await db.reports.get<{ n: number }>(`SELECT count(*) AS n FROM numbers WHERE n > ${of}`, 1))?.n
  t.equal(await count('$1'), 0)
  t.equal(prepared.length, 1, 'of a small one, this thread')
  await db.run('INSERT INTO numbers VALUES (2, zeroblob($1::bigint))', 40_000_000)
  sqlite.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  t.equal(await count('$1 + 0'), 1, 'what was committed')
  await t.rejects(count('nothing'), { code: 'STORE_STATEMENT_FAILED' })
  t.equal(prepared.length, 2)
  const asked = t.rejects(count('$1'), { ...UNAVAILABLE, message: /it is closed/ })
  await db.close()
  await asked
  await t.rejects(count('$1'), { code: 'STORE_UNAVAILABLE' }, 'no other thread')
})

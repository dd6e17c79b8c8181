import t from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { type Queries, StoreError, type Transaction } from '../../src/index.ts'
import { failureOf, insert, logged, newSchema, numbers, open, until } from '../kit.ts'
import { Relay } from './relay.ts'

const server = await startPostgres(t)

t.test('values go in and come out', async (t) => {
  const db = await open(t, server)
  const text = 'a "quoted" \\ {text}, ü'
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  const [row] = await db.all(
    `SELECT $1::text AS text, $2::bytea AS bytes, $3::int8 AS int8, $4::xid8 AS xid8, $5::bool AS bool,
      $6::jsonb AS json, $7::text AS null, $8::float8 AS float8, count(*) AS count`,
    ...[text, bytes, 2 ** 52, 2n ** 63n, true, JSON.stringify({ a: [1, null] }), undefined, 0.1],
  )
  t.strictSame(row, {
    text,
    bytes: Buffer.from(bytes),
    int8: 2 ** 52,
    xid8: 2n ** 63n,
    bool: true,
    json: { a: [1, null] },
    null: null,
    float8: 0.1,
    count: 1,
  })
})

t.test(
  'a parameter that cannot be sent fails its write, and nothing of it is written',
  async (t) => {
    const db = await open(t, server)
    const job = (tx: Transaction) =>
      Promise.all([insert(tx, 1), insert(tx, {} as never), insert(tx, 2)])
    await t.rejects(db.transaction(job), TypeError)
    await t.rejects(db.all('SELECT $1', [1] as never), TypeError)
    await t.rejects(db.all('SELECT 1', ...Array(1001).fill(1)), TypeError)
    t.strictSame(await numbers(db), [])
  },
)

t.test('what the database rejects is told without its values', async (t) => {
  const db = await open(t, server)
  await insert(db, 1, 'secret')
  const again = await failureOf(insert(db, 1, 'secret'))
  t.match(again, {
    code: 'STORE_STATEMENT_FAILED',
    constraint: 'numbers_pkey',
    message: 'SQLSTATE 23505, constraint numbers_pkey',
  })
  const notNull = await failureOf(db.run(`INSERT INTO numbers (n, text) VALUES (NULL, 'secret')`))
  const notNumber = await failureOf(db.all('SELECT $1::text::int', 'secret'))
  t.match(notNumber, { message: 'SQLSTATE 22P02' })
  const noTable = await failureOf(db.all('SELECT * FROM absent'))
  t.match(noTable, { message: /absent.*SQLSTATE 42P01/ })
  for (const error of [again, notNull, notNumber])
    t.notMatch(JSON.stringify(error) + error.message + error.stack + error.cause, 'secret')
})

t.test('reads cannot write', async (t) => {
  const db = await open(t, server)
  const writing = db.all('INSERT INTO numbers (n) VALUES (1) RETURNING n')
  t.match(await failureOf(writing), { message: 'SQLSTATE 25006' })
  t.equal(db.failure(), undefined)
})

t.test('a statement that takes too long fails alone, and its connection stays', async (t) => {
  const db = await open(t, server)
  const pid = (on: Transaction) => on.get('SELECT pg_backend_pid() AS pid')
  const before = await db.transaction(pid)
  const failure = await failureOf(
    db.transaction(async (tx) => {
      await tx.all('SET LOCAL statement_timeout TO 50')
      await tx.all('SELECT pg_sleep(10)')
    }),
  )
  t.match(failure, { code: 'STORE_UNAVAILABLE', message: 'took too long', retryAfter: 2 })
  t.strictSame(await db.transaction(pid), before)
  t.equal(db.failure(), undefined, 'it says nothing about others')
})

t.test('more callers than connections wait for each other', async (t) => {
  const db = await open(t, server)
  const rows = await Promise.all(
    Array.from({ length: 20 }, () => db.all('SELECT pg_backend_pid() AS pid, pg_sleep(0.005)')),
  )
  t.equal(new Set(rows.map(([row]) => row?.pid)).size, 2)
})

t.test('a process has seven connections, however much it does at once', async (t) => {
  const db = await open(t, server, { name: 'busy' })
  const busy = (on: Queries) => on.all('SELECT pg_sleep(0.005)')
  await Promise.all(Array.from({ length: 200 }, () => [busy(db), db.transaction(busy)]).flat())
  const rows = await server.sql(`SELECT 1 FROM pg_stat_activity WHERE application_name = 'busy'`)
  t.equal(rows.length, 7)
})

t.test('reads share connections, and each has its own answer', async (t) => {
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url) })
  const answers = (sql: (n: number) => string, count: number) =>
    Promise.allSettled(Array.from({ length: count }, (_, n) => db.get(sql(n))))
  await answers((n) => `SELECT ${n} AS n`, 2)
  relay.hold()
  const sql = (n: number) => `SELECT ${n} / (${n} % 7) AS n`
  const reads = answers(sql, 50)
  await until(() =>
    Array.from({ length: 50 }, (_, n) => sql(n)).every((text) => relay.sent.includes(text)),
  )
  relay.release()
  for (const [n, result] of (await reads).entries())
    if (n % 7 === 0) t.match(result, { reason: { message: 'SQLSTATE 22012' } })
    else t.strictSame(result, { status: 'fulfilled', value: { n: Math.trunc(n / (n % 7)) } })
})

t.test('a prepared statement survives a change of the schema', async (t) => {
  const db = await open(t, server)
  const add = (column: string) => db.run(`ALTER TABLE numbers ADD COLUMN ${column} int`)
  t.strictSame(await db.all('SELECT * FROM numbers'), [])
  await add('more')
  await insert(db, 1)
  t.match(await db.all('SELECT * FROM numbers'), [{ n: 1, more: null }])
  // A connection for writes learns the new columns while it writes.
  const sql = 'INSERT INTO numbers (n) VALUES (2) ON CONFLICT (n) DO UPDATE SET n = 2 RETURNING *'
  const put = () => db.transaction((tx) => tx.get(sql))
  await put()
  await add('evenmore')
  for (let i = 0; i < 3; i++) t.match(await put(), { n: 2, evenmore: null })
})

t.test('what is left of a schema is used by whoever owns it, without other rights', async (t) => {
  await server.sql(`CREATE ROLE narrow LOGIN PASSWORD 'narrow'; CREATE SCHEMA owned AUTHORIZATION narrow;
    CREATE SCHEMA foreign_one`)
  const url = server.url.replace('gatehouse:test-only', 'narrow:narrow')
  const db = await open(t, server, { url, schema: 'owned' })
  await insert(db, 1)
  const again = await open(t, server, { url, schema: 'owned' })
  t.strictSame(await numbers(again), [1])
  for (const schema of ['foreign_one', 'absent_one'])
    t.match(await failureOf(open(t, server, { url, schema })), {
      code: 'STORE_REFUSED',
      message: 'lacks a right',
    })
})

t.test('refusals say what to do, and never the password or the user', async (t) => {
  const cases: [url: string, reason: string][] = [
    [server.url.replace('test-only', 'wr0ng-one'), 'the password is wrong'],
    [server.url.replace('gatehouse:test-only', 'nobody:wr0ng-one'), 'the password is wrong'],
    [server.url.replace(/gatehouse$/, 'absent'), 'there is no such database'],
  ]
  for (const [url, reason] of cases) {
    const error = await failureOf(open(t, server, { url }))
    t.ok(error instanceof StoreError)
    t.match(error, { code: 'STORE_REFUSED', message: reason })
    t.match(error.message, `127.0.0.1:${server.port}`)
    t.notMatch(error.message + error.stack + error.cause, /wr0ng-one|nobody/)
  }
})

t.test('nothing is read from the environment', async (t) => {
  const environment = {
    PGPASSWORD: 'wrong',
    PGSSLMODE: 'require',
    PGOPTIONS: '-c search_path=elsewhere',
    PGAPPNAME: 'elsewhere',
    PGDATABASE: 'elsewhere',
  }
  Object.assign(process.env, environment)
  t.teardown(() => {
    for (const name of Object.keys(environment)) delete process.env[name]
  })
  const db = await open(t, server)
  const [row] = await db.all(`SELECT current_setting('application_name') AS name`)
  t.strictSame(row, { name: 'gatehouse-test' })
})

t.test('names of schemas and tables are plain', async (t) => {
  for (const schema of ['', 'A', 'a-b', '1a', 'a"; DROP', 'a'.repeat(49)])
    await t.rejects(open(t, server, { schema }), TypeError)
  await t.rejects(open(t, server, { feeds: ['a b'] }), TypeError)
  const longest = await open(t, server, { schema: 'a'.repeat(48) })
  await insert(longest, 1)
})

t.test('after close nothing works, and nothing is left', async (t) => {
  const schema = newSchema()
  const db = await open(t, server, { schema, name: 'to-be-closed' })
  const added = Promise.all([1, 2, 3, 4, 5, 6].map((n) => insert(db, n)))
  await db.close()
  await added
  await t.rejects(db.all('SELECT 1'), { code: 'STORE_UNAVAILABLE', message: 'it is closed' })
  await t.rejects(insert(db, 7), { code: 'STORE_UNAVAILABLE' })
  t.equal((await server.sql(`SELECT n FROM ${schema}.numbers`)).length, 6)
  const open_ = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'to-be-closed'`
  t.strictSame(await server.sql(open_), [{ count: 0 }])
})

t.test('the run time is that of the replica that has run for longest', async (t) => {
  const schema = newSchema()
  const [passed, others] = [[1_000], [50_000]] as [[number], [number]]
  const replica = (clock: [number], existing = false) =>
    open(t, server, { schema, existing, elapsed: () => clock[0] })
  const a = await replica(passed)
  t.equal(a.runTime(), 0)
  passed[0] += 5_000.7
  t.equal(a.runTime(), 5_000)
  await a.check()
  passed[0] += 0.4
  t.equal(a.runTime(), 5_001, 'no fraction is lost by that')
  const b = await replica(others)
  t.equal(b.runTime(), 5_000, 'it goes on')
  // Both run at the same time, and one of them for longer.
  passed[0] += 1_000
  others[0] += 3_000
  await b.check()
  t.equal(a.runTime(), 6_001)
  await a.check()
  t.equal(a.runTime(), 8_000)
  passed[0] += 500
  await a.close()
  await b.close()
  const [row] = await server.sql(`SELECT ms::int FROM ${schema}.run_time`)
  t.strictSame(row, { ms: 8_500 }, 'saved at the end')
  const reader = await replica(passed, true)
  await reader.close()
  t.strictSame(await server.sql(`SELECT ms::int FROM ${schema}.run_time`), [row])
})

t.test('what could not be opened does not go on trying', async (t) => {
  const before = logged.length
  t.match(await failureOf(open(t, server, { feeds: ['absent'], name: 'not-opened' })), {
    code: 'STORE_STATEMENT_FAILED',
    message: 'absent',
  })
  const left = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'not-opened'`
  t.strictSame(await server.sql(left), [{ count: 0 }])
  t.strictSame(logged.slice(before), [], 'no connection is missed')
})

t.test('a statement has a thousand parameters at most', async (t) => {
  const db = await open(t, server)
  const sum = (count: number) => {
    const terms = Array.from({ length: count }, (_, i) => `$${i + 1}::int`)
    return db.get(`SELECT ${terms.join(' + ')} AS sum`, ...Array(count).fill(1))
  }
  t.strictSame(await sum(1_000), { sum: 1_000 })
  await t.rejects(sum(1_001), TypeError)
})

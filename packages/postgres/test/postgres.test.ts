import t from 'tap'
import { startPostgres } from '../../../scripts/test/postgres.ts'
import { PostgresError } from '../src/index.ts'
import { failureOf, insert, logged, newSchema, numbers, open } from './kit.ts'

const server = await startPostgres(t)

t.test('values go in and come out', async (t) => {
  const db = await open(t, server)
  const text = 'a "quoted" \\ {text}, ü'
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
  const [row] = await db.all(
    `SELECT $1::text AS text, $2::bytea AS bytes, $3::int8 AS int8, $4::xid8 AS xid8, $5::bool AS bool,
      $6::jsonb AS json, $7::text AS null, $8::text[] AS texts, $9::bytea[] AS many, $10::int8[] AS ints,
      $11::float8 AS float8, count(*) AS count, $12::bool[] AS bools`,
    [
      text,
      bytes,
      2 ** 52,
      2n ** 63n,
      true,
      JSON.stringify({ a: [1, null] }),
      undefined,
      [text, null, ''],
      [bytes, null, Buffer.alloc(0)],
      [2 ** 52, null, -1],
      0.1,
      [true, false, null],
    ],
  )
  t.strictSame(row, {
    text,
    bytes: Buffer.from(bytes),
    int8: 2 ** 52,
    xid8: 2n ** 63n,
    bool: true,
    json: { a: [1, null] },
    null: null,
    texts: [text, null, ''],
    many: [Buffer.from(bytes), null, Buffer.alloc(0)],
    ints: [2 ** 52, null, -1],
    float8: 0.1,
    count: 1,
    bools: [true, false, null],
  })
})

t.test('arrays are written with unnest', async (t) => {
  const db = await open(t, server)
  const [rows] = await db.write([
    {
      sql: 'INSERT INTO numbers (n, text, bytes) SELECT * FROM unnest($1::int[], $2::text[], $3::bytea[]) RETURNING *',
      params: [
        [1, 2],
        ['a', null],
        [null, Buffer.from('b')],
      ],
    },
  ])
  t.strictSame(rows, [
    { n: 1, text: 'a', bytes: null },
    { n: 2, text: null, bytes: Buffer.from('b') },
  ])
})

t.test(
  'a parameter that cannot be sent fails its write, and nothing of it is written',
  async (t) => {
    const db = await open(t, server)
    const bad = { sql: 'INSERT INTO numbers (n) VALUES ($1)', params: [{} as never] }
    await t.rejects(db.write([insert(1), bad, insert(2)]), TypeError)
    await t.rejects(db.all('SELECT $1', [[{}] as never]), TypeError)
    await t.rejects(db.all('SELECT 1', Array(1001).fill(1)), TypeError)
    t.strictSame(await numbers(db), [])
  },
)

t.test('what the database rejects is told without its values', async (t) => {
  const db = await open(t, server)
  await db.write([insert(1, 'secret')])
  const again = await failureOf(db.write([insert(1, 'secret')]))
  t.match(again, {
    code: 'POSTGRES_STATEMENT_FAILED',
    constraint: 'numbers_pkey',
    message: 'SQLSTATE 23505, constraint numbers_pkey',
  })
  const notNull = await failureOf(
    db.write([{ sql: `INSERT INTO numbers (n, text) VALUES (NULL, 'secret')` }]),
  )
  const notNumber = await failureOf(db.all('SELECT $1::text::int', ['secret']))
  t.match(notNumber, { message: 'SQLSTATE 22P02' })
  const noTable = await failureOf(db.all('SELECT * FROM absent'))
  t.match(noTable, { message: /absent.*SQLSTATE 42P01/ })
  for (const error of [again, notNull, notNumber])
    t.notMatch(JSON.stringify(error) + error.message + error.stack + error.cause, 'secret')
})

t.test('reads cannot write', async (t) => {
  const db = await open(t, server)
  const { sql, params } = insert(1)
  t.match(await failureOf(db.all(sql, params)), { message: 'SQLSTATE 25006' })
  t.equal(db.failure(), undefined)
})

t.test('a statement that takes too long fails alone, and its connection stays', async (t) => {
  const db = await open(t, server, { poolSize: 1 })
  const [before] = await db.all('SELECT pg_backend_pid() AS pid')
  const failure = await failureOf(
    db.transaction(async (tx) => {
      await tx.all('SET LOCAL statement_timeout TO 50')
      await tx.all('SELECT pg_sleep(10)')
    }),
  )
  t.match(failure, { code: 'POSTGRES_UNAVAILABLE', message: 'took too long', retryAfter: 2 })
  t.strictSame(await db.all('SELECT pg_backend_pid() AS pid'), [before])
})

t.test('more callers than connections wait for each other', async (t) => {
  const db = await open(t, server, { poolSize: 2 })
  const rows = await Promise.all(
    Array.from({ length: 20 }, () => db.all('SELECT pg_backend_pid() AS pid, pg_sleep(0.005)')),
  )
  t.equal(new Set(rows.map(([row]) => row?.pid)).size, 2)
})

t.test('a prepared statement survives a change of the schema', async (t) => {
  const db = await open(t, server, { poolSize: 1 })
  t.strictSame(await db.all('SELECT * FROM numbers'), [])
  await db.transaction((tx) => tx.all('ALTER TABLE numbers ADD COLUMN more int'))
  await db.write([insert(1)])
  t.match(await db.all('SELECT * FROM numbers'), [{ n: 1, more: null }])
  // A connection for writes learns the new columns while it writes.
  const all = {
    sql: 'INSERT INTO numbers (n) VALUES (2) ON CONFLICT (n) DO UPDATE SET n = 2 RETURNING *',
  }
  await db.write([all])
  await db.transaction((tx) => tx.all('ALTER TABLE numbers ADD COLUMN evenmore int'))
  const results = [await db.write([all]), await db.write([all]), await db.write([all])]
  for (const [rows] of results) t.match(rows, [{ n: 2, evenmore: null }])
})

t.test('what is left of a schema is used by whoever owns it, without other rights', async (t) => {
  await server.sql(`CREATE ROLE narrow LOGIN PASSWORD 'narrow'; CREATE SCHEMA owned AUTHORIZATION narrow;
    CREATE SCHEMA foreign_one`)
  const url = server.url.replace('gatehouse:test-only', 'narrow:narrow')
  const db = await open(t, server, { url, schema: 'owned' })
  await db.write([insert(1)])
  const again = await open(t, server, { url, schema: 'owned' })
  t.strictSame(await numbers(again), [1])
  for (const schema of ['foreign_one', 'absent_one'])
    t.match(await failureOf(open(t, server, { url, schema })), {
      code: 'POSTGRES_REFUSED',
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
    t.ok(error instanceof PostgresError)
    t.match(error, { code: 'POSTGRES_REFUSED', message: reason })
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
  await longest.write([insert(1)])
})

t.test('after close nothing works, and nothing is left', async (t) => {
  const schema = newSchema()
  const db = await open(t, server, { schema, name: 'to-be-closed' })
  const add = db.turn<number, void>({
    statements: (items) => [
      { sql: 'INSERT INTO numbers (n) SELECT * FROM unnest($1::int[])', params: [items] },
    ],
    settle: (_, items) => items.map(() => undefined),
  })
  const added = [add(1), add(2)]
  await db.close()
  await Promise.all(added)
  await t.rejects(db.all('SELECT 1'), { code: 'POSTGRES_UNAVAILABLE', message: 'it is closed' })
  await t.rejects(db.write([insert(3)]), { code: 'POSTGRES_UNAVAILABLE' })
  t.strictSame(await server.sql(`SELECT n FROM ${schema}.numbers ORDER BY n`), [{ n: 1 }, { n: 2 }])
  const open_ = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'to-be-closed'`
  t.strictSame(await server.sql(open_), [{ count: 0 }])
})

t.test('what could not be opened does not go on trying', async (t) => {
  const before = logged.length
  t.match(await failureOf(open(t, server, { feeds: ['absent'], name: 'not-opened' })), {
    code: 'POSTGRES_STATEMENT_FAILED',
    message: 'absent',
  })
  const left = `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'not-opened'`
  t.strictSame(await server.sql(left), [{ count: 0 }])
  t.strictSame(logged.slice(before), [], 'no connection is missed')
})

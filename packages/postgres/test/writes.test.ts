import t from 'tap'
import { startPostgres } from '../../../scripts/test/postgres.ts'
import type { Postgres, Transaction } from '../src/index.ts'
import { failureOf, insert, newSchema, numbers, open, until } from './kit.ts'
import { type Cut, Relay } from './relay.ts'

const server = await startPostgres(t)

/** Adds a row that must not be added twice, in each way of writing. */
const ways: [way: string, write: (db: Postgres, n: number) => Promise<unknown>][] = [
  ['a write', (db, n) => db.write([insert(n)])],
  ['a transaction', (db, n) => db.transaction((tx) => tx.all(insert(n).sql, insert(n).params))],
  ['a turn', (db, n) => numbersOf(db)(n)],
]

const numbersOf = (db: Postgres) =>
  db.turn<number, number>({
    statements: (items) => [
      {
        sql: 'INSERT INTO numbers (n) SELECT * FROM unnest($1::int[]) RETURNING n',
        params: [items],
        keep: true,
      },
    ],
    settle: ([rows], items) => items.map((_, i) => rows?.[i]?.n as number),
  })

/** The primary key would refuse a second one. */
const cases: [cuts: Cut[], writes: number][] = [
  [['before'], 1],
  [['during'], 1],
  [['after'], 1],
  [['before', 'after'], 1],
  [['before', 'before', 'during'], 1],
]

for (const [way, write] of ways)
  for (const [cuts, count] of cases)
    t.test(`${way}, cut ${cuts.join(', then ')} COMMIT, happens once`, async (t) => {
      const relay = await Relay.start(t, server)
      const db = await open(t, server, { url: relay.through(server.url) })
      await write(db, 1)
      relay.cut(...cuts)
      await write(db, 2)
      t.equal(relay.left, 0)
      t.strictSame(await numbers(db), [1, 2])
      const [row] = await db.all('SELECT count(*) AS count FROM writes')
      t.strictSame(row, { count: 1 + count })
      t.equal(db.failure(), undefined)
    })

t.test('rows that are kept are known even if the answer is lost', async (t) => {
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url) })
  relay.cut('after')
  const statements = [
    { ...insert(1, 'a'), keep: true },
    insert(2, 'b'),
    {
      sql: `WITH gone AS (DELETE FROM numbers WHERE n = $1 RETURNING n),
        kept AS (SELECT n * 10 AS n, true AS gone FROM gone) SELECT * FROM kept`,
      params: [7],
      keep: true,
    },
    { sql: 'SELECT * FROM generate_series(1, 2) AS i', keep: true },
  ]
  const lost = await db.write(statements)
  t.strictSame(lost, [[{ n: 1, text: 'a' }], [], [], [{ i: 1 }, { i: 2 }]])
  const add = numbersOf(db)
  relay.cut('after')
  t.strictSame(await Promise.all([3, 4, 5].map(add)), [3, 4, 5])
  await t.rejects(
    db.write([{ sql: 'WITH a AS (SELECT 1) SELECT 2', keep: true }]),
    /ends in `SELECT \* FROM kept`/,
  )
})

const SLOW = `CREATE TABLE numbers (n int PRIMARY KEY, text text);
  CREATE SEQUENCE runs;
  CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM nextval('runs'), pg_sleep(0.3); RETURN NULL; END $$;
  CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON numbers DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION slow()`

const once = insert(1, 'once')
const slowly: [way: string, write: (db: Postgres) => Promise<unknown>][] = [
  ['a write', async (db) => (await db.write([{ ...once, keep: true }]))[0]],
  ['a transaction', (db) => db.transaction((tx) => tx.all(once.sql, once.params))],
]

t.test('a commit that is still under way when its connection breaks is waited for', async (t) => {
  for (const [way, write] of slowly)
    await t.test(way, async (t) => {
      const relay = await Relay.start(t, server)
      const options = { url: relay.through(server.url), migrations: [SLOW], poolSize: 1 }
      const db = await open(t, server, options)
      await db.write([{ sql: 'SELECT 1' }])
      relay.cut('during')
      t.strictSame(await write(db), [{ n: 1, text: 'once' }])
      // The first attempt committed, and the second one found that out. Sequences do not roll back.
      t.strictSame(await db.all('SELECT last_value AS runs FROM runs'), [{ runs: 1 }])
      t.strictSame(await numbers(db), [1])
    })
})

t.test('a write whose outcome cannot be found out says so', async (t) => {
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url) })
  await db.write([insert(1)])
  relay.cut('after')
  relay.refuse()
  const error = await failureOf(db.write([insert(2)]))
  t.match(error, { code: 'POSTGRES_UNAVAILABLE', message: 'is not known' })
  relay.refuse(false)
  await until(() => !db.failure())
  t.strictSame(await numbers(db), [1, 2])
})

t.test('a serialization failure is tried again', async (t) => {
  const schema = newSchema()
  const db = await open(t, server, { schema })
  // Sequences do not roll back.
  await server.sql(`CREATE SEQUENCE ${schema}.tries; GRANT ALL ON ${schema}.tries TO gatehouse`)
  const stale = {
    sql: `DO $$ BEGIN IF nextval('tries') % 3 <> 0 THEN RAISE EXCEPTION 'stale' USING ERRCODE = '40001'; END IF; END $$`,
  }
  await db.write([insert(1), stale])
  await db.transaction(async (tx) => {
    await tx.all(insert(2).sql, insert(2).params)
    await tx.all(stale.sql)
  })
  t.strictSame(await db.all('SELECT last_value AS tries FROM tries'), [{ tries: 6 }])
  t.strictSame(await numbers(db), [1, 2])
})

t.test('a deadlock is resolved', async (t) => {
  const db = await open(t, server)
  await db.write([insert(1, ''), insert(2, '')])
  const first = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  let runs = 0
  const update = (own: 0 | 1) =>
    db.transaction(async (tx) => {
      runs++
      const sql = `UPDATE numbers SET text = text || $2 WHERE n = $1`
      await tx.all(sql, [own + 1, String(own)])
      first[own].resolve()
      await first[1 - own]?.promise
      await tx.all(sql, [2 - own, String(own)])
    })
  await Promise.all([update(0), update(1)])
  t.ok(runs > 2)
  const rows = await db.all<{ text: string }>('SELECT text FROM numbers')
  t.strictSame(
    rows.map(({ text }) => [...text].sort()),
    [
      ['0', '1'],
      ['0', '1'],
    ],
  )
})

t.test('conflicts without end are given up', async (t) => {
  const db = await open(t, server)
  const sql = `DO $$ BEGIN RAISE EXCEPTION 'stale' USING ERRCODE = '40001'; END $$`
  const error = await failureOf(db.write([{ sql }]))
  t.match(error, { code: 'POSTGRES_UNAVAILABLE' })
  t.notMatch(error.message, 'is not known')
})

t.test('a transaction that throws writes nothing, and is not tried again', async (t) => {
  const db = await open(t, server)
  let runs = 0
  const failing = db.transaction(async (tx) => {
    runs++
    await tx.all(insert(1).sql, insert(1).params)
    throw new RangeError('own')
  })
  await t.rejects(failing, RangeError)
  t.equal(runs, 1)
  const hiding = db.transaction(async (tx) => {
    await tx.all(insert(1).sql, insert(1).params)
    await tx.all('SELECT nonsense').catch(() => {})
  })
  await t.rejects(hiding, /A statement of the transaction failed/)
  let late: ((sql: string) => Promise<unknown>) | undefined
  await db.transaction(async (tx) => {
    late = (sql) => tx.all(sql)
  })
  await t.rejects(late?.('SELECT 1') ?? Promise.resolve(), /over/)
  t.strictSame(await numbers(db), [])
})

t.test('a failed write leaves nothing, and the first error is told', async (t) => {
  const db = await open(t, server)
  const error = await failureOf(db.write([insert(1), { sql: 'SELECT 1 / 0' }, { sql: 'nonsense' }]))
  t.match(error, { code: 'POSTGRES_STATEMENT_FAILED', message: 'SQLSTATE 22012' })
  t.strictSame(await numbers(db), [])
  t.strictSame(await db.all('SELECT * FROM writes'), [])
})

t.test('a pipeline whose BEGIN fails writes nothing', async (t) => {
  const db = await open(t, server)
  // Nothing else has to keep statements after it from being committed one by one.
  const [row] = await db.all(`SELECT current_setting('default_transaction_read_only') AS value`)
  t.strictSame(row, { value: 'on' })
})

t.test('a write that need not be durable says so to the database', async (t) => {
  const db = await open(t, server)
  const ask = { sql: `SELECT current_setting('synchronous_commit') AS value` }
  const durable = await db.write([ask])
  const fast = await db.write([ask], { durable: false })
  t.strictSame([...durable, ...fast], [[{ value: 'on' }], [{ value: 'off' }]])
  t.strictSame(await db.write([ask]), durable, 'only this write')
  const job = (tx: Transaction) => tx.pipeline([ask])
  t.strictSame(await db.transaction(job), durable)
  t.strictSame(await db.transaction(job, { durable: false }), fast)
})

t.test('a transaction takes several statements in one round trip', async (t) => {
  const db = await open(t, server)
  const rows = await db.transaction((tx) => tx.pipeline([insert(1), insert(2), insert(3)]))
  t.match(rows, [[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]])
  const failing = (tx: Transaction) => tx.pipeline([insert(4), insert(2), insert(5)])
  t.match(await failureOf(db.transaction(failing)), { constraint: 'numbers_pkey' })
  t.strictSame(await numbers(db), [1, 2, 3])
})

t.test('a long wait for a lock is ended by the server, and other writes go on', async (t) => {
  const db = await open(t, server)
  await db.write([insert(1)])
  const locked = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const holder = db.transaction(async (tx) => {
    await tx.all('SELECT * FROM numbers WHERE n = 1 FOR UPDATE')
    locked.resolve()
    await release.promise
  })
  await locked.promise
  const waiting = failureOf(db.write([{ sql: `UPDATE numbers SET text = '' WHERE n = 1` }]))
  await db.write([insert(2)])
  t.strictSame(await numbers(db), [1, 2])
  t.match(await waiting, { code: 'POSTGRES_UNAVAILABLE', message: 'a lock was not free' })
  release.resolve()
  await holder
})

t.test('writes are forgotten after an hour', async (t) => {
  const db = await open(t, server)
  await db.write([insert(1)])
  await db.write([insert(2)])
  const many = 'SELECT gen_random_uuid() FROM generate_series(1, 10000)'
  await db.write([{ sql: `INSERT INTO writes (id) ${many}` }])
  await db.write([{ sql: `UPDATE writes SET at = at - interval '61 minutes'` }])
  // The last two are among them.
  t.equal(await db.prune(), 10_004, 'in several statements')
  t.equal(await db.prune(), 0)
})

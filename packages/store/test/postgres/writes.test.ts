import { hash } from 'node:crypto'
import t from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import type { Postgres, Transaction } from '../../src/index.ts'
import { failureOf, insert, newSchema, numbers, open, until } from '../kit.ts'
import { type Cut, Relay } from './relay.ts'

const server = await startPostgres(t)

const UPDATE = 'UPDATE numbers SET text = text || text WHERE n = $1'

/** Adds a row that must not be added twice, in each way of writing. */
const ways: [way: string, write: (db: Postgres, n: number) => Promise<unknown>][] = [
  ['a write', (db, n) => insert(db, n)],
  [
    'a transaction',
    (db, n) => db.transaction((tx) => Promise.all([insert(tx, n, 'a'), tx.run(UPDATE, n)])),
  ],
  ['a fast one', (db, n) => db.transaction((tx) => insert(tx, n), { durable: false })],
  [
    'one that is not awaited',
    (db, n) => db.transaction(async (tx) => void insert(tx, n).catch(() => {})),
  ],
]

/** The primary key would refuse a second one. */
const cases: Cut[][] = [
  ['before'],
  ['during'],
  ['after'],
  ['before', 'after'],
  ['before', 'before', 'during'],
]

for (const [way, write] of ways)
  for (const cuts of cases)
    t.test(`${way}, cut ${cuts.join(', then ')} COMMIT, happens once`, async (t) => {
      const relay = await Relay.start(t, server)
      const db = await open(t, server, { url: relay.through(server.url) })
      await write(db, 1)
      relay.cut(...cuts)
      await write(db, 2)
      t.equal(relay.left, 0)
      t.strictSame(await numbers(db), [1, 2])
      const [row] = await db.all('SELECT count(*) AS count FROM writes')
      t.strictSame(row, { count: 3 }, 'with that of the start')
      t.equal(db.failure(), undefined)
    })

for (const cuts of cases)
  t.test(`what is repeatable, cut ${cuts.join(', then ')} COMMIT, is written`, async (t) => {
    const relay = await Relay.start(t, server)
    const db = await open(t, server, { url: relay.through(server.url) })
    const replace = (n: number) =>
      db.transaction(
        async (tx) => {
          const [, row] = await Promise.all([
            tx.run('DELETE FROM numbers WHERE n = $1', n),
            tx.get('INSERT INTO numbers (n) VALUES ($1) RETURNING n', n),
          ])
          return row
        },
        { repeatable: true },
      )
    t.strictSame(await replace(1), { n: 1 })
    relay.cut(...cuts)
    t.strictSame(await replace(2), { n: 2 })
    t.equal(relay.left, 0)
    t.strictSame(await numbers(db), [1, 2])
    const [row] = await db.all('SELECT count(*) AS count FROM writes')
    t.strictSame(row, { count: 1 }, 'that of the start')
    t.equal(db.failure(), undefined)
  })

t.test('what a transaction gives is known even if the answer to its commit is lost', async (t) => {
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url) })
  relay.cut('after')
  t.equal(await insert(db, 1), 1)
  relay.cut('after')
  let runs = 0
  const given = await db.transaction(async (tx) => {
    runs++
    const row = await tx.get('INSERT INTO numbers (n, text) VALUES (2, $1) RETURNING n, text', 'a')
    return { row, rows: await tx.all('SELECT n FROM numbers ORDER BY n') }
  })
  t.strictSame(given, { row: { n: 2, text: 'a' }, rows: [{ n: 1 }, { n: 2 }] })
  t.equal(runs, 1)
})

/** Writes whose answers are held once the last one before their commit has come. */
const unawaited: [what: string, write: (db: Postgres, hold: () => void) => Promise<unknown>][] = [
  [
    'what is repeatable',
    (db, hold) => {
      hold()
      return db.transaction((tx) => insert(tx, 1), { repeatable: true })
    },
  ],
  [
    'what a job does not await',
    (db, hold) =>
      db.transaction(async (tx) => {
        await tx.get('SELECT 1')
        hold()
        insert(tx, 1).catch(() => {})
      }),
  ],
]
for (const [what, write] of unawaited)
  t.test(`the commit goes with ${what}`, async (t) => {
    const relay = await Relay.start(t, server)
    const db = await open(t, server, { url: relay.through(server.url) })
    const commit = hash('sha256', 'COMMIT', 'base64url').slice(0, 24)
    const written = write(db, () => relay.hold())
    await until(() => relay.sent.includes(commit))
    relay.release()
    await written
    t.strictSame(await numbers(db), [1])
  })

const SLOW = () => `CREATE TABLE numbers (n int PRIMARY KEY, text text);
  CREATE SEQUENCE runs;
  CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM nextval('runs'), pg_sleep(0.3); RETURN NULL; END $$;
  CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON numbers DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION slow()`

t.test('a commit that is still under way when its connection breaks is waited for', async (t) => {
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url), migrations: [SLOW] })
  relay.cut('during')
  t.equal(await insert(db, 1), 1)
  // The first attempt committed, and the second one found that out. Sequences do not roll back.
  t.strictSame(await db.all('SELECT last_value AS runs FROM runs'), [{ runs: 1 }])
  t.strictSame(await numbers(db), [1])
})

t.test('a write whose outcome cannot be found out says so', async (t) => {
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url) })
  await insert(db, 1)
  relay.cut('after')
  relay.refuse()
  const error = await failureOf(insert(db, 2))
  t.match(error, { code: 'STORE_UNAVAILABLE', message: 'is not known' })
  relay.refuse(false)
  await until(() => !db.failure())
  t.strictSame(await numbers(db), [1, 2])
})

t.test('a write that is cut before its COMMIT says that it was not written', async (t) => {
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url) })
  const job = async (tx: Transaction) => {
    await insert(tx, 1)
    relay.refuse()
    relay.reset()
    await insert(tx, 2)
  }
  const error = await failureOf(db.transaction(job))
  t.match(error, { code: 'STORE_UNAVAILABLE' })
  t.notMatch(error.message, 'is not known')
  relay.refuse(false)
  await until(() => !db.failure())
  t.strictSame(await numbers(db), [])
})

const STALE = `DO $$ BEGIN IF nextval('tries') % 3 <> 0 THEN RAISE EXCEPTION 'stale' USING ERRCODE = '40001'; END IF; END $$`

t.test('a serialization failure is tried again', async (t) => {
  const schema = newSchema()
  const db = await open(t, server, { schema })
  // Sequences do not roll back.
  await server.sql(`CREATE SEQUENCE ${schema}.tries; GRANT ALL ON ${schema}.tries TO gatehouse`)
  await db.run(STALE)
  for (const n of [1, 2])
    await db.transaction(async (tx) => {
      await insert(tx, n)
      // Also if the job takes no notice.
      await tx.run(STALE).catch((error) => n === 1 && Promise.reject(error))
    })
  t.strictSame(await db.all('SELECT last_value AS tries FROM tries'), [{ tries: 9 }])
  t.strictSame(await numbers(db), [1, 2])
  t.equal(db.failure(), undefined)
})

t.test('a deadlock is resolved', async (t) => {
  const db = await open(t, server)
  await insert(db, 1, '')
  await insert(db, 2, '')
  const first = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  let runs = 0
  const update = (own: 0 | 1) =>
    db.transaction(async (tx) => {
      runs++
      const sql = `UPDATE numbers SET text = text || $2 WHERE n = $1`
      await tx.all(sql, own + 1, String(own))
      first[own].resolve()
      await first[1 - own]?.promise
      await tx.all(sql, 2 - own, String(own))
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
  const error = await failureOf(db.run(sql))
  t.match(error, { code: 'STORE_UNAVAILABLE' })
  t.notMatch(error.message, 'is not known')
  t.equal(db.failure(), undefined)
})

t.test('a transaction that throws writes nothing, and is not tried again', async (t) => {
  const db = await open(t, server)
  let runs = 0
  const failing = db.transaction(async (tx) => {
    runs++
    await insert(tx, 1)
    throw new RangeError('own')
  })
  await t.rejects(failing, RangeError)
  t.equal(runs, 1)
  t.strictSame(await numbers(db), [])
})

t.test('a failed write leaves nothing, and the first error is told', async (t) => {
  const db = await open(t, server)
  const before = await db.all('SELECT * FROM writes')
  const job = (tx: Transaction) =>
    Promise.all([insert(tx, 1), tx.all('SELECT 1 / 0'), tx.all('nonsense')])
  const error = await failureOf(db.transaction(job))
  t.match(error, { code: 'STORE_STATEMENT_FAILED', message: 'SQLSTATE 22012' })
  t.strictSame(await numbers(db), [])
  t.strictSame(await db.all('SELECT * FROM writes'), before)
})

t.test('a pipeline whose BEGIN fails writes nothing', async (t) => {
  const db = await open(t, server)
  // Nothing else has to keep statements after it from being committed one by one.
  const [row] = await db.all(`SELECT current_setting('default_transaction_read_only') AS value`)
  t.strictSame(row, { value: 'on' })
})

t.test('a write that need not be durable says so to the database', async (t) => {
  const db = await open(t, server)
  const ask = (tx: Transaction) => tx.get(`SELECT current_setting('synchronous_commit') AS value`)
  const durable = await db.transaction(ask)
  const fast = await db.transaction(ask, { durable: false })
  t.strictSame([durable, fast], [{ value: 'on' }, { value: 'off' }])
  t.strictSame(await db.transaction(ask), durable, 'only this write')
})

t.test('statements that need not wait for each other share a round trip', async (t) => {
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url) })
  const texts = ['SELECT 1 AS n', 'SELECT 2 AS n', 'SELECT 3 AS n']
  const isSent = (text: string) => relay.sent.includes(`${text}\0`)
  const answered = await db.transaction(async (tx) => {
    relay.hold()
    const answers = Promise.all(texts.map((text) => tx.get(text)))
    await until(() => texts.every(isSent))
    relay.release()
    return answers
  })
  t.strictSame(answered, [{ n: 1 }, { n: 2 }, { n: 3 }])
})

t.test(
  'a statement after one that failed is not run, and the transaction tells of the first',
  async (t) => {
    const db = await open(t, server)
    const failing = (tx: Transaction) => Promise.all([4, 2, 2, 5].map((n) => insert(tx, n)))
    t.match(await failureOf(db.transaction(failing)), { constraint: 'numbers_pkey' })
    t.strictSame(await numbers(db), [])
  },
)

t.test('a long wait for a lock is ended by the server, and other writes go on', async (t) => {
  const db = await open(t, server)
  await insert(db, 1)
  const locked = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const holder = db.transaction(async (tx) => {
    await tx.all('SELECT * FROM numbers WHERE n = 1 FOR UPDATE')
    locked.resolve()
    await release.promise
  })
  await locked.promise
  const waiting = failureOf(db.run(`UPDATE numbers SET text = '' WHERE n = 1`))
  await insert(db, 2)
  t.strictSame(await numbers(db), [1, 2])
  t.match(await waiting, { code: 'STORE_UNAVAILABLE', message: 'a lock was not free' })
  release.resolve()
  await holder
})

t.test('writes are forgotten after an hour', async (t) => {
  const db = await open(t, server)
  await insert(db, 1)
  await db.run('INSERT INTO writes (id) SELECT gen_random_uuid() FROM generate_series(1, 10000)')
  await db.run(`UPDATE writes SET at = at - interval '61 minutes'`)
  // Of the start and of three writes, the last of which is among them.
  t.equal(await db.prune(), 10_004, 'in several statements')
  t.equal(await db.prune(), 0)
})

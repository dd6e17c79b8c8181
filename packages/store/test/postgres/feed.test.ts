import t, { type Test } from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import type { Feed, Parameter, Postgres } from '../../src/index.ts'
import type { Connection } from '../../src/postgres/connection.ts'
import { Follower } from '../../src/postgres/feed.ts'
import type { Session } from '../../src/postgres/session.ts'
import { failureOf, logged, newSchema, type OpenOptions, open } from '../kit.ts'
import { Relay } from './relay.ts'

// Its transactions would have rows read again that are not newer than they.
const server = await startPostgres(t, { settings: { autovacuum: 'off' } })
/** Milliseconds that no test lasts: notifications alone, or however long it takes. */
const FOREVER = 86_400_000

const TABLE = () => `CREATE TABLE changes (
  id int PRIMARY KEY, xid xid8 NOT NULL DEFAULT pg_current_xact_id()
); CREATE INDEX ON changes (xid)`

interface Followed {
  readonly feed: Feed
  /** In the order in which they came first. */
  readonly seen: number[]
  /** The numbers of rows of full reads. */
  readonly full: number[]
  /** Resolves as soon as this is so after a read. */
  when(check: () => boolean): Promise<void>
}

/** Follows the table, by default without a poll that would hide what notifications do. */
function follow(db: Postgres, channel: string, pollMs = FOREVER): Followed {
  const [seen, full]: [number[], number[]] = [[], []]
  const waiting = new Set<() => void>()
  const feed = db.follow<{ id: number }>({
    channel,
    sql: 'SELECT id FROM changes WHERE xid >= $1::xid8 ORDER BY id',
    apply(rows, isFull) {
      if (isFull) full.push(rows.length)
      for (const { id } of rows) if (!seen.includes(id)) seen.push(id)
      for (const look of waiting) look()
    },
    pollMs,
  })
  const when = (check: () => boolean) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (!check()) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  return { feed, seen, full, when }
}

const add = (id: number) => ({ sql: 'INSERT INTO changes (id) VALUES ($1)', params: [id] })
const notify = (channel: string) => ({ sql: `SELECT pg_notify($1, '')`, params: [channel] })

interface Statement {
  readonly sql: string
  readonly params?: readonly Parameter[]
}

/** All in one transaction. */
const write = (db: Postgres, statements: readonly Statement[]) =>
  db.transaction((tx) =>
    Promise.all(statements.map(({ sql, params = [] }) => tx.all(sql, ...params))),
  )

const WRITERS = 4

/** Two replicas on one schema, of which the second follows. */
async function replicas(t: Pick<Test, 'teardown'>, options: OpenOptions = {}) {
  const schema = newSchema()
  const common = { schema, migrations: [TABLE], patience: FOREVER }
  const writer = await open(t, server, { ...common })
  const follower = await open(t, server, { ...common, ...options })
  return { schema, writer, follower }
}

t.test('a row is known to the others at once', async (t) => {
  const { schema, writer, follower } = await replicas(t)
  await write(writer, [add(1)])
  const { feed, full, when, seen } = follow(follower, schema)
  t.equal(feed.lag(), Number.POSITIVE_INFINITY)
  await when(() => seen.length === 1)
  t.strictSame(full, [1])
  const began = performance.now()
  await write(writer, [add(2), notify(schema)])
  await when(() => seen.length === 2)
  // It counts as complete when all of it was applied.
  await new Promise(setImmediate)
  t.ok(feed.lag() <= performance.now() - began, 'since a read that began later')
  t.strictSame(full, [1], 'only the first read is of everything')
})

t.test('without a notification, the poll finds it', async (t) => {
  const { schema, writer, follower } = await replicas(t)
  const { feed, seen, when } = follow(follower, schema, 20)
  await feed.read()
  await write(writer, [add(1)])
  await when(() => seen.length === 1)
})

t.test('nothing is applied after it was closed', async (t) => {
  const { schema, writer, follower } = await replicas(t)
  await write(writer, [add(1)])
  const { feed, seen } = follow(follower, schema, 20)
  const reading = failureOf(feed.read())
  feed.close()
  for (const error of [await reading, await failureOf(feed.read())])
    t.match(error, { code: 'STORE_UNAVAILABLE', message: 'closed' })
  // Reads go over one connection, in turn.
  const later = follow(follower, schema)
  await later.when(() => later.seen.length === 1)
  await write(writer, [add(2), notify(schema)])
  await later.when(() => later.seen.length === 2)
  t.strictSame(seen, [])
})

t.test('a transaction that began first and commits last is not missed', async (t) => {
  const { schema, writer, follower } = await replicas(t)
  const { feed, seen } = follow(follower, schema)
  const began = Promise.withResolvers<void>()
  const finish = Promise.withResolvers<void>()
  const late = writer.transaction(async (tx) => {
    await tx.all(add(1).sql, ...add(1).params)
    began.resolve()
    await finish.promise
  })
  await began.promise
  // Reads that come between, whose rows have larger numbers.
  for (let id = 2; id <= 6; id++) {
    await write(writer, [add(id)])
    await feed.read()
  }
  t.strictSame(seen, [2, 3, 4, 5, 6])
  finish.resolve()
  await late
  await feed.read()
  t.strictSame(seen, [2, 3, 4, 5, 6, 1])
  // From here on, what was seen is not read again.
  let count = 0
  const counting = follower.follow({
    channel: schema,
    sql: 'SELECT id FROM changes WHERE xid >= $1::xid8',
    apply: (rows) => {
      count = rows.length
    },
  })
  await counting.read()
  await counting.read()
  t.equal(count, 0)
})

t.test('many writers at once: the follower sees each row', async (t) => {
  const { schema, writer, follower } = await replicas(t)
  const { feed, seen } = follow(follower, schema, 5)
  // Each has a connection: one that waits for it for too long is refused.
  const writers = Array.from({ length: WRITERS }, async (_, first) => {
    for (let id = first; id < 200; id += WRITERS)
      await writer.transaction(async (tx) => {
        await tx.all(add(id).sql, ...add(id).params)
        for (let more = Math.random() * 5; more > 1; more--) await tx.all('SELECT 1')
      })
  })
  await Promise.all(writers)
  await feed.read()
  t.equal(seen.length, 200)
})

t.test('a lost connection is made again, with a full read', async (t) => {
  const { schema, writer, follower } = await replicas(t, { name: 'to-be-cut' })
  await write(writer, [add(1)])
  const { feed, seen, full, when } = follow(follower, schema)
  await feed.read()
  t.strictSame(full, [1])
  await write(writer, [add(2)])
  const killed = await server.sql(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'to-be-cut'`,
  )
  t.ok(killed.length > 0)
  await when(() => full.length === 2)
  t.strictSame(full, [1, 2], 'of all that was there')
  await write(writer, [add(3), notify(schema)])
  await when(() => seen.length === 3)
})

t.test('while the connection is away, the lag grows and a read fails', async (t) => {
  const relay = await Relay.start(t, server)
  const { schema, writer, follower } = await replicas(t, { url: relay.through(server.url) })
  const { feed, seen, when } = follow(follower, schema, 10)
  await feed.read()
  relay.refuse()
  relay.reset()
  t.match(await failureOf(feed.read()), { code: 'STORE_UNAVAILABLE' })
  const lag = feed.lag()
  await write(writer, [add(1)])
  t.ok(feed.lag() > lag)
  t.strictSame(seen, [])
  relay.refuse(false)
  await when(() => seen.length === 1)
})

t.test('rows that could not be applied come again', async (t) => {
  const { schema, writer, follower } = await replicas(t)
  let failures = 2
  const applied = Promise.withResolvers<readonly { readonly id: number }[]>()
  const feed = follower.follow<{ id: number }>({
    channel: schema,
    sql: 'SELECT id FROM changes WHERE xid >= $1::xid8',
    apply(rows) {
      if (rows.length > 0 && failures-- > 0) throw new Error('not now')
      if (rows.length > 0) applied.resolve(rows)
    },
    pollMs: 10,
  })
  await feed.read()
  await write(writer, [add(1)])
  t.strictSame(await applied.promise, [{ id: 1 }])
  t.ok(logged.some((line) => line.includes('changes were not read') && line.includes('not now')))
})

t.test(
  'reads are never two at once, and each caller gets one that began after its call',
  async (t) => {
    const { schema, writer, follower } = await replicas(t)
    let [running, reads] = [0, 0]
    const seen = new Set<number>()
    const [entered, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const feed = follower.follow<{ id: number }>({
      channel: schema,
      sql: 'SELECT id FROM changes WHERE xid >= $1::xid8',
      async apply(rows) {
        running++
        reads++
        t.equal(running, 1)
        entered.resolve()
        await held.promise
        for (const { id } of rows) seen.add(id)
        running--
      },
      pollMs: FOREVER,
    })
    const first = feed.read()
    await entered.promise
    await write(writer, [add(1)])
    const others = Array.from({ length: 50 }, () => feed.read())
    held.resolve()
    await first
    t.notOk(seen.has(1), 'it had been read before')
    await Promise.all(others)
    t.ok(seen.has(1))
    t.equal(reads, 2)
  },
)

t.test('rows of a dump from a server that was ahead are corrected', async (t) => {
  const schema = newSchema()
  const first = await open(t, server, { schema, migrations: [TABLE] })
  await write(first, [
    { sql: `INSERT INTO changes (id, xid) VALUES (1, '99999999'), (2, pg_current_xact_id())` },
  ])
  const restored = await open(t, server, { schema, migrations: [TABLE], feeds: ['changes'] })
  const sql = `SELECT count(*) AS ahead FROM changes WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())`
  t.strictSame(await restored.all(sql), [{ ahead: 0 }])
  const { feed, seen } = follow(restored, schema)
  await feed.read()
  t.strictSame(seen, [1, 2])
})

t.test('a connection that comes during a read makes the next one full again', async (t) => {
  const connection = {
    all: async () => [],
    pipeline: async () =>
      [[], [{ oldest: 7n }], [{ id: 1 }], []].map((rows) => ({
        status: 'fulfilled',
        value: { rows },
      })),
  } as unknown as Connection
  const session = { connection, add: () => {}, remove: () => {} } as unknown as Session
  const fulls: boolean[] = []
  const feed = new Follower(
    {
      channel: 'changes',
      sql: 'SELECT 1',
      pollMs: FOREVER,
      async apply(_, isFull) {
        fulls.push(isFull)
        if (fulls.length === 1) await feed.arrive(connection)
      },
    },
    session,
    { info: () => {}, warn: () => {} },
  )
  t.teardown(() => feed.close())
  for (const _ of [1, 2, 3]) await feed.read()
  t.strictSame(fulls.slice(0, 3), [true, true, false])
})

import { chown, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { createTestCa } from '../../../../scripts/test/certificates.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import type { Postgres } from '../../src/index.ts'
import { failureOf, insert, logged, newSchema, numbers, open, until } from '../kit.ts'
import { Relay } from './relay.ts'

const server = await startPostgres(t)
await server.stop()
const standby = await startPostgres(t, { standbyOf: server })
await server.start()

/** The port of the server that answers. */
async function portOf(db: Postgres): Promise<unknown> {
  const [row] = await db.all('SELECT inet_server_port() AS port')
  return row?.port
}

/** A connection that is made while a server dies is reset, and each later one refused. */
const KILLED = 'ECONN(RESET, it closed the connection|REFUSED, nothing listens there)\\.'

t.test('a server that is killed is away at once, and back when it is', async (t) => {
  const db = await open(t, server)
  await insert(db, 1)
  await db.all('SELECT 1')
  await server.kill()
  const failures = await Promise.all([
    failureOf(db.all('SELECT 1')),
    failureOf(insert(db, 2)),
    failureOf(db.transaction((tx) => tx.all('SELECT 1'))),
  ])
  const message = new RegExp(`${server.port}: ${KILLED}`)
  for (const failure of failures)
    t.match(failure, { code: 'STORE_UNAVAILABLE', retryAfter: 2, message })
  t.match(db.failure(), { code: 'STORE_UNAVAILABLE' })
  let turns = 0
  setImmediate(() => turns++)
  for (let i = 0; i < 100; i++) await failureOf(db.all('SELECT 1'))
  t.equal(turns, 0, 'nobody waits')
  await server.start()
  await until(() => !db.failure())
  t.strictSame(await numbers(db), [1])
  await insert(db, 2)
  t.ok(logged.some((line) => line.startsWith('database is down')))
  t.ok(logged.some((line) => line.startsWith('database is back')))

  await server.stop()
  await failureOf(db.all('SELECT 1'))
  await server.start()
  await until(() => !db.failure())
  t.strictSame(await numbers(db), [1, 2])
})

t.test('connections that are terminated are replaced, and nobody notices', async (t) => {
  const db = await open(t, server)
  const work: Promise<unknown>[] = []
  for (let n = 0; n < 300; n++) {
    work.push(insert(db, n), db.all('SELECT pg_sleep(0.001)'))
    // Twice: a read is tried five times, and a slow one meets both connections of each termination.
    if (n % 150 === 75)
      await server.sql(
        // Not the one that looks whether the server answers: it runs nothing but what each begins with.
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = 'gatehouse-test' AND backend_start < now() - interval '100 ms'
            AND query <> '' AND query NOT LIKE 'SET search_path%'`,
      )
    else await new Promise((resolve) => setImmediate(resolve))
  }
  const failed = (await Promise.allSettled(work)).filter(({ status }) => status === 'rejected')
  t.strictSame(failed, [])
  t.equal((await numbers(db)).length, 300)
  t.equal(db.failure(), undefined)
})

t.test('the first host that takes writes is used, whatever the order', async (t) => {
  const [a, b] = [`127.0.0.1:${standby.port}`, `127.0.0.1:${server.port}`]
  const db = await open(t, server, { url: server.url.replace(b, `127.0.0.1:1,${a},${b}`) })
  t.equal(await portOf(db), server.port)
  await insert(db, 1)
  t.match(await failureOf(open(t, standby)), {
    code: 'STORE_UNAVAILABLE',
    message: 'it is a standby',
  })
  await server.kill()
  t.match(await failureOf(db.all('SELECT 1')), {
    message: new RegExp(
      `127.0.0.1:1: ECONNREFUSED, nothing listens there; ${a}: it is a standby; ${b}: ${KILLED}`,
    ),
  })
  await standby.sql('SELECT pg_promote(wait => true)')
  await until(() => !db.failure())
  t.equal(await portOf(db), standby.port)
  // It is a copy from before.
  t.match(await failureOf(db.all('SELECT * FROM numbers')), { message: 'SQLSTATE 42P01' })
  await server.start()
})

t.test('a server that turns read-only is left for another one', async (t) => {
  const relay = await Relay.start(t, server)
  const schema = newSchema()
  await open(t, standby, { schema })
  const url = relay.through(server.url).replace(/(:\d+)\//, `$1,127.0.0.1:${standby.port}/`)
  const db = await open(t, server, { schema, url })
  await insert(db, 1)
  t.strictSame(await numbers(db), [1])
  // Like a pooler before a primary that is none any more: statements fail, and the connections stay.
  await server.sql(`CREATE FUNCTION demoted() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'read-only' USING ERRCODE = '25006'; END $$;
    CREATE TRIGGER demoted BEFORE INSERT ON ${schema}.numbers FOR EACH ROW EXECUTE FUNCTION demoted()`)
  relay.refuse()
  await insert(db, 2)
  t.equal(await portOf(db), standby.port)
  t.strictSame(await numbers(db), [2])
})

t.test('a server that does not answer is given up after five seconds', async (t) => {
  const relay = await Relay.start(t, server)
  const db = await open(t, server, { url: relay.through(server.url) })
  await insert(db, 1)
  await db.all('SELECT 1')
  const muted = Promise.withResolvers<void>()
  let runs = 0
  const committing = db.transaction(async (tx) => {
    await insert(tx, 2)
    if (runs++ === 0) relay.mute()
    muted.resolve()
  })
  await muted.promise
  const [read, write] = await Promise.allSettled([db.all('SELECT 1 AS n'), committing])
  // The read is not repeated; the write is looked up on a new connection.
  t.match(read, { reason: { code: 'STORE_UNAVAILABLE', message: 'no answer in 5 seconds' } })
  t.match(write, { status: 'fulfilled' })
  t.strictSame(await numbers(db), [1, 2])
})

t.test('what a server has answered counts, though this process stood still', async (t) => {
  const db = await open(t, server)
  await insert(db, 1)
  await db.all('SELECT 1')
  const writing = db.transaction(async (tx) => {
    await tx.all('SELECT pg_sleep(0.2)')
    await insert(tx, 2)
  })
  const reading = db.all('SELECT 1 AS n, pg_sleep(0.2)')
  // They are sent.
  await new Promise(setImmediate)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5_500)
  t.match(await reading, [{ n: 1 }])
  await writing
  t.strictSame(await numbers(db), [1, 2])
  t.equal(db.failure(), undefined)
})

t.test('a host that accepts connections and says nothing is passed over', async (t) => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  t.teardown(() => silent.close())
  await new Promise((resolve) => silent.once('listening', resolve))
  const { port } = silent.address() as { port: number }
  const own = `127.0.0.1:${server.port}`
  const db = await open(t, server, { url: server.url.replace(own, `127.0.0.1:${port},${own}`) })
  t.equal(await portOf(db), server.port)
})

t.test('a start waits for a server, but not for longer than it is told to', async (t) => {
  await server.stop()
  for (const patience of [0, 10])
    t.match(await failureOf(open(t, server, { patience })), { code: 'STORE_UNAVAILABLE' })
  const before = logged.length
  const opening = open(t, server, { patience: 60_000 })
  await until(() => logged.slice(before).some((line) => /^waiting for the database/.test(line)))
  await server.start()
  await insert(await opening, 1)
})

t.test('a start also waits for a server that is gone when it was just found', async (t) => {
  const relay = await Relay.start(t, server)
  const url = relay.through(server.url)
  // The first one finds the server, and the second one migrates.
  for (const connections of [1, 2]) {
    relay.refuseAfter(connections)
    t.match(await failureOf(open(t, server, { url })), { code: 'STORE_UNAVAILABLE' })
    relay.refuseAfter(connections)
    const before = logged.length
    const opening = open(t, server, { url, patience: 60_000 })
    await until(() => logged.slice(before).some((line) => /^waiting for the database/.test(line)))
    relay.refuse(false)
    const db = await opening
    await insert(db, 1)
    t.strictSame(await numbers(db), [1])
  }
})

t.test('a server without a free connection is not available, and says why', async (t) => {
  const db = await open(t, server)
  // One connection listens, one has written, and one has read: only the second one for reads comes too late.
  await db.all('SELECT 1')
  const sessions = `SELECT 1 FROM pg_stat_activity WHERE usename = 'gatehouse'`
  await until(() => server.sql(sessions).then((rows) => rows.length === 3))
  await server.sql('ALTER ROLE gatehouse CONNECTION LIMIT 3')
  t.teardown(() => server.sql('ALTER ROLE gatehouse CONNECTION LIMIT -1'))
  const reads = () =>
    Promise.allSettled(Array.from({ length: 20 }, () => db.all('SELECT pg_sleep(0.2)')))
  const failures = (await reads()).flatMap((result) =>
    result.status === 'rejected' ? [result.reason] : [],
  )
  t.ok(failures.length > 0 && failures.length < 20)
  for (const failure of failures)
    t.match(failure, { code: 'STORE_UNAVAILABLE', message: 'no connection left' })
  // Whoever has a connection goes on.
  t.equal(db.failure(), undefined)
  t.strictSame(await db.all('SELECT 1 AS n'), [{ n: 1 }])
  t.match(await failureOf(open(t, server)), {
    code: 'STORE_UNAVAILABLE',
    message: 'no connection left',
  })
  t.strictSame(await db.all('SELECT 1 AS n'), [{ n: 1 }])
})

t.test('a connection is encrypted, and the server verified by name and authority', async (t) => {
  const url = `${server.url}?sslmode=verify-full`
  // Said in words, and at once: waiting does not help.
  const refused = async (options: { url: string; ca?: string }) =>
    failureOf(open(t, server, { ...options, patience: 3_600_000 }))
  const code = 'STORE_REFUSED'
  t.match(await refused({ url }), { code, message: 'it has no TLS; `?sslmode=disable`' })

  const ca = await encrypt(server.folder)
  await server.sql('ALTER SYSTEM SET ssl TO on')
  await server.sql('SELECT pg_reload_conf()')
  await until(() => server.sql('SHOW ssl').then(([row]) => row?.ssl === 'on'))
  const db = await open(t, server, { url, ca })
  const sql = 'SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()'
  t.strictSame(await db.all(sql), [{ ssl: true, version: 'TLSv1.3' }])
  await insert(db, 1)
  t.strictSame(await numbers(db), [1])

  const { root: another } = await createTestCa()
  for (const both of [ca + another, another + ca]) {
    const trusting = await open(t, server, { url, ca: both })
    t.strictSame(await trusting.all(sql), [{ ssl: true, version: 'TLSv1.3' }], 'one of two roots')
  }

  for (const options of [{ url }, { url, ca: another }])
    t.match(await refused(options), {
      code,
      message: 'its certificate is of a CA that is not trusted here',
    })
  const named = url.replace('127.0.0.1', 'localhost')
  const other = 'its certificate is for another name'
  t.match(await refused({ url: named, ca }), { code, message: other })
})

/** Gives a server a certificate for 127.0.0.1. Gives that of the authority. */
async function encrypt(folder: string): Promise<string> {
  const ca = await createTestCa()
  const { cert, key } = ca.certificateFor('127.0.0.1')
  const { uid, gid } = await stat(folder)
  const files = { 'server.crt': cert, 'server.key': key }
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), content, { mode: 0o600 })
    await chown(join(folder, name), uid, gid)
  }
  return ca.root
}

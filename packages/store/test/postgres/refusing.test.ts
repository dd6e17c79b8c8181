import { existsSync } from 'node:fs'
import { rename, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import type { Transaction } from '../../src/index.ts'
import { failureOf, insert, newSchema, numbers, open, until } from '../kit.ts'

const server = await startPostgres(t)

/** Something for which a table cannot be written. Gives what ends it. */
interface Cause {
  readonly code: string
  readonly message: string
  begin(table: string): Promise<() => Promise<unknown>>
}

/** By another session, which holds the lock for as long as it waits. */
async function lock(table: string) {
  const holder = server.sql(
    `BEGIN; LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)`,
  )
  const ended = holder.catch(() => {})
  const sleeping = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'`
  await until(() => server.sql(sleeping).then((rows) => rows.length > 0))
  return async () => {
    await server.sql(`SELECT pg_terminate_backend(pid) FROM (${sleeping}) AS holders`)
    await ended
  }
}

/** The owner has no right but by being granted it. */
async function revoke(table: string) {
  await server.sql(`REVOKE INSERT ON ${table} FROM gatehouse`)
  return () => server.sql(`GRANT INSERT ON ${table} TO gatehouse`)
}

const FULL = '/dev/full'

/** The table is empty, so that it needs its first page: on a device on which there is never room. */
async function fill(table: string) {
  const [row] = await server.sql<{ path: string }>(
    `SELECT pg_relation_filepath('${table}') AS path`,
  )
  const file = join(server.folder, row?.path ?? '')
  await rename(file, `${file}.aside`)
  await symlink(FULL, file)
  return async () => {
    await unlink(file)
    await rename(`${file}.aside`, file)
    // Sessions have the device open.
    await server.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gatehouse'`,
    )
  }
}

const causes: Readonly<Record<string, Cause>> = {
  'a table that another session locks': {
    code: 'STORE_UNAVAILABLE',
    message: 'The database cannot be used: a lock was not free in time.',
    begin: lock,
  },
  'a right that was revoked': {
    code: 'STORE_REFUSED',
    message: 'The database refuses: the user lacks a right.',
    begin: revoke,
  },
  'a full disk': {
    code: 'STORE_UNAVAILABLE',
    message: 'The database cannot be used: its disk is full.',
    begin: fill,
  },
}

t.test('a database that refuses writes in three ways', async (t) => {
  for (const [what, { code, message, begin }] of Object.entries(causes))
    await t.test(what, { skip: begin === fill && !existsSync(FULL) && 'Linux' }, async (t) => {
      const schema = newSchema()
      const other = () => 'CREATE TABLE others (n int PRIMARY KEY)'
      const table = () => 'CREATE TABLE numbers (n int PRIMARY KEY, text text)'
      const db = await open(t, server, { schema, migrations: [table, other] })
      const end = await begin(`${schema}.numbers`)
      // The one at fault is in the middle, and nothing that works speaks for it.
      const writeOther = (tx: Transaction) =>
        tx.run('INSERT INTO others VALUES (1) ON CONFLICT DO NOTHING')
      const job = (tx: Transaction) =>
        Promise.all([writeOther(tx), insert(tx, 1), tx.get('SELECT 1')])
      t.match(await failureOf(db.transaction(job)), { code, message })
      t.match(db.failure(), { code, message })
      t.equal(await writeOther(db), 1, 'other tables can be written')
      t.match(await failureOf(db.check()), { code, message })
      t.match(db.failure(), { code, message }, 'it is not forgotten')
      await end()
      await db.check()
      t.equal(db.failure(), undefined, 'it ends with its cause')
      t.strictSame(await numbers(db), [], 'what was tried out is not written')
      await db.transaction(job)
      t.strictSame(await numbers(db), [1])
    })
})

t.test('a write that works again counts no longer, without a check', async (t) => {
  const schema = newSchema()
  const db = await open(t, server, { schema })
  const end = await revoke(`${schema}.numbers`)
  await failureOf(insert(db, 1))
  await end()
  await insert(db, 1)
  t.equal(db.failure(), undefined)
})

t.test('a refused write that would fail for another reason by now counts no longer', async (t) => {
  const schema = newSchema()
  const db = await open(t, server, { schema })
  const end = await revoke(`${schema}.numbers`)
  await failureOf(insert(db, 1))
  await end()
  await server.sql(`INSERT INTO ${schema}.numbers VALUES (1)`)
  await db.check()
  t.equal(db.failure(), undefined)
})

t.test('a read that is refused counts likewise', async (t) => {
  const schema = newSchema()
  const db = await open(t, server, { schema })
  const refused = { code: 'STORE_REFUSED', message: 'the user lacks a right' }
  await server.sql(`REVOKE SELECT ON ${schema}.numbers FROM gatehouse`)
  t.match(await failureOf(numbers(db)), refused)
  t.match(db.failure(), refused)
  await insert(db, 1)
  t.match(await failureOf(db.check()), refused)
  await server.sql(`GRANT SELECT ON ${schema}.numbers TO gatehouse`)
  await db.check()
  t.equal(db.failure(), undefined)
  await server.sql(`REVOKE SELECT ON ${schema}.numbers FROM gatehouse`)
  await failureOf(numbers(db))
  await server.sql(`GRANT SELECT ON ${schema}.numbers TO gatehouse`)
  t.strictSame(await numbers(db), [1])
  t.equal(db.failure(), undefined)
})

t.test('a table that is to be writable shows before anything is written to it', async (t) => {
  const schema = newSchema()
  const db = await open(t, server, { schema, writable: ['writes', 'numbers'] })
  await db.check()
  const table = `${schema}.numbers`
  const unlock = await lock(table)
  t.match(await failureOf(db.check()), { message: 'a lock was not free in time' })
  t.match(db.failure(), { message: 'a lock was not free in time' })
  await unlock()
  await db.check()
  t.equal(db.failure(), undefined)
  await server.sql(`REVOKE ALL ON ${table} FROM gatehouse`)
  t.match(await failureOf(db.check()), { code: 'STORE_REFUSED' })
  await server.sql(`GRANT ALL ON ${table} TO gatehouse`)
  await db.check()
})

t.test('a statement that is at fault says nothing about the database', async (t) => {
  const db = await open(t, server)
  for (const sql of ['SELECT * FROM absent', 'nonsense', 'INSERT INTO numbers (n) VALUES (NULL)'])
    await failureOf(db.run(sql))
  await failureOf(db.all('INSERT INTO numbers (n) VALUES (1)'))
  t.equal(db.failure(), undefined)
  await db.check()
})

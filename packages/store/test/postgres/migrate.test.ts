import t from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { failureOf, newSchema, open, until } from '../kit.ts'

// What holds for both engines is in ../migrations.test.ts.
const server = await startPostgres(t)

t.test('a schema that is to exist is not created', async (t) => {
  const schema = newSchema()
  const absent = await failureOf(open(t, server, { schema, existing: true }))
  t.match(absent, { code: 'STORE_MISSING', message: schema })
  const name = `SELECT to_regnamespace('${schema}')::text AS name`
  t.strictSame(await server.sql(name), [{ name: null }])
})

t.test('a schema of another service is called that', async (t) => {
  const schema = newSchema()
  const table = () => 'CREATE TABLE one (xid xid8)'
  await open(t, server, { schema, migrations: [table], feeds: ['one'] })
  const writes = await server.sql(`SELECT id FROM ${schema}.writes`)
  for (const migrations of [[], [table], [table, table]])
    await t.rejects(open(t, server, { schema, migrations, feeds: ['other'] }), {
      code: 'STORE_NOT_EMPTY',
      message: `The schema ${schema} is that of another service.`,
    })
  t.strictSame(await server.sql(`SELECT id FROM ${schema}.writes`), writes, 'and is not written')
})

t.test('a replica waits for the migrations of another one', async (t) => {
  const schema = newSchema()
  const lock = `SELECT pg_advisory_lock(hashtextextended('${schema}/migrations', 0))`
  const holder = server.sql(`${lock}; SELECT pg_sleep(600)`).catch(() => {})
  const sleeping = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'`
  await until(() => server.sql(sleeping).then((rows) => rows.length > 0))
  const opening = open(t, server, { schema })
  const waiting = `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`
  await until(() => server.sql(waiting).then((rows) => rows.length > 0))
  const made = await server.sql(`SELECT to_regnamespace('${schema}') AS made`)
  t.strictSame(made, [{ made: null }])
  await server.sql(`SELECT pg_terminate_backend(pid) FROM (${sleeping}) AS holders`)
  await Promise.all([holder, opening])
})

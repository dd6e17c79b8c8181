import t from 'tap'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { failureOf, newSchema, open } from '../kit.ts'

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

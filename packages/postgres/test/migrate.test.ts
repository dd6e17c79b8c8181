import t from 'tap'
import { startPostgres } from '../../../scripts/test/postgres.ts'
import { failureOf, newSchema, open } from './kit.ts'

const server = await startPostgres(t)

const steps = [
  'CREATE TABLE steps (step int); INSERT INTO steps VALUES (1)',
  'INSERT INTO steps VALUES (2); SELECT pg_sleep(0.05)',
  'INSERT INTO steps VALUES (3)',
]
const stepsOf = (schema: string) => server.sql(`SELECT step FROM ${schema}.steps ORDER BY ctid`)

t.test('five that start at once run each migration once', async (t) => {
  const schema = newSchema()
  const options = { schema, migrations: steps }
  await Promise.all(Array.from({ length: 5 }, () => open(t, server, options)))
  t.strictSame(await stepsOf(schema), [{ step: 1 }, { step: 2 }, { step: 3 }])
})

t.test('a newer version runs what is new, and an older one refuses to start', async (t) => {
  const schema = newSchema()
  await open(t, server, { schema, migrations: steps.slice(0, 1) })
  await open(t, server, { schema, migrations: steps })
  t.strictSame(await stepsOf(schema), [{ step: 1 }, { step: 2 }, { step: 3 }])
  const old = await failureOf(open(t, server, { schema, migrations: steps.slice(0, 2) }))
  t.match(old, { code: 'POSTGRES_SCHEMA_NEWER', message: 'version 3' })
})

t.test('an existing schema is opened as it is, or refused', async (t) => {
  const schema = newSchema()
  const existing = { schema, existing: true }
  const absent = await failureOf(open(t, server, { ...existing, migrations: steps }))
  t.match(absent, { code: 'POSTGRES_SCHEMA_OLDER', message: schema })
  const name = `SELECT to_regnamespace('${schema}')::text AS name`
  t.strictSame(await server.sql(name), [{ name: null }], 'and not created')
  await open(t, server, { schema, migrations: steps.slice(0, 2) })
  const versions: [steps: readonly string[], code: string | undefined][] = [
    [steps, 'POSTGRES_SCHEMA_OLDER'],
    [steps.slice(0, 2), undefined],
    [steps.slice(0, 1), 'POSTGRES_SCHEMA_NEWER'],
  ]
  for (const [migrations, code] of versions) {
    const opening = open(t, server, { ...existing, migrations })
    if (code === undefined) await opening
    else t.match(await failureOf(opening), { code, message: 'version 2' })
  }
  t.strictSame(await stepsOf(schema), [{ step: 1 }, { step: 2 }], 'and not changed')
})

t.test('a migration that fails leaves those before it, and none of itself', async (t) => {
  const schema = newSchema()
  const bad = [
    ...steps.slice(0, 2),
    `INSERT INTO steps VALUES (9); SELECT nonsense`,
    steps[2] ?? '',
  ]
  t.match(await failureOf(open(t, server, { schema, migrations: bad })), {
    code: 'POSTGRES_STATEMENT_FAILED',
    message: 'SQLSTATE 42703',
  })
  t.strictSame(await stepsOf(schema), [{ step: 1 }, { step: 2 }])
  await open(t, server, { schema, migrations: steps })
  t.strictSame(await stepsOf(schema), [{ step: 1 }, { step: 2 }, { step: 3 }])
})

t.test('without migrations there is only what the package needs', async (t) => {
  const db = await open(t, server, { migrations: [] })
  await db.write([{ sql: 'SELECT 1' }])
})

t.test('a schema of another service is called that', async (t) => {
  const schema = newSchema()
  await open(t, server, { schema, migrations: ['CREATE TABLE one (xid xid8)'], feeds: ['one'] })
  for (const migrations of [[], [''], ['', '']].map((more) => ['SELECT 1', ...more]))
    await t.rejects(open(t, server, { schema, migrations, feeds: ['other'] }), {
      code: 'POSTGRES_SCHEMA_FOREIGN',
      message: `The schema ${schema} is that of another service.`,
    })
})

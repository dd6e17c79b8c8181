import { StoreError } from '../errors.ts'
import {
  type Applied,
  type Migration,
  missing,
  RUN_TIME,
  requireAll,
  stepsOf,
  unreleased,
  VERSIONS,
} from '../migrations.ts'
import { type Connection, quoted } from './connection.ts'

const OWN_TABLES = `CREATE TABLE ${VERSIONS} (
  version int PRIMARY KEY,
  digest text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE ${RUN_TIME} (id int PRIMARY KEY CHECK (id = 1), ms bigint NOT NULL);
INSERT INTO ${RUN_TIME} VALUES (1, 0);
CREATE TABLE writes (
  id uuid PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX writes_at ON writes USING brin (at);`

/** Others may still read and write, and another replica may run its migrations. */
const PATIENCE = `SET statement_timeout TO 0; SET lock_timeout TO '60s'`
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE'

/** A schema, and what it is to hold. */
export interface Schema {
  readonly schema: string
  readonly migrations: readonly Migration[]
  /** Tables that the service has from its first version on. */
  readonly feeds?: readonly string[]
}

/**
 * Creates the schema if it is absent, and runs the migrations that it lacks, each in a transaction of its
 * own. Of several replicas that start at once, one does it and the others wait, a minute at most.
 * @throws StoreError `STORE_NEWER`, `STORE_NOT_EMPTY`, `STORE_UNRELEASED`
 */
export async function migrate(connection: Connection, target: Schema): Promise<void> {
  const { schema, migrations, feeds = [] } = target
  const steps = stepsOf(migrations, 'postgres')
  const earlier = await appliedTo(connection, schema)
  // Before the first one, another replica may be about to make its tables.
  if (earlier?.length) await refuseForeign(connection, schema, feeds)
  // Without a lock, and without the right to change anything.
  if (earlier && missing(earlier, steps).length === 0) return
  await connection.script(PATIENCE)
  await connection.script(`SELECT pg_advisory_lock(hashtextextended('${schema}/migrations', 0))`)
  const applied = await appliedTo(connection, schema)
  if (!applied) await create(connection, schema)
  for (const { version, digest, sql } of missing(applied ?? [], steps)) {
    const done = `INSERT INTO ${VERSIONS} (version, digest) VALUES (${version}, '${digest}')`
    await connection.script(`${BEGIN};\n${sql};\n${done};\nCOMMIT`)
  }
}

/**
 * Changes nothing.
 * @throws StoreError `STORE_MISSING`, `STORE_NEWER` or `STORE_UNRELEASED` unless the schema had exactly these migrations
 */
export async function requireMigrated(connection: Connection, target: Schema): Promise<void> {
  const applied = await appliedTo(connection, target.schema)
  if (!applied)
    throw new StoreError(
      'STORE_MISSING',
      `The schema ${target.schema} holds nothing of this service.`,
    )
  requireAll(applied, stepsOf(target.migrations, 'postgres'))
}

async function refuseForeign(
  connection: Connection,
  schema: string,
  feeds: readonly string[],
): Promise<void> {
  for (const feed of feeds)
    if (!(await has(connection, schema, feed)))
      throw new StoreError('STORE_NOT_EMPTY', `The schema ${schema} is that of another service.`)
}

/** Undefined if the schema has no tables of ours. */
async function appliedTo(
  connection: Connection,
  schema: string,
): Promise<readonly Applied[] | undefined> {
  if (await has(connection, schema, VERSIONS)) {
    const rows = await connection.all(`SELECT version, digest FROM ${VERSIONS} ORDER BY version`)
    return rows as unknown as readonly Applied[]
  }
  if (await has(connection, schema, 'migrations')) throw unreleased()
  return undefined
}

async function has(connection: Connection, schema: string, table: string): Promise<boolean> {
  const name = `${quoted(schema)}.${quoted(table)}`
  const [row] = await connection.all('SELECT to_regclass($1) IS NOT NULL AS has', [name])
  return row?.has === true
}

/** The user may own the schema without the right to create one. */
async function create(connection: Connection, schema: string): Promise<void> {
  const [row] = await connection.all('SELECT to_regnamespace($1) IS NOT NULL AS exists', [
    quoted(schema),
  ])
  const created = row?.exists ? '' : `CREATE SCHEMA ${quoted(schema)};`
  await connection.script(`${BEGIN};\n${created}\n${OWN_TABLES}\nCOMMIT`)
}

import { type Connection, quoted } from './connection.ts'
import { PostgresError } from './errors.ts'

const TABLES = `CREATE TABLE migrations (
  version int PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE writes (
  id uuid PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  result jsonb
);
CREATE INDEX writes_at ON writes USING brin (at);`

/** Others may still read and write, and another replica may run its migrations. */
const PATIENCE = `SET statement_timeout TO 0; SET lock_timeout TO '60s'`
const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE'

/**
 * Creates the schema if it is absent, and runs the migrations that it lacks, each in a transaction of its
 * own. Of several replicas that start at once, one does it and the others wait, a minute at most.
 * @throws PostgresError `POSTGRES_SCHEMA_NEWER`, `POSTGRES_SCHEMA_FOREIGN`
 */
export async function migrate(
  connection: Connection,
  schema: string,
  migrations: readonly string[],
  feeds: readonly string[] = [],
): Promise<void> {
  await refuseForeign(connection, schema, feeds)
  // Without a lock, and without the right to change anything.
  if ((await versionOf(connection, schema)) === migrations.length) return
  await connection.script(PATIENCE)
  await connection.script(`SELECT pg_advisory_lock(hashtextextended('${schema}/migrations', 0))`)
  let version = await versionOf(connection, schema)
  if (version === undefined) await create(connection, schema)
  version ??= 0
  refuseNewer(version, migrations.length)
  for (const migration of migrations.slice(version)) {
    version++
    const done = `INSERT INTO migrations (version) VALUES (${version})`
    await connection.script(`${BEGIN};\n${migration};\n${done};\nCOMMIT`)
  }
}

/**
 * Changes nothing.
 * @throws PostgresError `POSTGRES_SCHEMA_OLDER` or `POSTGRES_SCHEMA_NEWER` unless the schema had exactly these migrations
 */
export async function requireMigrated(
  connection: Connection,
  schema: string,
  migrations: readonly string[],
): Promise<void> {
  const version = await versionOf(connection, schema)
  if (version === undefined)
    throw new PostgresError(
      'POSTGRES_SCHEMA_OLDER',
      `The schema ${schema} holds nothing of this service.`,
    )
  refuseNewer(version, migrations.length)
  if (version < migrations.length)
    throw new PostgresError(
      'POSTGRES_SCHEMA_OLDER',
      `The schema has version ${version}, and this program needs ${migrations.length}.`,
    )
}

/** The tables of the feeds are in each schema of the service from its first version on. */
async function refuseForeign(
  connection: Connection,
  schema: string,
  feeds: readonly string[],
): Promise<void> {
  if (!(await versionOf(connection, schema))) return
  for (const feed of feeds) {
    const table = `${quoted(schema)}.${quoted(feed)}`
    const [found] = await connection.all('SELECT to_regclass($1) IS NULL AS lacks', [table])
    if (found?.lacks)
      throw new PostgresError(
        'POSTGRES_SCHEMA_FOREIGN',
        `The schema ${schema} is that of another service.`,
      )
  }
}

function refuseNewer(version: number, known: number): void {
  if (version > known)
    throw new PostgresError(
      'POSTGRES_SCHEMA_NEWER',
      `The schema has version ${version}, and this program knows up to ${known}.`,
    )
}

/** Undefined if there is no table of migrations. */
async function versionOf(connection: Connection, schema: string): Promise<number | undefined> {
  const [found] = await connection.all('SELECT to_regclass($1) IS NOT NULL AS exists', [
    `${quoted(schema)}.migrations`,
  ])
  if (!found?.exists) return undefined
  const [row] = await connection.all('SELECT coalesce(max(version), 0) AS version FROM migrations')
  return row?.version as number
}

/** The user may own the schema without the right to create one. */
async function create(connection: Connection, schema: string): Promise<void> {
  const [found] = await connection.all('SELECT to_regnamespace($1) IS NOT NULL AS exists', [
    quoted(schema),
  ])
  const created = found?.exists ? '' : `CREATE SCHEMA ${quoted(schema)};`
  await connection.script(`${BEGIN};\n${created}\n${TABLES}\nCOMMIT`)
}

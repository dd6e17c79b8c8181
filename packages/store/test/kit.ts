import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import { type PostgresServer, startPostgres } from '../../../scripts/test/postgres.ts'
import {
  type Engine,
  type Migration,
  migrateSqlite,
  openPostgres,
  type Postgres,
  type PostgresOptions,
  parsePostgresUrl,
  type Queries,
  Sqlite,
  type Transaction,
} from '../src/index.ts'

let schemas = 0
let starting: Promise<PostgresServer> | undefined

export interface OpenOptions extends Partial<Omit<PostgresOptions, 'url'>> {
  readonly url?: string
}

/** Everything that was logged. */
export const logged: string[] = []

const log = {
  info: (details: object, message: string) => void logged.push(`${message} ${textOf(details)}`),
  warn: (details: object, message: string) => void logged.push(`${message} ${textOf(details)}`),
}

const textOf = (details: object) =>
  JSON.stringify(details, (_, value) => (value instanceof Error ? value.message : value))

/** A name that no other test has. */
export function newSchema(): string {
  schemas++
  return `test_${schemas}`
}

const NUMBERS = (bytes: string) =>
  `CREATE TABLE numbers (n int PRIMARY KEY, text text, bytes ${bytes})`
const MIGRATIONS: readonly Migration[] = [
  (dialect) => NUMBERS(dialect === 'sqlite' ? 'blob' : 'bytea'),
]

/** A database of the server, in a schema of its own unless the options name one. It is closed after the test. */
export async function open(
  t: Pick<Test, 'teardown'>,
  server: PostgresServer,
  { url = server.url, ...options }: OpenOptions = {},
): Promise<Postgres> {
  const db = await openPostgres({
    url: parsePostgresUrl(url),
    schema: newSchema(),
    name: 'gatehouse-test',
    migrations: MIGRATIONS,
    log,
    ...options,
  })
  t.teardown(() => db.close())
  return db
}

export interface OpenedSqlite {
  readonly db: Sqlite
  readonly sqlite: DatabaseSync
  readonly file: string
  /** Another program's connection to the same file. */
  readonly other: DatabaseSync
}

/** A new file. It is closed after the test. */
export function openSqlite(
  t: Pick<Test, 'teardown' | 'testdir'>,
  migrations = MIGRATIONS,
  elapsed?: () => number,
): OpenedSqlite {
  const file = join(t.testdir({}), 'test.db')
  const sqlite = new DatabaseSync(file, { timeout: 0 })
  sqlite.exec('PRAGMA journal_mode = WAL')
  migrateSqlite(sqlite, migrations)
  const db = new Sqlite(sqlite, { elapsed })
  const other = new DatabaseSync(file, { timeout: 0 })
  t.teardown(async () => {
    other.close()
    await db.close()
  })
  return { db, sqlite, file, other }
}

/** The server of a test file, started when it is first needed. */
export function testServer(): Promise<PostgresServer> {
  starting ??= startPostgres(t)
  return starting
}

/** A test that holds for both engines. */
export function onBothEngines(
  name: string,
  test: (t: Test, db: Engine) => Promise<void>,
  migrations = MIGRATIONS,
): void {
  t.test(`${name}: SQLite`, async (t) => test(t, openSqlite(t, migrations).db))
  t.test(`${name}: PostgreSQL`, async (t) =>
    test(t, await open(t, await testServer(), { migrations })),
  )
}

export { until } from '../../../scripts/test/until.ts'

/** Adds a row. */
export function insert(on: Transaction, n: number, text: string | null = null): Promise<number> {
  return on.run('INSERT INTO numbers (n, text) VALUES ($1, $2)', n, text)
}

/** The numbers that are stored. */
export async function numbers(on: Queries): Promise<readonly number[]> {
  const rows = await on.all<{ n: number }>('SELECT n FROM numbers ORDER BY n')
  return rows.map(({ n }) => n)
}

/** What a promise was rejected with. */
export async function failureOf(work: Promise<unknown>): Promise<Error & { code?: string }> {
  return work.then(
    () => {
      throw new Error('It did not fail')
    },
    (error) => error,
  )
}

import { randomUUID } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import type { Test } from 'tap'
import t from 'tap'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import { openPostgresStore } from '../../src/engines/postgres.ts'
import { storeFile } from '../../src/engines/sqlite.ts'
import type { Store } from '../../src/port/store.ts'
import { testStore } from './store.ts'

/** An empty store of one of the engines. */
export interface Opened {
  readonly store: Store
  /** Lets the service run for so many milliseconds. */
  pass(ms: number): void
  /** Runs a statement of SQL beside the store. `@` stands for its schema. */
  sql<Row = Record<string, unknown>>(text: string): Promise<readonly Row[]>
}

let starting: Promise<PostgresServer> | undefined

/** The server of a test file, started when it is first needed. */
export function testServer(): Promise<PostgresServer> {
  starting ??= startPostgres(t)
  return starting
}

/** The name of a schema that does not exist yet. */
export function newSchema(): string {
  return `certs_${randomUUID().replaceAll('-', '').slice(0, 12)}`
}

export interface ReplicaOptions {
  readonly schema: string
  readonly name?: string
  readonly url?: string
  readonly elapsed?: () => number
  /** Its id. */
  readonly replica?: string
}

/** A replica of a store in PostgreSQL, closed after the test. */
export async function openReplica(
  t: Pick<Test, 'teardown'>,
  options: ReplicaOptions,
): Promise<Store> {
  const { url = (await testServer()).url, name = 'test', ...rest } = options
  const store = await openPostgresStore({ url, name, log: { info() {}, warn() {} }, ...rest })
  t.teardown(() => store.close())
  return store
}

async function testSqliteStore(t: Test): Promise<Opened> {
  const { folder, ...opened } = await testStore(t)
  return {
    ...opened,
    async sql<Row>(text: string) {
      using sqlite = new DatabaseSync(storeFile(folder))
      return sqlite.prepare(text.replaceAll('@', '')).all() as Row[]
    },
  }
}

/** A store in a schema of its own. */
async function testPostgresStore(t: Test): Promise<Opened> {
  let passed = 0
  const schema = newSchema()
  const store = await openReplica(t, { schema, elapsed: () => passed })
  const server = await testServer()
  return {
    store,
    pass(ms) {
      passed += ms
    },
    sql: (text) => server.sql(text.replaceAll('@', `${schema}.`)),
  }
}

/** A test that holds for the stores of both engines. */
export function onBothEngines(
  name: string,
  test: (t: Test, opened: Opened) => Promise<void>,
): void {
  t.test(`${name}: SQLite`, async (t) => test(t, await testSqliteStore(t)))
  t.test(`${name}: PostgreSQL`, async (t) => test(t, await testPostgresStore(t)))
}

export { until } from '../../../../scripts/test/until.ts'

import type { Test } from 'tap'
import type { PostgresServer } from '../../../scripts/test/postgres.ts'
import {
  openPostgres,
  type Postgres,
  type PostgresOptions,
  parsePostgresUrl,
} from '../src/index.ts'

let schemas = 0

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
    migrations: ['CREATE TABLE numbers (n int PRIMARY KEY, text text, bytes bytea)'],
    log,
    ...options,
  })
  t.teardown(() => db.close())
  return db
}

export { until } from '../../../scripts/test/until.ts'

/** The statement that adds a row. */
export const insert = (n: number, text: string | null = null) => ({
  sql: 'INSERT INTO numbers (n, text) VALUES ($1, $2) RETURNING n, text',
  params: [n, text],
})

/** The numbers that are stored. */
export async function numbers(db: Postgres): Promise<readonly number[]> {
  const rows = await db.all<{ n: number }>('SELECT n FROM numbers ORDER BY n')
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

import { randomUUID } from 'node:crypto'
import { openPostgres, type PostgresLog, parsePostgresUrl } from '@gatehouse/postgres'
import type { Store } from '../store.ts'
import { Database, sessionsOf, storeFailure } from './database.ts'
import { MIGRATIONS } from './migrations.ts'
import { createStore } from './store.ts'
import { refuseUnfinished } from './unfinished.ts'

export interface PostgresStoreOptions {
  /** `postgres://user:password@host1:5432,host2:5432/database`. */
  readonly url: string
  /** PEM certificates of a private CA of the database. */
  readonly ca?: string | undefined
  readonly schema: string
  /** Of this replica, to tell it from the others. */
  readonly name: string
  /** Its id. Default: a new one, for as long as this process runs. */
  readonly replica?: string | undefined
  readonly log: PostgresLog
  /** Milliseconds from a clock that nobody can set; default: how long this process has been running. */
  readonly elapsed?: (() => number) | undefined
  /** How long to wait for a database that answers, in milliseconds. */
  readonly patience?: number | undefined
}

/**
 * Opens the store in a schema of a PostgreSQL database, which is created if it is absent.
 * @throws CertError CERT_STORE_NEWER, CERT_STORE_UNAVAILABLE; PostgresError POSTGRES_URL_INVALID
 */
export async function openPostgresStore({
  url,
  ca,
  schema,
  name,
  log,
  elapsed,
  patience,
  replica = randomUUID(),
}: PostgresStoreOptions): Promise<Store> {
  try {
    const postgres = await openPostgres({
      url: parsePostgresUrl(url),
      ca,
      schema,
      name: `${sessionsOf(replica)} ${name}`,
      migrations: MIGRATIONS,
      feeds: ['changes'],
      log,
      patience,
    })
    try {
      await refuseUnfinished(postgres)
      return await createStore(new Database(postgres, elapsed, replica), { schema, name })
    } catch (error) {
      await postgres.close()
      throw error
    }
  } catch (error) {
    throw storeFailure(error) ?? error
  }
}

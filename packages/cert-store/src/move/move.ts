import { certificatesIn, type OpenOptions } from '../open.ts'
import { copyStore, type Progress } from './copy.ts'
import { openPostgresSource, openPostgresTarget } from './postgres.ts'
import { openSqliteSource, openSqliteTarget } from './sqlite.ts'

type Storage = OpenOptions['storage']

/** Rows that are copied at once. */
const BATCH = 500

/**
 * Copies the store that is configured, which nobody uses, to the other engine: from a folder to the database with the
 * URL `to`, or from a database to the folder `to`. The store itself stays as it is. Cut short at any point, the same
 * call completes it.
 * @throws StoreError; ConfigError CONFIG_FILE_UNUSABLE
 */
export async function* moveStore(storage: Storage, to: string): AsyncGenerator<Progress> {
  const { path, url, schema, caFile } = storage
  await using opened = new AsyncDisposableStack()
  const placeOf = (url: string) => ({ url, ca: certificatesIn(caFile), schema })
  const source = opened.use(
    await (url === undefined ? openSqliteSource(path) : openPostgresSource(placeOf(url))),
  )
  const target = opened.use(
    await (url === undefined ? openPostgresTarget(placeOf(to)) : openSqliteTarget(to)),
  )
  yield* copyStore(source, target, BATCH)
}

import { DatabaseSync } from 'node:sqlite'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import { openPostgres, parsePostgresUrl, requireMigratedSqlite, Sqlite } from '@gatehouse/store'
import { AuditLog } from './audit.ts'
import { openSqliteStore, requireStore, storeFile } from './engines/sqlite.ts'
import type { Store } from './port/store.ts'
import { MIGRATIONS } from './schema/tables.ts'
import type { CertStorage } from './storage.ts'

export interface OpenOptions {
  readonly storage: Pick<CertStorage, 'path' | 'url' | 'caFile' | 'schema'>
  /** The name of this replica in what others tell about it. */
  readonly name: string
  /** Whether a folder without a store is refused. */
  readonly existing?: boolean
  /** Milliseconds from a clock that nobody can set; default: how long this process has been running. */
  readonly elapsed?: (() => number) | undefined
  /** Milliseconds to wait for a database that answers. */
  readonly patience?: number
  readonly log: Record<'info' | 'warn', (fields: object, message: string) => void>
}

/**
 * Opens the store that is configured: SQLite in a folder, or PostgreSQL.
 * @throws StoreError
 */
export async function openStore({ storage, existing, ...options }: OpenOptions): Promise<Store> {
  const { path: folder, url, caFile, schema } = storage
  if (url === undefined && existing) requireStore(folder)
  if (url === undefined) return openSqliteStore({ folder, elapsed: options.elapsed })
  // Loaded only where it is configured: its driver takes a tenth of a start.
  const { openPostgresStore } = await import('./engines/postgres.ts')
  return openPostgresStore({ ...options, url, ca: certificatesIn(caFile), schema })
}

/**
 * Opens the audit trail of a store alone, to be read. The service may run.
 * @throws StoreError
 */
export async function openAuditLog({
  path,
  url,
  caFile,
  schema,
}: OpenOptions['storage']): Promise<Pick<Store, 'listAudit'> & AsyncDisposable> {
  await using opened = new AsyncDisposableStack()
  if (url === undefined) {
    requireStore(path)
    const sqlite = opened.use(new DatabaseSync(storeFile(path), { readOnly: true }))
    requireMigratedSqlite(sqlite, MIGRATIONS)
    return readable(new AuditLog(new Sqlite(sqlite)), opened.move())
  }
  const postgres = await openPostgres({
    url: parsePostgresUrl(url),
    ca: certificatesIn(caFile),
    schema,
    existing: true,
    name: 'gatehouse-certs audit',
    migrations: MIGRATIONS,
    log: { info() {}, warn() {} },
  })
  return readable(new AuditLog(opened.use(postgres)), opened.move())
}

const readable = ({ listAudit }: AuditLog, opened: AsyncDisposable) => ({
  listAudit,
  [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
})

/** Reads the certificates of a private CA of the database. @throws ConfigError CONFIG_FILE_UNUSABLE */
export function certificatesIn(caFile: string | undefined): string | undefined {
  return caFile === undefined ? undefined : requireNamedFile('storage.caFile', caFile)
}

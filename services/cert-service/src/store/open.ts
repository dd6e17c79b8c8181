import { requireNamedFile } from '@gatehouse/service-kit'
import type { CertServiceConfig } from '../config/schema.ts'
import { openSqliteStore } from './sqlite.ts'
import type { Store } from './store.ts'

export interface OpenOptions {
  readonly storage: Pick<CertServiceConfig['storage'], 'path' | 'url' | 'caFile' | 'schema'>
  /** How this replica is called in what other replicas tell about it. */
  readonly name: string
  /** Milliseconds from a clock that nobody can set; default: how long this process has been running. */
  readonly elapsed?: (() => number) | undefined
  /** How long to wait for a database that answers, in milliseconds. */
  readonly patience?: number
  readonly log: Record<'info' | 'warn', (fields: object, message: string) => void>
}

/**
 * Opens the store that is configured: SQLite in a folder, or PostgreSQL.
 * @throws CertError CERT_STORE_…
 */
export async function openStore({ storage, ...options }: OpenOptions): Promise<Store> {
  const { path: folder, url, caFile, schema } = storage
  if (url === undefined) return openSqliteStore({ folder, elapsed: options.elapsed })
  // Loaded only where it is configured: its driver takes a tenth of a start.
  const { openPostgresStore } = await import('./postgres.ts')
  const ca = caFile === undefined ? undefined : requireNamedFile('storage.caFile', caFile)
  return openPostgresStore({ ...options, url, ca, schema })
}

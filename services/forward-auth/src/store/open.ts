import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { PostgresConfig } from './postgres/postgres-store.ts'
import { auditFolder, readRows } from './sqlite/day-files.ts'
import { SqliteStore } from './sqlite/sqlite-store.ts'
import type { AuthStore, StoredAuditRow, StoreOptions } from './store.ts'

type StorageConfig = PostgresConfig | { readonly path: string }

/**
 * Opens the store that is configured.
 *
 * @throws FwaError FWA_STORE_UNAVAILABLE; StoreError
 */
async function openStore(storage: StorageConfig, options: StoreOptions): Promise<AuthStore> {
  if (!('url' in storage)) return new SqliteStore(storage.path, options)
  // Loaded only if configured.
  const { openPostgresStore } = await import('./postgres/postgres-store.ts')
  return openPostgresStore(storage, options)
}

/** Reads the audit trail that is configured, of all instances. They may run meanwhile. */
export async function* readAudit(
  storage: StorageConfig,
  since: number,
): AsyncGenerator<StoredAuditRow> {
  if (!('url' in storage)) return yield* readRows(auditFolder(storage), since)
  const { readAuditTable } = await import('./postgres/postgres-store.ts')
  yield* readAuditTable(storage, since)
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly authStore: AuthStore
  }
}

type StorePlugin = { readonly storage: StorageConfig } & Omit<StoreOptions, 'log'>

/** What instances have in common. It is closed last, when nothing uses it any more. */
export const store = fp<StorePlugin>(
  async (app: FastifyInstance, { storage, clock, monotonic }) => {
    const opened = await openStore(storage, { clock, monotonic, log: app.log })
    app.addHook('onClose', () => opened.close())
    app.decorate('authStore', opened)
  },
  { fastify: '5.x', name: 'forward-auth/store' },
)

import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { AuthStore } from './auth-store.ts'
import { auditFolder, readRows } from './sqlite/day-files.ts'
import { SqliteStore } from './sqlite/sqlite-store.ts'
import type { StorageConfig } from './storage-schema.ts'
import type { StoredAuditRow, StoreOptions } from './store.ts'

/** Reads the audit trail that is configured, of all instances. They may run meanwhile. */
export async function* readAudit(
  storage: StorageConfig,
  since: number,
  until?: number,
): AsyncGenerator<StoredAuditRow> {
  if (!('url' in storage)) return yield* readRows(auditFolder(storage), since, until)
  const { readAuditTable } = await import('./postgres/postgres-store.ts')
  yield* readAuditTable(storage, since, until)
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly authStore: AuthStore
  }
}

/** The state that instances share. It is closed last, when nothing uses it any more. */
export const store = fp<{ readonly storage: StorageConfig } & Omit<StoreOptions, 'log'>>(
  async (app: FastifyInstance, { storage, clock, monotonic }) => {
    const options = { clock, monotonic, log: app.log }
    const opened = !('url' in storage)
      ? new SqliteStore(storage.path, options)
      : // Loaded only if configured.
        await (await import('./postgres/postgres-store.ts')).openPostgresStore(storage, options)
    app.addHook('onClose', () => opened.close())
    app.decorate('authStore', opened)
  },
  { name: 'forward-auth/store' },
)

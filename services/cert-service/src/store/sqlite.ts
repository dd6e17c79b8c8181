import type { DatabaseSync } from 'node:sqlite'
import { createAcme } from './acme.ts'
import { createAuditLog } from './audit-log.ts'
import { createAuthorities } from './authorities.ts'
import { createCertificates } from './certificates.ts'
import { createDatabase } from './database.ts'
import { createEvents } from './events.ts'
import { createKeyrings } from './keyrings.ts'
import { schemaVersion } from './migrations.ts'
import { createOrders } from './orders.ts'
import type { Store } from './store.ts'
import { createUsage } from './usage.ts'

const PRUNE_LIMIT = 1000

/** The store on an open SQLite connection; `closed` is called once that is closed. */
export function createSqliteStore(sqlite: DatabaseSync, closed: () => void): Store {
  const db = createDatabase(sqlite)
  const version = schemaVersion(sqlite)
  const audit = createAuditLog(db)
  const orders = createOrders(db)
  const acme = createAcme(db)
  const certificates = createCertificates(db, { audit, orders })

  return {
    ...certificates.methods,
    ...orders.methods,
    ...audit.methods,
    ...acme.methods,
    ...createAuthorities(db),
    ...createKeyrings(db),
    ...createUsage(db),
    ...createEvents(db),

    prune: (before) =>
      db.write(
        () =>
          audit.prune(before.audit, PRUNE_LIMIT) +
          certificates.prune(before.certificates, PRUNE_LIMIT) +
          orders.prune(before.orders, PRUNE_LIMIT) +
          acme.prune(before.challenges, PRUNE_LIMIT),
      ),
    // Writing the same version again touches the disk and changes nothing.
    check: () => db.write(() => sqlite.exec(`PRAGMA user_version = ${version}`)),
    async close() {
      db.close()
      closed()
    },
  }
}

import type { DatabaseSync } from 'node:sqlite'
import { CertError } from '../errors.ts'
import { createAcme } from './acme.ts'
import { createAuditLog } from './audit-log.ts'
import { createAuthorities } from './authorities.ts'
import { createCertificates } from './certificates.ts'
import { createCompromisedKeys } from './compromised-keys.ts'
import { createDatabase } from './database.ts'
import { createEvents } from './events.ts'
import { unavailable } from './failure.ts'
import { rememberFiles } from './files.ts'
import { createKeyrings } from './keyrings.ts'
import { schemaVersion } from './migrations.ts'
import { createOrders } from './orders.ts'
import type { Age } from './prune.ts'
import { quickCheck } from './quick-check.ts'
import { createQuotas } from './quotas.ts'
import { createRunTime } from './run-time.ts'
import type { Store } from './store.ts'
import { createUsage } from './usage.ts'

const PRUNE_LIMIT = 1000

/** The store on an open SQLite connection; `closed` is called once that is closed. */
export function createSqliteStore(
  sqlite: DatabaseSync,
  { file, elapsed, closed }: { file: string; elapsed(): number; closed(): void },
): Store {
  const db = createDatabase(sqlite)
  const files = rememberFiles(file)
  let damage: CertError | undefined
  let isGone = false

  /** Nothing is written to a store that is damaged, or that nobody will find again. */
  function judge(): void {
    db.refuseWrites(damage ?? (isGone ? unavailable(`${file} was removed or replaced`) : undefined))
  }
  const version = schemaVersion(sqlite)
  const runTime = createRunTime(db, elapsed)
  const audit = createAuditLog(db, runTime)
  const orders = createOrders(db, runTime)
  const acme = createAcme(db, runTime)
  const quotas = createQuotas(db, audit)
  const compromisedKeys = createCompromisedKeys(db)
  const parts = { audit, orders, quotas, compromisedKeys, runTime }
  const certificates = createCertificates(db, parts)

  function ageOf(now: number, keptFor: number): Age {
    return { now, before: now - keptFor, ranBefore: runTime.now() - keptFor }
  }

  return {
    ...certificates.methods,
    ...quotas.methods,
    ...compromisedKeys.methods,
    ...orders.methods,
    ...audit.methods,
    ...acme.methods,
    ...createAuthorities(db),
    ...createKeyrings(db),
    ...createUsage(db, runTime),
    ...createEvents(db),

    prune: (now, keptFor) =>
      db.write(
        () =>
          audit.prune(ageOf(now, keptFor.audit), PRUNE_LIMIT) +
          certificates.prune(ageOf(now, keptFor.certificates), PRUNE_LIMIT) +
          orders.prune(ageOf(now, keptFor.orders), PRUNE_LIMIT) +
          acme.prune(ageOf(now, keptFor.challenges), PRUNE_LIMIT),
      ),
    runTime: runTime.now,
    async check() {
      isGone = !(await files.areInPlace())
      judge()
      db.retryReads()
      // Writing the same version again touches the disk and changes nothing.
      await db.write(() => {
        sqlite.exec(`PRAGMA user_version = ${version}`)
        runTime.save()
      })
      const failure = db.failure()
      if (failure) throw failure
    },
    async inspect(signal) {
      try {
        await quickCheck(file, signal)
        damage = undefined
      } catch (error) {
        if (error instanceof CertError && error.code === 'CERT_STORE_CORRUPT') damage = error
        throw error
      } finally {
        judge()
      }
    },
    failure: db.failure,
    async close() {
      await db.write(runTime.save).catch(() => {})
      db.close()
      closed()
    },
  }
}

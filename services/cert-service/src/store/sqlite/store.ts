import type { DatabaseSync } from 'node:sqlite'
import { agesAt } from '../bounds.ts'
import type { Store } from '../store.ts'
import { AuditLog } from './audit.ts'
import { Authorities } from './authorities.ts'
import { Certificates, Chains } from './certificates.ts'
import { Database } from './database.ts'
import { Events } from './events.ts'
import { Health } from './health.ts'
import { Keys } from './keys.ts'
import { Leases } from './leases.ts'
import { Lifecycle } from './lifecycle.ts'
import { Limits } from './limits.ts'
import { Listings } from './listings.ts'
import { Orders } from './orders.ts'
import { SignIns } from './sign-ins.ts'

export interface StoreDeps {
  readonly file: string
  readonly elapsed?: (() => number) | undefined
  closed(): void
}

/** The store of one process in one SQLite file. */
export function createStore(sqlite: DatabaseSync, { file, elapsed, closed }: StoreDeps): Store {
  const db = new Database(sqlite, elapsed)
  const audit = new AuditLog(db)
  const leases = new Leases(db)
  const orders = new Orders(db, leases)
  const chains = new Chains(db)
  const certificates = new Certificates(db, chains)
  const lifecycle = new Lifecycle(db, { chains, orders, audit, leases })
  const signIns = new SignIns(db)
  const close = async (): Promise<void> => {
    await db.write(() => db.saveRunTime()).catch(() => {})
    db.close()
    closed()
  }
  return {
    ...certificates,
    ...new Listings(db, certificates),
    ...lifecycle,
    ...leases,
    ...orders,
    ...audit,
    ...new Events(db),
    ...new Limits(db),
    ...new Authorities(db),
    ...new Keys(db),
    ...signIns,
    ...new Health(db, file),
    ...ALONE,
    prune(now, retention) {
      const ageOf = agesAt(now, db.runTime())
      return db.write(
        () =>
          audit.prune(ageOf(retention.audit)) +
          lifecycle.prune(ageOf(retention.certificates)) +
          orders.prune(ageOf(retention.orders)) +
          orders.pruneChallenges(ageOf(retention.challenges)) +
          signIns.prune(now),
      )
    },
    runTime: () => db.runTime(),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** One process has nobody to agree with. */
const ALONE = {
  isShared: false,
  isLeader: () => true,
  onChange() {},
  awaitReplicas: async () => [],
}

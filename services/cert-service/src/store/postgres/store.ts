import { agesAt } from '../bounds.ts'
import type { Store } from '../store.ts'
import { AuditLog } from './audit.ts'
import { Authorities } from './authorities.ts'
import { Certificates } from './certificates.ts'
import { Changes } from './changes.ts'
import type { Database } from './database.ts'
import { Events } from './events.ts'
import { Health } from './health.ts'
import { Keys } from './keys.ts'
import { Leases } from './leases.ts'
import { Lifecycle } from './lifecycle.ts'
import { Limits } from './limits.ts'
import { Listings } from './listings.ts'
import { Orders } from './orders.ts'
import { Records } from './records.ts'
import { Renewals } from './renewals.ts'
import { Membership } from './replicas.ts'
import { SignIns } from './sign-ins.ts'

export interface StoreDeps {
  readonly schema: string
  /** Of this replica. */
  readonly name: string
}

/** The store of any number of replicas in one PostgreSQL database. */
export async function createStore(db: Database, { schema, name }: StoreDeps): Promise<Store> {
  // Writes of one transaction come in the order of these.
  const leases = new Leases(db)
  const changes = new Changes(db, schema)
  const records = new Records(db)
  const lifecycle = new Lifecycle(db, { changes, leases })
  const orders = new Orders(db)
  const audit = new AuditLog(db)
  const signIns = new SignIns(db)
  const membership = new Membership(db, { name, changes, leases })
  await db.saveRunTime()
  await Promise.all([membership.join(), changes.read()])
  return {
    ...new Certificates(db, records),
    ...new Listings(db, records),
    ...new Renewals(db, records, changes),
    ...lifecycle,
    ...leases,
    ...orders,
    ...audit,
    ...new Events(db),
    ...new Limits(db),
    ...new Authorities(db),
    ...new Keys(db),
    ...signIns,
    ...new Health(db),
    ...changes,
    ...membership,
    isShared: true,
    now: () => db.postgres.clock.now(),
    prune: pruning(db, { lifecycle, orders, audit, signIns, membership }),
    runTime: () => db.runTime(),
    ...closing(db, membership),
  }
}

interface Pruned {
  readonly lifecycle: Lifecycle
  readonly orders: Orders
  readonly audit: AuditLog
  readonly signIns: SignIns
  readonly membership: Membership
}

function pruning(
  db: Database,
  { lifecycle, orders, audit, signIns, membership }: Pruned,
): Store['prune'] {
  return async (now, retention) => {
    const ageOf = agesAt(now, db.runTime())
    const pruned = await db.write([
      audit.prune(ageOf(retention.audit)),
      lifecycle.prune(ageOf(retention.certificates)),
      orders.prune(ageOf(retention.orders)),
      orders.pruneChallenges(ageOf(retention.challenges)),
      signIns.prune(now),
    ])
    await membership.tidy()
    return pruned.reduce((sum, [row]) => sum + Number(row?.total ?? 0), 0)
  }
}

function closing(db: Database, membership: Membership) {
  const close = async (): Promise<void> => {
    await db.saveRunTime().catch(() => {})
    await membership.leave().catch(() => {})
    await db.postgres.close()
  }
  return { close, [Symbol.asyncDispose]: close }
}

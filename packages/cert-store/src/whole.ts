import type { Engine } from '@gatehouse/store'
import { acmeServerOn, pruneAcme } from './acme-server.ts'
import { AuditLog } from './audit.ts'
import { authoritiesOn } from './authorities.ts'
import { certificatesOn, pruneCertificates } from './certificates.ts'
import { eventsOn } from './events.ts'
import { keysOn } from './keys.ts'
import type { Leases } from './leases.ts'
import { limitsOn } from './limits.ts'
import { listingsOn } from './listings.ts'
import { ordersOn, pruneChallenges, pruneOrders } from './orders.ts'
import { renewalsOn } from './renewals.ts'
import type { SharedChanges } from './replicas/changes.ts'
import { pruneSignIns, signInsOn } from './sign-ins.ts'
import { agesAt } from './sql.ts'
import type { Store } from './store.ts'
import { withdrawalsOn } from './withdrawals.ts'

interface Parts {
  readonly leases: Leases
  /** One process has nobody to tell. */
  readonly changes?: SharedChanges
}

/** The parts that the stores of both engines share: everything in tables. */
export function storeOn(db: Engine, { leases, changes }: Parts) {
  const audit = new AuditLog(db)
  const { select, ...certificates } = certificatesOn(db, { audit, leases, changes })
  const prune: Store['prune'] = async (now, retention) => {
    const ageOf = agesAt(now, db.runTime())
    // Each in a transaction of its own, so that none takes long.
    const parts = [
      () => audit.prune(ageOf(retention.audit)),
      () => pruneCertificates(db, ageOf(retention.certificates)),
      () => pruneOrders(db, ageOf(retention.orders)),
      () => pruneChallenges(db, ageOf(retention.challenges)),
      () => pruneAcme(db, ageOf),
      () => pruneSignIns(db, now),
    ]
    let sum = 0
    for (const prune of parts) sum += await prune()
    return sum
  }
  return {
    ...certificates,
    ...listingsOn(db, select),
    ...renewalsOn(db, { audit, select, leases, changes }),
    ...withdrawalsOn(db, { audit, changes }),
    ...leases,
    ...ordersOn(db, leases),
    ...audit,
    ...eventsOn(db),
    ...limitsOn(db),
    ...authoritiesOn(db),
    ...keysOn(db),
    ...signInsOn(db),
    acme: acmeServerOn(db, audit),
    onChange: changes?.onChange ?? (() => {}),
    awaitReplicas: changes?.awaitReplicas ?? (async () => []),
    prune,
    runTime: () => db.runTime(),
  }
}

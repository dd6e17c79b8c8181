import type { Engine } from '@gatehouse/store'
import { acmeServerOn, pruneAcme } from '../acme-server.ts'
import { AuditLog } from '../audit.ts'
import { authoritiesOn } from '../certificate/authorities.ts'
import { certificatesOn, pruneCertificates } from '../certificate/certificates.ts'
import { listingsOn } from '../certificate/listings.ts'
import { renewalsOn } from '../certificate/renewals.ts'
import { withdrawalsOn } from '../certificate/withdrawals.ts'
import { eventsOn } from '../events.ts'
import type { Leases } from '../orders/leases.ts'
import { limitsOn } from '../orders/limits.ts'
import { ordersOn, pruneChallenges, pruneOrders } from '../orders/orders.ts'
import type { Store } from '../port/store.ts'
import { probesOn } from '../probes.ts'
import type { SharedChanges } from '../replicas/changes.ts'
import { pruneRootHolders, rootHoldersOn } from '../root-holders.ts'
import { agesAt } from '../schema/sql.ts'
import { keysOn } from '../sealing/keys.ts'
import { pruneSignIns, signInsOn } from '../sign-ins.ts'

interface StoreParts {
  readonly leases: Leases
  /** Absent where one process has the store to itself. */
  readonly changes?: SharedChanges
}

/** The parts that the stores of both engines share: everything in tables. */
export function storeOn(db: Engine, { leases, changes }: StoreParts) {
  const audit = new AuditLog(db)
  const parts = { audit, leases, changes }
  const { select, ...certificates } = certificatesOn(db, parts)
  const prune: Store['prune'] = async (now, retention) => {
    const ageOf = agesAt(now, db.runTime())
    // Each in a transaction of its own, so that none takes long.
    const deletions = [
      () => audit.prune(ageOf(retention.audit)),
      () => pruneCertificates(db, ageOf(retention.certificates)),
      () => pruneOrders(db, ageOf(retention.orders)),
      () => pruneChallenges(db, ageOf(retention.challenges)),
      () => pruneAcme(db, ageOf),
      () => pruneSignIns(db, now),
      () => pruneRootHolders(db, now),
    ]
    let sum = 0
    for (const prune of deletions) sum += await prune()
    return sum
  }
  return {
    ...certificates,
    ...listingsOn(db, select),
    ...renewalsOn(db, { ...parts, select }),
    ...withdrawalsOn(db, parts),
    ...leases,
    ...ordersOn(db, leases),
    ...audit,
    ...eventsOn(db),
    ...limitsOn(db),
    ...authoritiesOn(db, parts),
    ...probesOn(db),
    ...keysOn(db),
    ...signInsOn(db),
    ...rootHoldersOn(db),
    acme: acmeServerOn(db, audit),
    onChange: changes?.onChange ?? (() => {}),
    awaitReplicas: changes?.awaitReplicas ?? (async () => []),
    prune,
    runTime: () => db.runTime(),
  }
}

import type { Engine } from '@gatehouse/store'
import { AcmeServer } from './acme-server.ts'
import { AuditLog } from './audit.ts'
import { authoritiesOn } from './authorities.ts'
import { Certificates } from './certificates.ts'
import { eventsOn } from './events.ts'
import { keysOn } from './keys.ts'
import type { Leases } from './leases.ts'
import { limitsOn } from './limits.ts'
import { Listings } from './listings.ts'
import { Orders } from './orders.ts'
import { Renewals } from './renewals.ts'
import type { SharedChanges } from './replicas/changes.ts'
import { pruneSignIns, signInsOn } from './sign-ins.ts'
import { agesAt } from './sql.ts'
import type { Store } from './store.ts'
import { Withdrawals } from './withdrawals.ts'

interface Parts {
  readonly leases: Leases
  /** One process has nobody to tell. */
  readonly changes?: SharedChanges
}

/** The parts that the stores of both engines share: everything in tables. */
export function storeOn(db: Engine, { leases, changes }: Parts) {
  const orders = new Orders(db, leases)
  const audit = new AuditLog(db)
  const acme = new AcmeServer(db, audit)
  const certificates = new Certificates(db, { audit, leases, changes })
  const withdrawals = new Withdrawals(db, { orders, audit, changes })
  const prune: Store['prune'] = async (now, retention) => {
    const ageOf = agesAt(now, db.runTime())
    // Each in a transaction of its own, so that none takes long.
    const parts = [
      () => audit.prune(ageOf(retention.audit)),
      () => certificates.prune(ageOf(retention.certificates)),
      () => orders.prune(ageOf(retention.orders)),
      () => orders.pruneChallenges(ageOf(retention.challenges)),
      () => acme.prune(ageOf),
      () => pruneSignIns(db, now),
    ]
    let sum = 0
    for (const prune of parts) sum += await prune()
    return sum
  }
  return {
    ...certificates,
    ...new Listings(db, certificates),
    ...new Renewals(db, { audit, certificates, leases, changes }),
    ...withdrawals,
    ...leases,
    ...orders,
    ...audit,
    ...eventsOn(db),
    ...limitsOn(db),
    ...authoritiesOn(db, (on, issuer, now) => withdrawals.revokedOf(on, issuer, now)),
    ...keysOn(db),
    ...signInsOn(db),
    acme,
    onChange: changes?.onChange ?? (() => {}),
    awaitReplicas: changes?.awaitReplicas ?? (async () => []),
    prune,
    runTime: () => db.runTime(),
  }
}

import type { Engine } from '@gatehouse/store'
import { AcmeServer } from './acme-server.ts'
import { AuditLog } from './audit.ts'
import { Authorities } from './authorities.ts'
import { Certificates } from './certificates.ts'
import { Events } from './events.ts'
import { Keys } from './keys.ts'
import type { Leases } from './leases.ts'
import { Limits } from './limits.ts'
import { Listings } from './listings.ts'
import { Orders } from './orders.ts'
import { Renewals } from './renewals.ts'
import type { SharedChanges } from './replicas/changes.ts'
import { SignIns } from './sign-ins.ts'
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
  const signIns = new SignIns(db)
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
      () => signIns.prune(now),
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
    ...new Events(db),
    ...new Limits(db),
    ...new Authorities(db, (on, issuer, now) => withdrawals.revokedOf(on, issuer, now)),
    ...new Keys(db),
    ...signIns,
    acme,
    onChange: changes?.onChange ?? (() => {}),
    awaitReplicas: changes?.awaitReplicas ?? (async () => []),
    prune,
    runTime: () => db.runTime(),
  }
}

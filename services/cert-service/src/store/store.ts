import type { DatabaseSync } from 'node:sqlite'
import { AuditLog } from './audit.ts'
import { Authorities } from './authorities.ts'
import { Certificates, Chains } from './certificates.ts'
import { Database } from './database.ts'
import { Events } from './events.ts'
import { Health } from './health.ts'
import { Lifecycle } from './lifecycle.ts'
import { Orders } from './orders.ts'

export type * from './records.ts'

const PRUNE_LIMIT = 1000

/**
 * What cert-service stores. Every method that writes is atomic and resolves after its commit. Times
 * are epoch milliseconds, certificates are DER, private keys are sealed before they get here.
 */
export type Store = ReturnType<typeof createStore>

/** How long to keep what has ended, in milliseconds. */
interface Retention {
  readonly audit: number
  readonly certificates: number
  readonly orders: number
  readonly challenges: number
}

export interface StoreDeps {
  readonly file: string
  readonly elapsed?: (() => number) | undefined
  closed(): void
}

export function createStore(sqlite: DatabaseSync, { file, elapsed, closed }: StoreDeps) {
  const db = new Database(sqlite, elapsed)
  const audit = new AuditLog(db)
  const orders = new Orders(db)
  const chains = new Chains(db)
  const lifecycle = new Lifecycle(db, chains, orders, audit)
  const close = async (): Promise<void> => {
    await db.write(() => db.saveRunTime()).catch(() => {})
    db.close()
    closed()
  }
  return {
    ...new Certificates(db, chains),
    ...lifecycle,
    ...orders,
    ...audit,
    ...new Events(db),
    ...new Authorities(db),
    ...new Health(db, file),

    /**
     * Deletes what ended longer ago than its retention, by the clock and by the run time: a wrong
     * clock deletes nothing. Deletes a bounded number of rows at a time and gives how many.
     */
    prune(now: number, retention: Retention): Promise<number> {
      const ran = db.runTime()
      const ageOf = (ms: number) => {
        return { now, before: now - ms, ranBefore: ran - ms, limit: PRUNE_LIMIT }
      }
      return db.write(
        () =>
          audit.prune(ageOf(retention.audit)) +
          lifecycle.prune(ageOf(retention.certificates)) +
          orders.prune(ageOf(retention.orders)) +
          orders.pruneChallenges(ageOf(retention.challenges)),
      )
    },
    runTime: () => db.runTime(),
    close,
    [Symbol.asyncDispose]: close,
  }
}

import { randomUUID } from 'node:crypto'
import type { Postgres, Queries } from '@gatehouse/store'
import type { AuthStore } from '../auth-store.ts'
import type { AuditStore, StoredAuditRow } from '../store.ts'
import { AUDIT } from '../tables.ts'

/** The lead of the one instance that removes old rows. */
export const MAINTENANCE = 'maintenance'
const DAY = 86_400_000
const PAGE = 1_000
/** Rows that one statement removes, so that none takes long. */
const MAX_REMOVED = 10_000
const NEXT = `WHERE (at, seq) > ($1, $2) AND at < $3 ORDER BY at, seq LIMIT ${PAGE}`
const PRUNE = `
  DELETE FROM audit WHERE seq IN (
    SELECT seq FROM audit WHERE (at < $1 OR at > $2) AND ran <= $3 LIMIT ${MAX_REMOVED})`

/** The audit trail of all instances, in a table. */
export function auditTableOf(db: Postgres, age: AuthStore['age']): AuditStore {
  /** A row that is tried again has the ID of before, so that it is added once. */
  const ids = new WeakMap<StoredAuditRow, string>()
  return {
    async append(rows) {
      const records = rows.map((row) => {
        const { time, ...columns } = row
        const id = ids.get(row) ?? randomUUID()
        ids.set(row, id)
        return { ...columns, id, at: Date.parse(time) }
      })
      await db.transaction((tx) => AUDIT.addAll(tx, records, ' ON CONFLICT (id) DO NOTHING'))
    },
    async prune(retention) {
      if (!(await db.tryLead(MAINTENANCE))) return
      const { now, running } = age()
      const bounds = [now - retention, now + DAY, running - retention]
      for (let removed = MAX_REMOVED; removed === MAX_REMOVED; )
        removed = await db.run(PRUNE, ...bounds)
    },
    rows: (since, until) => readRows(db, since, until),
  }
}

/** The rows of a time, oldest first. */
export async function* readRows(
  db: Queries,
  since: number,
  until = Number.MAX_SAFE_INTEGER,
): AsyncGenerator<StoredAuditRow> {
  let after: [at: number, seq: number] = [since, 0]
  for (;;) {
    const page = await AUDIT.list(db, NEXT, ...after, until)
    for (const { seq, id: _, at, ...row } of page) {
      after = [at, seq]
      const present = Object.entries(row).filter(([, value]) => value !== null)
      yield { time: new Date(at).toISOString(), ...Object.fromEntries(present) } as StoredAuditRow
    }
    if (page.length < PAGE) return
  }
}

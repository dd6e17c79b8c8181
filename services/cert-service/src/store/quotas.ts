import type { AuditLog } from './audit-log.ts'
import type { Database } from './database.ts'
import type { AuditEntry, Store } from './store.ts'

type Methods = Pick<Store, 'countNames' | 'countKeysHeld'>

export type Quotas = ReturnType<typeof createQuotas>

/** Who asked for what, and how much is live under a name. */
export function createQuotas(db: Database, audit: AuditLog) {
  const countNames = db.prepare(`
    SELECT coalesce(sum(json_array_length(names)), 0) AS names, min(not_after) AS until
    FROM certificates WHERE asked_by = ? AND not_after > ?`)
  const countHeld = db.prepare(`
    SELECT count(*) AS certificates, min(not_after) AS until FROM certificates
    WHERE current = 1 AND domain = ? AND sealed_key IS NOT NULL AND not_after > ?`)
  const asker = db.prepare(
    'SELECT id, asked_by AS askedBy FROM certificates WHERE lineage = ? AND current = 1',
  )
  const setAsker = db.prepare('UPDATE certificates SET asked_by = ? WHERE id = ?')
  const live = db.prepare(
    'SELECT count(*) AS total FROM certificates WHERE current = 1 AND domain = ? AND not_after > ?',
  )
  const pushOut = db.prepare(`
    UPDATE certificates SET current = 0 WHERE id IN (
      SELECT id FROM certificates
      WHERE current = 1 AND domain = ?1 AND sealed_key IS NULL AND not_after > ?2 AND id <> ?3
      ORDER BY id LIMIT ?4)
    RETURNING lineage, names, serial_number AS serialNumber`)

  /** Part of a write: takes up to so many certificates for CSRs out of service, the oldest first. */
  function makeRoom(id: number, domain: string, perName: number, entry: AuditEntry): string[] {
    const excess = Number(live.get(domain, entry.at)?.total) - perName
    if (excess <= 0) return []
    return pushOut.all(domain, entry.at, id, excess).map((row) => {
      const { lineage, names, serialNumber } = row as Record<string, string>
      audit.add({
        at: entry.at,
        action: 'delete',
        actor: 'system',
        names: JSON.parse(names ?? '[]'),
        serialNumber: serialNumber ?? '',
        detail: 'limits.perName.certificates: a newer one took its place',
      })
      return lineage ?? ''
    })
  }

  const methods: Methods = {
    countNames: (askedBy, now) =>
      db.read(() => {
        const { names, until } = countNames.get(askedBy, now) as { names: number; until: number }
        return { names, until }
      }),
    countKeysHeld: (domain, now) =>
      db.read(() => {
        const row = countHeld.get(domain, now) as { certificates: number; until: number }
        return { certificates: row.certificates, until: row.until }
      }),
  }

  return {
    methods,
    /** Part of a write: a certificate is about to be replaced, and costs its asker nothing more. Gives who that is. */
    release(lineage: string): string | null {
      const row = asker.get(lineage)
      if (typeof row?.askedBy !== 'string') return null
      setAsker.run(null, row.id as number)
      return row.askedBy
    },
    /** Part of a write: whom a new certificate counts for. */
    charge(id: number, askedBy: string | null): void {
      if (askedBy !== null) setAsker.run(askedBy, id)
    },
    makeRoom,
  }
}

import type { Database } from './database.ts'
import { type Age, isOver } from './prune.ts'
import type { RunTime } from './run-time.ts'
import type { AuditEntry, AuditRecord, Store } from './store.ts'

export type AuditLog = ReturnType<typeof createAuditLog>

type Row = Omit<AuditRecord, 'names'> & { names: string }

export function createAuditLog(db: Database, runTime: RunTime) {
  const insert = db.prepare(`
    INSERT INTO audit (at, action, actor, names, serial_number, remote_address, request_id, detail,
      count, key, ran)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) WHERE key IS NOT NULL DO UPDATE SET count = count + excluded.count`)
  const before = db.prepare(`
    SELECT id, at, action, actor, names, serial_number AS serialNumber,
      remote_address AS remoteAddress, request_id AS requestId, detail, count
    FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?`)
  // Rows are in the order of time: the oldest come first, and no index is needed.
  const deleteOld = db.prepare(`
    DELETE FROM audit WHERE ${isOver('at', 'ran')}
      AND id IN (SELECT id FROM audit ORDER BY id LIMIT :limit)`)

  /** Part of a write. */
  function add(entry: AuditEntry): void {
    insert.run(
      entry.at,
      entry.action,
      entry.actor,
      JSON.stringify(entry.names),
      entry.serialNumber ?? null,
      entry.remoteAddress ?? null,
      entry.requestId ?? null,
      entry.detail ?? null,
      entry.count ?? 1,
      entry.key ?? null,
      runTime.now(),
    )
  }

  const methods: Pick<Store, 'addAudit' | 'listAudit'> = {
    addAudit: (entries) => db.write(() => entries.forEach(add)),
    listAudit: (page) =>
      db.read(() =>
        before.all(page.before ?? Number.MAX_SAFE_INTEGER, page.limit).map((row) => {
          const { names, ...rest } = row as unknown as Row
          const known = Object.entries(rest).filter(([, value]) => value !== null)
          return { ...Object.fromEntries(known), names: JSON.parse(names) } as AuditRecord
        }),
      ),
  }

  return {
    methods,
    add,
    prune: (age: Age, limit: number) => Number(deleteOld.run({ ...age, limit }).changes),
  }
}

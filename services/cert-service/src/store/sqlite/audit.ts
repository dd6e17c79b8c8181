import type { Age } from '../bounds.ts'
import { columns, toAudit } from '../rows.ts'
import { AUDIT_LOOKED_AT, type AuditEntry, type AuditRecord, type Store } from '../store.ts'
import { type Database, isOld } from './database.ts'

const INSERT = `
  INSERT INTO audit (at, action, actor, names, serial_number, remote_address, request_id, detail,
    count, key, ran)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (key) WHERE key IS NOT NULL DO UPDATE SET count = count + excluded.count`
const COLUMNS = columns(
  'id, at, action, actor, names, serialNumber, remoteAddress, requestId, detail, count',
)
const BEFORE = `
  SELECT ${COLUMNS} FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?`
const OF_NAME = `
  SELECT ${COLUMNS} FROM audit
  WHERE id > (SELECT max(id) FROM audit) - ${AUDIT_LOOKED_AT} AND instr(names, ?)
  ORDER BY id DESC LIMIT ?`
// Rows are in the order of time, so the oldest have the lowest ids and need no index.
const DELETE_OLD = `
  DELETE FROM audit WHERE ${isOld('at', 'ran')}
    AND id IN (SELECT id FROM audit ORDER BY id LIMIT :limit)`

interface Row {
  readonly names: string
}

export class AuditLog {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addAudit = (entries: readonly AuditEntry[]): Promise<void> =>
    this.#db.write(() => {
      for (const entry of entries) this.add(entry)
    })

  listAudit: Store['listAudit'] = async ({ before = Number.MAX_SAFE_INTEGER, limit }) =>
    toAll(await this.#db.all<Row>(BEFORE, before, limit))

  listAuditOf = async (name: string, limit: number): Promise<readonly AuditRecord[]> =>
    toAll(await this.#db.all<Row>(OF_NAME, JSON.stringify(name), limit))

  /** Part of a write. */
  add(entry: AuditEntry): void {
    const { at, action, actor, names, serialNumber, remoteAddress, requestId, detail } = entry
    const { count = 1, key = null } = entry
    const optional = [serialNumber, remoteAddress, requestId, detail].map((value) => value ?? null)
    this.#db
      .prepare(INSERT)
      .run(at, action, actor, JSON.stringify(names), ...optional, count, key, this.#db.runTime())
  }

  prune(age: Age): number {
    return Number(this.#db.prepare(DELETE_OLD).run({ ...age }).changes)
  }
}

function toAll(rows: readonly Row[]): readonly AuditRecord[] {
  return rows.map((row) => toAudit({ ...row, names: JSON.parse(row.names) }))
}

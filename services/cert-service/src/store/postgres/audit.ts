import type { Age } from '../bounds.ts'
import { columns, toAudit } from '../rows.ts'
import { AUDIT_LOOKED_AT, type AuditEntry, type AuditRecord, type Store } from '../store.ts'
import { type Database, deleteOld, isOld } from './database.ts'
import { indexable, itemsOf, textArray } from './text.ts'

export const AUDIT_COLUMNS =
  'at, action, actor, names, serial_number, remote_address, request_id, detail, count'

const ENTRIES = itemsOf<AuditEntry>({
  at: ['bigint', ({ at }) => at],
  action: ['text', ({ action }) => action],
  actor: ['text', ({ actor }) => actor],
  names: ['text', ({ names }) => textArray(names)],
  serial_number: ['text', ({ serialNumber }) => serialNumber],
  remote_address: ['text', ({ remoteAddress }) => remoteAddress],
  request_id: ['text', ({ requestId }) => requestId],
  detail: ['text', ({ detail }) => detail],
  count: ['bigint', ({ count = 1 }) => count],
  key: ['text', ({ key }) => key && indexable(key)],
})
export const ADD_AUDIT = `
  INSERT INTO audit (${AUDIT_COLUMNS}, key, ran)
  SELECT ${AUDIT_COLUMNS.replace('names', 'names::text[]')}, key, ${ENTRIES.next(1)} FROM ${ENTRIES.sql} ORDER BY n
  ON CONFLICT (key) WHERE key IS NOT NULL DO UPDATE SET count = audit.count + excluded.count`
const COLUMNS = columns(
  'id, at, action, actor, names, serialNumber, remoteAddress, requestId, detail, count',
)
const BEFORE = `
  SELECT ${COLUMNS} FROM audit WHERE id < $1 ORDER BY id DESC LIMIT $2`
const OF_NAME = `
  SELECT ${COLUMNS} FROM (SELECT * FROM audit ORDER BY id DESC LIMIT ${AUDIT_LOOKED_AT}) AS newest
  WHERE $1 = ANY (names) ORDER BY id DESC LIMIT $2`
// Rows are about in the order of time, so the oldest have the lowest ids and need no index.
const OLD = `
  SELECT id FROM (SELECT * FROM audit ORDER BY id LIMIT $4) AS first WHERE ${isOld('at', 'ran')}`

export class AuditLog {
  readonly #db: Database
  readonly #add: (entries: readonly AuditEntry[]) => Promise<void>

  constructor(db: Database) {
    this.#db = db
    this.#add = db.turn<readonly AuditEntry[], void>({
      statements: (items) => [{ sql: ADD_AUDIT, params: auditParams(combined(items.flat()), db) }],
      settle: (_, items) => items.map(() => undefined),
    })
  }

  addAudit = async (entries: readonly AuditEntry[]): Promise<void> => {
    if (entries.length > 0) await this.#add(entries)
  }

  listAudit: Store['listAudit'] = async ({ before = Number.MAX_SAFE_INTEGER, limit }) =>
    (await this.#db.all<AuditRecord>(BEFORE, before, limit)).map(toAudit)

  listAuditOf = async (name: string, limit: number): Promise<readonly AuditRecord[]> =>
    (await this.#db.all<AuditRecord>(OF_NAME, name, limit)).map(toAudit)

  /** Part of a write. */
  prune(age: Age) {
    return deleteOld('audit', 'id', OLD, age)
  }
}

/** The parameters of {@link ADD_AUDIT}. */
export function auditParams(entries: readonly AuditEntry[], db: Database) {
  return [...ENTRIES.params(entries), db.runTime()]
}

/** One statement changes a row once. Those with a key come in its order, which keeps deadlocks out. */
function combined(entries: readonly AuditEntry[]): readonly AuditEntry[] {
  const byKey = new Map<string, AuditEntry>()
  const single = entries.filter((entry) => {
    if (entry.key === undefined) return true
    const first = byKey.get(entry.key)
    const count = (first?.count ?? 0) + (entry.count ?? 1)
    byKey.set(entry.key, { ...(first ?? entry), count })
    return false
  })
  const keyed = [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry)
  return [...single, ...keyed]
}

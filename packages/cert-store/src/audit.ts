import type { Engine, Transaction } from '@gatehouse/store'
import { AUDIT_LOOKED_AT, type AuditEntry, type AuditRecord, type Store } from './port/store.ts'
import { type Age, isOld, MAX_ROWS } from './schema/sql.ts'
import { AUDIT } from './schema/tables.ts'

/** Adds to the count of a row that has the same key. */
const COUNT = `
  ON CONFLICT (key) WHERE key IS NOT NULL DO UPDATE SET count = audit.count + excluded.count`
// Names are a JSON array.
const OF_NAME = `
  WHERE id > (SELECT max(id) FROM audit) - ${AUDIT_LOOKED_AT} AND strpos(names, $1) > 0
  ORDER BY id DESC LIMIT $2`
// Rows are about in the order of time, so the oldest have the lowest ids and need no index.
const DELETE_OLD = `
  DELETE FROM audit WHERE ${isOld('at', 'ran')}
    AND id IN (SELECT id FROM audit ORDER BY id LIMIT ${MAX_ROWS})`

export class AuditLog {
  readonly #db: Engine

  constructor(db: Engine) {
    this.#db = db
  }

  addAudit = async (entries: readonly AuditEntry[]): Promise<void> => {
    if (entries.length > 0)
      await this.#db.transaction(async (tx) => {
        for (const entry of sorted(entries)) await this.add(tx, entry)
      })
  }

  listAudit: Store['listAudit'] = async ({ before = Number.MAX_SAFE_INTEGER, limit }) =>
    (await AUDIT.list(this.#db, 'WHERE id < $1 ORDER BY id DESC LIMIT $2', before, limit)).map(
      toRecord,
    )

  listAuditOf = async (name: string, limit: number): Promise<readonly AuditRecord[]> =>
    (await AUDIT.list(this.#db, OF_NAME, JSON.stringify(name), limit)).map(toRecord)

  /** Part of a write. Entries with a key are added one by one. */
  async add(tx: Transaction, ...entries: readonly AuditEntry[]): Promise<void> {
    const rows = entries.map((entry) => {
      const { at, action, actor, names, serialNumber, remoteAddress, requestId, detail } = entry
      const { account, count = 1, key } = entry
      const optional = { serialNumber, remoteAddress, requestId, detail, account, key }
      return { at, action, actor, names, ...optional, count, ran: this.#db.runTime() }
    })
    await AUDIT.addAll(tx, rows, COUNT)
  }

  prune(age: Age): Promise<number> {
    return this.#db.run(DELETE_OLD, ...age)
  }
}

/** Entries with a key come in its order, so that two transactions never wait for each other. */
function sorted(entries: readonly AuditEntry[]): readonly AuditEntry[] {
  return entries.toSorted(({ key: a = '' }, { key: b = '' }) => (a < b ? -1 : Number(a > b)))
}

/** Without what is NULL, and what a record does not tell. */
function toRecord({ key: _, ran: __, ...row }: object & { key: unknown; ran: unknown }) {
  const present = Object.entries(row).filter(([, value]) => value !== null)
  return Object.fromEntries(present) as unknown as AuditRecord
}

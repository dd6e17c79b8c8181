import { type Age, type Database, isOld } from './database.ts'
import type { AuditEntry, AuditRecord } from './records.ts'

const INSERT = `
  INSERT INTO audit (at, action, actor, names, serial_number, remote_address, request_id, detail,
    count, key, ran)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (key) WHERE key IS NOT NULL DO UPDATE SET count = count + excluded.count`
const BEFORE = `
  SELECT id, at, action, actor, names, serial_number AS serialNumber,
    remote_address AS remoteAddress, request_id AS requestId, detail, count
  FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?`
// Rows are in the order of time, so the oldest have the lowest ids and need no index.
const DELETE_OLD = `
  DELETE FROM audit WHERE ${isOld('at', 'ran')}
    AND id IN (SELECT id FROM audit ORDER BY id LIMIT :limit)`

export class AuditLog {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addAudit = (entries: readonly AuditEntry[]): Promise<void> =>
    this.#db.write(() => {
      for (const entry of entries) this.add(entry)
    })

  /** Newest first. */
  listAudit = (page: { before?: number; limit: number }): Promise<readonly AuditRecord[]> =>
    this.#db.read(() =>
      this.#db
        .prepare(BEFORE)
        .all(page.before ?? Number.MAX_SAFE_INTEGER, page.limit)
        .map(({ names, ...rest }) => {
          const present = Object.entries(rest).filter(([, value]) => value !== null)
          return {
            ...Object.fromEntries(present),
            names: JSON.parse(names as string),
          } as AuditRecord
        }),
    )

  /** Part of a write. */
  add(entry: AuditEntry): void {
    this.#db
      .prepare(INSERT)
      .run(
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
        this.#db.runTime(),
      )
  }

  prune(age: Age): number {
    return Number(this.#db.prepare(DELETE_OLD).run({ ...age }).changes)
  }
}

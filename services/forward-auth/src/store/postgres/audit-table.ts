import { randomUUID } from 'node:crypto'
import type { Postgres } from '@gatehouse/postgres'
import type { AuditStore, StoredAuditRow } from '../store.ts'
import { unavailable } from './unavailable.ts'

const DAY = 86_400_000
const PAGE = 1_000
/** Rows that one statement removes, so that none takes long. */
const MAX_REMOVED = 10_000

const COLUMNS = [
  ...['id', 'at', 'ran', 'event', 'portal', 'provider', 'person'],
  ...['name', 'host', 'client_address', 'request_id', 'code', 'refused_by', 'clause'],
].join(', ')

const INSERT = `
  INSERT INTO audit (${COLUMNS})
  SELECT ${COLUMNS} FROM jsonb_to_recordset($1::jsonb) AS rows (
    id uuid, at timestamptz, ran bigint, event text, portal text, provider text, person text,
    name text, host text, client_address text, request_id text, code text,
    refused_by text, clause text)
  ON CONFLICT DO NOTHING`

const SELECT = `
  SELECT seq, ran, event, portal, provider, person, name, host, code, clause,
    refused_by AS "refusedBy", client_address AS "clientAddress", request_id AS "requestId",
    to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS time
  FROM audit WHERE (at, seq) > ($1::timestamptz, $2::bigint)
  ORDER BY audit.at, seq LIMIT ${PAGE}`

const PRUNE = `
  WITH gone AS (
    DELETE FROM audit WHERE seq IN (
      SELECT seq FROM audit
      WHERE (at < $1::timestamptz OR at > $2::timestamptz) AND ran <= $3::bigint
      LIMIT ${MAX_REMOVED})
    RETURNING 1)
  SELECT count(*) AS count FROM gone`

interface AuditTableOptions {
  readonly db: Postgres
  age(): { readonly now: number; readonly running: number }
  /** Whether this instance removes old rows: one of all does. */
  isLeading(): Promise<boolean>
}

/** The audit trail of all instances, in a table. */
export class AuditTable implements AuditStore {
  readonly #options: AuditTableOptions
  readonly #add: (rows: readonly StoredAuditRow[]) => Promise<void>
  /** A row that is tried again has the ID of before, so that it is added once. */
  readonly #ids = new WeakMap<StoredAuditRow, string>()

  constructor(options: AuditTableOptions) {
    this.#options = options
    this.#add = options.db.turn<readonly StoredAuditRow[], void>({
      statements: (items) => [
        { sql: INSERT, params: [JSON.stringify(items.flat().map((row) => this.#recordOf(row)))] },
      ],
      settle: (_rows, items) => items.map(() => undefined),
    })
  }

  async append(rows: readonly StoredAuditRow[]): Promise<void> {
    try {
      await this.#add(rows)
    } catch (error) {
      throw unavailable(error)
    }
  }

  async prune(retention: number): Promise<void> {
    const { db, age, isLeading } = this.#options
    try {
      if (!(await isLeading())) return
      const { now, running } = age()
      const params = [isoOf(now - retention), isoOf(now + DAY), running - retention]
      for (let count = MAX_REMOVED; count === MAX_REMOVED; ) {
        const [[row] = []] = await db.write([{ sql: PRUNE, params }])
        count = Number(row?.count ?? 0)
      }
    } catch (error) {
      throw unavailable(error)
    }
  }

  rows(since: number): AsyncIterable<StoredAuditRow> {
    return readRows(this.#options.db, since)
  }

  #recordOf(row: StoredAuditRow): object {
    const id = this.#ids.get(row) ?? randomUUID()
    this.#ids.set(row, id)
    const { time: at, clientAddress, requestId, refusedBy, ...rest } = row
    const names = { client_address: clientAddress, request_id: requestId, refused_by: refusedBy }
    const record = { ...rest, ...names, id, at }
    return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, storable(value)]))
  }
}

/** The rows since a time in ms, oldest first. */
export async function* readRows(
  db: Pick<Postgres, 'all'>,
  since: number,
): AsyncGenerator<StoredAuditRow> {
  let after: [time: string, seq: number] = [isoOf(since), 0]
  for (;;) {
    const page = await db.all<StoredAuditRow & { seq: number }>(SELECT, after)
    for (const { seq: _, ...row } of page) yield withoutNulls(row)
    const last = page.at(-1)
    if (!last || page.length < PAGE) return
    after = [last.time, last.seq]
  }
}

/** PostgreSQL has no NUL in texts, and no half of a surrogate pair. A provider may send both. */
function storable(value: string | number | undefined): string | number | undefined {
  return typeof value === 'string' ? value.replaceAll('\0', '\u{fffd}').toWellFormed() : value
}

function withoutNulls(row: StoredAuditRow): StoredAuditRow {
  return Object.fromEntries(
    Object.entries(row).filter(([, value]) => value !== null),
  ) as unknown as StoredAuditRow
}

function isoOf(time: number): string {
  return new Date(Math.max(time, 0)).toISOString()
}

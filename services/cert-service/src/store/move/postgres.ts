import {
  type ArrayElement,
  openPostgres,
  PostgresError,
  parsePostgresUrl,
  type Row as RawRow,
} from '@gatehouse/postgres'
import { CertError } from '../../errors.ts'
import { Database, mapped, storeFailure } from '../postgres/database.ts'
import { MIGRATIONS } from '../postgres/migrations.ts'
import { isUnfinished, refuseUnfinished, UNFINISHED } from '../postgres/unfinished.ts'
import { insertionOf, readAfter, rowOf, selected } from './postgres-rows.ts'
import type { Counters, Found, Page, Source, Target } from './side.ts'
import { type Row, TABLES, type Table } from './tables.ts'

export interface Place {
  readonly url: string
  /** PEM certificates of a private CA of the database. */
  readonly ca?: string | undefined
  readonly schema: string
}

/** Keys that are counted at once. */
const MANY = 10_000
/** Longer than a replica that lives is silent. */
const LIVE = `interval '15 seconds'`
const REPLICAS = `SELECT name FROM replicas WHERE seen_at > clock_timestamp() - ${LIVE} ORDER BY name`
const CHECK = 'SELECT check_value AS "check" FROM master_key'
const WRITTEN = 'SELECT EXISTS (SELECT FROM writes WHERE at > $1::timestamptz) AS "isWritten"'
const LEADER = 'move'

interface Opened {
  readonly db: Database
  readonly schema: string
}

/** @throws CertError CERT_STORE_OLDER, CERT_STORE_NEWER, CERT_STORE_LOCKED, CERT_STORE_MISSING, CERT_STORE_UNFINISHED, CERT_STORE_UNAVAILABLE */
export function openPostgresSource(place: Place): Promise<Source> {
  return open({ ...place, existing: true }, async (opened) => {
    const { db, schema } = opened
    await refuseUnfinished(db.postgres)
    const [row] = await db.all<{ check: Buffer }>(CHECK)
    if (!row) throw new CertError('CERT_STORE_MISSING', `The schema ${schema} holds no keys yet.`)
    const [{ now } = { now: '' }] = await db.all<{ now: string }>(
      'SELECT clock_timestamp()::text AS now',
    )
    return new PostgresSource(opened, row.check, now)
  })
}

/** @throws CertError CERT_STORE_NEWER, CERT_STORE_LOCKED, CERT_STORE_NOT_EMPTY, CERT_STORE_UNAVAILABLE */
export function openPostgresTarget(place: Place): Promise<Target> {
  return open({ ...place, existing: false }, async (opened) => {
    return new PostgresTarget(opened, await findStore(opened))
  })
}

async function open<Side>(
  { url, ca, schema, existing }: Place & { readonly existing: boolean },
  use: (opened: Opened) => Promise<Side>,
): Promise<Side> {
  const postgres = await mapped(
    openPostgres({
      ...{ url: parsePostgresUrl(url), ca, schema, existing, name: 'gatehouse-certs move' },
      ...{ migrations: MIGRATIONS, log: { info() {}, warn() {} } },
    }),
  )
  try {
    const opened = { db: new Database(postgres), schema }
    await refuseReplicas(opened)
    if (await postgres.tryLead(LEADER)) return await use(opened)
    throw new CertError('CERT_STORE_LOCKED', `Another move uses the schema ${schema}.`)
  } catch (error) {
    await postgres.close()
    throw storeFailure(error) ?? error
  }
}

async function refuseReplicas({ db, schema }: Opened): Promise<void> {
  const replicas = await db.all<{ name: string }>(REPLICAS)
  if (replicas.length === 0) return
  const names = replicas.map(({ name }) => name).join(', ')
  throw new CertError(
    'CERT_STORE_LOCKED',
    `The schema ${schema} is used by ${names}; a replica that was killed counts for 15 seconds.`,
  )
}

async function findStore({ db, schema }: Opened): Promise<Found | undefined> {
  if (await isUnfinished(db.postgres)) {
    const [row] = await db.all<{ check: Buffer }>(`SELECT source AS "check" FROM ${UNFINISHED}`)
    return { check: row?.check ?? Buffer.alloc(0), isFinished: false }
  }
  const [row] = await db.all<{ check: Buffer }>(CHECK)
  if (row) return { ...row, isFinished: true }
  for (const { name } of TABLES) {
    const [{ holds } = { holds: false }] = await db.all<{ holds: boolean }>(
      `SELECT EXISTS (SELECT FROM ${name}) AS holds`,
    )
    if (holds)
      throw new CertError('CERT_STORE_NOT_EMPTY', `The schema ${schema} holds ${name} already.`)
  }
  return undefined
}

class PostgresSource implements Source {
  readonly check: Buffer
  readonly #opened: Opened
  /** When it was opened, by the clock of the database. */
  readonly #since: string

  constructor(opened: Opened, check: Buffer, since: string) {
    this.#opened = opened
    this.check = check
    this.#since = since
  }

  async page(
    table: Table,
    after: Page<unknown> | undefined,
    limit: number,
  ): Promise<Page<unknown>> {
    const of = { select: selected(table), last: after?.last, limit }
    const rows = await readAfter(this.#opened.db, table, of)
    const converted = rows.map((row) => rowOf(table, row))
    return { rows: converted, last: converted.at(-1)?.[table.key] }
  }

  async counters(): Promise<Counters> {
    const { db } = this.#opened
    const row = await db.get<{ ms: number }>('SELECT ms FROM run_time')
    const lastIds = new Map<string, number>()
    for (const { name, hasSequence } of TABLES) {
      if (!hasSequence) continue
      const sql = `SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS last FROM ${name}_id_seq`
      lastIds.set(name, (await db.get<{ last: number }>(sql))?.last ?? 0)
    }
    return { runTime: row?.ms ?? 0, lastIds }
  }

  async assertUnused(): Promise<void> {
    await refuseReplicas(this.#opened)
    const { db, schema } = this.#opened
    const row = await db.get<{ isWritten: boolean }>(WRITTEN, this.#since)
    if (row?.isWritten)
      throw new CertError('CERT_STORE_LOCKED', `The schema ${schema} was used meanwhile.`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.db.postgres.close()
  }
}

class PostgresTarget implements Target {
  readonly found: Found | undefined
  readonly #db: Database

  constructor({ db }: Opened, found: Found | undefined) {
    this.#db = db
    this.found = found
  }

  async begin(check: Buffer): Promise<void> {
    const clear = [
      { sql: `TRUNCATE ${TABLES.map(({ name }) => name)}` },
      { sql: `DROP TABLE ${UNFINISHED}` },
    ]
    await this.#db.write([
      ...(this.found ? clear : []),
      { sql: `CREATE TABLE ${UNFINISHED} (source bytea NOT NULL)` },
      { sql: `INSERT INTO ${UNFINISHED} VALUES ($1)`, params: [check] },
    ])
  }

  async find(table: Table, rows: readonly Row[]): Promise<readonly Row[]> {
    const { name, key, columns } = table
    const { type = 'text' } = columns[key] ?? {}
    const sql = `SELECT ${selected(table)} FROM ${name} WHERE ${key} = ANY ($1::${type}[])`
    const keys = rows.map((row) => row[key] as ArrayElement)
    const found = await this.#db.all(sql, keys)
    return found.map((row) => rowOf(table, row))
  }

  async count(table: Table): Promise<number> {
    let total = 0
    let keys: readonly RawRow[]
    let last: unknown
    do {
      const of = { select: `${table.key} AS key`, last, limit: MANY }
      keys = await readAfter(this.#db, table, of)
      last = keys.at(-1)?.key
      total += keys.length
    } while (keys.length === MANY)
    return total
  }

  async insert(table: Table, rows: readonly Row[]): Promise<boolean> {
    const { sql, items } = insertionOf(table)
    try {
      await this.#db.write([{ sql, params: items.params(rows) }])
      return true
    } catch (error) {
      if (error instanceof PostgresError && error.constraint !== undefined) return false
      throw error
    }
  }

  async finish({ runTime, lastIds }: Counters): Promise<void> {
    const sequences = [...lastIds].map(([name, last]) => ({
      sql: `SELECT setval('${name}_id_seq', greatest($1::bigint, 1), $1::bigint > 0)`,
      params: [last],
    }))
    const ran = { sql: 'UPDATE run_time SET ms = $1', params: [runTime] }
    await this.#db.write([...sequences, ran, { sql: `DROP TABLE ${UNFINISHED}` }])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#db.postgres.close()
  }
}

import { existsSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { DatabaseSync } from 'node:sqlite'
import { CertError } from '../../errors.ts'
import { syncFolder } from '../../files.ts'
import { UNFINISHED } from '../postgres/unfinished.ts'
import { storeFailure } from '../sqlite/database.ts'
import { MIGRATIONS, schemaVersion } from '../sqlite/migrations.ts'
import {
  assertStore,
  checkIntegrity,
  connect,
  emptyDraft,
  initialise,
  lockFolder,
  requireEmpty,
  requireStore,
  storeFile,
} from '../sqlite/open.ts'
import type { Counters, Found, Page, Source, Target } from './side.ts'
import { Rows } from './sqlite-rows.ts'
import { type Row, TABLES, type Table } from './tables.ts'

const CHECK = 'SELECT check_value AS "check" FROM master_key'
const LAST_EVENT = `SELECT seq AS last FROM sqlite_sequence WHERE name = 'events'`
const SQLITE_CONSTRAINT = 19

/** @throws CertError CERT_STORE_MISSING, CERT_STORE_LOCKED, CERT_STORE_CORRUPT, CERT_STORE_OLDER, CERT_STORE_NEWER */
export async function openSqliteSource(folder: string): Promise<Source> {
  requireStore(folder)
  const unlock = await lockFolder(folder)
  try {
    const sqlite = openExisting(storeFile(folder))
    try {
      checkIntegrity(sqlite)
      const check = checkOf(sqlite)
      if (!check)
        throw new CertError('CERT_STORE_MISSING', `The store in ${folder} has no keys yet.`)
      return new SqliteSource(sqlite, check, unlock)
    } catch (error) {
      sqlite.close()
      throw error
    }
  } catch (error) {
    unlock()
    throw storeFailure(error) ?? error
  }
}

/** @throws CertError CERT_STORE_LOCKED, CERT_STORE_NOT_EMPTY, CERT_STORE_CORRUPT, CERT_STORE_UNAVAILABLE */
export async function openSqliteTarget(folder: string): Promise<Target> {
  const unlock = await lockFolder(folder)
  try {
    const file = storeFile(folder)
    const draft = `${file}.move`
    const isDraft = !existsSync(file)
    if (isDraft) await requireEmpty(folder, draft)
    const sqlite = isDraft ? openDraft(draft) : openExisting(file)
    return new SqliteTarget({ folder, draft, isDraft, unlock }, sqlite)
  } catch (error) {
    unlock()
    throw storeFailure(error) ?? error
  }
}

/** A store with today's schema, to be read. */
function openExisting(file: string): DatabaseSync {
  const sqlite = new DatabaseSync(file, { readOnly: true })
  try {
    assertStore(sqlite, file)
    const version = schemaVersion(sqlite)
    if (version === MIGRATIONS.length) return sqlite
    throw new CertError(
      version < MIGRATIONS.length ? 'CERT_STORE_OLDER' : 'CERT_STORE_NEWER',
      `The store has schema ${version}, and this version needs ${MIGRATIONS.length}.`,
    )
  } catch (error) {
    sqlite.close()
    throw error
  }
}

/** What an earlier move left behind; `undefined` if it was killed before it began. */
function openDraft(draft: string): DatabaseSync | undefined {
  if (!existsSync(draft)) return undefined
  try {
    return connect(draft)
  } catch {
    return undefined
  }
}

function checkOf(sqlite: DatabaseSync): Buffer | undefined {
  const row = sqlite.prepare(CHECK).get()
  return row && Buffer.from(row.check as Uint8Array)
}

class SqliteSource implements Source {
  readonly check: Buffer
  readonly #rows: Rows
  readonly #unlock: () => void

  constructor(sqlite: DatabaseSync, check: Buffer, unlock: () => void) {
    this.check = check
    this.#rows = new Rows(sqlite)
    this.#unlock = unlock
  }

  async page(
    table: Table,
    after: Page<unknown> | undefined,
    limit: number,
  ): Promise<Page<unknown>> {
    return mapped(() => this.#rows.page(table, after, limit))
  }

  async counters(): Promise<Counters> {
    return mapped(() => {
      const { sqlite } = this.#rows
      const lastIds = new Map<string, number>()
      for (const { name, hasSequence } of TABLES) {
        if (!hasSequence) continue
        const sql = name === 'events' ? LAST_EVENT : `SELECT max(id) AS last FROM ${name}`
        lastIds.set(name, (sqlite.prepare(sql).get()?.last as number | null | undefined) ?? 0)
      }
      const runTime = sqlite.prepare('SELECT ms FROM run_time').get()?.ms as number
      return { runTime, lastIds }
    })
  }

  /** The lock has kept everybody off it. */
  async assertUnused(): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {
    this.#rows.sqlite.close()
    this.#unlock()
  }
}

interface Draft {
  readonly folder: string
  readonly draft: string
  /** Whether the store has no name yet. */
  readonly isDraft: boolean
  unlock(): void
}

class SqliteTarget implements Target {
  readonly found: Found | undefined
  readonly #place: Draft
  #rows: Rows | undefined

  constructor(place: Draft, sqlite: DatabaseSync | undefined) {
    this.#place = place
    this.#rows = sqlite && new Rows(sqlite)
    this.found = sqlite && foundIn(sqlite, place.isDraft)
  }

  async begin(check: Buffer): Promise<void> {
    this.#rows?.sqlite.close()
    this.#rows = undefined
    const draft = await emptyDraft(this.#place.folder, this.#place.draft)
    this.#rows = mapped(() => {
      initialise(draft)
      const sqlite = connect(draft)
      sqlite.exec(`BEGIN; CREATE TABLE ${UNFINISHED} (source BLOB NOT NULL) STRICT`)
      sqlite.prepare(`INSERT INTO ${UNFINISHED} VALUES (?)`).run(check)
      sqlite.exec('COMMIT')
      return new Rows(sqlite)
    })
  }

  async find(table: Table, rows: readonly Row[]): Promise<readonly Row[]> {
    return mapped(() => this.#rows?.find(table, rows) ?? [])
  }

  async count({ name }: Table): Promise<number> {
    const sql = `SELECT count(*) AS total FROM ${name}`
    return mapped(() => Number(this.#rows?.sqlite.prepare(sql).get()?.total))
  }

  async insert(table: Table, rows: readonly Row[]): Promise<boolean> {
    const { sqlite } = this.#rows as Rows
    try {
      sqlite.exec('BEGIN IMMEDIATE')
      this.#rows?.insert(table, rows)
      sqlite.exec('COMMIT')
      return true
    } catch (error) {
      if (sqlite.isTransaction) sqlite.exec('ROLLBACK')
      const { errcode = 0 } = error as { errcode?: number }
      if ((errcode & 0xff) === SQLITE_CONSTRAINT) return false
      throw storeFailure(error) ?? error
    }
  }

  async finish({ runTime, lastIds }: Counters): Promise<void> {
    const { sqlite } = this.#rows as Rows
    const { folder, draft } = this.#place
    mapped(() => {
      sqlite.exec('BEGIN IMMEDIATE')
      sqlite.prepare('UPDATE run_time SET ms = ?').run(runTime)
      sqlite.exec(`DELETE FROM sqlite_sequence WHERE name = 'events'`)
      const last = lastIds.get('events') ?? 0
      const setLast = `INSERT INTO sqlite_sequence (name, seq) SELECT 'events', ?1 WHERE ?1 > 0`
      sqlite.prepare(setLast).run(last)
      sqlite.exec(`DROP TABLE ${UNFINISHED}; COMMIT`)
      // One file, without a log beside it.
      sqlite.exec('PRAGMA journal_mode = DELETE')
      checkIntegrity(sqlite)
      sqlite.close()
    })
    this.#rows = undefined
    await rename(draft, storeFile(folder))
    await syncFolder(folder)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#rows?.sqlite.close()
    this.#place.unlock()
  }
}

/** A draft that was killed before it began, or just before it got its name, is made anew. */
function foundIn(sqlite: DatabaseSync, isDraft: boolean): Found | undefined {
  if (!isDraft) return { check: checkOf(sqlite) ?? Buffer.alloc(0), isFinished: true }
  const isBegun = sqlite.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(UNFINISHED)
  if (!isBegun) return undefined
  const row = sqlite.prepare(`SELECT source FROM ${UNFINISHED}`).get()
  return { check: Buffer.from(row?.source as Uint8Array), isFinished: false }
}

function mapped<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw storeFailure(error) ?? error
  }
}

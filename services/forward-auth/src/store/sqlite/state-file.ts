import { closeSync, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { makeFolder } from '@gatehouse/service-kit'
import type { Revocation } from '../store.ts'

/** Named after what it held first. */
export const STATE_FILE = 'revocations.db'
/** How long the last write waits for other instances, in ms. It blocks the process. */
const BUSY_TIMEOUT = 100
/** At a start nothing is blocked, and several workers may create the file, in ms. */
const START_TIMEOUT = 5_000
const SQLITE_BUSY = 5
/** The longest lifetime of a session, in ms: for rows of older versions, which have no running time. */
const LONGEST_LIFE = 90 * 24 * 3_600_000
const LATER_COLUMNS = {
  person: "TEXT NOT NULL DEFAULT ''",
  first: 'INTEGER NOT NULL DEFAULT 0',
  last: 'INTEGER NOT NULL DEFAULT 0',
  due: `INTEGER NOT NULL DEFAULT ${LONGEST_LIFE}`,
  generation: 'INTEGER NOT NULL DEFAULT 0',
}

/** Whether an error of a read says that another instance is writing. */
export function isLocked(error: unknown): boolean {
  return (Number((error as { errcode?: number }).errcode) & 0xff) === SQLITE_BUSY
}

/** A row in the file. IDs increase. */
export type StoredRevocation = Revocation & { readonly id: number }

export const COLUMNS = 'sid, person, first, last, generation, until, due'

/** The file of what instances on one folder have in common, for reading. */
export class StateFile {
  readonly path: string
  readonly #db: DatabaseSync
  readonly #inode: number

  /** Creates the file in `folder` if needed. Throws errors of SQLite and of the system. */
  constructor(folder: string) {
    makeFolder(folder)
    this.path = join(folder, STATE_FILE)
    closeSync(openSync(this.path, 'a', 0o600))
    this.#inode = statSync(this.path).ino
    this.#db = new DatabaseSync(this.path, { timeout: START_TIMEOUT })
    try {
      prepareTables(this.#db)
      // Waiting would block all requests.
      this.#db.exec('PRAGMA busy_timeout = 0')
    } catch (error) {
      this.close()
      throw error
    }
  }

  rowsAfter(id: number): StoredRevocation[] {
    const rows = this.#db.prepare(`SELECT id, ${COLUMNS} FROM revoked WHERE id > ? ORDER BY id`)
    return rows.all(id) as unknown as StoredRevocation[]
  }

  /** Whether a login has completed. */
  hasCompleted(login: string): boolean {
    return this.#db.prepare('SELECT 1 FROM completed WHERE login = ?').get(login) !== undefined
  }

  /** How long the folder has been in use, in ms, when it was last saved. */
  runningTime(): number {
    return Number(this.#db.prepare('SELECT ms FROM running').get()?.ms)
  }

  /** Saves the running time, which never decreases. */
  keepRunningTime(ms: number): void {
    this.#db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT}`)
    this.#db.prepare('UPDATE running SET ms = max(ms, ?)').run(ms)
  }

  /** Whether the file at this path is still the one that was opened. */
  isThere(): boolean {
    return statSync(this.path, { throwIfNoEntry: false })?.ino === this.#inode
  }

  close(): void {
    this.#db.close()
  }
}

/** Instances of an older version may use the file at the same time, and know its first columns only. */
function prepareTables(db: DatabaseSync): void {
  // No WAL: it wants all instances on one machine.
  db.exec(`
    PRAGMA journal_mode = TRUNCATE;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS revoked (
      id INTEGER PRIMARY KEY AUTOINCREMENT, sid TEXT NOT NULL UNIQUE, until INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE IF NOT EXISTS completed (
      login TEXT PRIMARY KEY, until INTEGER NOT NULL, due INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS running (
      only INTEGER PRIMARY KEY CHECK (only = 1), ms INTEGER NOT NULL
    ) STRICT;
    INSERT OR IGNORE INTO running (only, ms) VALUES (1, 0)`)
  if (missingColumns(db).length === 0) return
  db.exec('BEGIN IMMEDIATE')
  for (const [name, definition] of missingColumns(db))
    db.exec(`ALTER TABLE revoked ADD COLUMN ${name} ${definition}`)
  db.exec('COMMIT')
}

function missingColumns(db: DatabaseSync): [name: string, definition: string][] {
  const known = db.prepare('SELECT name FROM pragma_table_info(?)').all('revoked')
  return Object.entries(LATER_COLUMNS).filter(([name]) => !known.some((each) => each.name === name))
}

import { closeSync, openSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { makeFolder } from '@gatehouse/service-kit'

/** Where in `storage.path` the ended sessions are. */
export const REVOCATIONS_FILE = 'revocations.db'
/** Reads hold up all requests, so they wait no longer than a commit takes. */
const BUSY_TIMEOUT = 100
/** Of what an older version wrote, which knows no running time: the longest life of a session, in ms. */
const LONGEST_LIFE = 90 * 24 * 3_600_000
/** What the first version of the table had not. */
const LATER_COLUMNS = {
  person: "TEXT NOT NULL DEFAULT ''",
  first: 'INTEGER NOT NULL DEFAULT 0',
  last: 'INTEGER NOT NULL DEFAULT 0',
  due: `INTEGER NOT NULL DEFAULT ${LONGEST_LIFE}`,
  generation: 'INTEGER NOT NULL DEFAULT 0',
}

/** A session that was ended, or with a `~` in front of `person` those of that person in a stretch of time. */
export interface Row {
  /** Of a session, or `~` and the person. */
  readonly sid: string
  /** Digest of whose sessions these are; '' in rows of older versions. */
  readonly person: string
  /** When the first and the last of these sessions began, in seconds. */
  readonly first: number
  readonly last: number
  /** The highest generation of these sessions: one of a higher generation has not ended. */
  readonly generation: number
  /** When all of them have ended: by the clock, and by the running time of the list. In ms. */
  readonly until: number
  readonly due: number
}

/** A row as it is kept; ids grow. */
export type StoredRow = Row & { readonly id: number }

/** What the columns of a row are called. */
export const COLUMNS = 'sid, person, first, last, generation, until, due'

/** The list of ended sessions on disk, opened for reading. */
export interface RevocationFile {
  readonly path: string
  rowsAfter(id: number): StoredRow[]
  /** How long the list has been in use, in ms, as it was last written down. */
  runningTime(): number
  /** Whether the file is still the one that was opened. */
  isThere(): boolean
  /** Writes the running time down, which never goes back. */
  keepRunningTime(ms: number): void
  close(): void
}

/** Opens the file in `folder`, and makes it if there is none. Throws what SQLite and the system throw. */
export function openRevocationFile(folder: string): RevocationFile {
  makeFolder(folder)
  const path = join(folder, REVOCATIONS_FILE)
  closeSync(openSync(path, 'a', 0o600))
  const db = new DatabaseSync(path, { timeout: BUSY_TIMEOUT })
  try {
    prepareTables(db)
    const { ino } = statSync(path)
    const after = db.prepare(`SELECT id, ${COLUMNS} FROM revoked WHERE id > ? ORDER BY id`)
    const running = db.prepare('SELECT ms FROM running')
    const keep = db.prepare('UPDATE running SET ms = max(ms, ?)')
    return {
      path,
      rowsAfter: (id) => after.all(id) as unknown as StoredRow[],
      runningTime: () => Number(running.get()?.ms),
      isThere: () => statSync(path, { throwIfNoEntry: false })?.ino === ino,
      keepRunningTime: (ms) => void keep.run(Math.floor(ms)),
      close: () => db.close(),
    }
  } catch (error) {
    db.close()
    throw error
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

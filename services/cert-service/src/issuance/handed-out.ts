import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { deserialize, serialize } from 'node:v8'
import { type Clock, makeFolder } from '@gatehouse/service-kit'
import { LRUCache } from 'lru-cache'
import type { CertificateRecord, Store } from '../store/store.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
/** Of some 3 kB each. */
const MAX_ROWS = 20_000
/** Rows that are compared with the store before other work gets a turn. */
const PAGE = 100

const SCHEMA = `
  PRAGMA journal_mode = MEMORY;
  PRAGMA synchronous = OFF;
  PRAGMA secure_delete = ON;
  CREATE TABLE IF NOT EXISTS handed_out (
    lineage TEXT PRIMARY KEY, domain TEXT NOT NULL, at INTEGER NOT NULL, record BLOB NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS by_domain ON handed_out (domain);
  CREATE INDEX IF NOT EXISTS by_age ON handed_out (at)`
const SAVE = 'INSERT OR REPLACE INTO handed_out (lineage, domain, at, record) VALUES (?, ?, ?, ?)'
const DELETE_EXCESS = `
  DELETE FROM handed_out WHERE at < ? OR lineage IN (
    SELECT lineage FROM handed_out ORDER BY at DESC LIMIT -1 OFFSET ${MAX_ROWS})`

interface HandedOutDeps {
  readonly folder: string
  /** Of the worker, as its file is for one process at a time; 0 in a single process. */
  readonly slot?: number
  readonly clock: Pick<Clock, 'now'>
}

/**
 * A local copy of the certificates that this replica delivered in the last day, for when the store cannot
 * be reached. Private keys are sealed in it as they are in the store.
 */
export class HandedOut {
  readonly #clock: Pick<Clock, 'now'>
  readonly #sqlite: DatabaseSync
  /** When a lineage was last saved, so that one that is asked for all the time costs one write an hour. */
  readonly #saved = new LRUCache<string, { readonly id: number; readonly at: number }>({
    max: MAX_ROWS,
  })
  /** What was changed in the last minute. */
  readonly #forgotten = new LRUCache<string, true>({ max: MAX_ROWS, ttl: MINUTE })
  /** Until they are compared with the store, nobody knows what was revoked since the last run. */
  #isVerified = false

  constructor({ folder, slot = 0, clock }: HandedOutDeps) {
    this.#clock = clock
    makeFolder(folder)
    this.#sqlite = open(join(folder, slot > 0 ? `handed-out-${slot}.db` : 'handed-out.db'))
  }

  /** A copy that cannot be saved, as on a full disk, keeps nobody from getting the certificate itself. */
  save(record: CertificateRecord): void {
    const { id, lineage, names } = record
    const at = this.#clock.now()
    const last = this.#saved.get(lineage)
    if (last?.id === id && last.at <= at && at - last.at < HOUR) return
    // It may have been read before the change that it was forgotten for.
    if (this.#forgotten.has(lineage)) return
    try {
      this.#sqlite.prepare(SAVE).run(lineage, names[0] ?? '', at, serialize(record))
      this.#saved.set(lineage, { id, at })
    } catch {
      this.#saved.delete(lineage)
    }
  }

  find(lineage: string): CertificateRecord | undefined {
    return this.#read('lineage = ?', lineage)[0]
  }

  findByDomain(domain: string): readonly CertificateRecord[] {
    return this.#read('domain = ?', domain)
  }

  forget(lineages: readonly string[] | 'all'): void {
    try {
      if (lineages === 'all') this.#forgetAll()
      else this.#forgetEach(lineages)
    } catch {
      // What could not be deleted is not used before it is compared with the store.
      this.#isVerified = false
    }
  }

  #forgetAll(): void {
    this.#saved.clear()
    this.#sqlite.exec('DELETE FROM handed_out')
  }

  #forgetEach(lineages: readonly string[]): void {
    const forget = this.#sqlite.prepare('DELETE FROM handed_out WHERE lineage = ?')
    for (const lineage of lineages) {
      this.#saved.delete(lineage)
      this.#forgotten.set(lineage, true)
      forget.run(lineage)
    }
  }

  /** Drops what is old, and what the store does not have any more: it was revoked or replaced meanwhile. */
  async verify(store: Pick<Store, 'findCurrent'>): Promise<void> {
    this.prune()
    if (this.#isVerified) return
    const rows = this.#sqlite.prepare('SELECT record FROM handed_out').all()
    for (let at = 0; at < rows.length; at += PAGE)
      await Promise.all(
        rows.slice(at, at + PAGE).map(async ({ record }) => {
          const { id, lineage } = toRecord(record)
          const current = await store.findCurrent(lineage)
          if (current?.id === id) this.#saved.set(lineage, { id, at: 0 })
          else this.forget([lineage])
        }),
      )
    this.#isVerified = true
  }

  prune(): void {
    this.#sqlite.prepare(DELETE_EXCESS).run(this.#clock.now() - DAY)
  }

  close(): void {
    this.#sqlite.close()
  }

  #read(condition: string, value: string): CertificateRecord[] {
    if (!this.#isVerified) return []
    const sql = `SELECT record FROM handed_out WHERE ${condition} AND at >= ? ORDER BY at DESC`
    const rows = this.#sqlite.prepare(sql).all(value, this.#clock.now() - DAY)
    return rows.map(({ record }) => toRecord(record))
  }
}

function toRecord(stored: unknown): CertificateRecord {
  return deserialize(stored as Uint8Array) as CertificateRecord
}

/** Whatever is wrong with the file: it is only a copy, and is begun anew. */
function open(file: string): DatabaseSync {
  try {
    return create(file)
  } catch {
    for (const end of ['', '-journal']) rmSync(file + end, { force: true })
    return create(file)
  }
}

function create(file: string): DatabaseSync {
  const sqlite = new DatabaseSync(file, { timeout: 0 })
  try {
    sqlite.exec(SCHEMA)
    return sqlite
  } catch (error) {
    sqlite.close()
    throw error
  }
}

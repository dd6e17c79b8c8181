import { closeSync, existsSync, openSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import type { Parameter, Row } from '../engine.ts'
import type { Migration } from '../migrations.ts'
import { isBusy } from './failures.ts'
import { migrateSqlite } from './migrate.ts'
import { LocalRunner, type Runner, Sqlite, type SqliteOptions } from './sqlite.ts'
import { Thread } from './thread.ts'

/** Longest wait of a write for those of other processes, on a slow disk, in ms. */
const BUSY_TIMEOUT = 2_000
/** At a start nothing is blocked, and several processes may create the file, in ms. */
const START_TIMEOUT = 5_000
/** From then on waiting would block the process, as the last write does for so long, in ms. */
const LAST_TIMEOUT = 100
/** Tries of a read while another process commits, and the pause between two of them, in ms. */
const READ_TRIES = 80
const READ_PAUSE = 25
/** No WAL: it wants all processes on one machine. A removed journal is created for each commit, and may reappear after a power failure. */
const PRAGMAS = 'PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL'
const BEGIN = 'BEGIN IMMEDIATE'

/** A store in a file that several processes use. A thread writes it, because a commit waits for the disk. */
export class SharedSqlite extends Sqlite {
  readonly #file: SharedFile

  /**
   * Creates the file if it is absent, and runs the migrations that it lacks.
   * @throws StoreError as {@link migrateSqlite}, and what SQLite and the system throw
   */
  constructor(path: string, migrations: readonly Migration[], options: SqliteOptions = {}) {
    const file = new SharedFile(path, migrations)
    super(file.sqlite, { ...options, runner: file })
    this.#file = file
    file.waitAtMost(0)
  }

  /** If the file was removed or replaced, opens the one that is there now. Throws as the constructor does. */
  renew(): boolean {
    return this.#file.renew()
  }
}

/** Reads in this thread, over a connection that waits for nobody, and writes in another one. */
class SharedFile implements Runner {
  readonly pause = 50
  readonly #path: string
  readonly #migrations: readonly Migration[]
  readonly #thread: Thread
  #opened: ReturnType<typeof open>

  constructor(path: string, migrations: readonly Migration[]) {
    this.#path = path
    this.#migrations = migrations
    this.#opened = open(path, migrations)
    const options = { timeout: BUSY_TIMEOUT, pragmas: PRAGMAS, isOpenedOnce: false }
    this.#thread = new Thread(path, options)
  }

  get sqlite(): DatabaseSync {
    return this.#opened.sqlite
  }

  renew(): boolean {
    const { inode, sqlite } = this.#opened
    if (statSync(this.#path, { throwIfNoEntry: false })?.ino === inode) return false
    this.#opened = open(this.#path, this.#migrations)
    this.waitAtMost(0)
    sqlite.close()
    return true
  }

  waitAtMost(ms: number): void {
    this.sqlite.exec(`PRAGMA busy_timeout = ${ms}`)
  }

  /** Another process locks the file for as long as its disk takes. */
  async read(sql: string, params: readonly Parameter[]): Promise<readonly Row[]> {
    for (let left = READ_TRIES; ; left--)
      try {
        return this.#opened.reader.all(sql, params)
      } catch (error) {
        if (left === 0 || !isBusy(error)) throw error
        await pause(READ_PAUSE)
      }
  }

  begin(): Promise<unknown> {
    return this.#thread.call('run', BEGIN, [])
  }

  end(how: 'COMMIT' | 'ROLLBACK'): Promise<unknown> {
    return this.#thread.call('run', how, [])
  }

  async all(sql: string, params: readonly Parameter[]): Promise<readonly Row[]> {
    return (await this.#thread.call('all', sql, params)) as readonly Row[]
  }

  async run(sql: string, params: readonly Parameter[]): Promise<number> {
    const { changes } = (await this.#thread.call('run', sql, params)) as { changes: number }
    return changes
  }

  finish(sql: string, params: readonly Parameter[]): void {
    this.waitAtMost(LAST_TIMEOUT)
    this.#opened.reader.run(sql, params)
  }

  async close(): Promise<void> {
    this.#opened.reader.close()
    await this.#thread.end()
  }
}

function open(path: string, migrations: readonly Migration[]) {
  // To close a file frees the locks that this process has on it.
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600))
  const inode = statSync(path).ino
  const sqlite = new DatabaseSync(path, { timeout: START_TIMEOUT })
  try {
    sqlite.exec(PRAGMAS)
    migrateSqlite(sqlite, migrations)
    return { sqlite, inode, reader: new LocalRunner(sqlite) }
  } catch (error) {
    sqlite.close()
    throw error
  }
}

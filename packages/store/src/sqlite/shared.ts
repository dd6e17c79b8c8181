import { closeSync, existsSync, openSync, statSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { Parameter, Row } from '../engine.ts'
import type { Migration } from '../migrations.ts'
import { toSqlite } from '../translate.ts'
import { isBusy } from './failures.ts'
import { migrateSqlite } from './migrate.ts'
import { bound, Connection, type Runner, Sqlite, type SqliteOptions } from './sqlite.ts'

/** Longest wait of a write for those of other processes, on a slow disk, in ms. */
const BUSY_TIMEOUT = 2_000
/** At a start nothing is blocked, and several processes may create the file, in ms. */
const START_TIMEOUT = 5_000
/** From then on waiting would block the process, as the last write does for so long, in ms. */
const LAST_TIMEOUT = 100
/** Tries of a read while another process commits, and the pause between two of them, in ms. */
const READ_TRIES = 80
const READ_PAUSE = 25
/** The thread ends after this time without a write, which frees its memory, in ms. */
const IDLE = 60_000
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

/** A call of a method of a prepared statement. */
interface Call {
  readonly sql: string
  readonly method: 'all' | 'run'
  readonly params: readonly SQLInputValue[]
}

/** The result or the error of a call. An error that is posted would lose its codes. */
interface CallResult {
  readonly result?: unknown
  readonly error?: Pick<Error, 'message'> & { readonly code?: unknown; readonly errcode?: unknown }
}

/** Reads in this thread, over a connection that waits for nobody, and writes in another one. */
class SharedFile implements Runner {
  readonly pause = 50
  readonly #path: string
  readonly #migrations: readonly Migration[]
  readonly #owed: PromiseWithResolvers<unknown>[] = []
  #opened: ReturnType<typeof open>
  readonly #translated = new Map<string, string>()
  #calls: Call[] = []
  #thread: Worker | undefined
  #idle: NodeJS.Timeout | undefined

  constructor(path: string, migrations: readonly Migration[]) {
    this.#path = path
    this.#migrations = migrations
    this.#opened = open(path, migrations)
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
    return this.#call('run', BEGIN, [])
  }

  end(how: 'COMMIT' | 'ROLLBACK'): Promise<unknown> {
    return this.#call('run', how, [])
  }

  async all(sql: string, params: readonly Parameter[]): Promise<readonly Row[]> {
    return (await this.#call('all', sql, params)) as readonly Row[]
  }

  async run(sql: string, params: readonly Parameter[]): Promise<number> {
    const { changes } = (await this.#call('run', sql, params)) as { changes: number }
    return changes
  }

  finish(sql: string, params: readonly Parameter[]): void {
    this.waitAtMost(LAST_TIMEOUT)
    this.#opened.reader.run(sql, params)
  }

  async close(): Promise<void> {
    this.#opened.reader.close()
    await this.#end()
  }

  /** The calls of one turn are one message. */
  #call(method: Call['method'], sql: string, params: readonly Parameter[]): Promise<unknown> {
    if (this.#calls.length === 0) queueMicrotask(() => this.#send())
    const translated = this.#translated.get(sql) ?? toSqlite(sql)
    this.#translated.set(sql, translated)
    this.#calls.push({ sql: translated, method, params: params.map(bound) })
    const answer = Promise.withResolvers<unknown>()
    this.#owed.push(answer)
    return answer.promise
  }

  #send(): void {
    clearTimeout(this.#idle)
    this.#thread ??= this.#start()
    this.#thread.postMessage(this.#calls)
    this.#calls = []
  }

  #start(): Worker {
    const workerData = { url: `${pathToFileURL(this.#path)}?mode=rw`, BUSY_TIMEOUT, PRAGMAS }
    return new Worker(`(${serve})()`, { eval: true, execArgv: [], workerData })
      .on('message', (answers: readonly CallResult[]) => {
        for (const { result, error } of answers)
          if (error) this.#owed.shift()?.reject(Object.assign(new Error(), error))
          else this.#owed.shift()?.resolve(result)
        this.#idle = setTimeout(() => void this.#end(), IDLE).unref()
      })
      .on('error', (error) => {
        this.#thread = undefined
        for (const { reject } of this.#owed.splice(0)) reject(error)
      })
  }

  async #end(): Promise<void> {
    clearTimeout(this.#idle)
    const thread = this.#thread
    this.#thread = undefined
    await thread?.terminate()
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
    return { sqlite, inode, reader: new Connection(sqlite) }
  } catch (error) {
    sqlite.close()
    throw error
  }
}

/**
 * Runs in the thread, from its source text, so that a bundle needs no second file: it uses nothing outside
 * of itself. Each transaction has a connection of its own, as the file may be another one than before; it is
 * never created here. To close it rolls back.
 */
function serve(): void {
  const { parentPort, workerData } = process.getBuiltinModule('node:worker_threads')
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const statements = new Map<string, StatementSync>()
  let sqlite: DatabaseSync | undefined
  parentPort?.on('message', (calls: readonly Call[]) => {
    const answers = calls.map(({ sql, method, params }): CallResult => {
      try {
        if (sql === 'BEGIN IMMEDIATE') {
          sqlite = new DatabaseSync(new URL(workerData.url), { timeout: workerData.BUSY_TIMEOUT })
          sqlite.exec(workerData.PRAGMAS)
          statements.clear()
        }
        if (sqlite && sql !== 'ROLLBACK' && !statements.has(sql))
          statements.set(sql, sqlite.prepare(sql))
        const result = statements.get(sql)?.[method](...params)
        if ((sql === 'COMMIT' || sql === 'ROLLBACK') && sqlite?.isOpen) sqlite.close()
        return { result }
      } catch (thrown) {
        const { message, code, errcode } = thrown as Required<CallResult>['error']
        return { error: { message, code, errcode } }
      }
    })
    parentPort.postMessage(answers)
  })
}

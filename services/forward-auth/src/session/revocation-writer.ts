import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { Worker } from 'node:worker_threads'
import { COLUMNS, type Row, type StoredRow } from './revocation-file.ts'

/** How long a commit waits for other instances, in ms. */
const BUSY_TIMEOUT = 500
/** The thread ends after this time without a write, which frees its memory. */
const IDLE = 60_000

/** The content of one transaction. */
export interface Batch {
  readonly path: string
  readonly insert: readonly Row[]
  /** Sessions whose row was replaced by another one. */
  readonly remove: readonly string[]
  /** Removes the rows that have expired by both; without it, none are. */
  readonly expired?: { readonly now: number; readonly running: number }
  readonly running: number
  /** ID of the last row that is known here. */
  readonly after: number
}

type Task = Batch & { readonly columns: string; readonly timeout: number }
type Answer = { readonly rows: StoredRow[] } | { readonly failure: string }

/** Writes to the list of ended sessions in a thread, because a commit waits for the disk. */
export class RevocationWriter {
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined

  /** Resolves with the rows after `after`, including its own. Rejects if nothing was written. */
  async write(batch: Batch): Promise<StoredRow[]> {
    clearTimeout(this.#idle)
    this.#worker ??= this.#start()
    const answer = await ask(this.#worker, { ...batch, columns: COLUMNS, timeout: BUSY_TIMEOUT })
    this.#idle = setTimeout(() => void this.close(), IDLE).unref()
    if ('failure' in answer) throw new Error(answer.failure)
    return answer.rows
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle)
    const ending = this.#worker
    this.#worker = undefined
    await ending?.terminate()
  }

  #start(): Worker {
    const worker = new Worker(`new (${WriterThread})()`, { eval: true })
    worker.unref()
    // `ask` rejects with it as well.
    worker.on('error', () => {})
    worker.once('exit', () => {
      if (this.#worker === worker) this.#worker = undefined
    })
    return worker
  }
}

function ask(worker: Worker, task: Task): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      worker.off('message', onMessage).off('error', onError).off('exit', onExit)
      worker.unref()
    }
    const onMessage = (answer: Answer) => {
      settle()
      resolve(answer)
    }
    const onError = (error: unknown) => {
      settle()
      reject(error)
    }
    const onExit = () => onError(new Error('the thread that writes has ended'))
    worker.on('message', onMessage).on('error', onError).on('exit', onExit)
    worker.ref()
    worker.postMessage(task)
  })
}

interface OpenFile {
  readonly db: DatabaseSync
  readonly path: string
  readonly ino: number
  readonly remove: StatementSync
  readonly before: StatementSync
  readonly insert: StatementSync
  readonly keepRunning: StatementSync
  readonly prune: StatementSync
  readonly after: StatementSync
}

/**
 * Runs in the thread, from its source text, so that a bundle needs no second file: it must not use
 * anything outside the class. The file stays open until it is replaced or an operation fails.
 */
class WriterThread {
  #file: OpenFile | undefined

  constructor() {
    const { parentPort } = process.getBuiltinModule('node:worker_threads')
    parentPort?.on('message', (task: Task) => {
      try {
        parentPort.postMessage({ rows: this.#write(task) })
      } catch (error) {
        this.#close()
        parentPort.postMessage({ failure: (error as Error).message })
      }
    })
  }

  #write(task: Task): unknown[] {
    const { db, remove, keepRunning, prune, after } = this.#openFor(task)
    db.exec('BEGIN IMMEDIATE')
    for (const sid of task.remove) remove.run(sid)
    for (const row of task.insert) this.#insert(row)
    keepRunning.run(task.running)
    if (task.expired) prune.run(task.expired.now, task.expired.running)
    const rows = after.all(task.after)
    db.exec('COMMIT')
    return rows
  }

  #insert(row: Row): void {
    const old = this.#file?.before.get(row.sid) as unknown as Row | undefined
    const first = Math.min(row.first, old?.first ?? row.first)
    const last = Math.max(row.last, old?.last ?? row.last)
    const generation = Math.max(row.generation, old?.generation ?? 0)
    const until = Math.max(row.until, old?.until ?? 0)
    const due = Math.max(row.due, old?.due ?? 0)
    this.#file?.insert.run(row.sid, row.person, first, last, generation, until, due)
  }

  #openFor(task: Task): OpenFile {
    const { ino } = process.getBuiltinModule('node:fs').statSync(task.path)
    if (this.#file?.path !== task.path || this.#file.ino !== ino) this.#close()
    this.#file ??= this.#open(task, ino)
    return this.#file
  }

  #open({ path, columns, timeout }: Task, ino: number): OpenFile {
    const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
    const db = new DatabaseSync(path, { timeout })
    try {
      // TRUNCATE: a removed journal is created for each commit, and may reappear after a power failure.
      db.exec('PRAGMA synchronous = FULL; PRAGMA journal_mode = TRUNCATE')
      return {
        ...{ db, path, ino },
        remove: db.prepare('DELETE FROM revoked WHERE sid = ?'),
        before: db.prepare('SELECT first, last, generation, until, due FROM revoked WHERE sid = ?'),
        insert: db.prepare(
          `INSERT OR REPLACE INTO revoked (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?)`,
        ),
        keepRunning: db.prepare('UPDATE running SET ms = max(ms, ?)'),
        prune: db.prepare('DELETE FROM revoked WHERE until <= ? AND due <= ?'),
        after: db.prepare(`SELECT id, ${columns} FROM revoked WHERE id > ? ORDER BY id`),
      }
    } catch (error) {
      db.close()
      throw error
    }
  }

  #close(): void {
    this.#file?.db.close()
    this.#file = undefined
  }
}

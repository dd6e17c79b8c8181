import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { COLUMNS, type Row, type StoredRow } from './revocation-file.ts'

/** How long a commit waits for other instances, in ms. */
const BUSY_TIMEOUT = 500
/** The thread ends after this time without a write, which frees its memory. */
const IDLE = 60_000

interface Batch {
  readonly path: string
  readonly insert: readonly Row[]
  /** Sessions whose row was replaced by another one. */
  readonly remove: readonly string[]
  /** How long the list has been in use, in ms. */
  readonly running: number
  /** Removes the rows that have expired by this time and by `running`; without it, none are. */
  readonly expiredBy?: number | undefined
  readonly after: number
}

type Task = Batch & { readonly columns: string; readonly timeout: number }

/** Writes to the list of ended sessions in a thread, because a commit waits for the disk. */
export class RevocationWriter {
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined

  /** Resolves with the rows after `after`, including its own. Rejects if nothing was written. */
  async write(batch: Batch): Promise<StoredRow[]> {
    clearTimeout(this.#idle)
    this.#worker ??= this.#start()
    const worker = this.#worker
    worker.ref()
    worker.postMessage({ ...batch, columns: COLUMNS, timeout: BUSY_TIMEOUT } satisfies Task)
    try {
      const [rows] = await once(worker, 'message')
      this.#idle = setTimeout(() => void this.close(), IDLE).unref()
      return rows
    } finally {
      worker.unref()
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle)
    const ending = this.#worker
    this.#worker = undefined
    await ending?.terminate()
  }

  /** An error ends the thread, and `write` rejects with it. */
  #start(): Worker {
    return new Worker(`(${runThread})()`, { eval: true }).on('error', () => {
      this.#worker = undefined
    })
  }
}

/**
 * Runs in the thread, from its source text, so that a bundle needs no second file: it must not use
 * anything outside the function.
 */
function runThread(): void {
  const { parentPort } = process.getBuiltinModule('node:worker_threads')
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const { statSync } = process.getBuiltinModule('node:fs')

  function write({ path, insert, remove, running, expiredBy, after, ...task }: Task): unknown[] {
    // Throws if the file is gone, which SQLite would create.
    statSync(path)
    const db = new DatabaseSync(path, { timeout: task.timeout })
    try {
      // TRUNCATE: a removed journal is created for each commit, and may reappear after a power failure.
      db.exec('PRAGMA synchronous = FULL; PRAGMA journal_mode = TRUNCATE; BEGIN IMMEDIATE')
      const removal = db.prepare('DELETE FROM revoked WHERE sid = ?')
      for (const sid of remove) removal.run(sid)
      // Of two rows, the wider one remains; its ID is new, so that other instances read it.
      const insertion = db.prepare(`
        INSERT OR REPLACE INTO revoked (sid, person, first, last, generation, until, due)
        SELECT :sid, :person, min(first), max(last), max(generation), max(until), max(due) FROM (
          SELECT first, last, generation, until, due FROM revoked WHERE sid = :sid
          UNION ALL SELECT :first, :last, :generation, :until, :due)`)
      insertion.setAllowUnknownNamedParameters(true)
      for (const row of insert) insertion.run({ ...row })
      db.prepare('UPDATE running SET ms = max(ms, ?)').run(running)
      if (expiredBy !== undefined)
        db.prepare('DELETE FROM revoked WHERE until <= ? AND due <= ?').run(expiredBy, running)
      const rows = db
        .prepare(`SELECT id, ${task.columns} FROM revoked WHERE id > ? ORDER BY id`)
        .all(after)
      db.exec('COMMIT')
      return rows
    } finally {
      db.close()
    }
  }
  parentPort?.on('message', (task: Task) => parentPort.postMessage(write(task)))
}

import { once } from 'node:events'
import type { DatabaseSync } from 'node:sqlite'
import { Worker } from 'node:worker_threads'
import type { CompletedLogin, Revocation } from '../store.ts'
import { COLUMNS, type StoredRevocation } from './state-file.ts'

/** How long a commit waits for those of other instances, on a slow disk, in ms. */
const BUSY_TIMEOUT = 2_000
/** The thread ends after this time without a write, which frees its memory. */
const IDLE = 60_000

interface Batch {
  readonly path: string
  readonly add: readonly Revocation[]
  /** Sessions whose row was replaced by another one. */
  readonly remove: readonly string[]
  readonly logins: readonly CompletedLogin[]
  /** How long the folder has been in use, in ms. */
  readonly running: number
  /** Removes what has expired by this time and by `running`; without it, nothing is. */
  readonly expiredBy?: number | undefined
  readonly after: number
}

export interface Written {
  /** The revocations after `after`, including those that were written. */
  readonly rows: readonly StoredRevocation[]
  /** Of each login, whether it had not completed before. */
  readonly isFirst: readonly boolean[]
}

type Task = Batch & { readonly columns: string; readonly timeout: number }

/** Writes in a thread, because a commit waits for the disk. One write at a time. */
export class StateWriter {
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined

  /** Rejects if nothing was written. */
  async write(batch: Batch): Promise<Written> {
    clearTimeout(this.#idle)
    this.#worker ??= this.#start()
    const worker = this.#worker
    worker.ref()
    worker.postMessage({ ...batch, columns: COLUMNS, timeout: BUSY_TIMEOUT } satisfies Task)
    try {
      const [written] = await once(worker, 'message')
      this.#idle = setTimeout(() => void this.close(), IDLE).unref()
      return written
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
    return new Worker(`(${runThread})(${applyBatch})`, { eval: true }).on('error', () => {
      this.#worker = undefined
    })
  }
}

/**
 * Runs in the thread, from its source text, so that a bundle needs no second file: neither this
 * function nor `apply` must use anything outside of itself.
 */
function runThread(apply: typeof applyBatch): void {
  const { parentPort } = process.getBuiltinModule('node:worker_threads')
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const { statSync } = process.getBuiltinModule('node:fs')

  function write({ path, timeout, ...task }: Task): Written {
    // Throws if the file is gone, which SQLite would create.
    statSync(path)
    const db = new DatabaseSync(path, { timeout })
    try {
      // TRUNCATE: a removed journal is created for each commit, and may reappear after a power failure.
      db.exec('PRAGMA synchronous = FULL; PRAGMA journal_mode = TRUNCATE; BEGIN IMMEDIATE')
      const written = apply(db, task)
      db.exec('COMMIT')
      return written
    } finally {
      db.close()
    }
  }
  parentPort?.on('message', (task: Task) => parentPort.postMessage(write(task)))
}

function applyBatch(db: DatabaseSync, task: Omit<Task, 'path' | 'timeout'>): Written {
  const removal = db.prepare('DELETE FROM revoked WHERE sid = ?')
  for (const sid of task.remove) removal.run(sid)
  // Of two rows, the wider one remains; its ID is new, so that other instances read it.
  const revocation = db.prepare(`
    INSERT OR REPLACE INTO revoked (sid, person, first, last, generation, until, due)
    SELECT :sid, :person, min(first), max(last), max(generation), max(until), max(due) FROM (
      SELECT first, last, generation, until, due FROM revoked WHERE sid = :sid
      UNION ALL SELECT :first, :last, :generation, :until, :due)`)
  revocation.setAllowUnknownNamedParameters(true)
  for (const row of task.add) revocation.run({ ...row })
  const completion = db.prepare(
    'INSERT OR IGNORE INTO completed (login, until, due) VALUES (:login, :until, :due)',
  )
  const isFirst = task.logins.map((login) => completion.run({ ...login }).changes === 1)
  db.prepare('UPDATE running SET ms = max(ms, ?)').run(task.running)
  if (task.expiredBy !== undefined)
    for (const table of ['revoked', 'completed'])
      db.prepare(`DELETE FROM ${table} WHERE until <= ? AND due <= ?`).run(
        task.expiredBy,
        task.running,
      )
  const rows = db
    .prepare(`SELECT id, ${task.columns} FROM revoked WHERE id > ? ORDER BY id`)
    .all(task.after) as unknown as StoredRevocation[]
  return { rows, isFirst }
}

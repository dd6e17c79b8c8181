import { Worker } from 'node:worker_threads'
import { COLUMNS, type Row, type StoredRow } from './revocation-file.ts'

/** How long a commit waits for other instances, in ms. */
const BUSY_TIMEOUT = 500
/** After so long without a write the thread ends, which gives its memory back. */
const IDLE = 60_000

/** What is written in one transaction. */
export interface Batch {
  readonly path: string
  readonly insert: readonly Row[]
  /** Sessions whose row another one stands for now. */
  readonly remove: readonly string[]
  /** Removes what has ended by both; absent: nothing is looked for. */
  readonly ended?: { readonly now: number; readonly running: number }
  readonly running: number
  /** Id of the last row that is known here. */
  readonly after: number
}

type Task = Batch & { readonly columns: string; readonly timeout: number }
type Answer = { readonly rows: StoredRow[] } | { readonly failure: string }

/** Writes to the list of ended sessions, on a thread of its own: a commit waits for the disk. */
export interface RevocationWriter {
  /** Rejects when nothing of it was written. Gives the rows behind `after`, its own among them. */
  write(batch: Batch): Promise<StoredRow[]>
  close(): Promise<void>
}

export function createRevocationWriter(): RevocationWriter {
  let worker: Worker | undefined
  let idle: NodeJS.Timeout | undefined

  function start(): Worker {
    const fresh = new Worker(`(${work})()`, { eval: true })
    fresh.unref()
    // Whoever waits for an answer is told of it too.
    fresh.on('error', () => {})
    fresh.once('exit', () => {
      if (worker === fresh) worker = undefined
    })
    return fresh
  }

  async function close(): Promise<void> {
    clearTimeout(idle)
    const ending = worker
    worker = undefined
    await ending?.terminate()
  }

  return {
    async write(batch) {
      clearTimeout(idle)
      worker ??= start()
      const answer = await ask(worker, { ...batch, columns: COLUMNS, timeout: BUSY_TIMEOUT })
      idle = setTimeout(() => void close(), IDLE).unref()
      if ('failure' in answer) throw new Error(answer.failure)
      return answer.rows
    },
    close,
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

/**
 * Runs in the thread, from its own text: nothing outside it is there, so that it needs no file of its
 * own in a bundle. Each batch opens the file anew, as it may have been replaced.
 */
function work(): void {
  const { existsSync } = process.getBuiltinModule('node:fs')
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const { parentPort } = process.getBuiltinModule('node:worker_threads')

  function write({ path, columns, timeout, insert, remove, ended, running, after }: Task) {
    if (!existsSync(path)) throw new Error(`${path} is gone`)
    const db = new DatabaseSync(path, { timeout })
    try {
      db.exec('PRAGMA synchronous = FULL; BEGIN IMMEDIATE')
      const removing = db.prepare('DELETE FROM revoked WHERE sid = ?')
      for (const sid of remove) removing.run(sid)
      const before = db.prepare(
        'SELECT first, last, generation, until, due FROM revoked WHERE sid = ?',
      )
      const inserting = db.prepare(
        `INSERT OR REPLACE INTO revoked (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?)`,
      )
      for (const row of insert) {
        const old = before.get(row.sid) as unknown as typeof row | undefined
        const first = Math.min(row.first, old?.first ?? row.first)
        const last = Math.max(row.last, old?.last ?? row.last)
        const generation = Math.max(row.generation, old?.generation ?? 0)
        const until = Math.max(row.until, old?.until ?? 0)
        const due = Math.max(row.due, old?.due ?? 0)
        inserting.run(row.sid, row.person, first, last, generation, until, due)
      }
      db.prepare('UPDATE running SET ms = max(ms, ?)').run(running)
      if (ended)
        db.prepare('DELETE FROM revoked WHERE until <= ? AND due <= ?').run(
          ended.now,
          ended.running,
        )
      const news = db.prepare(`SELECT id, ${columns} FROM revoked WHERE id > ? ORDER BY id`)
      const rows = news.all(after)
      db.exec('COMMIT')
      return rows
    } finally {
      db.close()
    }
  }

  parentPort?.on('message', (task: Task) => {
    try {
      parentPort.postMessage({ rows: write(task) })
    } catch (error) {
      parentPort.postMessage({ failure: (error as Error).message })
    }
  })
}

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
 * own in a bundle. The file stays open until it is replaced or something of it fails.
 */
function work(): void {
  const { statSync } = process.getBuiltinModule('node:fs')
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const { parentPort } = process.getBuiltinModule('node:worker_threads')
  let file: ReturnType<typeof open> | undefined

  function open({ path, columns, timeout }: Task, ino: number) {
    const db = new DatabaseSync(path, { timeout })
    try {
      // TRUNCATE: a journal that is removed is made anew for each commit, and may come back when power fails.
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

  function close(): void {
    file?.db.close()
    file = undefined
  }

  function openFor(task: Task) {
    const { ino } = statSync(task.path)
    if (file?.path !== task.path || file.ino !== ino) close()
    file ??= open(task, ino)
    return file
  }

  function write(task: Task) {
    const { db, remove, before, insert, keepRunning, prune, after } = openFor(task)
    db.exec('BEGIN IMMEDIATE')
    for (const sid of task.remove) remove.run(sid)
    for (const row of task.insert) {
      const old = before.get(row.sid) as unknown as typeof row | undefined
      const first = Math.min(row.first, old?.first ?? row.first)
      const last = Math.max(row.last, old?.last ?? row.last)
      const generation = Math.max(row.generation, old?.generation ?? 0)
      const until = Math.max(row.until, old?.until ?? 0)
      const due = Math.max(row.due, old?.due ?? 0)
      insert.run(row.sid, row.person, first, last, generation, until, due)
    }
    keepRunning.run(task.running)
    if (task.ended) prune.run(task.ended.now, task.ended.running)
    const rows = after.all(task.after)
    db.exec('COMMIT')
    return rows
  }

  parentPort?.on('message', (task: Task) => {
    try {
      parentPort.postMessage({ rows: write(task) })
    } catch (error) {
      close()
      parentPort.postMessage({ failure: (error as Error).message })
    }
  })
}

import type { SQLInputValue, StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { bound, type Parameter, type Row, toSqlite } from '../engine.ts'
import { storeUnavailable } from '../errors.ts'

/** The thread ends after this time without a call, which frees its memory, in ms. */
const IDLE = 60_000

/** A call of a method of a prepared statement. */
interface ThreadCall {
  readonly sql: string
  readonly method: 'all' | 'run'
  readonly params: readonly SQLInputValue[]
}

/** The result or the error of a call. An error that is posted would lose its codes. */
interface CallResult {
  readonly result?: unknown
  readonly error?: Pick<Error, 'message'> & { readonly code?: unknown; readonly errcode?: unknown }
}

/** How a thread opens the file, once or for each transaction. Default: once, to read. */
const READER = { timeout: 5_000, pragmas: 'PRAGMA query_only = ON', isOpenedOnce: true }

/** Runs statements on a file in a thread, so that no other work waits for them. */
export class Thread {
  readonly #workerData: typeof READER & { readonly url: string }
  readonly #owed: PromiseWithResolvers<unknown>[] = []
  readonly #translated = new Map<string, string>()
  #calls: ThreadCall[] = []
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined

  constructor(path: string, options = READER) {
    this.#workerData = { ...options, url: `${pathToFileURL(path)}?mode=rw` }
  }

  /** The calls of one turn are one message. */
  call(method: ThreadCall['method'], sql: string, params: readonly Parameter[]): Promise<unknown> {
    if (this.#calls.length === 0) queueMicrotask(() => this.#send())
    const translated = this.#translated.get(sql) ?? toSqlite(sql)
    this.#translated.set(sql, translated)
    this.#calls.push({ sql: translated, method, params: params.map(bound) })
    const answer = Promise.withResolvers<unknown>()
    this.#owed.push(answer)
    return answer.promise
  }

  read(sql: string, params: readonly Parameter[]): Promise<readonly Row[]> {
    return this.call('all', sql, params) as Promise<readonly Row[]>
  }

  async end(): Promise<void> {
    clearTimeout(this.#idle)
    const worker = this.#worker
    this.#worker = undefined
    for (const { reject } of this.#owed.splice(0)) reject(storeUnavailable('it is closed'))
    await worker?.terminate()
  }

  #send(): void {
    clearTimeout(this.#idle)
    this.#worker ??= this.#start()
    this.#worker.postMessage(this.#calls)
    this.#calls = []
  }

  #start(): Worker {
    const workerData = this.#workerData
    return new Worker(`(${serve})()`, { eval: true, execArgv: [], workerData })
      .on('message', (answers: readonly CallResult[]) => {
        for (const { result, error } of answers)
          if (error) this.#owed.shift()?.reject(Object.assign(new Error(), error))
          else this.#owed.shift()?.resolve(result)
        if (this.#owed.length === 0) this.#idle = setTimeout(() => void this.end(), IDLE).unref()
      })
      .on('error', (error) => {
        this.#worker = undefined
        for (const { reject } of this.#owed.splice(0)) reject(error)
      })
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
  let sqlite: InstanceType<typeof DatabaseSync> | undefined
  parentPort?.on('message', (calls: readonly ThreadCall[]) => {
    const answers = calls.map(({ sql, method, params }): CallResult => {
      try {
        if (sql === 'BEGIN IMMEDIATE' || (workerData.isOpenedOnce && !sqlite)) {
          sqlite = new DatabaseSync(new URL(workerData.url), { timeout: workerData.timeout })
          sqlite.exec(workerData.pragmas)
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

import { addAbortListener } from 'node:events'
import { statSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { Worker } from 'node:worker_threads'
import { StoreError, storeUnavailable } from '../errors.ts'
import { asStoreError } from './failures.ts'
import type { Sqlite } from './sqlite.ts'

/** Finds out whether a store can be used, and stops writing to one that is damaged or gone. */
export class SqliteHealth {
  readonly #engine: Sqlite
  readonly #file: string
  /** Device and inode of the store and, once it is there, of its log. */
  readonly #files = new Map<string, string>()
  #damage: StoreError | undefined
  #isGone = false

  constructor(engine: Sqlite, file: string) {
    this.#engine = engine
    this.#file = file
    for (const path of [file, `${file}-wal`]) {
      const stats = statSync(path, { throwIfNoEntry: false })
      if (stats) this.#files.set(path, idOf(stats))
    }
  }

  /**
   * Resolves if the store is still in its files, can be written, and each failed read works again.
   * @throws StoreError `STORE_UNAVAILABLE`, `STORE_CORRUPT`
   */
  async check(): Promise<void> {
    this.#isGone = !(await this.#areFilesInPlace())
    this.#refuseWrites()
    await this.#engine.check()
  }

  /**
   * Reads the whole store in a worker thread. If it is damaged, nothing more is written.
   * @throws StoreError `STORE_CORRUPT`, `STORE_UNAVAILABLE`
   */
  async inspect(signal: AbortSignal): Promise<void> {
    try {
      await quickCheck(this.#file, signal)
      this.#damage = undefined
    } catch (error) {
      if (error instanceof StoreError && error.code === 'STORE_CORRUPT') this.#damage = error
      throw error
    } finally {
      this.#refuseWrites()
    }
  }

  #refuseWrites(): void {
    const gone = this.#isGone
      ? storeUnavailable(`${this.#file} was removed or replaced`)
      : undefined
    this.#engine.refuseWrites(this.#damage ?? gone)
  }

  async #areFilesInPlace(): Promise<boolean> {
    for (const [path, id] of this.#files) {
      const stats = await stat(path).catch(() => undefined)
      if (!stats || idOf(stats) !== id) return false
    }
    return true
  }
}

const idOf = ({ dev, ino }: { dev: number; ino: number }): string => `${dev} ${ino}`

/** A string, so that the bundle needs no second file. SQLite errors lose their codes when they are posted. */
const QUICK_CHECK = `
const { parentPort, workerData } = require('node:worker_threads')
const { DatabaseSync } = require('node:sqlite')
let sqlite
try {
  sqlite = new DatabaseSync(workerData, { readOnly: true, timeout: 5000 })
  const [row] = sqlite.prepare('PRAGMA quick_check(1)').all()
  parentPort.postMessage({ result: row.quick_check })
} catch ({ message, code, errcode }) {
  parentPort.postMessage({ message, code, errcode })
} finally {
  sqlite?.close()
}`

type QuickCheckResult = { result: string } | { message: string; code: string; errcode?: number }

async function quickCheck(file: string, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await using worker = new Worker(QUICK_CHECK, { eval: true, workerData: file, execArgv: [] })
  using _stop = addAbortListener(signal, () => void worker.terminate())
  const { promise, resolve, reject } = Promise.withResolvers<QuickCheckResult | undefined>()
  worker.once('message', resolve).once('error', reject)
  worker.once('exit', () => resolve(undefined))
  assertSound(file, await promise)
}

/** @param outcome - undefined if the check was stopped */
function assertSound(file: string, outcome: QuickCheckResult | undefined): void {
  if (!outcome) return
  if (!('result' in outcome)) throw asStoreError(Object.assign(new Error(outcome.message), outcome))
  if (outcome.result === 'ok') return
  throw new StoreError('STORE_CORRUPT', `${file} is damaged: ${outcome.result}`)
}

import { addAbortListener } from 'node:events'
import { statSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { StoreError, storeUnavailable } from '../errors.ts'
import { asStoreError } from './failures.ts'
import type { Sqlite } from './sqlite.ts'
import { Thread } from './thread.ts'

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
    if (signal.aborted) return
    const thread = new Thread(this.#file)
    using _stop = addAbortListener(signal, () => void thread.end())
    try {
      const [row] = await thread.read('PRAGMA quick_check(1)', [])
      const fault = row?.quick_check
      if (fault !== 'ok')
        throw new StoreError('STORE_CORRUPT', `${this.#file} is damaged: ${fault}`)
      this.#damage = undefined
    } catch (thrown) {
      if (signal.aborted) return
      const error = asStoreError(thrown)
      if (error instanceof StoreError && error.code === 'STORE_CORRUPT') this.#damage = error
      throw error
    } finally {
      await thread.end()
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

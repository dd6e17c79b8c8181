import type { Clock } from '@gatehouse/service-kit/clock'
import type { Engine, Transaction } from '@gatehouse/store'
import { MARGIN, type RevocationChange, type StoreOptions } from './store.ts'
import { COMPLETED, REVOKED } from './tables.ts'
import { unavailable } from './unavailable.ts'

/** Rows that are added at once. */
const PAGE = 1_000
/** Rows that one statement removes, so that none takes long. */
const MAX_REMOVED = 100_000
const FIND = 'SELECT 1 AS found FROM completed WHERE login = $1'
const REMOVE = 'DELETE FROM revoked WHERE sid = $1'
const PRUNE = [REVOKED, COMPLETED].map(
  ({ name, key }) => `
  DELETE FROM ${name} WHERE ${key} IN (
    SELECT ${key} FROM ${name} WHERE until <= $1 AND due <= $2 LIMIT ${MAX_REMOVED})`,
)
/** The column by which other instances see that a row is new to them. */
const MARK = { postgres: 'xid', sqlite: 'id' }

/** Keeps the wider one of two rows of one ID. It counts as new. */
function widening(mark: string): string {
  return ` ON CONFLICT (sid) DO UPDATE SET
    first = least(revoked.first, excluded.first),
    last = greatest(revoked.last, excluded.last),
    generation = greatest(revoked.generation, excluded.generation),
    until = greatest(revoked.until, excluded.until),
    due = greatest(revoked.due, excluded.due),
    ${mark} = excluded.${mark}`
}

/** The part of the stores that does not depend on the engine. */
export abstract class EngineStore {
  readonly clock: Clock
  readonly #engine: Engine
  readonly #log: StoreOptions['log']
  readonly #failing = new Set<'reading' | 'writing'>()
  #timer: { cancel(): void } | undefined
  #looking: Promise<void> | undefined
  #isClosed = false

  protected constructor(engine: Engine, clock: Clock, log: StoreOptions['log']) {
    this.#engine = engine
    this.clock = clock
    this.#log = log
  }

  runningTime(): number {
    return this.#engine.runTime()
  }

  revoke(change: RevocationChange): Promise<void> {
    return this.#write((tx) => this.change(tx, change))
  }

  async hasCompleted(login: string): Promise<boolean> {
    return (await this.told('reading', this.#engine.get(FIND, login))) !== undefined
  }

  async completeLogin(login: string, expiresAt: number): Promise<boolean> {
    const { now, running } = this.age()
    const due = running + Math.max(expiresAt - now, 0) + MARGIN
    const row = { login, until: expiresAt + MARGIN, due }
    const added = await this.#write((tx) => COMPLETED.add(tx, row, ' ON CONFLICT DO NOTHING'))
    return added === 1
  }

  async prune(): Promise<void> {
    const { now, running } = this.age()
    await this.#write((tx) => Promise.all(PRUNE.map((sql) => tx.run(sql, now, running))))
    await this.recheck()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    await this.#engine.close()
  }

  /** Part of a write: what is revoked. */
  protected async change(tx: Transaction, { add, remove }: RevocationChange): Promise<void> {
    await Promise.all(remove.map((sid) => tx.run(REMOVE, sid)))
    // Rows are written in one order, so that no two instances wait for each other.
    const rows = add.toSorted((one, other) => (one.sid < other.sid ? -1 : 1))
    await addAll(tx, REVOKED, rows, widening(MARK[this.#engine.dialect]))
  }

  /** The time in ms, by the clock and by how long the service has run. */
  age() {
    return { now: this.clock.now(), running: this.runningTime() }
  }

  protected get isFailing(): boolean {
    return this.#failing.size > 0 || this.#engine.failure() !== undefined
  }

  /** Finds out whether the store can be written, and what failed works again. Saves the running time. */
  protected async recheck(): Promise<void> {
    await this.told('writing', this.#engine.check())
    this.#failing.clear()
  }

  /** Calls {@link look} every so many ms. */
  protected watch(interval: number): void {
    this.#timer = this.clock.setTimer(() => {
      this.#looking ??= this.look()
        // It has been told.
        .catch(() => {})
        .finally(() => {
          this.#looking = undefined
        })
      this.watch(interval)
    }, interval)
  }

  protected abstract look(): Promise<void>

  /** Waits for what the engine does, and tells once that it fails. @throws FwaError FWA_STORE_UNAVAILABLE */
  protected async told<T>(what: 'reading' | 'writing', work: Promise<T>): Promise<T> {
    try {
      const result = await work
      this.#failing.delete(what)
      return result
    } catch (cause) {
      const error = unavailable(cause)
      if (!this.#failing.has(what) && !this.#isClosed)
        this.#log.error({ err: error }, `the store cannot be used: ${what} fails`)
      this.#failing.add(what)
      throw error
    }
  }

  #write<T>(job: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.told('writing', this.#engine.transaction(job))
  }
}

/** Part of a write: adds rows, a page of them in a round trip. */
export async function addAll<Row extends object>(
  tx: Transaction,
  table: { add(tx: Transaction, row: Row, conflict: string): Promise<unknown> },
  rows: readonly Row[],
  conflict: string,
): Promise<void> {
  for (let i = 0; i < rows.length; i += PAGE)
    await Promise.all(rows.slice(i, i + PAGE).map((row) => table.add(tx, row, conflict)))
}

import { RESERVATION_KEPT_MS, USAGE_KEPT_MS } from '../bounds.ts'
import { type Reservation, Usage } from '../usage.ts'
import type { Database } from './database.ts'

const MAX_ROWS = 100_000

/** The used share of limits: in memory, and written behind. Reservations end with the process. */
export class Limits {
  readonly #db: Database
  readonly #rows: Map<string, number>
  #reservations: readonly Reservation[] = []

  constructor(db: Database) {
    this.#db = db
    const rows = db.prepare('SELECT key, until FROM usage ORDER BY until DESC LIMIT ?')
    const latest = rows.all(MAX_ROWS).toReversed()
    this.#rows = new Map(latest.map(({ key, until }) => [key as string, until as number]))
  }

  changeUsage = async <T>(keys: readonly string[], change: (usage: Usage) => T): Promise<T> => {
    const rows = keys.flatMap((key) => {
      const until = this.#rows.get(key)
      return until === undefined ? [] : { key, until }
    })
    const usage = new Usage(rows, this.#reservations)
    const result = change(usage)
    this.#reservations = usage.reserved
    this.#save(usage.changed)
    return result
  }

  pruneUsage = async (now: number): Promise<void> => {
    this.#reservations = this.#reservations.filter(({ since }) => since > now - RESERVATION_KEPT_MS)
    const deleted = await this.#db.write(() => {
      const ran = this.#db.runTime()
      this.#db
        .prepare('UPDATE usage SET ended_ran = NULL WHERE ended_ran IS NOT NULL AND until > ?')
        .run(now)
      this.#db
        .prepare('UPDATE usage SET ended_ran = ? WHERE ended_ran IS NULL AND until <= ?')
        .run(ran, now)
      return this.#db
        .prepare('DELETE FROM usage WHERE ended_ran <= ? RETURNING key')
        .all(ran - USAGE_KEPT_MS)
    })
    for (const { key } of deleted) this.#rows.delete(key as string)
  }

  #save(changed: ReadonlyMap<string, number>): void {
    if (changed.size === 0) return
    for (const [key, until] of changed) {
      this.#rows.delete(key)
      this.#rows.set(key, until)
    }
    for (const key of this.#rows.keys()) {
      if (this.#rows.size <= MAX_ROWS) break
      this.#rows.delete(key)
    }
    const write = () => {
      for (const [key, until] of changed) this.#db.insert('usage', { key, until }, 'REPLACE')
    }
    // A write that fails shows in the health of the store, and memory has what it is about.
    this.#db.write(write).catch(() => {})
  }
}

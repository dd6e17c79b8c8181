import type { Database } from './database.ts'

/** How long the service has really been running on this store, whatever its clock said. */
export interface RunTime {
  /** Milliseconds, all starts together; a kill loses no more than what was not saved. */
  now(): number
  /** Part of a write. */
  save(): void
}

/** @param elapsed - milliseconds from a clock that nobody can set */
export function createRunTime(db: Pick<Database, 'prepare'>, elapsed: () => number): RunTime {
  const saved = db.prepare('SELECT ms FROM run_time').get()?.ms as number
  const update = db.prepare('UPDATE run_time SET ms = ?')
  const startedAt = elapsed()
  const now = () => saved + Math.floor(Math.max(0, elapsed() - startedAt))
  return { now, save: () => void update.run(now()) }
}

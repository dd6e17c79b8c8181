import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { storeFailure, unavailable } from './failure.ts'

/** How the parts of the store reach SQLite. */
export interface Database {
  prepare(sql: string): StatementSync
  read<T>(query: () => T): Promise<T>
  /** Runs `job` with what else this turn of the event loop writes, in one transaction; resolves after its commit. */
  write<T>(job: () => T): Promise<T>
  /** Commits what waits, then closes. */
  close(): void
}

interface Job {
  run(): unknown
  resolve(result: unknown): void
  reject(error: unknown): void
}

const MAX_WAITING = 4096

export function createDatabase(sqlite: DatabaseSync): Database {
  const begin = sqlite.prepare('BEGIN IMMEDIATE')
  const commit = sqlite.prepare('COMMIT')
  let waiting: Job[] = []

  function commitTurn(): void {
    const jobs = waiting
    waiting = []
    if (jobs.length > 0) runTogether(jobs)
  }

  function runTogether(jobs: readonly Job[]): void {
    try {
      begin.run()
      const results = jobs.map((job) => job.run())
      commit.run()
      jobs.forEach((job, i) => {
        job.resolve(results[i])
      })
    } catch (error) {
      if (sqlite.isOpen && sqlite.isTransaction) sqlite.exec('ROLLBACK')
      const failure = storeFailure(error)
      // Where the store is sound, one job is at fault: alone, only that one fails.
      if (failure === undefined && jobs.length > 1) for (const job of jobs) runTogether([job])
      else for (const job of jobs) job.reject(failure ?? error)
    }
  }

  return {
    prepare: (sql) => sqlite.prepare(sql),
    async read(query) {
      try {
        return query()
      } catch (error) {
        throw storeFailure(error) ?? error
      }
    },
    write<T>(run: () => T) {
      return new Promise<T>((resolve, reject) => {
        if (waiting.length >= MAX_WAITING) return reject(unavailable('too many writes wait'))
        if (waiting.length === 0) setImmediate(commitTurn)
        waiting.push({ run, resolve: resolve as Job['resolve'], reject })
      })
    },
    close() {
      commitTurn()
      sqlite.close()
    },
  }
}

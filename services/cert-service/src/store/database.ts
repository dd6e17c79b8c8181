import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { CertError } from '../errors.ts'
import { storeFailure, unavailable } from './failure.ts'

/** How the parts of the store reach SQLite. */
export interface Database {
  prepare(sql: string): StatementSync
  read<T>(query: () => T): Promise<T>
  /** Runs `job` with what else this turn of the event loop writes, in one transaction; resolves after its commit. */
  write<T>(job: () => T): Promise<T>
  /** Refuses each write with that error, from now on; undefined: no more. */
  refuseWrites(reason: CertError | undefined): void
  /** Tries again each read that failed. What succeeds now is no failure any more. */
  retryReads(): void
  /** What failed last, and was not done with success since: a write, or one of the reads. */
  failure(): CertError | undefined
  /** Commits what waits, then closes. */
  close(): void
}

interface Job {
  run(): unknown
  resolve(result: unknown): void
  reject(error: unknown): void
}

const MAX_WAITING = 4096
/** Reads that are tried again; one that fails is enough to tell. */
const MAX_FAILED = 16

export function createDatabase(sqlite: DatabaseSync): Database {
  const begin = sqlite.prepare('BEGIN IMMEDIATE')
  const commit = sqlite.prepare('COMMIT')
  const failedReads = new Map<() => unknown, CertError>()
  let waiting: Job[] = []
  let refusal: CertError | undefined
  let failedWrite: CertError | undefined

  function read<T>(query: () => T): T {
    try {
      const result = query()
      failedReads.delete(query)
      return result
    } catch (error) {
      const failure = storeFailure(error)
      if (failure && failedReads.size < MAX_FAILED) failedReads.set(query, failure)
      throw failure ?? error
    }
  }

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
      failedWrite = undefined
      jobs.forEach((job, i) => {
        job.resolve(results[i])
      })
    } catch (error) {
      if (sqlite.isOpen && sqlite.isTransaction) sqlite.exec('ROLLBACK')
      const failure = storeFailure(error)
      if (failure) failedWrite = failure
      // Where the store is sound, one job is at fault: alone, only that one fails.
      if (failure === undefined && jobs.length > 1) for (const job of jobs) runTogether([job])
      else for (const job of jobs) job.reject(failure ?? error)
    }
  }

  return {
    prepare: (sql) => sqlite.prepare(sql),
    read: async (query) => read(query),
    write<T>(run: () => T) {
      return new Promise<T>((resolve, reject) => {
        if (refusal) return reject(refusal)
        if (waiting.length >= MAX_WAITING) return reject(unavailable('too many writes wait'))
        if (waiting.length === 0) setImmediate(commitTurn)
        waiting.push({ run, resolve: resolve as Job['resolve'], reject })
      })
    },
    refuseWrites(reason) {
      refusal = reason
    },
    retryReads() {
      for (const query of [...failedReads.keys()])
        try {
          read(query)
        } catch {
          // It still fails, and counts as before.
        }
    },
    failure: () => refusal ?? failedWrite ?? failedReads.values().next().value,
    close() {
      commitTurn()
      sqlite.close()
    },
  }
}

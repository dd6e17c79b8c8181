import type { Parameter, Transaction } from './engine.ts'
import { StoreError, type StoreErrorCode } from './errors.ts'

/** Statements that are remembered. A single one already makes a store unready. */
const MAX_FAILED = 16
const OF_STORE: readonly StoreErrorCode[] = ['STORE_UNAVAILABLE', 'STORE_REFUSED', 'STORE_CORRUPT']

interface FailedStatement {
  readonly params: readonly Parameter[]
  readonly error: StoreError
}

/** Whether the store is at fault, and not a statement. */
export function isOfStore(error: unknown): error is StoreError {
  return error instanceof StoreError && OF_STORE.includes(error.code)
}

/**
 * The statements that fail although the database answers: a disk is full, a table locked, a right missing. One that
 * succeeds is to be deleted.
 */
export class FailedStatements extends Map<string, FailedStatement> {
  first(): StoreError | undefined {
    return this.values().next().value?.error
  }

  note(sql: string, params: readonly Parameter[], error: unknown): void {
    if (isOfStore(error) && (this.size < MAX_FAILED || this.has(sql)))
      this.set(sql, { params, error })
  }

  /**
   * Tries each again until one still fails, so that none counts for longer than its cause lasts, nor is forgotten
   * before. What is now wrong with a statement itself, such as a row that is there by now, is no cause.
   * @param transaction - is rolled back each time
   */
  async retry(transaction: (job: (tx: Transaction) => Promise<never>) => Promise<never>) {
    for (const [sql, { params }] of this) {
      const trying = transaction(async (tx) => {
        await tx.all(sql, ...params)
        throw new Error('It works')
      })
      const outcome = await trying.catch((error: unknown) => error)
      if (isOfStore(outcome)) return
      this.delete(sql)
    }
  }
}

import { type StoreErrorCode, sqliteFailure } from '@gatehouse/store'
import { CertError, type CertErrorCode } from '../errors.ts'

const DAY = 86_400_000
/** Rows of a table that one statement deletes or changes. */
export const MAX_ROWS = 1_000
/** SQL: the texts, and the ids, of the first parameter, a JSON array. */
export const TEXTS = 'SELECT value FROM json_array_elements_text($1::json)'
export const IDS = 'SELECT value::bigint FROM json_array_elements_text($1::json)'
const RETRY_AFTER = 5
const CODES: Partial<Record<StoreErrorCode, CertErrorCode>> = {
  STORE_UNAVAILABLE: 'CERT_STORE_UNAVAILABLE',
  STORE_REFUSED: 'CERT_STORE_UNAVAILABLE',
  STORE_CORRUPT: 'CERT_STORE_CORRUPT',
  STORE_NEWER: 'CERT_STORE_NEWER',
  STORE_OLDER: 'CERT_STORE_OLDER',
  STORE_UNRELEASED: 'CERT_STORE_UNRELEASED',
}

/** Bounds for pruning: what is older than `before` by the clock and `ranBefore` by the run time goes. */
export interface Age {
  readonly now: number
  readonly before: number
  readonly ranBefore: number
}

/** Gives the bounds for what is kept for so many milliseconds. */
export function agesAt(now: number, ran: number): (ms: number) => Age {
  return (ms) => ({ now, before: now - ms, ranBefore: ran - ms })
}

/**
 * The SQL condition for rows to prune, with the members of {@link Age} as its first parameters. Clock and run time
 * must agree, so that a wrong clock deletes nothing. The time of a row from more than a day in the future is
 * ignored: the clock was wrong when it was written.
 */
export function isOld(at: string, ran: string): string {
  return `((${at} < $2 OR ${at} > $1::bigint + ${DAY}) AND ${ran} <= $3)`
}

/** The error to report for one of an engine, or of a job. */
export function reported(error: unknown): unknown {
  return storeFailure(error) ?? error
}

/** Gives failures of an engine as those of the store. */
export async function mapped<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw reported(error)
  }
}

/** The same; `undefined` if a statement itself is at fault, or a job. */
export function storeFailure(error: unknown): CertError | undefined {
  if (error instanceof CertError || error === undefined) return error
  const failure = sqliteFailure(error)
  if (!failure) return undefined
  const { message, retryAfter = RETRY_AFTER, cause } = failure
  const code = CODES[failure.code]
  if (code === 'CERT_STORE_UNAVAILABLE') return new CertError(code, message, { retryAfter, cause })
  return code && new CertError(code, message, { cause })
}

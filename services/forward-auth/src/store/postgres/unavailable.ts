import { PostgresError } from '@gatehouse/postgres'
import { FwaError } from '../../errors.ts'

const RETRY_AFTER = 5

/** What the database could not do, as an error of the service. */
export function unavailable(cause: unknown): FwaError {
  if (cause instanceof FwaError) return cause
  const { message } = cause as Error
  const { retryAfter = RETRY_AFTER } = cause instanceof PostgresError ? cause : {}
  const why = `the database cannot be used: ${message}`
  return new FwaError('FWA_STORE_UNAVAILABLE', why, { cause, retryAfter })
}

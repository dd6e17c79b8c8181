import { PostgresError } from '@gatehouse/postgres'
import { FwaError } from '../../errors.ts'

const RETRY_AFTER = 5

/** What the database could not do, as an error of the service. Logs add the messages of causes. */
export function unavailable(error: unknown): FwaError {
  if (error instanceof FwaError) return error
  if (!(error instanceof PostgresError))
    return new FwaError('FWA_STORE_UNAVAILABLE', 'the database cannot be used', {
      cause: error,
      retryAfter: RETRY_AFTER,
    })
  const { message, retryAfter = RETRY_AFTER } = error
  return new FwaError('FWA_STORE_UNAVAILABLE', message, { retryAfter })
}

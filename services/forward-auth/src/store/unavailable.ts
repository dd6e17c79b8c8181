import { StoreError } from '@gatehouse/store'
import { FwaError } from '../errors.ts'

const RETRY_AFTER = 5

/** Makes an error of the store one of the service. Logs add the messages of causes. */
export function unavailable(error: unknown): FwaError {
  if (error instanceof FwaError) return error
  if (!(error instanceof StoreError))
    return new FwaError('FWA_STORE_UNAVAILABLE', 'the store cannot be used', {
      cause: error,
      retryAfter: RETRY_AFTER,
    })
  const { message, retryAfter = RETRY_AFTER } = error
  return new FwaError('FWA_STORE_UNAVAILABLE', message, { retryAfter })
}

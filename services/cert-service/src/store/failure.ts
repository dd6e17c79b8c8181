import { CertError } from '../errors.ts'

const RETRY_AFTER = 5

/** SQLite's primary result codes for what may be over soon: nothing is wrong with the data. */
const PASSING = new Map([
  [5, 'it is locked by another program'],
  [6, 'it is locked'],
  [7, 'out of memory'],
  [8, 'it is read-only'],
  [10, 'the disk failed'],
  [13, 'the disk is full'],
  [14, 'its files cannot be opened'],
])
/** Extended codes that say more: SQLite cannot make room for the shared memory of a store. */
const PASSING_IN_DETAIL = new Map([[4874, 'the disk is full']])
const DAMAGED = [11, 26]

/** The store's error for one of SQLite's, or `undefined` where the fault lies in the statement. */
export function storeFailure(error: unknown): CertError | undefined {
  if (error instanceof CertError) return error
  const { code, errcode } = error as { code?: string; errcode?: number }
  if (code === 'ERR_INVALID_STATE') return unavailable('it is closed', error)
  if (errcode === undefined) return undefined

  const primary = errcode & 0xff
  if (DAMAGED.includes(primary)) {
    return new CertError('CERT_STORE_CORRUPT', 'The store is damaged or not a store.', {
      cause: error,
    })
  }
  const reason = PASSING_IN_DETAIL.get(errcode) ?? PASSING.get(primary)
  return reason === undefined ? undefined : unavailable(reason, error)
}

/** The store cannot serve now, but may again. */
export function unavailable(reason: string, cause?: unknown): CertError {
  return new CertError('CERT_STORE_UNAVAILABLE', `The store cannot be used: ${reason}.`, {
    cause,
    retryAfter: RETRY_AFTER,
  })
}

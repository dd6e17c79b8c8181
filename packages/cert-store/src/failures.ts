import { type StoreErrorCode, sqliteFailure } from '@gatehouse/store'
import { CertStoreError, type CertStoreErrorCode } from './errors.ts'

const RETRY_AFTER = 5
const CODES: Partial<Record<StoreErrorCode, CertStoreErrorCode>> = {
  STORE_UNAVAILABLE: 'CERT_STORE_UNAVAILABLE',
  STORE_REFUSED: 'CERT_STORE_UNAVAILABLE',
  STORE_CORRUPT: 'CERT_STORE_CORRUPT',
  STORE_NEWER: 'CERT_STORE_NEWER',
  STORE_OLDER: 'CERT_STORE_OLDER',
  STORE_UNRELEASED: 'CERT_STORE_UNRELEASED',
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

/** Gives the failure of the store that an error stands for; `undefined` if a statement or a job is at fault. */
export function storeFailure(error: unknown): CertStoreError | undefined {
  if (error instanceof CertStoreError || error === undefined) return error
  const failure = sqliteFailure(error)
  if (!failure) return undefined
  const { message, retryAfter = RETRY_AFTER, cause } = failure
  const code = CODES[failure.code]
  if (code === 'CERT_STORE_UNAVAILABLE')
    return new CertStoreError(code, message, { retryAfter, cause })
  return code && new CertStoreError(code, message, { cause })
}

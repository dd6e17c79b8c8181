import { PkiError } from '@gatehouse/pki'
import { CertError } from '../errors.ts'
import type { Order } from '../store/store.ts'
import { type Flight, orderOf } from './flights.ts'
import { backoff } from './renewal.ts'

/**
 * Refuses what failed and is not to be tried again yet.
 *
 * @throws CertError `CERT_ISSUE_FAILED`
 */
export function refuseTooEarly(order: Order | undefined, now: number): void {
  if (order?.status !== 'failed' || order.nextTryAt === null || order.nextTryAt <= now) return
  throw issueFailed(order, now)
}

/** The order of a flight that failed: what went wrong, and when to try again. */
export function failedOrder(flight: Flight, error: unknown, now: number): Order {
  const failures = flight.failures + 1
  const lastError = isTold(error)
    ? { code: error.code, detail: error.message }
    : { code: 'INTERNAL', detail: 'an internal error; the log has the cause' }
  const nextTryAt = now + backoff(failures)
  return { ...orderOf(flight), status: 'failed', failures, lastError, nextTryAt }
}

/** What callers are told of a failed order. */
export function issueFailed(order: Order, now: number, cause?: unknown): CertError {
  const detail = `${order.names[0]} could not be issued: ${order.lastError?.detail}`
  const retryAfter = Math.ceil(((order.nextTryAt ?? now) - now) / 1000)
  return new CertError('CERT_ISSUE_FAILED', detail, { cause, retryAfter })
}

/** Whether an error is one of ours, whose words are fit for callers. */
function isTold(error: unknown): error is PkiError | CertError {
  return error instanceof PkiError || error instanceof CertError
}

import { ACME_ERRORS, AcmeError, type AcmeErrorCode, outcomeOf } from '@gatehouse/acme'
import { PkiError } from '@gatehouse/pki'
import { CertError, type CertErrorCode, IssueError } from '../errors.ts'
import type { OrderRecord } from '../store/store.ts'
import { type Flight, orderOf, orderPath } from './flights.ts'
import { backoff, DAY } from './renewal.ts'

/** However long the CA asks to wait: one look a day does it no harm, and a certificate may be ending. */
const LONGEST_WAIT = DAY

/**
 * Refuses what failed and is not to be tried again yet.
 *
 * @throws IssueError
 */
export function refuseTooEarly(order: OrderRecord | undefined, now: number): void {
  if (order?.status !== 'failed' || order.nextTryAt === null) return
  const wait = order.nextTryAt - now
  // A longer one was written by a clock that was ahead.
  if (wait > 0 && wait <= LONGEST_WAIT) throw issueFailed(order, now)
}

/** The order of a flight that failed: what went wrong, and when to try again. */
export function failedOrder(flight: Flight, error: unknown, now: number): OrderRecord {
  const failures = countFailures(flight, error)
  const lastError = isTold(error)
    ? { code: error.code, detail: error.message }
    : { code: 'INTERNAL', detail: 'an internal error; the log has the cause' }
  const wait = Math.max(backoff(failures), demandedWait(error))
  const nextTryAt = now + Math.min(wait, LONGEST_WAIT)
  return { ...orderOf(flight), status: 'failed', failures, lastError, nextTryAt }
}

/** What callers are told of a failed order. */
export function issueFailed(order: OrderRecord, now: number, cause?: unknown): IssueError {
  const { names, lastError, nextTryAt } = order
  const detail = `${names[0]} could not be issued: ${lastError?.detail}`
  const wait = Math.ceil(((nextTryAt ?? now) - now) / 1000)
  return new IssueError(toldCode(lastError?.code), detail, {
    cause,
    wait,
    location: orderPath(order),
  })
}

/** What is no fault of ours: others of this service are told in general. */
const TOLD: readonly CertErrorCode[] = [
  'CERT_BUSY',
  'CERT_KEY_COMPROMISED',
  'CERT_NOT_PERMITTED',
  'CERT_RATE_LIMITED',
  'CERT_TERMS_NOT_AGREED',
]

function toldCode(code = ''): AcmeErrorCode | CertErrorCode {
  if (Object.hasOwn(ACME_ERRORS, code)) return code as AcmeErrorCode
  return TOLD.find((told) => told === code) ?? 'CERT_ISSUE_FAILED'
}

/** Nobody refused the names, and no budget of the CA was spent. */
const PASSING: readonly CertErrorCode[] = [
  'CERT_BUSY',
  'CERT_RATE_LIMITED',
  'CERT_TERMS_NOT_AGREED',
]

/**
 * How many failures count. Of trouble that passes, or that leaves the order open at the CA, only the
 * first two do: after an outage of hours a certificate must not wait for another day.
 */
function countFailures({ failures, checkpoint }: Flight, error: unknown): number {
  return isPassing(error) || checkpoint
    ? Math.max(failures, Math.min(failures + 1, 2))
    : failures + 1
}

function isPassing(error: unknown): boolean {
  if (error instanceof AcmeError) return outcomeOf(error) !== 'final'
  return error instanceof CertError && PASSING.includes(error.code)
}

/** Milliseconds that the CA, or what is known of its limits, asks to wait. */
function demandedWait(error: unknown): number {
  if (error instanceof CertError) return (error.retryAfter ?? 0) * 1000
  if (!(error instanceof AcmeError)) return 0
  return Math.max(error.retryAfterMs ?? 0, error.code === 'ACME_PAUSED' ? DAY : 0)
}

/** Whether an error is one of ours, whose words are fit for callers. */
function isTold(error: unknown): error is PkiError | CertError | AcmeError {
  return error instanceof PkiError || error instanceof CertError || error instanceof AcmeError
}

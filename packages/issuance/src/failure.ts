import { ACME_ERRORS, AcmeError, type AcmeErrorCode, outcomeOf } from '@gatehouse/acme'
import type { OrderRecord } from '@gatehouse/cert-store/port'
import { hasCode, TitledError } from '@gatehouse/net'
import { PkiError } from '@gatehouse/pki'
import { type IssuanceErrorCode, IssueError } from './errors.ts'
import { backoff, DAY } from './times.ts'

/** Longest wait after a failure: one try a day does the CA no harm, and a certificate may be expiring. */
const LONGEST_WAIT = DAY

export const orderPath = ({ id }: Pick<OrderRecord, 'id'>): string => `/api/orders/${id}`

/** Refuses what failed until its next try is due, unless its share refused another caller. @throws IssueError */
export function assertRetryDue(order: OrderRecord, now: number, actor: string): void {
  const { status, nextTryAt, lastError, askedBy = actor } = order
  if (status !== 'failed' || nextTryAt === null) return
  if (lastError?.code === 'CERT_RATE_LIMITED' && askedBy !== actor) return
  const wait = nextTryAt - now
  // A longer wait was stored while a clock was ahead.
  if (wait > 0 && wait <= LONGEST_WAIT) throw issueFailed(order, now)
}

/** Gives the order of work that has failed, with the time of its next try. */
export function failedOrder(order: OrderRecord, error: unknown, now: number): OrderRecord {
  const failures = countFailures(order, error)
  const lastError = isCoded(error)
    ? { code: error.code, detail: error.message }
    : { code: 'INTERNAL', detail: 'an internal error; the log has the cause' }
  const wait = Math.max(backoff(failures), demandedWait(error))
  const nextTryAt = now + Math.min(wait, LONGEST_WAIT)
  return { ...order, status: 'failed', failures, lastError, nextTryAt }
}

/** Makes the error that callers get for an order that has failed. */
export function issueFailed(order: OrderRecord, now: number, cause?: unknown): IssueError {
  const { names, lastError, nextTryAt } = order
  const detail = `${names[0]} could not be issued: ${lastError?.detail}`
  const wait = Math.ceil(((nextTryAt ?? now) - now) / 1000)
  const location = orderPath(order)
  return new IssueError(publicCode(lastError?.code), detail, { cause, wait, location })
}

/** The embedded CA has less than an hour left. With another one the same request succeeds. */
const CA_ENDS = 'PKI_CA_EXPIRING'

/** Codes of ours that callers see. All others are faults of this service: `CERT_ISSUE_FAILED`. */
const PUBLIC: readonly IssuanceErrorCode[] = [
  'CERT_BUSY',
  'CERT_KEY_COMPROMISED',
  'CERT_NOT_PERMITTED',
  'CERT_RATE_LIMITED',
  'CERT_ROOT_KEY_ABSENT',
  'CERT_TERMS_NOT_AGREED',
]

function publicCode(code = ''): IssueError['code'] {
  if (code === CA_ENDS) return code
  if (Object.hasOwn(ACME_ERRORS, code)) return code as AcmeErrorCode
  return PUBLIC.find((one) => one === code) ?? 'CERT_ISSUE_FAILED'
}

/** Errors that refuse no name and use up no limit of the CA. */
const TRANSIENT: readonly IssuanceErrorCode[] = [
  'CERT_BUSY',
  'CERT_RATE_LIMITED',
  'CERT_ROOT_KEY_ABSENT',
  'CERT_TERMS_NOT_AGREED',
]

/**
 * Counts failures. Of transient errors, and of those that leave the order open at the CA, only the first
 * two count: after an outage of hours a certificate must not wait for another day.
 */
function countFailures({ failures, checkpoint }: OrderRecord, error: unknown): number {
  const isOpen = isTransient(error) || checkpoint
  return isOpen ? Math.max(failures, Math.min(failures + 1, 2)) : failures + 1
}

function isTransient(error: unknown): boolean {
  if (error instanceof AcmeError) return outcomeOf(error) !== 'final'
  if (error instanceof PkiError) return error.code === CA_ENDS
  return TRANSIENT.some((code) => hasCode(error, code))
}

/** Milliseconds to wait as the CA asks, or as its limits demand. */
function demandedWait(error: unknown): number {
  if (error instanceof TitledError) return (error.retryAfter ?? 0) * 1000
  if (!(error instanceof AcmeError)) return 0
  return Math.max(error.retryAfterMs ?? 0, error.code === 'ACME_PAUSED' ? DAY : 0)
}

/** Whether an error is one of ours, whose message is fit for callers. */
function isCoded(error: unknown): error is PkiError | TitledError | AcmeError {
  return error instanceof PkiError || error instanceof TitledError || error instanceof AcmeError
}

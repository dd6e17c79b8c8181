import { ACME_ERRORS, AcmeError, type AcmeErrorCode, outcomeOf } from '@gatehouse/acme'
import { CLIENT_ISSUER, type OrderFailure, type OrderRecord } from '@gatehouse/cert-store/port'
import { hasCode, TitledError } from '@gatehouse/net'
import { PkiError } from '@gatehouse/pki'
import { type IssuanceErrorCode, IssueError } from './errors.ts'
import type { Issuer } from './issuers/issuer.ts'
import { backoff, DAY, earlyBackoff, toTime } from './times.ts'

/** Longest wait after a failure: one try a day does the CA no harm, and a certificate may be expiring. */
const LONGEST_WAIT = DAY

export const orderPath = ({ id }: Pick<OrderRecord, 'id'>): string => `/api/orders/${id}`

/** Codes of failures that no CA was asked for a certificate before: it cannot be reached, or something of ours is missing. */
const EARLY: readonly string[] = [
  ...Object.keys(ACME_ERRORS).filter((code) => code.startsWith('ACME_DNS_')),
  'ACME_ACCOUNT_CLOSED',
  'ACME_EXTERNAL_ACCOUNT_REQUIRED',
  'ACME_INVALID_CONTACT',
  'ACME_NOT_OFFERED',
  'ACME_NO_CHALLENGE',
  'ACME_UNREACHABLE',
  'CERT_ROOT_KEY_ABSENT',
  'CERT_TERMS_NOT_AGREED',
]

type OrderWait = Pick<OrderRecord, 'status' | 'nextTryAt' | 'configuration' | 'lastError'>

/** Returns the time of the next try of a failed order; undefined if its wait is over, whatever was configured when it failed. */
export function waitOf(order: OrderWait, now: number): number | undefined {
  const { status, nextTryAt } = order
  if (status !== 'failed' || nextTryAt === null) return undefined
  const until = Math.max(nextTryAt, demandOf(order))
  // A longer wait was stored while a clock was ahead.
  return until > now && until - now <= LONGEST_WAIT ? until : undefined
}

/** Returns the end of the wait that the CA has demanded, or 0. It counts for the request key, whatever else is configured by now. */
function demandOf({ lastError }: Pick<OrderRecord, 'lastError'>): number {
  return lastError?.code.startsWith('ACME_') ? (lastError.demandedUntil ?? 0) : 0
}

/** Returns the time of the next try of a failed order; undefined if it is at once, as where another configuration has failed. */
export function nextTryOf(
  order: OrderWait,
  { configuration }: Pick<Issuer, 'configuration'>,
  now: number,
): number | undefined {
  const isOther = order.configuration !== configuration
  return waitOf(isOther ? { ...order, nextTryAt: demandOf(order) } : order, now)
}

/** Gives the order of work that has failed, with the time of its next try. @param previous - its last failure */
export function failedOrder(
  order: OrderRecord,
  error: unknown,
  now: number,
  previous: OrderFailure | null = null,
): OrderRecord {
  const isEarly = isCoded(error) && EARLY.includes(error.code)
  const failures = countFailures(order, error, { isEarly, wasEarly: previous?.isEarly === true })
  const problem = isCoded(error)
    ? { code: error.code, detail: error.message }
    : { code: 'INTERNAL', detail: 'an internal error; the log has the cause' }
  const demanded = demandedWait(error)
  // Somebody may have opened the URL of the pause.
  const least = problem.code === 'ACME_PAUSED' ? LONGEST_WAIT : demanded
  const wait = Math.max(isEarly ? earlyBackoff(failures) : backoff(failures), least)
  const nextTryAt = now + Math.min(wait, LONGEST_WAIT)
  const demandedUntil = now + Math.min(demanded, LONGEST_WAIT)
  const lastError = {
    ...problem,
    at: now,
    ...(isEarly && { isEarly }),
    ...(demanded > 0 && { demandedUntil }),
  }
  return { ...order, status: 'failed', failures, lastError, nextTryAt }
}

type Failing = Pick<OrderRecord, 'names' | 'issuer'>

/** The command that tries at once what has failed: the log, answers and pages tell of it. */
export function retryCommand({ names, issuer }: Failing): string {
  const profile = issuer === CLIENT_ISSUER ? ' --profile client' : ''
  return `gatehouse-certs renew ${names[0]} --now${profile}`
}

/** What a line of the log says of a wait. */
export function describeWait(nextTryAt: number, failing: Failing) {
  return { nextTryAt: toTime(nextTryAt), action: `To try now: ${retryCommand(failing)}` }
}

/** Makes the error that callers get for an order that has failed: one from before says so, and how to try again now. */
export function issueFailed(order: OrderRecord, now: number, cause?: unknown): IssueError {
  const { names, lastError, nextTryAt } = order
  const [failedAt, next] = [toTime(lastError?.at ?? now), toTime(nextTryAt ?? now)]
  const how = `To try now: ${retryCommand(order)}`
  const remembered = `. This is the failure of ${failedAt}; the next try is at ${next}. ${how}`
  const detail = `${names[0]} could not be issued: ${lastError?.detail}${cause === undefined ? remembered : ''}`
  const wait = Math.ceil(((nextTryAt ?? now) - now) / 1000)
  const times = { failedAt, nextTryAt: next }
  const location = orderPath(order)
  return new IssueError(publicCode(lastError?.code), detail, { cause, wait, location, times })
}

/** The embedded CA has less than an hour left. With another one the same request succeeds. */
const CA_ENDS = 'PKI_CA_EXPIRED'

/** Errors that refuse no name and use up no limit of the CA. */
const TRANSIENT: readonly IssuanceErrorCode[] = [
  'CERT_BUSY',
  'CERT_RATE_LIMITED',
  'CERT_ROOT_KEY_ABSENT',
  'CERT_TERMS_NOT_AGREED',
]
/** Codes of ours that callers see. All others are faults of this service: `CERT_ISSUE_FAILED`. */
const PUBLIC = [...TRANSIENT, 'CERT_KEY_COMPROMISED', 'CERT_NOT_PERMITTED'] as const

function publicCode(code = ''): IssueError['code'] {
  if (code === CA_ENDS) return code
  if (Object.hasOwn(ACME_ERRORS, code)) return code as AcmeErrorCode
  return PUBLIC.find((name) => name === code) ?? 'CERT_ISSUE_FAILED'
}

/**
 * Counts failures. Of transient errors, and of those that leave the order open at the CA, only the first
 * two count: after an outage of hours a certificate must not wait for another day. So it is with early ones before it.
 */
function countFailures(
  { failures: previous, checkpoint }: OrderRecord,
  error: unknown,
  { isEarly, wasEarly }: { readonly isEarly: boolean; readonly wasEarly: boolean },
): number {
  if (isEarly) return previous + 1
  const failures = wasEarly ? Math.min(previous, 2) : previous
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
  return error instanceof AcmeError ? (error.retryAfterMs ?? 0) : 0
}

/** Whether an error is one of ours, whose message is fit for callers: none is that of a statement. */
function isCoded(error: unknown): error is PkiError | TitledError | AcmeError {
  if (hasCode(error, 'STORE_STATEMENT_FAILED')) return false
  return error instanceof PkiError || error instanceof TitledError || error instanceof AcmeError
}

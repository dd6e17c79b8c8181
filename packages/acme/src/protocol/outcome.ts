import { AcmeError, type AcmeErrorCode } from '../errors.ts'

/**
 * What a fault means for the order that it happened to:
 *
 * - `final`: the CA has decided, and the order cannot go on.
 * - `passing`: the same request may succeed in a moment.
 * - `denied`: the CA does not know, or refuses to show, what it is asked for. Its replicas may lag
 *   behind, or a proxy stands in between: final only if it lasts.
 * - `waiting`: the order stays as it is, and a try in a hurry is of no use: a rate limit, a person
 *   who has to act, DNS that is not ready.
 * - `account`: the CA does not know the account.
 */
export type Outcome = 'final' | 'passing' | 'denied' | 'waiting' | 'account'

/** Final without a word of the CA. */
const ENDING: readonly AcmeErrorCode[] = ['ACME_CERTIFICATE_MISMATCH', 'ACME_ORDER_INVALID']

/** The network, or what the CA asks to have repeated (RFC 8555 sections 6.5, 7.4). */
const PASSING: readonly AcmeErrorCode[] = [
  'ACME_ANSWER_INVALID',
  'ACME_BAD_NONCE',
  'ACME_ORDER_NOT_READY',
  'ACME_SERVER_INTERNAL',
  'ACME_TIMEOUT',
  'ACME_UNREACHABLE',
]

/** The CA wants time, or a person (RFC 8555 sections 6.6, 6.7). */
const WAITING: readonly AcmeErrorCode[] = [
  'ACME_PAUSED',
  'ACME_RATE_LIMITED',
  'ACME_USER_ACTION_REQUIRED',
]

/** Statuses that say nothing of the order, whatever the problem is called. */
const ABSENT: readonly number[] = [404, 408, 410, 425]

/**
 * What a fault means (RFC 8555 sections 6.7, 7.1.6, 7.4). A refusal is final only where the CA was
 * asked to decide, and says in a problem document why. Everywhere else the status of the order and
 * its authorizations is what counts, not the status of one answer.
 */
export function outcomeOf(error: unknown): Outcome {
  if (!(error instanceof AcmeError)) return 'waiting'
  const { code, problem, isDecision } = error
  if (code === 'ACME_ACCOUNT_DOES_NOT_EXIST') return 'account'
  if (!problem) return ENDING.includes(code) ? 'final' : orWaiting(code)
  const { status, type } = problem
  // Without a status it is the error of the order or the authorization itself.
  if (status === undefined) return 'final'
  if (status >= 500) return 'passing'
  if (PASSING.includes(code) || WAITING.includes(code)) return orWaiting(code)
  return isDecision && type !== '' && !ABSENT.includes(status) ? 'final' : 'denied'
}

const orWaiting = (code: AcmeErrorCode): Outcome => (PASSING.includes(code) ? 'passing' : 'waiting')

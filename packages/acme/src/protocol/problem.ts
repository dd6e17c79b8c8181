import { type Static, Type } from 'typebox'
import { Check } from 'typebox/schema'
import {
  AcmeError,
  type AcmeErrorCode,
  type AcmeErrorOptions,
  type Problem,
  type Subproblem,
} from '../errors.ts'
import { IdentifierSchema } from '../identifier.ts'

const TYPES = [
  ['accountDoesNotExist', 'ACME_ACCOUNT_DOES_NOT_EXIST'],
  ['alreadyReplaced', 'ACME_ALREADY_REPLACED'],
  ['alreadyRevoked', 'ACME_ALREADY_REVOKED'],
  ['badCSR', 'ACME_BAD_CSR'],
  ['badNonce', 'ACME_BAD_NONCE'],
  ['badPublicKey', 'ACME_BAD_KEY'],
  ['badRevocationReason', 'ACME_BAD_REVOCATION_REASON'],
  ['badSignatureAlgorithm', 'ACME_BAD_KEY'],
  ['caa', 'ACME_CAA'],
  ['connection', 'ACME_CONNECTION'],
  ['dns', 'ACME_DNS'],
  ['externalAccountRequired', 'ACME_EXTERNAL_ACCOUNT_REQUIRED'],
  ['incorrectResponse', 'ACME_INCORRECT_RESPONSE'],
  ['invalidContact', 'ACME_INVALID_CONTACT'],
  ['invalidProfile', 'ACME_INVALID_PROFILE'],
  ['malformed', 'ACME_MALFORMED'],
  ['orderNotReady', 'ACME_ORDER_NOT_READY'],
  ['rateLimited', 'ACME_RATE_LIMITED'],
  ['rejectedIdentifier', 'ACME_REJECTED_IDENTIFIER'],
  ['serverInternal', 'ACME_SERVER_INTERNAL'],
  ['tls', 'ACME_TLS'],
  ['unauthorized', 'ACME_UNAUTHORIZED'],
  ['unsupportedContact', 'ACME_INVALID_CONTACT'],
  ['unsupportedIdentifier', 'ACME_UNSUPPORTED_IDENTIFIER'],
  ['userActionRequired', 'ACME_USER_ACTION_REQUIRED'],
] as const satisfies (readonly [string, AcmeErrorCode])[]
const CODES: ReadonlyMap<string, AcmeErrorCode> = new Map(TYPES)

/** The type of a problem, without its URN (RFC 8555 section 6.7, RFC 9773 section 7.4). */
export type ProblemType = (typeof TYPES)[number][0]

const problemMembers = { type: Type.Optional(Type.String()), detail: Type.Optional(Type.String()) }
const ProblemSchema = Type.Object({
  ...problemMembers,
  instance: Type.Optional(Type.String()),
  subproblems: Type.Optional(Type.Array(Type.Unknown())),
})
const SubproblemSchema = Type.Object({
  ...problemMembers,
  identifier: Type.Optional(IdentifierSchema),
})

export const PROBLEM_URN = 'urn:ietf:params:acme:error:'
const MAX_DETAIL = 1000
const MAX_SUBPROBLEMS = 100
/** The words of CAs for a closed account: RFC 8555 has no type for it. */
const CLOSED = /\baccount\b.{0,120}\b(deactivated|revoked|not valid)\b|\bnot a valid account\b/i
/** The terms to agree to, in a Link header (RFC 8555 section 7.3.3). */
const TERMS = /<(https:[^<>]+)>[^<>]*\brel="?terms-of-service\b/i

interface ProblemContext extends Pick<Problem, 'status'>, Omit<AcmeErrorOptions, 'problem'> {
  readonly link?: string
}

/**
 * Converts a problem document to an error; anything else counts as a problem document without a
 * type. Texts of the CA are shortened and lose their control characters.
 */
export function toError(
  document: unknown,
  { status, link = '', ...context }: ProblemContext = {},
): AcmeError {
  const fields: Static<typeof ProblemSchema> = Check(ProblemSchema, document) ? document : {}
  const problem: Problem = {
    ...readTexts(fields),
    ...(status !== undefined && { status }),
    subproblems: (fields.subproblems ?? []).slice(0, MAX_SUBPROBLEMS).flatMap(readSubproblem),
  }
  const code = codeOf(problem)
  const pages = code === 'ACME_USER_ACTION_REQUIRED' && [fields.instance, TERMS.exec(link)?.[1]]
  const where = pages && [...new Set(pages.filter(Boolean))].join(', ')
  const message = describe(problem) + (where ? ` (${clean(where)})` : '')
  return new AcmeError(code, message, { ...context, problem })
}

/** Skips a subproblem that cannot be read, such as one about another kind of identifier. */
function readSubproblem(value: unknown): Subproblem | [] {
  if (!Check(SubproblemSchema, value)) return []
  const { identifier } = value
  return { ...readTexts(value), ...(identifier && { identifier }) }
}

function readTexts({ type = '', detail = '' }: { type?: string; detail?: string }) {
  const name = type.startsWith(PROBLEM_URN) ? type.slice(PROBLEM_URN.length) : type
  return { type: clean(name), detail: clean(detail) }
}

function codeOf({ type, detail, status = 0, subproblems }: Problem): AcmeErrorCode {
  const code = CODES.get(type === 'compound' ? (subproblems[0]?.type ?? '') : type)
  if (code === 'ACME_RATE_LIMITED' && hasUnpauseUrl(detail)) return 'ACME_PAUSED'
  // Without a status, it quotes what a server of ours answered.
  if (code === 'ACME_UNAUTHORIZED' && status > 0 && CLOSED.test(detail))
    return 'ACME_ACCOUNT_CLOSED'
  if (code) return code
  if (status === 429) return 'ACME_RATE_LIMITED'
  return status >= 500 ? 'ACME_SERVER_INTERNAL' : 'ACME_PROBLEM'
}

function hasUnpauseUrl(detail: string): boolean {
  const words = detail.toLowerCase().split(/\s/)
  return words.some((word) => word.split('https://').slice(1).join().includes('unpause'))
}

function describe({ type, detail, status, subproblems }: Problem): string {
  const whole = detail || type || (status === undefined ? 'without a reason' : `status ${status}`)
  const parts = subproblems.map(
    ({ identifier, type, detail }) =>
      `${identifier ? `${identifier.value}: ` : ''}${detail || type}`,
  )
  return [`the CA says: ${whole}`, ...parts].join('; ')
}

// Control characters, what changes the direction of text, and line separators.
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}]+/gu
const clean = (text: string): string => text.slice(0, MAX_DETAIL).replace(UNSAFE, ' ')

/**
 * The meaning of an error for an order:
 *
 * - `final`: the CA has decided, and the order cannot succeed any more.
 * - `passing`: the same request may succeed soon.
 * - `denied`: the CA does not know or does not show the resource. A replica may lag behind or a proxy
 *   may interfere, so this is final only if it lasts.
 * - `waiting`: an early retry is useless, as with a rate limit, a person who has to act, or DNS that
 *   is not ready.
 * - `account`: the CA does not know the account.
 */
export type ErrorOutcome = 'final' | 'passing' | 'denied' | 'waiting' | 'account'

/** Final even without a problem document. */
const ENDING: readonly AcmeErrorCode[] = ['ACME_CERTIFICATE_MISMATCH', 'ACME_ORDER_INVALID']

/** Network errors, and requests that the CA wants to be repeated (RFC 8555 sections 6.5, 7.4). */
const PASSING: readonly AcmeErrorCode[] = [
  'ACME_ANSWER_INVALID',
  'ACME_BAD_NONCE',
  'ACME_ORDER_NOT_READY',
  'ACME_SERVER_INTERNAL',
  'ACME_TIMEOUT',
  'ACME_UNREACHABLE',
]

/** The CA demands a pause or a person (RFC 8555 sections 6.6, 6.7). */
const WAITING: readonly AcmeErrorCode[] = [
  'ACME_PAUSED',
  'ACME_RATE_LIMITED',
  'ACME_USER_ACTION_REQUIRED',
]

/** Statuses that say nothing about the order, whatever the type of the problem. */
const ABSENT: readonly number[] = [404, 408, 410, 425]

/**
 * Classifies an error (RFC 8555 sections 6.7, 7.1.6, 7.4). An error response is final only if the
 * request asked for a decision and a problem document gives the reason. In all other cases the status
 * of the order and its authorizations counts, not that of one response.
 */
export function outcomeOf(error: unknown): ErrorOutcome {
  if (!(error instanceof AcmeError)) return 'waiting'
  const { code, problem, isDecision } = error
  if (code === 'ACME_ACCOUNT_DOES_NOT_EXIST') return 'account'
  if (!problem) return ENDING.includes(code) ? 'final' : orWaiting(code)
  const { status, type } = problem
  // Without a status, it is the error of the order or the authorization.
  if (status === undefined) return 'final'
  if (status >= 500) return 'passing'
  if (PASSING.includes(code) || WAITING.includes(code)) return orWaiting(code)
  return isDecision && type !== '' && !ABSENT.includes(status) ? 'final' : 'denied'
}

const orWaiting = (code: AcmeErrorCode): ErrorOutcome =>
  PASSING.includes(code) ? 'passing' : 'waiting'

import { type Static, Type } from 'typebox'
import { Check } from 'typebox/schema'
import { AcmeError, type AcmeErrorCode, type Problem, type Subproblem } from '../errors.ts'
import { IdentifierSchema } from '../identifier.ts'

const CODES: ReadonlyMap<string, AcmeErrorCode> = new Map([
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
] as const)

const Fault = {
  type: Type.Optional(Type.String()),
  detail: Type.Optional(Type.String()),
}
const ProblemSchema = Type.Object({
  ...Fault,
  instance: Type.Optional(Type.String()),
  subproblems: Type.Optional(Type.Array(Type.Unknown())),
})
const SubproblemSchema = Type.Object({ ...Fault, identifier: Type.Optional(IdentifierSchema) })

const URN = 'urn:ietf:params:acme:error:'
const MAX_DETAIL = 1000
const MAX_SUBPROBLEMS = 100
const UNPAUSE_URL = /https:\/\/\S*unpause\S*/i

/**
 * The error that a problem document stands for; whatever is no problem document is one without a
 * type. Text of the CA is cut to a length, and loses its control characters.
 */
export function toError(
  document: unknown,
  context: {
    readonly status?: number
    readonly retryAfterMs?: number | undefined
    readonly isDecision?: boolean | undefined
  } = {},
): AcmeError {
  const given: Static<typeof ProblemSchema> = Check(ProblemSchema, document) ? document : {}
  const { status, retryAfterMs, isDecision } = context
  const problem: Problem = {
    ...readFault(given),
    ...(status !== undefined && { status }),
    subproblems: (given.subproblems ?? []).slice(0, MAX_SUBPROBLEMS).flatMap(readSubproblem),
  }
  const code = codeOf(problem)
  const where = code === 'ACME_USER_ACTION_REQUIRED' && given.instance
  return new AcmeError(code, tell(problem) + (where ? ` (${clean(where)})` : ''), {
    problem,
    retryAfterMs,
    isDecision,
  })
}

/** Nothing for one that cannot be read, such as one about another kind of identifier. */
function readSubproblem(value: unknown): Subproblem | [] {
  if (!Check(SubproblemSchema, value)) return []
  const { identifier } = value
  return { ...readFault(value), ...(identifier && { identifier }) }
}

function readFault({ type = '', detail = '' }: { type?: string; detail?: string }) {
  const name = type.startsWith(URN) ? type.slice(URN.length) : type
  return { type: clean(name), detail: clean(detail) }
}

function codeOf({ type, detail, status = 0, subproblems }: Problem): AcmeErrorCode {
  const code = CODES.get(type === 'compound' ? (subproblems[0]?.type ?? '') : type)
  if (code === 'ACME_RATE_LIMITED' && UNPAUSE_URL.test(detail)) return 'ACME_PAUSED'
  if (code) return code
  if (status === 429) return 'ACME_RATE_LIMITED'
  return status >= 500 ? 'ACME_SERVER_INTERNAL' : 'ACME_PROBLEM'
}

function tell({ type, detail, status, subproblems }: Problem): string {
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

import { AcmeProblem, malformed, type ProblemType } from '@gatehouse/acme/server'
import { IssueError } from '@gatehouse/issuance'
import { CodedError, TitledError } from '@gatehouse/net'
import { actionFor, STATUS_OF } from '../errors.ts'

/** The problems that clients get for the errors of this service, by code. */
const TYPES: Readonly<Record<string, ProblemType>> = {
  CERT_BUSY: 'rateLimited',
  CERT_CALLER_LIMITED: 'rateLimited',
  CERT_ISSUER_ABSENT: 'malformed',
  CERT_KEY_COMPROMISED: 'badPublicKey',
  CERT_KEY_TYPE_CONFLICT: 'badCSR',
  CERT_KEY_TYPE_REFUSED: 'badCSR',
  CERT_LIFETIME_REFUSED: 'malformed',
  CERT_NAME_NOT_ALLOWED: 'rejectedIdentifier',
  CERT_NO_ISSUER: 'rejectedIdentifier',
  CERT_NOT_PERMITTED: 'rejectedIdentifier',
  CERT_RATE_LIMITED: 'rateLimited',
  PKI_CSR_INVALID: 'badCSR',
  PKI_KEY_WEAK: 'badCSR',
  PKI_NAME_INVALID: 'rejectedIdentifier',
  // Errors of a public CA that this service stands in for.
  ACME_BAD_CSR: 'badCSR',
  ACME_BAD_KEY: 'badCSR',
  ACME_CAA: 'caa',
  ACME_CONNECTION: 'connection',
  ACME_DNS: 'dns',
  ACME_INCORRECT_RESPONSE: 'incorrectResponse',
  ACME_PAUSED: 'rateLimited',
  ACME_RATE_LIMITED: 'rateLimited',
  ACME_REJECTED_IDENTIFIER: 'rejectedIdentifier',
  ACME_TLS: 'tls',
}

const MALFORMED_STATUSES = [400, 404, 405, 408, 413, 414, 415, 431, 501]
/** Seconds after which to try again what is not possible now. */
const RETRY_AFTER = 30

/** Turns any error into the problem that an ACME client understands; undefined for a fault of this service. */
export function problemOf(error: unknown): AcmeProblem | undefined {
  if (error instanceof AcmeProblem) return error
  const { code, message, statusCode } = error as Error & { code?: unknown; statusCode?: unknown }
  const status = STATUS_OF[String(code)] ?? Number(statusCode)
  if (error instanceof CodedError) {
    const type = TYPES[error.code]
    if (type) return described(type, error)
    if (status === 503) return unavailable(error)
  }
  if (!MALFORMED_STATUSES.includes(status)) return undefined
  return malformed(message, { status })
}

/** Says what was wrong and what to do, as clients show nothing else. */
function described(type: ProblemType, error: CodedError<string>): AcmeProblem {
  const action = actionFor(error.code)
  const wait = type === 'rateLimited' ? waitOf(error) : undefined
  const hint = wait === undefined ? (action ?? '') : `Try again in ${wait} s. ${action}`
  return new AcmeProblem(type, `${error.message}. ${hint}`.trimEnd(), {
    cause: error,
    ...(wait !== undefined && { retryAfter: wait }),
  })
}

function unavailable(error: CodedError<string>): AcmeProblem {
  const retryAfter = waitOf(error)
  // What a public CA says is for the client too. What this service lacks is in its log.
  const why =
    error instanceof IssueError
      ? `${error.message}. Try again in ${retryAfter} s`
      : `this is not possible now (${error.code}): try again later`
  return new AcmeProblem('serverInternal', why, { cause: error, status: 503, retryAfter })
}

/** Seconds that an error asks to wait. */
function waitOf(error: unknown): number {
  const retryAfter = error instanceof TitledError ? error.retryAfter : undefined
  return (error instanceof IssueError ? error.wait : retryAfter) ?? RETRY_AFTER
}

import { CHALLENGE_ERRORS } from './dns/errors.ts'
import type { Identifier } from './identifier.ts'

/** Every error of this package: what it means, and what to do about it. */
export const ACME_ERRORS = {
  ...CHALLENGE_ERRORS,
  ACME_ACCOUNT_DOES_NOT_EXIST: {
    title: 'CA does not know the account',
    action: 'Register the account key again; see whether the directory URL is the right one.',
  },
  ACME_ALREADY_REPLACED: {
    title: 'Certificate was replaced before',
    action: 'Nothing: the order is placed again without naming what it replaces.',
  },
  ACME_ALREADY_REVOKED: {
    title: 'Certificate was revoked before',
    action: 'Nothing: it is what was asked for.',
  },
  ACME_ANSWER_INVALID: {
    title: 'Answer of the CA is not valid',
    action: 'See whether the directory URL is the right one; otherwise tell the CA.',
  },
  ACME_BAD_CSR: {
    title: 'CA refused the certificate request',
    action: 'Read the detail: the key type, or a name in the request, is not accepted.',
  },
  ACME_BAD_KEY: {
    title: 'CA refused the key',
    action: 'Use a new P-256 key; a key must not be known to be weak or compromised.',
  },
  ACME_BAD_NONCE: {
    title: 'CA refused every nonce',
    action: 'Try again later: the CA, or a cache in front of it, is out of step.',
  },
  ACME_BAD_REVOCATION_REASON: {
    title: 'CA refused the reason of the revocation',
    action: 'Give another reason, or none.',
  },
  ACME_CAA: {
    title: 'CAA records forbid the certificate',
    action: 'Let the CAA records of the domain name this CA, or remove them.',
  },
  ACME_CERTIFICATE_MISMATCH: {
    title: 'Certificate is not the one that was ordered',
    action: 'Order again: another client may have finalised the same order with its own key.',
  },
  ACME_CONNECTION: {
    title: 'CA could not connect to the server of the name',
    action: 'See whether the address in DNS leads here, and port 80 or 443 is open to the world.',
  },
  ACME_DNS: {
    title: 'CA could not look the name up',
    action: 'See whether the name resolves from outside, and its DNSSEC signatures are valid.',
  },
  ACME_EXTERNAL_ACCOUNT_REQUIRED: {
    title: 'CA wants an external account',
    action: 'Get a key identifier and an HMAC key from the CA, and configure them.',
  },
  ACME_INCORRECT_RESPONSE: {
    title: 'CA saw another answer to its challenge',
    action: 'See what DNS or the web server answers from outside; another client may interfere.',
  },
  ACME_INVALID_CONTACT: {
    title: 'CA refused the contact',
    action: 'Give an e-mail address that can receive mail, or none.',
  },
  ACME_INVALID_PROFILE: {
    title: 'CA does not offer the profile',
    action: 'Use one of the profiles in the directory of the CA, or none.',
  },
  ACME_MALFORMED: {
    title: 'CA did not understand the request',
    action: 'Read the detail; order again if the order or the authorization is gone.',
  },
  ACME_NO_CHALLENGE: {
    title: 'No challenge of the CA can be answered',
    action:
      'Configure a solver for the name: a wildcard needs dns-01, an IP address http-01 or tls-alpn-01.',
  },
  ACME_NOT_OFFERED: {
    title: 'CA does not offer this',
    action: 'Use another CA: its directory lacks the resource.',
  },
  ACME_ORDER_INVALID: {
    title: 'Order has failed or expired',
    action: 'Order again.',
  },
  ACME_ORDER_NOT_READY: {
    title: 'Order is not ready yet',
    action: 'Nothing: it is looked at again.',
  },
  ACME_PAUSED: {
    title: 'CA has paused the account for this name',
    action: 'Repair what made the validations fail, then open the URL in the message.',
  },
  ACME_PROBLEM: {
    title: 'CA refused the request',
    action: 'Read the detail: the CA gave a reason of its own.',
  },
  ACME_RATE_LIMITED: {
    title: 'Rate limit of the CA is reached',
    action: 'Wait as long as the CA says; fewer orders or more names per certificate help.',
  },
  ACME_REJECTED_IDENTIFIER: {
    title: 'CA does not issue for the name',
    action: 'Use a public name that the CA permits, or an issuer of your own.',
  },
  ACME_SERVER_INTERNAL: {
    title: 'CA has a fault or is overloaded',
    action: 'Try again later; see the status page of the CA.',
  },
  ACME_TIMEOUT: {
    title: 'CA did not finish in time',
    action: 'Nothing is lost: the order goes on where it stands when it is tried again.',
  },
  ACME_TLS: {
    title: 'CA could not make a TLS connection to the name',
    action: 'See which server answers on port 443 of the name, and whether it speaks TLS 1.2.',
  },
  ACME_UNAUTHORIZED: {
    title: 'CA is not convinced',
    action: 'Read the detail: a validation failed, or the account may not do this.',
  },
  ACME_UNREACHABLE: {
    title: 'CA cannot be reached',
    action: 'See the cause in the log: name resolution, connection, or TLS trust.',
  },
  ACME_UNSUPPORTED_IDENTIFIER: {
    title: 'CA does not issue for this kind of name',
    action: 'Use another CA or profile: not every one issues for IP addresses.',
  },
  ACME_USER_ACTION_REQUIRED: {
    title: 'CA wants a person to act',
    action: 'Open the URL in the message, often new terms of service to agree to.',
  },
} as const satisfies Record<`ACME_${string}`, { title: string; action: string }>

export type AcmeErrorCode = keyof typeof ACME_ERRORS

/** What a CA says of a fault (RFC 8555 section 6.7). */
export interface Problem {
  /** Without the URN prefix, as `rateLimited`; a type of another kind is given whole. */
  readonly type: string
  readonly detail: string
  /** Of the answer that brought it; absent in the error of an order or a challenge. */
  readonly status?: number
  /** One for each name that had a fault of its own. */
  readonly subproblems: readonly Subproblem[]
}

export interface Subproblem {
  readonly type: string
  readonly detail: string
  readonly identifier?: Identifier
}

interface AcmeErrorOptions extends ErrorOptions {
  readonly problem?: Problem
  readonly isDecision?: boolean | undefined
  readonly retryAfterMs?: number | undefined
}

/** Characters. What a CA or a server makes us repeat must not fill logs, pages and stores. */
const MAX_MESSAGE = 4_000

/** An error of this package; `code` is stable, `message` says what was wrong. */
export class AcmeError extends Error {
  override readonly name = 'AcmeError'
  readonly code: AcmeErrorCode
  /** What the CA said, if the CA refused. */
  readonly problem: Problem | undefined
  /** Whether the request asked the CA to decide, as on an order, and not only what it has. */
  readonly isDecision: boolean
  /** Milliseconds that the CA asks to wait before another try. */
  readonly retryAfterMs: number | undefined

  constructor(code: AcmeErrorCode, message: string, options: AcmeErrorOptions = {}) {
    super(message.slice(0, MAX_MESSAGE), options)
    this.code = code
    this.problem = options.problem
    this.isDecision = options.isDecision ?? false
    this.retryAfterMs = options.retryAfterMs
  }
}

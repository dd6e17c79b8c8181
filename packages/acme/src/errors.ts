import { CodedError } from '@gatehouse/net'
import type { Identifier } from './identifier.ts'

/** The errors of this package, each with a title and what to do about it. */
export const ACME_ERRORS = {
  ACME_ACCOUNT_CLOSED: {
    title: 'Account was deactivated',
    action:
      'Give the issuer another name as `account`: it registers a new account at the CA. A ' +
      'deactivated or revoked account cannot be used again.',
  },
  ACME_ACCOUNT_DOES_NOT_EXIST: {
    title: 'CA does not know the account',
    action: 'Register the account key again, and check the directory URL.',
  },
  ACME_ALREADY_REPLACED: {
    title: 'Certificate has already been replaced',
    action: 'None: the order is placed again without naming the replaced certificate.',
  },
  ACME_ALREADY_REVOKED: {
    title: 'Certificate has already been revoked',
    action: 'None: the certificate is revoked.',
  },
  ACME_ANSWER_INVALID: {
    title: 'Response of the CA is not valid',
    action: 'Check the directory URL; if it is right, report the problem to the CA.',
  },
  ACME_BAD_CSR: {
    title: 'CA refused the certificate request',
    action: 'Read the detail: the CA does not accept the key type or a name in the request.',
  },
  ACME_BAD_KEY: {
    title: 'CA refused the key',
    action: 'Use a new P-256 key, not one that is known to be weak or compromised.',
  },
  ACME_BAD_NONCE: {
    title: 'CA refused every nonce',
    action: 'Try again later: the CA or a cache in front of it has a problem.',
  },
  ACME_BAD_REVOCATION_REASON: {
    title: 'CA refused the revocation reason',
    action: 'Use another reason, or none.',
  },
  ACME_CAA: {
    title: 'CAA records forbid the certificate',
    action: 'Add this CA to the CAA records of the domain, or remove the records.',
  },
  ACME_CERTIFICATE_MISMATCH: {
    title: 'Certificate does not match the order',
    action: 'Order again: another client may have finalized the same order with its own key.',
  },
  ACME_CONNECTION: {
    title: 'CA could not connect to the server of the name',
    action:
      'Check that the address in DNS leads to this server, and that port 80 or 443 is open to the internet.',
  },
  ACME_DNS: {
    title: 'CA could not look up the name',
    action:
      'Check that the name resolves from the internet, and that its DNSSEC signatures are valid.',
  },
  ACME_DNS_UNREACHABLE: {
    title: 'No name server answers',
    action:
      'Check that the resolver and the name servers of the zone can be reached from here by UDP and TCP, or configure other resolvers.',
  },
  ACME_DNS_LOOKUP: {
    title: 'Name cannot be looked up',
    action:
      'Check that the zone is delegated, that its name servers answer for it, and that DNSSEC is valid. A CNAME of ' +
      '`_acme-challenge` leads to a name of letters, digits, hyphens and underscores that has no CNAME itself.',
  },
  ACME_DNS_PROPAGATION: {
    title: 'Record did not reach every name server in time',
    action:
      'Check that the name servers of the zone get their updates; raise the time limit, or use other resolvers or a fixed wait.',
  },
  ACME_DNS_NO_PROVIDER: {
    title: 'No DNS provider is configured for the name',
    action: 'Add a DNS provider whose `names` match the name.',
  },
  ACME_DNS_NO_ZONE: {
    title: 'DNS provider has no zone for the name',
    action:
      'Check that the credentials can read the zone, or delegate `_acme-challenge` by CNAME to a zone that they can change.',
  },
  ACME_DNS_CREDENTIALS: {
    title: 'DNS provider refused the credentials',
    action: 'Renew the credentials, and allow them to edit TXT records of the zone.',
  },
  ACME_DNS_PROVIDER: {
    title: 'DNS provider refused the change',
    action:
      'Read the detail, which has the reason of the provider. Run a program by hand, as the same user and with the same environment.',
  },
  ACME_EXTERNAL_ACCOUNT_REQUIRED: {
    title: 'CA requires an external account that it knows',
    action:
      'Get a key identifier and an HMAC key from the CA, and configure them as `externalAccount`. Many CAs accept each only once.',
  },
  ACME_INCORRECT_RESPONSE: {
    title: 'CA got a wrong answer to its challenge',
    action:
      'Check what DNS or the web server answers from the internet; another client may interfere.',
  },
  ACME_INVALID_CONTACT: {
    title: 'CA refused the contact',
    action: 'Use an e-mail address that can receive mail, or none.',
  },
  ACME_INVALID_PROFILE: {
    title: 'CA does not offer the profile',
    action: 'Use one of the profiles in the directory of the CA, or none.',
  },
  ACME_MALFORMED: {
    title: 'CA did not understand the request',
    action: 'Read the detail; order again if the order or the authorization no longer exists.',
  },
  ACME_NO_CHALLENGE: {
    title: 'No solver for the challenges of the CA',
    action:
      'Configure a solver for the name: a wildcard needs dns-01, an IP address http-01 or tls-alpn-01.',
  },
  ACME_NOT_OFFERED: {
    title: 'CA does not support the request',
    action: 'Use another CA: the directory of this one lacks the resource.',
  },
  ACME_ORDER_INVALID: {
    title: 'Order has failed or expired',
    action: 'Order again.',
  },
  ACME_ORDER_NOT_READY: {
    title: 'Order is not ready yet',
    action: 'None: it is checked again.',
  },
  ACME_PAUSED: {
    title: 'CA has paused the account for this name',
    action: 'Fix the failing validations, then open the URL in the message.',
  },
  ACME_PROBLEM: {
    title: 'CA refused the request',
    action: 'Read the detail, which has the reason of the CA.',
  },
  ACME_RATE_LIMITED: {
    title: 'Rate limit of the CA is reached',
    action:
      'Wait as long as the CA demands; place fewer orders, or put more names into a certificate.',
  },
  ACME_REJECTED_IDENTIFIER: {
    title: 'CA does not issue for the name',
    action: 'Use a public name that the CA permits, or your own CA.',
  },
  ACME_SERVER_INTERNAL: {
    title: 'CA has an internal error or is overloaded',
    action: 'Try again later; check the status page of the CA.',
  },
  ACME_TIMEOUT: {
    title: 'CA did not finish in time',
    action: 'None: the next attempt continues the order.',
  },
  ACME_TLS: {
    title: 'CA could not make a TLS connection to the name',
    action: 'Check which server answers on port 443 of the name, and that it supports TLS 1.2.',
  },
  ACME_UNAUTHORIZED: {
    title: 'CA did not authorize the request',
    action: 'Read the detail: a validation failed, or the account lacks the permission.',
  },
  ACME_UNREACHABLE: {
    title: 'CA cannot be reached',
    action:
      'Check `directory`, and DNS and network of this machine. A CA with a private root needs `caFile`.',
  },
  ACME_UNSUPPORTED_IDENTIFIER: {
    title: 'CA does not issue for this kind of name',
    action: 'Use another CA or profile: not all of them issue for IP addresses.',
  },
  ACME_USER_ACTION_REQUIRED: {
    title: 'CA requires action by a person',
    action: 'Open the URL in the message, often new terms of service to agree to.',
  },
} as const satisfies Record<`ACME_${string}`, { title: string; action: string }>

export type AcmeErrorCode = keyof typeof ACME_ERRORS

/** A problem of a single name (RFC 8555 section 6.7.1). */
export interface Subproblem {
  /** The type, without the prefix of ACME's URNs, such as `rateLimited`; other types are complete. */
  readonly type: string
  readonly detail: string
  readonly identifier?: Identifier
}

/** A problem document (RFC 8555 section 6.7). */
export interface Problem extends Pick<Subproblem, 'type' | 'detail'> {
  /** Status of the response; absent in the error of an order or a challenge. */
  readonly status?: number
  readonly subproblems: readonly Subproblem[]
}

export interface AcmeErrorOptions extends ErrorOptions {
  readonly problem?: Problem
  readonly isDecision?: boolean | undefined
  readonly retryAfterMs?: number | undefined
}

/** Characters. Bounds texts from other servers in logs, pages and stores. */
const MAX_MESSAGE = 4_000

/** An error with a stable `code`. */
export class AcmeError extends CodedError<AcmeErrorCode> {
  override readonly name = 'AcmeError'
  /** The problem document of the CA, if it refused. */
  readonly problem: Problem | undefined
  /** Whether the request asked for a decision, such as an order, and did not only read. */
  readonly isDecision: boolean
  /** Milliseconds until the next attempt, from Retry-After. */
  readonly retryAfterMs: number | undefined

  constructor(code: AcmeErrorCode, message: string, options: AcmeErrorOptions = {}) {
    super(code, message.slice(0, MAX_MESSAGE), options)
    this.problem = options.problem
    this.isDecision = options.isDecision ?? false
    this.retryAfterMs = options.retryAfterMs
  }
}

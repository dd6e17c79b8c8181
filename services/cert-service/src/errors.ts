import { ACME_ERRORS, type AcmeErrorCode } from '@gatehouse/acme'
import { CERT_STORE_ERRORS, TitledError } from '@gatehouse/cert-store'
import { CodedError } from '@gatehouse/net'
import { PKI_ERRORS } from '@gatehouse/pki'

export { hasCode } from '@gatehouse/cert-store'

interface ErrorRow {
  readonly status: number
  readonly title: string
  readonly action: string
}

/** The HTTP status of the errors of packages. */
const PACKAGE_STATUS = {
  CERT_BACKUP_INVALID: 500,
  CERT_FILE_EXISTS: 500,
  CERT_FILE_FAILED: 500,
  CERT_LEASE_LOST: 503,
  CERT_MASTER_KEY_EXPOSED: 500,
  CERT_MASTER_KEY_INVALID: 500,
  CERT_MASTER_KEY_MISPLACED: 500,
  CERT_MASTER_KEY_MISSING: 500,
  CERT_MASTER_KEY_WRONG: 500,
  CERT_SEAL_BROKEN: 500,
  CERT_STORE_CORRUPT: 503,
  CERT_STORE_LOCKED: 503,
  CERT_STORE_MISSING: 500,
  CERT_STORE_NEWER: 503,
  CERT_STORE_NOT_EMPTY: 500,
  CERT_STORE_OLDER: 500,
  CERT_STORE_UNAVAILABLE: 503,
  CERT_STORE_UNFINISHED: 500,
  CERT_STORE_UNRELEASED: 503,
} as const satisfies Record<keyof typeof CERT_STORE_ERRORS, number>

/** The errors that only the service itself throws. */
const OWN_ERRORS = {
  CERT_BUSY: {
    status: 503,
    title: 'Too many requests at once',
    action: 'Try again after the given time. Stored certificates are still answered.',
  },
  CERT_CALLER_LIMITED: {
    status: 429,
    title: 'Quota of the caller is used up',
    action:
      'Try again after the given time, request fewer names, or have an operator raise `limits` or delete certificates.',
  },
  CERT_CHALLENGE_UNKNOWN: {
    status: 404,
    title: 'Challenge not found',
    action: 'If a CA requested it, find out which host responds for the name. Otherwise ignore it.',
  },
  CERT_CRL_UNKNOWN: {
    status: 404,
    title: 'Revocation list not found',
    action: 'Request the list of an authority of this service, or omit `issuer`.',
  },
  CERT_DOCUMENT_TOO_LARGE: {
    status: 422,
    title: 'Too many certificates for one proxy',
    action: 'Give each proxy a key of its own with only the names that it serves in `domains`.',
  },
  CERT_ISSUER_ABSENT: {
    status: 409,
    title: 'Issuer is not configured',
    action:
      'Name a configured issuer. To revoke at the CA, configure it again; or delete the certificate instead.',
  },
  CERT_ISSUE_FAILED: {
    status: 503,
    title: 'Certificate could not be issued',
    action: 'The log shows the cause. The next attempt is made after the given time.',
  },
  CERT_KEY_COMPROMISED: {
    status: 422,
    title: 'Key is compromised',
    action:
      'Create a new key and a new CSR. A key that was revoked as compromised is never certified again.',
  },
  CERT_KEY_TYPE_CONFLICT: {
    status: 400,
    title: 'Key type conflicts with the CSR',
    action: 'Omit `keyType` if you send a `csr`: the key of the CSR is used.',
  },
  CERT_KEY_TYPE_REFUSED: {
    status: 422,
    title: 'Key type is not supported by the issuer',
    action: 'Request one of the key types in the message. The default is `p256`.',
  },
  CERT_KEY_UNRESTRICTED: {
    status: 403,
    title: 'API key is not limited to names',
    action: 'Give the proxy a key of its own with the names that it serves in `domains`.',
  },
  CERT_KEY_WITHHELD: {
    status: 403,
    title: 'Private keys are not for this caller',
    action:
      'Add `issue` to the rights of the key, or of the rule: only with it are private keys given.',
  },
  CERT_NAME_NOT_ALLOWED: {
    status: 403,
    title: 'Name is not allowed',
    action: 'Request a name that the key, claim or a rule grants to this caller.',
  },
  CERT_NOTHING_HELD: {
    status: 503,
    title: 'No certificate for this proxy yet',
    action:
      'List its names in `certificates`, or request each one once. The `domains` of its key must include every name of a certificate.',
  },
  CERT_NOT_FOUND: {
    status: 404,
    title: 'Certificate not found',
    action: 'Request it with POST /api/certificate first.',
  },
  CERT_NOT_PERMITTED: {
    status: 422,
    title: 'Name is outside the scope of the CA',
    action: 'Request a name within `ca.permitted`, or extend it and renew the intermediate.',
  },
  CERT_NO_ISSUER: {
    status: 422,
    title: 'No issuer signs all of the names',
    action:
      'Add a rule to `names` of the issuer (`=**.example.com` for wildcards at any depth), or request the names of each issuer separately. If the private CA is to sign public names, list all of its names in `ca.permitted`.',
  },
  CERT_ORDER_NOT_FOUND: {
    status: 404,
    title: 'Order not found',
    action: 'Use the `id` of a 202 answer. Finished orders are kept for a limited time.',
  },
  CERT_ORIGIN_FOREIGN: {
    status: 403,
    title: 'Form was sent from another site',
    action:
      'Open the page over HTTPS. A proxy in front must pass the Host header on, or be in `server.trustedProxies` and send `X-Forwarded-Host`.',
  },
  CERT_RATE_LIMITED: {
    status: 429,
    title: 'Rate limit of the CA is used up',
    action:
      'Wait: the certificate is ordered automatically at the given time. One certificate for several names, or a wildcard, uses less of the limit. Machines that share a name can share its certificate: get it without `--csr`.',
  },
  CERT_RENEW_TOO_SOON: {
    status: 429,
    title: 'Certificate is not due for renewal',
    action: 'Try again after the given time, or revoke the certificate to get a new one at once.',
  },
  CERT_ROOT_KEY_ABSENT: {
    status: 500,
    title: 'Root key is not in the store',
    action:
      'The key is offline or was brought by the operator. To sign an intermediate, set `ca.root.keyFile`.',
  },
  CERT_SIGN_IN_LIMITED: {
    status: 429,
    title: 'Too many invalid keys',
    action: 'Enter a configured key: a valid one is never refused.',
  },
  CERT_STORE_LOST: {
    status: 500,
    title: 'Store is missing, but its master key exists',
    action:
      'Check `storage.path` and what is mounted there, or restore a backup. To create a new CA on purpose, start once with `serve --new`.',
  },
  CERT_STORE_SHARED: {
    status: 500,
    title: 'Command is for a store in a folder',
    action: 'Use the tools of PostgreSQL for a database: see the guide about several replicas.',
  },
  CERT_TERMS_NOT_AGREED: {
    status: 503,
    title: 'Terms of service have not been agreed to',
    action: 'Read the terms of service of the CA, then set `agreeToTerms: true` for its issuer.',
  },
} as const satisfies Record<`CERT_${string}`, ErrorRow>

export type CertErrorCode = keyof typeof OWN_ERRORS | keyof typeof PACKAGE_STATUS

const rowOf = ([code, status]: [string, number]): [string, ErrorRow] => [
  code,
  { status, ...CERT_STORE_ERRORS[code as keyof typeof PACKAGE_STATUS] },
]

/** The errors of cert-service: HTTP status, meaning and what to do about it. */
export const CERT_ERRORS = Object.fromEntries(
  [...Object.entries(PACKAGE_STATUS).map(rowOf), ...Object.entries(OWN_ERRORS)].sort(),
) as Readonly<Record<CertErrorCode, ErrorRow>>

/** Errors of a CA that the same request would meet again. */
const REFUSED: readonly AcmeErrorCode[] = [
  'ACME_BAD_CSR',
  'ACME_BAD_KEY',
  'ACME_CAA',
  'ACME_INVALID_PROFILE',
  'ACME_REJECTED_IDENTIFIER',
  'ACME_UNSUPPORTED_IDENTIFIER',
]

/** The HTTP status of every error that reaches a client, including those of the packages. */
export const STATUS_OF: Readonly<Record<string, number>> = {
  ...Object.fromEntries(Object.keys(ACME_ERRORS).map((code) => [code, 503])),
  ...Object.fromEntries(REFUSED.map((code) => [code, 422])),
  ACME_BAD_REVOCATION_REASON: 400,
  ...Object.fromEntries(Object.entries(CERT_ERRORS).map(([code, { status }]) => [code, status])),
  PKI_CA_EXPIRING: 503,
  PKI_NAME_INVALID: 400,
  PKI_CSR_INVALID: 400,
  PKI_CSR_SIGNATURE: 400,
  PKI_KEY_WEAK: 400,
}

const ROWS: ReadonlyMap<string, { readonly title: string; readonly action: string }> = new Map(
  Object.entries({ ...CERT_ERRORS, ...PKI_ERRORS, ...ACME_ERRORS }),
)

/** What to do about an error, by its code; `undefined` for codes of other software. */
export function actionFor(code: string): string | undefined {
  return ROWS.get(code)?.action
}

/** An error of cert-service. `message` names the value that is at fault. */
export class CertError extends TitledError<CertErrorCode> {
  constructor(
    code: CertErrorCode,
    message: string,
    options?: ErrorOptions & Pick<TitledError, 'retryAfter' | 'members'>,
  ) {
    super(CERT_ERRORS, code, message, options)
  }
}

/** A failure to issue or revoke, mostly at a CA: it has the code of its cause and an action. */
export class IssueError extends CodedError<AcmeErrorCode | CertErrorCode | 'PKI_CA_EXPIRING'> {
  override readonly name = 'IssueError'
  readonly title: string
  readonly expose = true
  /** Seconds until the next automatic try. */
  readonly wait: number | undefined
  /** Seconds after which the client may try again; undefined if that is useless. */
  readonly retryAfter: number | undefined
  /** Path of the order, sent as `Location`. */
  readonly location: string | undefined
  readonly members: { readonly action?: string; readonly orderUrl?: string }

  constructor(
    code: IssueError['code'],
    message: string,
    options: ErrorOptions & { wait?: number; location?: string },
  ) {
    super(code, message, options)
    const { wait, location } = options
    const action = actionFor(code)
    this.title = ROWS.get(code)?.title ?? code
    this.wait = wait
    this.retryAfter = STATUS_OF[code] === 422 ? undefined : wait
    this.location = location
    this.members = {
      ...(action !== undefined && { action }),
      ...(location !== undefined && { orderUrl: location }),
    }
  }
}

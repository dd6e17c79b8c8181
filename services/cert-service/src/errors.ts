import { ACME_ERRORS, type AcmeErrorCode } from '@gatehouse/acme'
import { CodedError } from '@gatehouse/net'
import { PKI_ERRORS } from '@gatehouse/pki'

/** Seconds. */
const RETRY_AFTER = 5

interface ErrorRow {
  readonly status: number
  readonly title: string
  readonly action: string
}

/** The errors of cert-service: HTTP status, meaning and what to do about it. */
export const CERT_ERRORS = {
  CERT_BACKUP_INVALID: {
    status: 500,
    title: 'Backup is not valid',
    action: 'Use a complete file written by `backup`, of this version or an older one.',
  },
  CERT_BUSY: {
    status: 503,
    title: 'Too many requests at once',
    action: 'Try again after the given time. Stored certificates are still served.',
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
    action: 'Give each proxy its own key, with only the names that it serves in `domains`.',
  },
  CERT_FILE_EXISTS: {
    status: 500,
    title: 'File already exists',
    action: 'Name a file that does not exist yet. No file is overwritten.',
  },
  CERT_FILE_FAILED: {
    status: 500,
    title: 'File could not be written',
    action: 'Check the folder, its permissions and the free space, then try again.',
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
    action: 'Give the proxy its own key, with the names that it serves in `domains`.',
  },
  CERT_KEY_WITHHELD: {
    status: 403,
    title: 'Private keys are not for this caller',
    action: 'Add `issue` to the rights of the key or rule: callers without it get no private keys.',
  },
  CERT_LEASE_LOST: {
    status: 503,
    title: 'Another replica took over',
    action: 'Try again: the other replica issues the certificate.',
  },
  CERT_MASTER_KEY_EXPOSED: {
    status: 500,
    title: 'Master key is readable by others',
    action: 'Restrict the file to its owner (`chmod 600`) and consider `rekey`.',
  },
  CERT_MASTER_KEY_INVALID: {
    status: 500,
    title: 'Master key is not valid',
    action: 'Restore the file: 32 random bytes in base64, readable by the service.',
  },
  CERT_MASTER_KEY_MISPLACED: {
    status: 500,
    title: 'Master key is in the data folder',
    action: 'Move the file out of the data folder and set `storage.masterKeyFile` to its new path.',
  },
  CERT_MASTER_KEY_MISSING: {
    status: 500,
    title: 'Master key is missing',
    action: 'Restore the file at `storage.masterKeyFile`. Without it, no stored key can be read.',
  },
  CERT_MASTER_KEY_WRONG: {
    status: 500,
    title: 'Master key belongs to another store',
    action: 'Restore the master key that this data folder was created with.',
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
  CERT_SEAL_BROKEN: {
    status: 500,
    title: 'Sealed key cannot be opened',
    action: 'The store was modified by something else. Restore a backup.',
  },
  CERT_SIGN_IN_LIMITED: {
    status: 429,
    title: 'Too many invalid keys',
    action: 'Enter a configured key: a valid one is never refused.',
  },
  CERT_STORE_CORRUPT: {
    status: 503,
    title: 'Store is damaged',
    action: 'Stop the service, move the data folder away and restore a backup into an empty one.',
  },
  CERT_STORE_LOCKED: {
    status: 503,
    title: 'Store is in use',
    action:
      'Stop the other service first, or all replicas of a database. Each service needs its own data folder.',
  },
  CERT_STORE_LOST: {
    status: 500,
    title: 'Store is missing, but its master key exists',
    action:
      'Check `storage.path` and what is mounted there, or restore a backup. To create a new CA on purpose, start once with `serve --new`.',
  },
  CERT_STORE_MISSING: {
    status: 500,
    title: 'Store does not exist',
    action: 'Check `storage.path`. The service creates the store at its first start.',
  },
  CERT_STORE_NEWER: {
    status: 503,
    title: 'Store was written by a newer version',
    action: 'Run the version that wrote this store, or a newer one.',
  },
  CERT_STORE_NOT_EMPTY: {
    status: 500,
    title: 'Target is not empty',
    action: 'Name a folder that is empty or does not exist, or a database whose schema is empty.',
  },
  CERT_STORE_OLDER: {
    status: 500,
    title: 'Store is absent or was written by an older version',
    action: 'Start this version of the service on the store once, then stop it and try again.',
  },
  CERT_STORE_SHARED: {
    status: 500,
    title: 'Command is for a store in a folder',
    action: 'Use the tools of PostgreSQL for a database: see the guide about several replicas.',
  },
  CERT_STORE_UNAVAILABLE: {
    status: 503,
    title: 'Store is unavailable',
    action:
      'No data was lost. Check the disk and the permissions of the data folder, then try again.',
  },
  CERT_STORE_UNFINISHED: {
    status: 500,
    title: 'Store was not moved completely',
    action:
      'Run the same `move` again: it continues where it stopped. Or drop the schema, and continue with the old store.',
  },
  CERT_STORE_UNRELEASED: {
    status: 503,
    title: 'Store was written by a version that was never released',
    action:
      'Start with an empty folder, or with a schema that does not exist yet. Nothing converts such a store.',
  },
  CERT_TERMS_NOT_AGREED: {
    status: 503,
    title: 'Terms of service have not been agreed to',
    action: 'Read the terms of service of the CA, then set `agreeToTerms: true` for its issuer.',
  },
} as const satisfies Record<`CERT_${string}`, ErrorRow>

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

export type CertErrorCode = keyof typeof CERT_ERRORS

const ROWS: ReadonlyMap<string, { readonly title: string; readonly action: string }> = new Map(
  Object.entries({ ...CERT_ERRORS, ...PKI_ERRORS, ...ACME_ERRORS }),
)

/** What to do about an error, by its code; `undefined` for codes of other software. */
export function actionFor(code: string): string | undefined {
  return ROWS.get(code)?.action
}

/** An error of cert-service. `message` names the value that is at fault. */
export class CertError extends CodedError<CertErrorCode> {
  override readonly name = 'CertError'
  readonly title: string
  /** Seconds after which another try makes sense. */
  readonly retryAfter?: number
  /** Additional members of the problem (RFC 9457 section 3.2). */
  readonly members?: Readonly<Record<string, unknown>>

  constructor(
    code: CertErrorCode,
    message: string,
    options: ErrorOptions & Pick<CertError, 'retryAfter' | 'members'> = {},
  ) {
    super(code, message, options)
    this.title = CERT_ERRORS[code].title
    if (options.retryAfter !== undefined) this.retryAfter = options.retryAfter
    if (options.members !== undefined) this.members = options.members
  }
}

/** Whether an error is that one of cert-service. */
export function hasCode(error: unknown, code: CertErrorCode): error is CertError {
  return error instanceof CertError && error.code === code
}

/** The store cannot be used for a while; a client may try again in a few seconds. */
export function storeUnavailable(reason: string, cause?: unknown): CertError {
  const message = `The store cannot be used: ${reason}.`
  return new CertError('CERT_STORE_UNAVAILABLE', message, { cause, retryAfter: RETRY_AFTER })
}

export function leaseLost(lineage: string): CertError {
  return new CertError('CERT_LEASE_LOST', `The work on ${lineage} was taken over.`)
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

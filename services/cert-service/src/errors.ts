import { ACME_ERRORS, type AcmeErrorCode } from '@gatehouse/acme'
import { PKI_ERRORS } from '@gatehouse/pki'

interface ErrorRow {
  readonly status: number
  readonly title: string
  readonly action: string
}

/** Every error of cert-service: the status it is told with, what it means, and what to do about it. */
export const CERT_ERRORS = {
  CERT_BACKUP_INVALID: {
    status: 500,
    title: 'Backup not valid',
    action: 'Give a file that `backup` wrote, whole, from this version or an older one.',
  },
  CERT_BUSY: {
    status: 503,
    title: 'Too much at once',
    action: 'Try again after the given time; certificates that are held are still answered.',
  },
  CERT_CALLER_LIMITED: {
    status: 429,
    title: 'Limit of this caller used up',
    action:
      'Try again after the given time, ask for fewer names, or have an operator widen `limits` or delete what is not needed.',
  },
  CERT_CHALLENGE_UNKNOWN: {
    status: 404,
    title: 'No such challenge',
    action: 'Nothing, unless a CA asked: then see which host answers for the name.',
  },
  CERT_CRL_UNKNOWN: {
    status: 404,
    title: 'No such revocation list',
    action: 'Ask for the list of an authority that this service holds, or leave `issuer` out.',
  },
  CERT_DOCUMENT_TOO_LARGE: {
    status: 422,
    title: 'Too many certificates for one proxy',
    action: 'Give each proxy a key of its own, whose `domains` are only the names that it serves.',
  },
  CERT_FILE_EXISTS: {
    status: 500,
    title: 'File exists',
    action: 'Name a file that does not exist yet: nothing is overwritten.',
  },
  CERT_FILE_FAILED: {
    status: 500,
    title: 'File not written',
    action: 'Look at the folder, its permissions and the room on its disk, then try again.',
  },
  CERT_ISSUER_ABSENT: {
    status: 409,
    title: 'No such issuer',
    action:
      'Name an issuer of the configuration; to revoke at its CA, add it again, or delete the certificate instead.',
  },
  CERT_ISSUE_FAILED: {
    status: 503,
    title: 'Certificate could not be issued',
    action: 'See the log for the cause; the next try is made after the given time.',
  },
  CERT_KEY_COMPROMISED: {
    status: 422,
    title: 'Key known to be compromised',
    action:
      'Make a new key and a new CSR: a key that was revoked as compromised is never certified again.',
  },
  CERT_KEY_TYPE_CONFLICT: {
    status: 400,
    title: 'Key type and request disagree',
    action: 'Leave `keyType` out where a `csr` is sent: its key is what it is.',
  },
  CERT_KEY_TYPE_REFUSED: {
    status: 422,
    title: 'Kind of key not certified',
    action: 'Ask for a kind of key that the message names; `p256` is the default.',
  },
  CERT_KEY_UNRESTRICTED: {
    status: 403,
    title: 'Key not limited to names',
    action: 'Give the proxy a key of its own, whose `domains` are the names that it serves.',
  },
  CERT_MASTER_KEY_EXPOSED: {
    status: 500,
    title: 'Master key readable by others',
    action: 'Take the file away from others (`chmod 600`), then think about `rekey`.',
  },
  CERT_MASTER_KEY_INVALID: {
    status: 500,
    title: 'Master key not valid',
    action: 'Restore the file: 32 random bytes in base64, readable by the service.',
  },
  CERT_MASTER_KEY_MISPLACED: {
    status: 500,
    title: 'Master key beside the data',
    action:
      'Move the file out of the data folder and set `storage.masterKeyFile` to its new place.',
  },
  CERT_MASTER_KEY_MISSING: {
    status: 500,
    title: 'Master key missing',
    action:
      'Put the file back where `storage.masterKeyFile` says; without it no stored key can be read.',
  },
  CERT_MASTER_KEY_WRONG: {
    status: 500,
    title: 'Master key of another store',
    action: 'Put back the master key that this data folder was made with.',
  },
  CERT_NAME_NOT_ALLOWED: {
    status: 403,
    title: 'Name not allowed',
    action: 'Ask for a name that the key, claim or rule of this caller grants.',
  },
  CERT_NOTHING_HELD: {
    status: 503,
    title: 'No certificate for this proxy yet',
    action:
      'List its names under `certificates`, or ask for each once; the `domains` of its key must hold every name of a certificate.',
  },
  CERT_NOT_FOUND: {
    status: 404,
    title: 'No such certificate',
    action: 'Ask for it with POST /api/certificate first.',
  },
  CERT_NOT_PERMITTED: {
    status: 422,
    title: 'No authority may sign this name',
    action: 'Ask for a name that `ca.permitted` holds, or widen it and renew the intermediate.',
  },
  CERT_ORDER_NOT_FOUND: {
    status: 404,
    title: 'No such order',
    action: 'Use the `id` of a 202 answer; finished orders are kept for a while only.',
  },
  CERT_ORIGIN_FOREIGN: {
    status: 403,
    title: 'Form of another site',
    action:
      'Open the page over HTTPS; a proxy in front passes the Host header on, or is in `server.trustedProxies` and sends `X-Forwarded-Host`.',
  },
  CERT_RATE_LIMITED: {
    status: 429,
    title: 'Limit of the CA used up',
    action:
      'Wait: it is ordered at the given time by itself. One certificate for several names, or a wildcard, takes less of the limit.',
  },
  CERT_RENEW_TOO_SOON: {
    status: 429,
    title: 'Not due for renewal',
    action: 'Try again after the given time, or revoke the certificate to get a new one at once.',
  },
  CERT_ROOT_KEY_ABSENT: {
    status: 500,
    title: 'No root key in the store',
    action:
      'The key is offline or was brought along; to sign an intermediate, set `ca.root.keyFile`.',
  },
  CERT_SEAL_BROKEN: {
    status: 500,
    title: 'Sealed key cannot be opened',
    action: 'The store was changed by something else: restore a backup.',
  },
  CERT_SIGN_IN_LIMITED: {
    status: 429,
    title: 'Too many keys that are not valid',
    action: 'Enter one of the configured keys: a valid one is never refused.',
  },
  CERT_STORE_CORRUPT: {
    status: 503,
    title: 'Store damaged',
    action: 'Stop the service, keep the data folder aside and restore a backup into an empty one.',
  },
  CERT_STORE_LOCKED: {
    status: 503,
    title: 'Data folder in use',
    action: 'Stop the other service first, or give this one a data folder of its own.',
  },
  CERT_STORE_LOST: {
    status: 500,
    title: 'Master key without a store',
    action:
      'Look at `storage.path` and at what is mounted there, or restore a backup. For a new CA on purpose start once with `serve --new`.',
  },
  CERT_STORE_MISSING: {
    status: 500,
    title: 'No store',
    action: 'Look at `storage.path`: the service makes the store when it first starts.',
  },
  CERT_STORE_NEWER: {
    status: 503,
    title: 'Store of a newer version',
    action: 'Run the version that wrote this store, or a newer one.',
  },
  CERT_STORE_NOT_EMPTY: {
    status: 500,
    title: 'Data folder not empty',
    action: 'Restore into a folder that is empty or does not exist.',
  },
  CERT_STORE_UNAVAILABLE: {
    status: 503,
    title: 'Store unavailable',
    action:
      'Nothing was lost. Look at the disk and the permissions of the data folder, then try again.',
  },
  CERT_TERMS_NOT_AGREED: {
    status: 503,
    title: 'Terms of the CA not agreed to',
    action: 'Read the terms of service of the CA, then set `agreeToTerms: true` at its issuer.',
  },
} as const satisfies Record<`CERT_${string}`, ErrorRow>

/** What a CA refuses for good: the same request would be refused again. */
const REFUSED: readonly AcmeErrorCode[] = [
  'ACME_BAD_CSR',
  'ACME_BAD_KEY',
  'ACME_CAA',
  'ACME_INVALID_PROFILE',
  'ACME_REJECTED_IDENTIFIER',
  'ACME_UNSUPPORTED_IDENTIFIER',
]

/** The status of every error that may be told to a client, those of the packages too. */
export const STATUS_OF: Readonly<Record<string, number>> = {
  ...Object.fromEntries(Object.keys(ACME_ERRORS).map((code) => [code, 503])),
  ...Object.fromEntries(REFUSED.map((code) => [code, 422])),
  ACME_BAD_REVOCATION_REASON: 400,
  ...Object.fromEntries(Object.entries(CERT_ERRORS).map(([code, { status }]) => [code, status])),
  PKI_NAME_INVALID: 400,
  PKI_CSR_INVALID: 400,
  PKI_CSR_SIGNATURE: 400,
  PKI_KEY_WEAK: 400,
}

export type CertErrorCode = keyof typeof CERT_ERRORS

const ROWS: ReadonlyMap<string, { readonly title: string; readonly action: string }> = new Map(
  Object.entries({ ...CERT_ERRORS, ...PKI_ERRORS, ...ACME_ERRORS }),
)

/** What to do about an error, by its code; undefined for codes that are not ours. */
export function actionFor(code: string): string | undefined {
  return ROWS.get(code)?.action
}

/** An error of cert-service; `code` is stable, `message` says what was wrong with which value. */
export class CertError extends Error {
  override readonly name = 'CertError'
  readonly code: CertErrorCode
  readonly title: string
  /** Seconds after which another try makes sense. */
  readonly retryAfter?: number
  /** Path of the order that it is about. */
  readonly location?: string
  /** Further members of the problem (RFC 9457 section 3.2). */
  readonly members?: Readonly<Record<string, unknown>>

  constructor(
    code: CertErrorCode,
    message: string,
    options: ErrorOptions & Pick<CertError, 'retryAfter' | 'location' | 'members'> = {},
  ) {
    super(message, options)
    this.code = code
    this.title = CERT_ERRORS[code].title
    if (options.retryAfter !== undefined) this.retryAfter = options.retryAfter
    if (options.location !== undefined) this.location = options.location
    if (options.members !== undefined) this.members = options.members
  }
}

/**
 * A failure to issue or to revoke, mostly somebody else's: told with the code of its cause, in plain
 * words, and with what to do about it.
 */
export class IssueError extends Error {
  override readonly name = 'IssueError'
  readonly code: string
  readonly title: string
  readonly expose = true
  /** Seconds until it is tried again, whether or not that is told. */
  readonly wait: number | undefined
  /** Seconds after which another try makes sense; absent where none does. */
  readonly retryAfter?: number
  /** Path of the order that it is about. */
  readonly location?: string
  readonly members: { readonly action?: string; readonly orderUrl?: string }

  constructor(
    code: AcmeErrorCode | CertErrorCode,
    message: string,
    options: ErrorOptions & { wait?: number; location?: string } = {},
  ) {
    super(message, options)
    const { wait, location } = options
    const action = actionFor(code)
    this.code = code
    this.title = ROWS.get(code)?.title ?? code
    this.wait = wait
    if (wait !== undefined && STATUS_OF[code] !== 422) this.retryAfter = wait
    if (location !== undefined) this.location = location
    this.members = {
      ...(action !== undefined && { action }),
      ...(location !== undefined && { orderUrl: location }),
    }
  }
}

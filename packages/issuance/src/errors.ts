import { ACME_ERRORS, type AcmeErrorCode } from '@gatehouse/acme'
import { CodedError, TitledError, type TitledErrorOptions } from '@gatehouse/net'
import { PKI_ERRORS } from '@gatehouse/pki'

/** The errors of this package, each with a title and what to do about it. */
export const ISSUANCE_ERRORS = {
  CERT_BUSY: {
    title: 'Too many requests at once',
    action: 'Try again after the given time. Stored certificates are still served.',
  },
  CERT_CALLER_LIMITED: {
    title: 'Quota of the caller is used up',
    action:
      'Try again after the given time, request fewer names, or have an operator raise `limits` or delete certificates.',
  },
  CERT_ISSUE_FAILED: {
    title: 'Certificate could not be issued',
    action: 'The log shows the cause. The next attempt is made after the given time.',
  },
  CERT_KEY_COMPROMISED: {
    title: 'Key is compromised',
    action:
      'Create a new key and a new CSR. A key that was revoked as compromised is never certified again.',
  },
  CERT_KEY_TYPE_CONFLICT: {
    title: 'Key type conflicts with the CSR',
    action: 'Omit `keyType` if you send a `csr`: the key of the CSR is used.',
  },
  CERT_KEY_TYPE_REFUSED: {
    title: 'Key type is not supported by the issuer',
    action: 'Request one of the key types in the message. The default is `p256`.',
  },
  CERT_LIFETIME_REFUSED: {
    title: 'Lifetime is not possible',
    action:
      'Ask for a lifetime in the range of the message, or leave it out: then the certificate lives as long as its ' +
      'issuer decides. An operator can raise `ca.maxLifetime`, or the `lifetime` of the rule or key.',
  },
  CERT_NOT_FOUND: {
    title: 'Nothing has this name or ID',
    action:
      'Check the name or ID. A certificate is there once it was requested with POST /api/certificate.',
  },
  CERT_NOT_PERMITTED: {
    title: 'Name is outside the scope of the CA',
    action: 'Request a name within `ca.permitted`, or extend it and renew the intermediate.',
  },
  CERT_NO_ISSUER: {
    title: 'No issuer signs all of the names',
    action:
      'Add a rule to `names` of the issuer (`=**.example.com` for wildcards at any depth), or ' +
      'request the names of each issuer separately. If the private CA is to sign public names, ' +
      'list all of its names in `ca.permitted`.',
  },
  CERT_RATE_LIMITED: {
    title: 'Rate limit of the CA is used up',
    action:
      'Wait: the certificate is ordered automatically at the given time. One certificate for ' +
      'several names, or a wildcard, uses less of the limit. Machines that share a name can share ' +
      'its certificate: get it without `--csr`. What is beyond the share of one caller, an operator can request.',
  },
  CERT_ROLL_REFUSED: {
    title: 'Step of the roll is not possible now',
    action: 'See `gatehouse-certs ca roll status` for the stage and the next step.',
  },
  CERT_ROLL_ROOT: {
    title: 'Root cannot be rolled to or from',
    action:
      'The message says what is wrong. The new root is a valid CA certificate that is signed by itself, with a name and ' +
      'key of its own, and allows an intermediate below it. `--root-key` sends its key along, and `--signer-key` that of the old root.',
  },
  CERT_ROOT_KEY_ABSENT: {
    title: 'Root key is not in the store',
    action:
      'The key is offline or was brought by the operator. To sign an intermediate, such as the first one for ' +
      'client certificates, set `ca.root.keyFile`. All else works without it.',
  },
  CERT_TERMS_NOT_AGREED: {
    title: 'Terms of service have not been agreed to',
    action: 'Read the terms of service of the CA, then set `agreeToTerms: true` for its issuer.',
  },
} as const satisfies Record<`CERT_${string}`, { title: string; action: string }>

export type IssuanceErrorCode = keyof typeof ISSUANCE_ERRORS

/** Codes that the same request would meet again. */
export const FINAL_CODES: readonly (AcmeErrorCode | IssuanceErrorCode)[] = [
  'ACME_BAD_CSR',
  'ACME_BAD_KEY',
  'ACME_CAA',
  'ACME_INVALID_PROFILE',
  'ACME_REJECTED_IDENTIFIER',
  'ACME_UNSUPPORTED_IDENTIFIER',
  'CERT_KEY_COMPROMISED',
  'CERT_KEY_TYPE_REFUSED',
  'CERT_NOT_PERMITTED',
  'CERT_NO_ISSUER',
]

/** An error of this package. `message` names the value that is at fault. */
export class IssuanceError extends TitledError<IssuanceErrorCode> {
  override readonly name = 'CertError'

  constructor(code: IssuanceErrorCode, message: string, options?: TitledErrorOptions) {
    super(ISSUANCE_ERRORS, code, message, options)
  }
}

const ROWS = { ...ISSUANCE_ERRORS, PKI_CA_EXPIRED: PKI_ERRORS.PKI_CA_EXPIRED, ...ACME_ERRORS }

/** The times at which an order failed and is tried next, RFC 3339. */
type IssueTimes = Readonly<Record<'failedAt' | 'nextTryAt', string>>

/** A failure to issue or revoke, mostly at a CA: it has the code of its cause and an action. */
export class IssueError extends CodedError<keyof typeof ROWS> {
  override readonly name = 'IssueError'
  readonly title: string
  readonly expose = true
  /** Seconds until the next automatic try. */
  readonly wait: number | undefined
  /** Seconds after which the client may try again; undefined if that is useless. */
  readonly retryAfter: number | undefined
  /** Path of the order, sent as `Location`. */
  readonly location: string | undefined
  readonly members: Partial<IssueTimes> & { readonly action: string; readonly orderUrl?: string }

  constructor(
    code: IssueError['code'],
    message: string,
    options: ErrorOptions & { wait?: number; location?: string; times?: IssueTimes },
  ) {
    super(code, message, options)
    const { wait, location, times } = options
    const { title, action } = ROWS[code]
    this.title = title
    this.wait = wait
    this.retryAfter = FINAL_CODES.some((final) => final === code) ? undefined : wait
    this.location = location
    this.members = { action, ...(location !== undefined && { orderUrl: location }), ...times }
  }
}

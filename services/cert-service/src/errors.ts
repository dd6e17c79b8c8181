import { ACME_ERRORS } from '@gatehouse/acme'
import { AUTH_ERRORS } from '@gatehouse/auth-core'
import { CERT_STORE_ERRORS } from '@gatehouse/cert-store'
import { FINAL_CODES, ISSUANCE_ERRORS } from '@gatehouse/issuance'
import { TitledError, type TitledErrorOptions } from '@gatehouse/net'
import { PKI_ERRORS } from '@gatehouse/pki'
import { STORE_ERRORS } from '@gatehouse/store'

interface ErrorRow {
  readonly status: number
  readonly title: string
  readonly action: string
}

const PACKAGE_ERRORS = { ...CERT_STORE_ERRORS, ...ISSUANCE_ERRORS }

/** The HTTP status of the errors of packages: 500 for all others. */
const PACKAGE_STATUS: Partial<Record<keyof typeof PACKAGE_ERRORS, number>> = {
  CERT_BUSY: 503,
  CERT_CALLER_LIMITED: 429,
  CERT_ISSUE_FAILED: 503,
  CERT_KEY_TYPE_CONFLICT: 400,
  CERT_LIFETIME_REFUSED: 400,
  CERT_LEASE_LOST: 503,
  CERT_NOT_FOUND: 404,
  CERT_ORDER_ENDED: 503,
  CERT_RATE_LIMITED: 429,
  CERT_ROLL_REFUSED: 409,
  CERT_ROLL_ROOT: 422,
  CERT_ROOT_KEY_ABSENT: 503,
  CERT_TERMS_NOT_AGREED: 503,
  ...Object.fromEntries(FINAL_CODES.map((code) => [code, 422])),
}

const OWN_ERRORS = {
  CERT_DOCUMENT_TOO_LARGE: {
    status: 422,
    title: 'Too many certificates for one proxy',
    action: 'Give each proxy its own key, with only the names that it serves in `domains`.',
  },
  CERT_ISSUER_ABSENT: {
    status: 409,
    title: 'Issuer is not configured',
    action:
      'Name a configured issuer. To revoke at the CA, configure it again; or delete the certificate instead.',
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
  CERT_ORDER_NOT_FOUND: {
    status: 404,
    title: 'Order not found',
    action: 'Use the `id` of a 202 answer. Finished orders are kept for a limited time.',
  },
  CERT_ORIGIN_FOREIGN: {
    status: 403,
    title: 'Form was sent from another site',
    action:
      'Open the page over HTTPS. A proxy in front must pass the Host header on, or be in ' +
      '`server.trustedProxies` and send `X-Forwarded-Host`.',
  },
  CERT_RENEW_TOO_SOON: {
    status: 429,
    title: 'Certificate is not due for renewal',
    action: 'Try again after the given time, or revoke the certificate to get a new one at once.',
  },
  CERT_SIGN_IN_LIMITED: {
    status: 429,
    title: 'Too many invalid keys',
    action: 'Enter a configured key: a valid one is never refused.',
  },
} as const satisfies Record<`CERT_${string}`, ErrorRow>

export type CertErrorCode = keyof typeof OWN_ERRORS | keyof typeof PACKAGE_ERRORS

const rowOf = ([code, row]: [string, Omit<ErrorRow, 'status'>]): [string, ErrorRow] => {
  const status = PACKAGE_STATUS[code as keyof typeof PACKAGE_ERRORS] ?? 500
  return [code, { status, ...row }]
}

export const CERT_ERRORS = Object.fromEntries(
  [...Object.entries(PACKAGE_ERRORS).map(rowOf), ...Object.entries(OWN_ERRORS)].sort(),
) as Readonly<Record<CertErrorCode, ErrorRow>>

/** The HTTP status of every error that reaches a client, including those of the packages. */
export const STATUS_OF: Readonly<Record<string, number>> = {
  ...Object.fromEntries(Object.keys(ACME_ERRORS).map((code) => [code, 503])),
  ...Object.fromEntries(FINAL_CODES.map((code) => [code, 422])),
  ACME_BAD_REVOCATION_REASON: 400,
  ...Object.fromEntries(Object.entries(CERT_ERRORS).map(([code, { status }]) => [code, status])),
  PKI_CA_EXPIRED: 503,
  PKI_CLIENT_REFUSED: 401,
  PKI_NAME_INVALID: 400,
  PKI_CSR_INVALID: 400,
  PKI_KEY_WEAK: 400,
  STORE_CORRUPT: 503,
  STORE_LOCKED: 503,
  STORE_NEWER: 503,
  STORE_REFUSED: 503,
  STORE_UNAVAILABLE: 503,
  STORE_UNRELEASED: 503,
}

/** The errors of cert-service and of its packages. */
export const ERROR_TABLES = [CERT_ERRORS, AUTH_ERRORS, PKI_ERRORS, ACME_ERRORS, STORE_ERRORS]
const ROWS = ERROR_TABLES.flatMap((table) => Object.entries(table))
const ACTIONS = new Map(ROWS.map(([code, { action }]) => [code, action]))

/** Finds what to do about an error, by its code; `undefined` for codes of other software. */
export function actionFor(code: string): string | undefined {
  return ACTIONS.get(code)
}

/** An error of cert-service. `message` names the value that is at fault. */
export class CertError extends TitledError<CertErrorCode> {
  override readonly name = 'CertError'

  constructor(code: CertErrorCode, message: string, options?: TitledErrorOptions) {
    super(CERT_ERRORS, code, message, options)
  }
}

const UNTRUSTED = 'its certificate is of a CA that is not trusted here'
const OTHER_NAME = 'its certificate is for another name'

/** The certificate of a server is refused: codes of OpenSSL, as Node gives them. */
const CERTIFICATE_FAULTS: Readonly<Record<string, string>> = {
  CERT_CHAIN_TOO_LONG: UNTRUSTED,
  CERT_HAS_EXPIRED: 'its certificate has expired, by the clock of this machine',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet, by the clock of this machine',
  CERT_REJECTED: UNTRUSTED,
  CERT_REVOKED: 'its certificate is revoked',
  CERT_SIGNATURE_FAILURE: UNTRUSTED,
  CERT_UNTRUSTED: UNTRUSTED,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID: OTHER_NAME,
  HOSTNAME_MISMATCH: OTHER_NAME,
  INVALID_CA: UNTRUSTED,
  INVALID_PURPOSE: 'its certificate is not that of a server',
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  // Node has no other code for name constraints.
  UNSPECIFIED:
    'its certificate breaks a rule of its CA, such as the names that the CA may issue for',
}

const MEANINGS: Readonly<Record<string, string>> = {
  ...CERTIFICATE_FAULTS,
  EAI_AGAIN: 'DNS gives no answer for its name',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'it closed the connection',
  EHOSTUNREACH: 'there is no way to it from here',
  ENETUNREACH: 'there is no way to it from here',
  ENOTFOUND: 'DNS does not know its name',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS at that port',
  ETIMEDOUT: 'it does not answer',
  UND_ERR_CONNECT_TIMEOUT: 'it does not answer',
  UND_ERR_SOCKET: 'it closed the connection',
}

/** Says what a code of a failed connection means, such as `ECONNREFUSED, nothing listens there`. */
export function describeConnectionFault(code: string): string {
  const meaning = MEANINGS[code]
  return meaning === undefined ? code : `${code}, ${meaning}`
}

/** Returns what is wrong with the certificate of a server; undefined if the code is about something else. */
export function certificateFault(code: string): string | undefined {
  return CERTIFICATE_FAULTS[code]
}

/** The code of an error, or of the first of those at several addresses; empty without one. */
export function codeOf(error: unknown): string {
  const { code, errors } = Object(error) as { code?: unknown; errors?: unknown[] }
  if (typeof code === 'string') return code
  return errors?.length ? codeOf(errors[0]) : ''
}

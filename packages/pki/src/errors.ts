import { CodedError } from '@gatehouse/net'

/** The errors of this package, each with a title and what to do about it. */
export const PKI_ERRORS = {
  PKI_NAME_INVALID: {
    title: 'Name is not valid',
    action:
      'Use a DNS name (`app.example.com`), a wildcard (`*.example.com`) or an IP address; for a client ' +
      'certificate a DNS name, an e-mail address in lower case or a SPIFFE ID (`spiffe://example.com/app`).',
  },
  PKI_RULE_INVALID: {
    title: 'Name rule is not valid',
    action:
      'Use `x` for exactly x, `*.x` for everything below x, `=*.x` for the wildcard certificate, `=**.x` for ' +
      'those of x and all below it, `*` for everything, or a network such as `10.0.0.0/8`; for client ' +
      'certificates `a@x`, `*@x`, `spiffe://x/a` or `spiffe://x/*`.',
  },
  PKI_PEM_INVALID: {
    title: 'PEM is not valid',
    action: 'Provide the whole block, from its BEGIN line to its END line.',
  },
  PKI_KEY_INVALID: {
    title: 'Key cannot be read',
    action: 'Use an unencrypted private key in PEM, preferably PKCS#8.',
  },
  PKI_KEY_WEAK: {
    title: 'Key is weak or not supported',
    action:
      'Use P-256, P-384, Ed25519 (not for an authority), or RSA of 2048, 3072 or 4096 bits with exponent 65537.',
  },
  PKI_KEY_QUEUE_FULL: {
    title: 'Too many RSA keys are being generated',
    action: 'Try again later, or ask for a P-256 key.',
  },
  PKI_CSR_INVALID: {
    title: 'Certificate request is not valid',
    action:
      'Provide a PKCS#10 request for DNS names and IP addresses only; for a client certificate one for ' +
      'DNS names, e-mail addresses and SPIFFE IDs.',
  },
  PKI_CERTIFICATE_INVALID: {
    title: 'Certificate cannot be read',
    action: 'Provide an X.509 certificate in DER, or in PEM where PEM is accepted.',
  },
  PKI_CLIENT_REFUSED: {
    title: 'Client certificate is refused',
    action:
      'Present a certificate for clients alone that a trusted authority signed and that is valid now.',
  },
  PKI_SUBJECT_INVALID: {
    title: 'Common name is not valid',
    action: 'Use a common name of 1 to 64 characters.',
  },
  PKI_CA_INVALID: {
    title: 'Not a usable CA certificate',
    action:
      'Use a CA certificate with basicConstraints CA:TRUE, keyUsage keyCertSign and cRLSign, a subject key ' +
      'identifier, and a signature by SHA-256 or better.',
  },
  PKI_CA_CHAIN: {
    title: 'Certificate chain is broken',
    action: 'Put the certificate of the authority first, then the one that signed it, and so on.',
  },
  PKI_CA_PATH_LENGTH: {
    title: 'Path length is exhausted',
    action: 'Use an authority whose pathLenConstraint allows another certificate below it.',
  },
  PKI_CA_EXPIRED: {
    title: 'Authority has ended, ends too soon to sign, or has not begun',
    action:
      'Replace the root or intermediate that ends, or set the clock: see the guide of the embedded CA.',
  },
  PKI_CA_KEY_INVALID: {
    title: 'Authority has no private key that belongs to it',
    action: 'Provide the private key that belongs to the certificate of the authority.',
  },
} as const satisfies Record<`PKI_${string}`, { title: string; action: string }>

export type PkiErrorCode = keyof typeof PKI_ERRORS

/** An error of this package. */
export class PkiError extends CodedError<PkiErrorCode> {
  override readonly name = 'PkiError'
}

import { hash, X509Certificate } from 'node:crypto'
import { attempt } from '@gatehouse/net'
import {
  buildChainPem,
  fromPem,
  parseCertificate,
  REVOCATION_REASONS,
  type RevocationReason,
} from '@gatehouse/pki'
import { AcmeError } from '../errors.ts'
import { type Identifier, sameIdentifiers, toIdentifier } from '../identifier.ts'
import { type AcmeRequest, type AcmeResponse, linksOf, refuse } from './request.ts'

const MAX_CHAIN = 10

/** Gets a chain, DER, and the URLs of other chains of the same leaf (RFC 8555 section 7.4.2). */
export const downloadCertificate = (url: URL): AcmeRequest<ReturnType<typeof toDownload>> => ({
  to: url,
  accept: 'application/pem-certificate-chain',
  process: toDownload,
})

function toDownload(response: AcmeResponse) {
  const chain = readChain(response)
  if (chain.length > MAX_CHAIN) throw refuse(response, 'answered with too long a chain')
  return { chain, alternates: linksOf(response, 'alternate') }
}

function readChain(response: AcmeResponse): Buffer[] {
  try {
    const chain = fromPem(response.body.toString('latin1'), 'CERTIFICATE')
    chain.forEach(parseCertificate)
    return chain
  } catch (cause) {
    throw refuse(response, 'not answered with certificates', cause)
  }
}

/**
 * Verifies that a chain is the ordered one: its key, its names, and that each certificate is issued by
 * the next. Gives the chain in PEM.
 */
export function acceptChain(
  chain: readonly Buffer[],
  ordered: { readonly spkiSha256: string; readonly identifiers: readonly Identifier[] },
): string {
  const [leaf, ...issuers] = chain as [Buffer, ...Buffer[]]
  const { spki, names } = parseCertificate(leaf)
  const mismatch = (why: string) => new AcmeError('ACME_CERTIFICATE_MISMATCH', why)
  if (hash('sha256', spki) !== ordered.spkiSha256)
    throw mismatch('the certificate is for another key')
  if (!sameIdentifiers(names.map(toIdentifier), ordered.identifiers))
    throw mismatch('the certificate has other names')
  const x509 = chain.map((der) => new X509Certificate(der))
  if (!x509.slice(1).every((issuer, i) => isIssuedBy(x509[i], issuer)))
    throw new AcmeError('ACME_ANSWER_INVALID', 'the chain of the certificate is not in order')
  return buildChainPem(leaf, issuers)
}

function isIssuedBy(subject: X509Certificate | undefined, issuer: X509Certificate): boolean {
  // OpenSSL may not know the kind of the key.
  return attempt(() => subject?.checkIssued(issuer) && subject.verify(issuer.publicKey)) ?? false
}

/** Whether the issuer of the last certificate in the chain has that common name. */
export function leadsTo(chain: readonly Buffer[], commonName: string): boolean {
  const { issuer } = parseCertificate(chain.at(-1) as Buffer)
  return issuer.split('\n').includes(`CN=${commonName}`)
}

/**
 * Revokes a certificate, DER. The request is signed by the account that ordered it or by the key of the
 * certificate (RFC 8555 section 7.6).
 */
export function revokeCertificate(
  certificate: Uint8Array,
  reason?: RevocationReason,
): AcmeRequest<void> {
  return {
    to: 'revokeCert',
    isDecision: true,
    payload: () => ({
      certificate: Buffer.from(certificate).toString('base64url'),
      ...(reason && { reason: REVOCATION_REASONS[reason] }),
    }),
    process: () => {},
  }
}

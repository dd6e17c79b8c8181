import { hash, X509Certificate } from 'node:crypto'
import { buildChainPem, type CertificateInfo, fromPem, parseCertificate } from '@gatehouse/pki'
import { AcmeError } from '../errors.ts'
import { type Identifier, sameIdentifiers, toIdentifier } from '../identifier.ts'
import { type Answer, linksOf, refuse } from './answer.ts'
import type { Call } from './call.ts'

/** A certificate as the CA gives it (RFC 8555 section 7.4.2). */
export interface Download {
  /** DER, the leaf first. */
  readonly chain: readonly Buffer[]
  /** Where the same leaf is to be had with another chain. */
  readonly alternates: readonly URL[]
}

export function downloadCertificate(url: URL): Call<Download> {
  return { to: url, accept: 'application/pem-certificate-chain', process: toDownload }
}

const MAX_CHAIN = 10

function toDownload(answer: Answer): Download {
  const chain = readChain(answer)
  if (chain.length > MAX_CHAIN) throw refuse(answer, 'answered with too long a chain')
  return { chain, alternates: linksOf(answer, 'alternate') }
}

function readChain(answer: Answer): Buffer[] {
  try {
    const chain = fromPem(answer.body.toString('latin1'), 'CERTIFICATE')
    chain.forEach(parseCertificate)
    return chain
  } catch (cause) {
    throw refuse(answer, 'not answered with certificates', cause)
  }
}

/**
 * The chain in PEM, written anew, once it is sure that it is what was ordered: the key, the names,
 * and each certificate issued by the next.
 *
 * @throws AcmeError `ACME_CERTIFICATE_MISMATCH`; `ACME_ANSWER_INVALID` if only the chain is broken
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
  try {
    return subject?.checkIssued(issuer) === true && subject.verify(issuer.publicKey)
  } catch {
    // Its key is of a kind that OpenSSL does not know.
    return false
  }
}

/** Whether the chain leads to that common name: the issuer of its last certificate. */
export function leadsTo(chain: readonly Buffer[], commonName: string): boolean {
  const issuers = chain
    .slice(-1)
    .map((der): CertificateInfo['issuer'] => parseCertificate(der).issuer)
  return issuers.some((issuer) => issuer.split('\n').includes(`CN=${commonName}`))
}

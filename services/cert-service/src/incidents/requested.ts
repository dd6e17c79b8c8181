import type { IssuedCertificate } from '@gatehouse/cert-store/port'
import { isEmbedded } from '@gatehouse/issuance/request'
import type { RevocationReason } from '@gatehouse/pki'
import type { FastifyInstance } from 'fastify'
import { pagesOf } from '../routes/withdraw.ts'

/** As many as one caller may have. */
export const MAX_ACCOUNTS = 10_000

/** The name of the caller with an API key, as the audit trail has it. */
export const actorOf = (key: string) => `psk:${key}`

/**
 * Lists what a key has got before a time and what is neither expired nor revoked, page by page, in service or not: what was
 * replaced is valid still. An ACME client may have some of it twice.
 */
export async function* requestedBy(
  { store, clock }: FastifyInstance,
  key: string,
  before: number,
): AsyncGenerator<readonly IssuedCertificate[]> {
  const now = clock.now()
  const isFit = ({ notAfter, madeAt = 0 }: IssuedCertificate) => notAfter >= now && madeAt < before
  const listHeads = (after?: IssuedCertificate) => store.listRequested(actorOf(key), { now, after })
  // What was replaced counts for nobody: it has the request key of what counts, which may be revoked.
  for await (const heads of pagesOf(listHeads, () => true)) {
    const requestKeys = new Set(heads.map(({ requestKey }) => requestKey))
    for (const domain of new Set(heads.map(({ names: [first = ''] }) => first)))
      yield* pagesOf(
        (after) => store.listIssued(domain, { now, isOut: true, after }),
        (certificate) => requestKeys.has(certificate.requestKey) && isFit(certificate),
      )
  }
  // What an ACME client has replaced has another request key.
  for (const { id } of await store.acme.listAccounts(key, MAX_ACCOUNTS))
    yield* pagesOf((after) => store.listIssuedTo(id, { now, after }), isFit)
}

/**
 * Returns the reason to revoke a certificate of a caller whose key has leaked (RFC 5280 section 5.3.1). Where the service has
 * made the private key, whoever had the key of the caller could fetch it. Another private key never came here: the right to
 * the certificate is withdrawn. No subscriber of a public CA may say that.
 */
export function reasonFor({ csr, issuer }: IssuedCertificate): RevocationReason {
  if (csr === null) return 'keyCompromise'
  return isEmbedded(issuer) ? 'privilegeWithdrawn' : 'unspecified'
}

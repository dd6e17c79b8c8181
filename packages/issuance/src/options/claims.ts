import { type Name, parseNameRule } from '@gatehouse/pki'
import type { IssuerConfig } from './issuers.ts'

/** Names the issuer that is there for the registered domain of a public name. */
export type ClaimOf = (name: Name) => string | undefined

/** Imports the public suffix list, which takes a tenth of a start, only for services with ACME issuers. */
export async function loadClaims(
  issuers: readonly Pick<IssuerConfig, 'name' | 'names'>[],
): Promise<ClaimOf> {
  const { parse } = await import('tldts')
  const publicDomainOf = (labels: readonly string[]) => {
    const host = parse(labels.join('.'), { allowPrivateDomains: true })
    return host.isIcann || host.isPrivate ? host.domain : null
  }
  const claims = issuers.flatMap(({ name: issuer, names }) =>
    names.map(parseNameRule).flatMap((rule) => {
      if (!('labels' in rule)) return []
      // A rule for all names below a public suffix claims each of them.
      return { issuer, domain: publicDomainOf(rule.labels) ?? rule.labels.join('.') }
    }),
  )
  return ({ labels }) => {
    const publicDomain = publicDomainOf(labels)
    const isClaimed = (domain: string) =>
      publicDomain === domain || publicDomain?.endsWith(`.${domain}`)
    return claims.find(({ domain }) => isClaimed(domain))?.issuer
  }
}

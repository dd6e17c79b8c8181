import type { X509Certificate } from 'node:crypto'

/**
 * Finds the root that a chain leads to, by the signatures; undefined if it leads to none of these.
 * @param chain - as served, leaf first; the others in any order
 * @param roots - the certificates that a client would trust
 */
export function rootOf(
  chain: readonly X509Certificate[],
  roots: readonly X509Certificate[],
): X509Certificate | undefined {
  const [leaf, ...issuers] = chain
  if (!leaf) return undefined
  const isIssuer = (issuer: X509Certificate) =>
    leaf.checkIssued(issuer) && leaf.verify(issuer.publicKey)
  const root = roots.find((root) => root.raw.equals(leaf.raw) || isIssuer(root))
  const next = issuers.find(isIssuer)
  if (root || !next) return root
  return rootOf([next, ...issuers.filter((issuer) => issuer !== next)], roots)
}

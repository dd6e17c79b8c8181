import type { X509Certificate } from 'node:crypto'

/**
 * Finds the root that a chain leads to, by the signatures; undefined if it leads to none of these.
 * @param chain - as served, leaf first; those that are not needed may be anywhere behind it
 * @param roots - the certificates that a client would trust
 */
export function rootOf(
  chain: readonly X509Certificate[],
  roots: readonly X509Certificate[],
): X509Certificate | undefined {
  let [top, ...unused] = chain
  while (top) {
    const issued = top
    const root = roots.find((root) => root.raw.equals(issued.raw) || isIssuer(root, issued))
    if (root) return root
    top = unused.find((issuer) => isIssuer(issuer, issued))
    unused = unused.filter((certificate) => certificate !== top)
  }
  return undefined
}

function isIssuer(issuer: X509Certificate, issued: X509Certificate): boolean {
  return issued.checkIssued(issuer) && issued.verify(issuer.publicKey)
}

import type { Ca } from '../../src/issuers/ca.ts'
import type { Issuer, IssuerRequest } from '../../src/issuers/issuer.ts'

/** An issuer that signs when it is told to. */
export function slowIssuer() {
  const requests: { request: IssuerRequest; end(): void; fail(error: Error): void }[] = []
  const issuer = (ca: Ca): Issuer => ({
    name: 'slow',
    permits: () => true,
    issue(request, io) {
      io.report('signing')
      return new Promise((resolve, reject) => {
        requests.push({ request, end: () => resolve(ca.issue(request)), fail: reject })
      })
    },
  })
  return { requests, issuer }
}

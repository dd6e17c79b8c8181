import type { Metrics } from '@gatehouse/service-kit'

/** What is counted of certificates. */
export interface CertMetrics {
  issued(action: 'issue' | 'renew'): void
  handedOut(): void
  failed(): void
}

/** The metrics of cert-service; without a registry nothing is counted. */
export function createCertMetrics(
  metrics: Metrics | undefined,
  current: { flights(): number; intermediateEnds(): number },
): CertMetrics {
  if (!metrics) return { issued() {}, handedOut() {}, failed() {} }
  const issued = metrics.counter({
    name: 'gatehouse_certs_issued_total',
    help: 'Certificates signed and stored.',
    labels: { action: ['issue', 'renew'] },
  })
  const handedOut = metrics.counter({
    name: 'gatehouse_certs_handed_out_total',
    help: 'Answers with a certificate that was held or issued for somebody else.',
  })
  const failed = metrics.counter({
    name: 'gatehouse_certs_failed_total',
    help: 'Tries to issue a certificate that failed.',
  })
  metrics.gauge({
    name: 'gatehouse_certs_under_way',
    help: 'Certificates that are being issued.',
    collect: current.flights,
  })
  metrics.gauge({
    name: 'gatehouse_certs_intermediate_end_seconds',
    help: 'When the intermediate that signs now ends, as a Unix time.',
    collect: () => current.intermediateEnds() / 1000,
  })
  return {
    issued: (action) => issued.inc({ action }),
    handedOut: () => handedOut.inc(),
    failed: () => failed.inc(),
  }
}

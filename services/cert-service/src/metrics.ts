import { AcmeError } from '@gatehouse/acme'
import { PkiError } from '@gatehouse/pki'
import type { Metrics } from '@gatehouse/service-kit'
import { CertError } from './errors.ts'
import type { Expiry } from './store/store.ts'

/** Certificates that have a gauge of their own: those that end first. */
const MAX_LISTED = 1_000

/** What is counted of certificates. */
export interface CertMetrics {
  issued(action: 'issue' | 'renew'): void
  handedOut(): void
  /** An order was placed at the CA of this issuer. */
  ordered(issuer: string): void
  failed(error: unknown): void
}

/** What is measured when it is asked for. */
interface Current {
  /** Names of the issuers that orders are placed with. */
  readonly issuers: readonly string[]
  now(): number
  flights(): number
  intermediateEnds(): number
  /** Events that the webhook has not taken yet. */
  backlog(): Promise<number>
  endings(limit: number): Promise<{ readonly soonest: readonly Expiry[]; readonly total: number }>
}

/** The metrics of cert-service; without a registry nothing is counted. */
export function createCertMetrics(metrics: Metrics | undefined, current: Current): CertMetrics {
  if (!metrics) return { issued() {}, handedOut() {}, ordered() {}, failed() {} }
  const issued = metrics.counter({
    name: 'gatehouse_certs_issued_total',
    help: 'Certificates signed and stored.',
    labels: { action: ['issue', 'renew'] },
  })
  const handedOut = metrics.counter({
    name: 'gatehouse_certs_handed_out_total',
    help: 'Answers with a certificate that was held or issued for somebody else.',
  })
  const orders = metrics.counter({
    name: 'gatehouse_certs_orders_total',
    help: 'Orders placed at CAs.',
    labels: { issuer: current.issuers },
  })
  const failed = metrics.counter({
    name: 'gatehouse_certs_failed_total',
    help: 'Tries to issue a certificate that failed.',
    labels: { class: FAILURE_CLASSES },
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
  metrics.gauges({
    name: 'gatehouse_certs_webhook_backlog',
    help: 'Events that the webhook has not taken yet.',
    labels: [],
    max: 1,
    collect: async () => [{ labels: {}, value: await current.backlog() }],
  })
  measureEndings(metrics, current)
  return {
    issued: (action) => issued.inc({ action }),
    handedOut: () => handedOut.inc(),
    ordered: (issuer) => orders.inc({ issuer }),
    failed: (error) => failed.inc({ class: failureClass(error) }),
  }
}

function measureEndings(metrics: Metrics, { now, endings }: Current): void {
  const measure = (name: string, help: string, measured: (ending: Expiry) => number) =>
    metrics.gauges({
      name,
      help: `${help}, for the ${MAX_LISTED} renewed certificates that end first.`,
      labels: ['domain', 'issuer'],
      max: MAX_LISTED,
      async collect() {
        const { soonest } = await endings(MAX_LISTED)
        // Of several with the same labels the last that is set counts: the first to end.
        return soonest.toReversed().map((ending) => {
          const { domain, issuer } = ending
          return { labels: { domain, issuer }, value: measured(ending) }
        })
      },
    })
  measure('gatehouse_certs_expiry_seconds', 'Seconds until the end', ({ notAfter }) =>
    Math.round((notAfter - now()) / 1000),
  )
  measure(
    'gatehouse_certs_remaining_ratio',
    'Share of the lifetime that is left, from 1 to 0',
    ({ notBefore, notAfter }) => (notAfter - now()) / (notAfter - notBefore),
  )
  metrics.gauges({
    name: 'gatehouse_certs_unlisted',
    help: 'Certificates that are kept renewed and have no gauge of their own, as they end later.',
    labels: [],
    max: 1,
    async collect() {
      const { total } = await endings(0)
      return [{ labels: {}, value: Math.max(0, total - MAX_LISTED) }]
    },
  })
}

const FAILURE_CLASSES = [
  'dns',
  'proof',
  'limit',
  'unreachable',
  'refused',
  'store',
  'internal',
] as const

type FailureClass = (typeof FAILURE_CLASSES)[number]

const CLASS_OF: Readonly<Record<string, FailureClass>> = {
  ACME_DNS: 'dns',
  ACME_CAA: 'dns',
  ACME_CONNECTION: 'proof',
  ACME_INCORRECT_RESPONSE: 'proof',
  ACME_NO_CHALLENGE: 'proof',
  ACME_ORDER_INVALID: 'proof',
  ACME_TLS: 'proof',
  ACME_UNAUTHORIZED: 'proof',
  ACME_PAUSED: 'limit',
  ACME_RATE_LIMITED: 'limit',
  CERT_BUSY: 'limit',
  CERT_RATE_LIMITED: 'limit',
  PKI_KEY_QUEUE_FULL: 'limit',
  ACME_SERVER_INTERNAL: 'unreachable',
  ACME_TIMEOUT: 'unreachable',
  ACME_UNREACHABLE: 'unreachable',
  CERT_STORE_UNAVAILABLE: 'store',
  CERT_STORE_CORRUPT: 'store',
}

/** What kind of trouble an error is: what has to be looked at. */
export function failureClass(error: unknown): FailureClass {
  if (!(error instanceof AcmeError || error instanceof CertError || error instanceof PkiError))
    return 'internal'
  const { code } = error
  return CLASS_OF[code] ?? (code.startsWith('ACME_DNS_') ? 'dns' : 'refused')
}

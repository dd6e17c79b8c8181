import { AcmeError } from '@gatehouse/acme'
import { PkiError } from '@gatehouse/pki'
import type { Metrics } from '@gatehouse/service-kit'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { CertError } from '../errors.ts'
import type { Expiry } from '../store/store.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined if nothing is measured. */
    readonly certMetrics: CertMetrics | undefined
  }
}

/** Certificates with a gauge of their own: those that expire first. */
const MAX_LISTED = 1_000

interface CertMetrics {
  readonly issued: { inc(labels: { readonly action: 'issue' | 'renew' }): void }
  readonly delivered: { inc(): void }
  readonly orders: { inc(labels: { readonly issuer: string }): void }
  failed(error: unknown): void
}

/** What is measured at each scrape. */
interface Current {
  /** Names of the issuers that orders are placed with. */
  readonly issuers: readonly string[]
  now(): number
  flights(): number
  intermediateEnds(): number
  rootEnds(): number
  /** Names of the receivers of events. */
  readonly receivers: readonly string[]
  /** Events that a receiver has not accepted yet, by its name. */
  waiting(): Promise<Readonly<Record<string, number>>>
  /** Orders that have failed, by their issuer. */
  failing(): Promise<Readonly<Record<string, number>>>
  endings(limit: number): Promise<{ readonly soonest: readonly Expiry[]; readonly total: number }>
}

export function createCertMetrics(metrics: Metrics, issuers: readonly string[]): CertMetrics {
  const failed = metrics.counter({
    name: 'gatehouse_certs_failed_total',
    help: 'Tries to issue a certificate that failed.',
    labels: { class: FAILURE_CLASSES },
  })
  return {
    issued: metrics.counter({
      name: 'gatehouse_certs_issued_total',
      help: 'Certificates signed and stored.',
      labels: { action: ['issue', 'renew'] },
    }),
    delivered: metrics.counter({
      name: 'gatehouse_certs_handed_out_total',
      help: 'Answers with a certificate that was held or issued for another caller.',
    }),
    orders: metrics.counter({
      name: 'gatehouse_certs_orders_total',
      help: 'Orders placed at CAs.',
      labels: { issuer: issuers },
    }),
    failed: (error) => failed.inc({ class: failureClass(error) }),
  }
}

/** Measures at each scrape what there is then. */
export function measureCurrent(metrics: Metrics, current: Current): void {
  measureEndings(metrics, current)
  const { flights, intermediateEnds, rootEnds, issuers, receivers, failing, waiting } = current
  metrics.gauge({
    name: 'gatehouse_certs_under_way',
    help: 'Certificates that are being issued.',
    aggregator: 'sum',
    collect: flights,
  })
  metrics.gauge({
    name: 'gatehouse_certs_intermediate_end_seconds',
    help: 'When the intermediate that signs now expires, as a Unix time.',
    aggregator: 'min',
    collect: () => intermediateEnds() / 1000,
  })
  metrics.gauge({
    name: 'gatehouse_certs_root_end_seconds',
    help: 'When the root of the embedded CA expires, as a Unix time; NaN if it is not known.',
    aggregator: 'min',
    collect: () => rootEnds() / 1000,
  })
  const count = (
    name: string,
    help: string,
    label: string,
    values: readonly string[],
    counted: typeof waiting,
  ) =>
    metrics.gauges({
      ...{ name, help, labels: [label], max: values.length },
      // Each worker reads the same store.
      aggregator: 'max',
      async collect() {
        const counts = await counted()
        return values.map((value) => ({ labels: { [label]: value }, value: counts[value] ?? 0 }))
      },
    })
  const waits = 'Events that a receiver has not accepted yet.'
  count('gatehouse_certs_events_waiting', waits, 'receiver', receivers, waiting)
  const fails = 'Names whose last order failed, with a certificate or without.'
  count('gatehouse_certs_failing', fails, 'issuer', ['ca', ...issuers], failing)
}

function measureEndings(metrics: Metrics, { now, endings }: Current): void {
  const measure = (name: string, help: string, measured: (ending: Expiry) => number) =>
    metrics.gauges({
      name,
      help: `${help}, for the ${MAX_LISTED} renewed certificates that expire first.`,
      labels: ['domain', 'issuer'],
      max: MAX_LISTED,
      aggregator: 'min',
      async collect() {
        const { soonest } = await endings(MAX_LISTED)
        // Of several with the same labels the last value counts: that of the first to expire.
        return soonest.toReversed().map((ending) => {
          const { domain, issuer } = ending
          return { labels: { domain, issuer }, value: measured(ending) }
        })
      },
    })
  measure(
    'gatehouse_certs_expiry_seconds',
    'Seconds until the certificate expires',
    ({ notAfter }) => Math.round((notAfter - now()) / 1000),
  )
  measure(
    'gatehouse_certs_remaining_ratio',
    'Share of the lifetime that is left, from 1 to 0',
    ({ notBefore, notAfter }) => (notAfter - now()) / (notAfter - notBefore),
  )
  metrics.gauges({
    name: 'gatehouse_certs_unlisted',
    help: 'Renewed certificates without a gauge of their own, as they expire later.',
    labels: [],
    max: 1,
    aggregator: 'max',
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

/** The class of an error, which says where to look. */
export function failureClass(error: unknown): FailureClass {
  if (!(error instanceof AcmeError || error instanceof CertError || error instanceof PkiError))
    return 'internal'
  const { code } = error
  return CLASS_OF[code] ?? (code.startsWith('ACME_DNS_') ? 'dns' : 'refused')
}

interface MetricsOptions {
  readonly metrics: Metrics | undefined
  /** Names of the issuers that orders are placed with. */
  readonly issuers: readonly string[]
}

/** Counts certificates. */
export const certMetrics = fp<MetricsOptions>(
  async (app: FastifyInstance, { metrics, issuers }) => {
    app.decorate('certMetrics', metrics && createCertMetrics(metrics, issuers))
  },
  { fastify: '5.x', name: 'cert-service/metrics' },
)

interface GaugesOptions extends MetricsOptions, Pick<Current, 'receivers'> {}

/** Measures the certificates that are held and under way. */
export const certGauges = fp<GaugesOptions>(
  async (app: FastifyInstance, { metrics, issuers, receivers }) => {
    if (!metrics) return
    measureCurrent(metrics, {
      ...{ issuers, receivers },
      now: () => app.clock.now(),
      flights: () => app.issuance.flights.size,
      // The other metrics matter most while the store fails.
      endings: (limit) => app.store.listEnding(limit).catch(() => ({ soonest: [], total: 0 })),
      waiting: () => app.store.countEvents().catch(() => ({})),
      failing: () => app.store.countFailedOrders().catch(() => ({})),
      intermediateEnds: () => app.ca.intermediate().ends,
      rootEnds: () => app.ca.rootEnds() ?? Number.NaN,
    })
  },
  {
    fastify: '5.x',
    name: 'cert-service/gauges',
    dependencies: [
      'cert-service/store',
      'cert-service/issuers',
      'cert-service/issuance',
      'service-kit/clock',
    ],
  },
)

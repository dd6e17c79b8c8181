import { AcmeError } from '@gatehouse/acme'
import { type Expiry, PROBE_STATES, type Store } from '@gatehouse/cert-store/port'
import type { IssuanceMetrics } from '@gatehouse/issuance'
import { CLIENT_ISSUER } from '@gatehouse/issuance/request'
import { TitledError } from '@gatehouse/net'
import { PkiError } from '@gatehouse/pki'
import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    /** Undefined if nothing is measured. */
    readonly certMetrics: CertMetrics | undefined
  }
}

/** Certificates with a gauge of their own: those that expire first. */
const MAX_LISTED = 1_000

interface CertMetrics extends IssuanceMetrics {
  readonly orders: { inc(labels: { readonly issuer: string }): void }
}

function createCertMetrics(metrics: Metrics, issuers: readonly Named[]): CertMetrics {
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
      labels: { issuer: issuers.map(({ name }) => name) },
    }),
    failed: (error) => failed.inc({ class: failureClass(error) }),
  }
}

function measureIssuing(metrics: Metrics, { issuance, ca }: FastifyInstance): void {
  metrics.gauge({
    name: 'gatehouse_certs_under_way',
    help: 'Certificates that are being issued.',
    collect: () => issuance.flights.size,
  })
  metrics.gauge({
    name: 'gatehouse_certs_intermediate_end_seconds',
    help: 'When the intermediate that signs now expires, as a Unix time.',
    collect: () => ca.intermediate().ends / 1000,
  })
  metrics.gauge({
    name: 'gatehouse_certs_root_end_seconds',
    help: 'When the root of the embedded CA expires, as a Unix time; NaN if it is not known.',
    collect: () => (ca.rootEnds() ?? Number.NaN) / 1000,
  })
}

/** The other metrics matter most while the store fails. */
function measureCounts(
  metrics: Metrics,
  { store }: FastifyInstance,
  { issuers, receivers }: Pick<GaugesOptions, 'issuers' | 'receivers'>,
): void {
  const measure = (
    name: string,
    help: string,
    label: string,
    named: readonly Named[],
    count: Store['countEvents'],
  ) =>
    metrics.gauges({
      name,
      help,
      labels: [label],
      max: named.length,
      async collect() {
        const counts: Awaited<ReturnType<typeof count>> = await count().catch(() => ({}))
        return named.map(({ name }) => ({ labels: { [label]: name }, value: counts[name] ?? 0 }))
      },
    })
  const waits = 'Events that a receiver has not accepted yet.'
  measure('gatehouse_certs_events_waiting', waits, 'receiver', receivers, () => store.countEvents())
  const fails = 'Names whose last order failed, with a certificate or without.'
  const all = [{ name: 'ca' }, { name: CLIENT_ISSUER }, ...issuers]
  measure('gatehouse_certs_failing', fails, 'issuer', all, () => store.countFailedOrders())
  const states = PROBE_STATES.map((name) => ({ name }))
  const places = 'Places at which certificates are served under their names, by what is served.'
  measure('gatehouse_certs_probes', places, 'state', states, () => store.countProbes())
}

function measureProbes(metrics: Metrics, { store, clock }: FastifyInstance): void {
  metrics.gauges({
    name: 'gatehouse_certs_probe_old_seconds',
    help: `Seconds for which a server has not served the newest certificate of a name, for the ${MAX_LISTED} places that are longest so.`,
    labels: ['domain', 'port'],
    max: MAX_LISTED,
    async collect() {
      const now = clock.now()
      const probes = await store.listNotServed(now, MAX_LISTED).catch(() => [])
      // The last of several addresses counts: that of the longest time.
      return probes.toReversed().map(({ name: domain, port, since }) => {
        const labels = { domain, port: String(port) }
        return { labels, value: Math.round((now - since) / 1000) }
      })
    },
  })
}

function measureEndings(metrics: Metrics, { store, clock }: FastifyInstance): void {
  let reading: ReturnType<Store['listEnding']> | undefined
  /** The gauges of one scrape share an answer. */
  const endings = () => {
    reading ??= store
      .listEnding(clock.now(), MAX_LISTED)
      .catch(() => ({ soonest: [], total: 0 }))
      .finally(() => {
        reading = undefined
      })
    return reading
  }
  const measure = (name: string, help: string, measured: (ending: Expiry) => number) =>
    metrics.gauges({
      name,
      help: `${help}, for the ${MAX_LISTED} renewed certificates that expire first. Late ones that are covered are left out.`,
      labels: ['domain', 'issuer', 'way'],
      max: MAX_LISTED,
      async collect() {
        const { soonest } = await endings()
        // The last of several values with the same labels counts: that of the first to expire.
        return soonest.toReversed().map((ending) => {
          const { domain, issuer, way } = ending
          return { labels: { domain, issuer, way: way ?? 'service' }, value: measured(ending) }
        })
      },
    })
  measure(
    'gatehouse_certs_expiry_seconds',
    'Seconds until the certificate expires',
    ({ notAfter }) => Math.round((notAfter - clock.now()) / 1000),
  )
  measure(
    'gatehouse_certs_remaining_ratio',
    'Share of the lifetime that is left, from 1 to 0',
    ({ notBefore, notAfter }) => (notAfter - clock.now()) / (notAfter - notBefore),
  )
  metrics.gauges({
    name: 'gatehouse_certs_covered',
    help: 'Late certificates whose names are all in certificates that end later: of the same caller, or only of others.',
    labels: ['by'],
    max: 2,
    async collect() {
      const counts = await store.countCovered(clock.now()).catch(() => ({}))
      return Object.entries(counts).map(([label, value]) => ({ labels: { by: label }, value }))
    },
  })
  metrics.gauges({
    name: 'gatehouse_certs_unlisted',
    help: 'Renewed certificates without a gauge of their own, as they expire later.',
    labels: [],
    max: 1,
    async collect() {
      const { total } = await endings()
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

/** The class of a failure by its code. A code that is not listed is of class `dns` if it is about DNS, else `refused`. */
const CLASS_OF: Readonly<Record<string, FailureClass>> = {
  ACME_CAA: 'dns',
  ACME_DNS: 'dns',
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
  STORE_UNAVAILABLE: 'store',
  STORE_CORRUPT: 'store',
  STORE_REFUSED: 'store',
  STORE_STATEMENT_FAILED: 'internal',
}

export function failureClass(error: unknown): FailureClass {
  if (!(error instanceof AcmeError || error instanceof TitledError || error instanceof PkiError))
    return 'internal'
  const { code } = error
  return CLASS_OF[code] ?? (code.startsWith('ACME_DNS_') ? 'dns' : 'refused')
}

interface Named {
  readonly name: string
}

interface MetricsOptions {
  readonly metrics: Metrics | undefined
  /** The issuers that orders are placed with. */
  readonly issuers: readonly Named[]
}

export const certMetrics = fp<MetricsOptions>(
  async (app: FastifyInstance, { metrics, issuers }) => {
    app.decorate('certMetrics', metrics && createCertMetrics(metrics, issuers))
  },
  { name: 'cert-service/metrics' },
)

interface GaugesOptions extends MetricsOptions {
  readonly receivers: readonly Named[]
}

export const certGauges = fp<GaugesOptions>(
  async (app: FastifyInstance, { metrics, ...names }) => {
    if (!metrics) return
    measureEndings(metrics, app)
    measureIssuing(metrics, app)
    measureCounts(metrics, app, names)
    measureProbes(metrics, app)
  },
  {
    name: 'cert-service/gauges',
    dependencies: [
      'cert-service/store',
      'cert-service/issuers',
      'cert-service/issuance',
      'service-kit/clock',
    ],
  },
)

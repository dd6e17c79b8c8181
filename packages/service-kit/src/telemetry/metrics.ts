import Fastify from 'fastify'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { listenError, type Running } from '../run-app.ts'

/** The values that each label may have; any other is counted as `other`. */
export type LabelLists = Readonly<Record<string, readonly string[]>>
/** One value for each label. */
export type LabelsOf<L extends LabelLists> = { readonly [K in keyof L]: L[K][number] }

export interface MetricOptions<L extends LabelLists> {
  readonly name: string
  readonly help: string
  readonly labels?: L
}

/** The metrics of one service. Labels only have values from their lists. */
export interface Metrics {
  readonly registry: Registry
  counter<const L extends LabelLists = Record<never, never>>(
    options: MetricOptions<L>,
  ): { inc(labels?: LabelsOf<L>, by?: number): void }
  /** With `collect`, the value is read at each scrape. */
  gauge<const L extends LabelLists = Record<never, never>>(
    options: MetricOptions<L> & { collect?(): number },
  ): { set(value: number, labels?: LabelsOf<L>): void }
  /** A gauge whose series are replaced at each scrape, at most `max` of them. */
  gauges<const L extends string>(options: {
    readonly name: string
    readonly help: string
    readonly labels: readonly L[]
    readonly max: number
    collect(): Promise<readonly { readonly labels: Record<L, string>; readonly value: number }[]>
  }): void
  histogram<const L extends LabelLists = Record<never, never>>(
    options: MetricOptions<L> & { buckets?: readonly number[] },
  ): { observe(value: number, labels?: LabelsOf<L>): void }
  /** The metrics in the Prometheus text format. */
  text(): Promise<string>
}

/** Metrics with those of the process and `gatehouse_build_info` in them. */
export function createMetrics(options: { service: string; version: string }): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const base = (labels: LabelLists = {}) => ({
    registers: [registry],
    labelNames: Object.keys(labels),
  })
  const metrics: Metrics = {
    registry,
    counter({ labels, ...rest }) {
      const bounded = boundedBy(labels)
      const counter = new Counter({ ...rest, ...base(labels) })
      // A rate needs a series that begins with 0.
      for (const values of combinations(labels)) counter.inc(values, 0)
      return { inc: (values, by = 1) => counter.inc(bounded(values), by) }
    },
    gauge({ labels, collect, ...rest }) {
      const bounded = boundedBy(labels)
      const gauge = new Gauge({
        ...rest,
        ...base(labels),
        ...(collect && {
          collect() {
            this.set(collect())
          },
        }),
      })
      return { set: (value, values) => gauge.set(bounded(values), value) }
    },
    gauges({ labels, max, collect, ...rest }) {
      new Gauge({
        ...rest,
        registers: [registry],
        labelNames: labels,
        async collect() {
          const values = await collect()
          this.reset()
          for (const one of values.slice(0, max)) this.set(one.labels, one.value)
        },
      })
    },
    histogram({ labels, buckets, ...rest }) {
      const bounded = boundedBy(labels)
      const histogram = new Histogram({
        ...rest,
        ...base(labels),
        ...(buckets && { buckets: [...buckets] }),
      })
      return { observe: (value, values) => histogram.observe(bounded(values), value) }
    },
    text: () => registry.metrics(),
  }
  metrics
    .gauge({
      name: 'gatehouse_build_info',
      help: 'Which service and version this is; always 1.',
      labels: { service: [options.service], version: [options.version] },
    })
    .set(1, options)
  return metrics
}

/**
 * Serves `GET /metrics` on its own listener.
 *
 * @throws ConfigError CONFIG_LISTEN_FAILED
 */
export async function listenMetrics(
  metrics: Metrics,
  address: { host: string; port: number },
): Promise<Running> {
  const app = Fastify({ requestTimeout: 5_000, forceCloseConnections: true })
  app.get('/metrics', async ({ url }, reply) => {
    if (url !== '/metrics') return reply.callNotFound()
    return reply.type(Registry.PROMETHEUS_CONTENT_TYPE).send(await metrics.text())
  })
  const url = await app.listen(address).catch((error: unknown) => {
    throw listenError(error, address)
  })
  return { url: `${url}/metrics`, close: () => app.close() }
}

/** Every combination of values of the labels. */
function combinations(lists: LabelLists = {}): Record<string, string>[] {
  return Object.entries(lists).reduce<Record<string, string>[]>(
    (chosen, [label, values]) =>
      chosen.flatMap((others) => values.map((value) => ({ ...others, [label]: value }))),
    [{}],
  )
}

function boundedBy<L extends LabelLists>(lists: L | undefined) {
  const entries = Object.entries(lists ?? {})
  return (values: Readonly<Record<string, string>> = {}): Record<string, string> =>
    Object.fromEntries(
      entries.map(([label, list]) => {
        const value = values[label] ?? ''
        return [label, list.includes(value) ? value : 'other']
      }),
    )
}

import Fastify from 'fastify'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { listenError, type Running } from '../run-app.ts'

/** The values that each label may have, or a function that gives them; any other is counted as `other`. */
export type LabelLists = Readonly<Record<string, readonly string[] | (() => readonly string[])>>
/** The value of each label. */
export type LabelsOf<L extends LabelLists> = {
  readonly [K in keyof L]: L[K] extends readonly string[] ? L[K][number] : string
}

/** The name of a metric, and the values of its labels. */
export interface MetricOptions<L extends LabelLists> {
  readonly name: string
  readonly help: string
  readonly labels?: L
}

/** The metrics of one service. Labels only have values from their lists. */
export class Metrics {
  readonly registry = new Registry()

  constructor(options: { readonly service: string; readonly version: string }) {
    this.gauge({
      name: 'gatehouse_build_info',
      help: 'Which service and version this is; always 1.',
      labels: { service: [options.service], version: [options.version] },
    }).set(1, options)
  }

  counter<const L extends LabelLists = Record<never, never>>(
    options: MetricOptions<L>,
  ): { inc(labels?: LabelsOf<L>, amount?: number): void } {
    const counter = new Counter({
      ...this.configure(options),
      // A rate needs a series that begins with 0, also for values that a reload has added.
      collect() {
        for (const values of combinations(options.labels)) this.inc(values, 0)
      },
    })
    return { inc: (values, amount = 1) => counter.inc(bounded(options, values), amount) }
  }

  /** Adds a gauge. With `collect`, its value is read at each scrape. */
  gauge<const L extends LabelLists = Record<never, never>>({
    collect,
    ...options
  }: MetricOptions<L> & { collect?(): number }): {
    set(value: number, labels?: LabelsOf<L>): void
  } {
    const gauge = new Gauge({
      ...this.configure(options),
      ...(collect && {
        collect() {
          this.set(collect())
        },
      }),
    })
    return { set: (value, values) => gauge.set(bounded(options, values), value) }
  }

  /** A gauge whose series are replaced at each scrape, at most `max` of them. */
  gauges<const L extends string>({
    labels,
    max,
    collect,
    ...rest
  }: {
    readonly name: string
    readonly help: string
    readonly labels: readonly L[]
    readonly max: number
    collect(): Promise<readonly { readonly labels: Record<L, string>; readonly value: number }[]>
  }): void {
    new Gauge({
      ...rest,
      registers: [this.registry],
      labelNames: labels,
      async collect() {
        const values = await collect()
        this.reset()
        for (const sample of values.slice(0, max)) this.set(sample.labels, sample.value)
      },
    })
  }

  /** The metrics in the Prometheus text format. */
  text(): Promise<string> {
    return this.registry.metrics()
  }

  private configure({ name, help, labels = {} }: MetricOptions<LabelLists>) {
    return { name, help, registers: [this.registry], labelNames: Object.keys(labels) }
  }
}

/** Creates the metrics of a service, with those of its process and `gatehouse_build_info`. */
export function createMetrics(options: { service: string; version: string }): Metrics {
  const metrics = new Metrics(options)
  collectDefaultMetrics({ register: metrics.registry })
  return metrics
}

/**
 * Serves `GET /metrics` on its own listener.
 *
 * @throws ConfigError CONFIG_LISTEN_FAILED
 */
export async function listenMetrics(
  metrics: { text(): Promise<string> },
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

function combinations(lists: LabelLists = {}): Record<string, string>[] {
  return Object.entries(lists).reduce<Record<string, string>[]>(
    (chosen, [label, values]) =>
      chosen.flatMap((labels) => listOf(values).map((value) => ({ ...labels, [label]: value }))),
    [{}],
  )
}

function listOf(values: LabelLists[string]): readonly string[] {
  return typeof values === 'function' ? values() : values
}

function bounded(
  { labels = {} }: MetricOptions<LabelLists>,
  values: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const boundedLabels: Record<string, string> = {}
  for (const label in labels) {
    const value = values[label] ?? ''
    boundedLabels[label] = listOf(labels[label] ?? []).includes(value) ? value : 'other'
  }
  return boundedLabels
}

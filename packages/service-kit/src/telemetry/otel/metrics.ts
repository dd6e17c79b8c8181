import { ValueType } from '@opentelemetry/api'
import { hrTime, type InstrumentationScope } from '@opentelemetry/core'
import type { Resource } from '@opentelemetry/resources'
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  type MetricData,
  type MetricProducer,
} from '@opentelemetry/sdk-metrics'
import type { Registry } from 'prom-client'

/** A metric of prom-client, whose types say less. */
interface PromMetric {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram' | 'summary'
  readonly values: readonly {
    readonly value: number
    readonly labels: Readonly<Record<string, string | number>>
    /** The name of the line of a histogram. */
    readonly metricName?: string
  }[]
}
type Period = Pick<DataPoint<unknown>, 'startTime' | 'endTime'>

/** Produces the metrics of `/metrics` for OpenTelemetry, under the same names. */
export function producerOf(
  registry: Registry,
  resource: Resource,
  scope: InstrumentationScope,
): MetricProducer {
  const startTime = hrTime()
  return {
    async collect() {
      const found = (await registry.getMetricsAsJSON()) as unknown as PromMetric[]
      const period = { startTime, endTime: hrTime() }
      const metrics = found.map((metric) => convert(metric, period))
      return { resourceMetrics: { resource, scopeMetrics: [{ scope, metrics }] }, errors: [] }
    },
  }
}

function convert(metric: PromMetric, period: Period): MetricData {
  const { name, help: description, type, values } = metric
  const base = {
    descriptor: { name, description, unit: '', valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  }
  if (type === 'histogram')
    return { ...base, dataPointType: DataPointType.HISTOGRAM, dataPoints: series(metric, period) }
  const dataPoints = values.map(({ value, labels }) => ({ ...period, attributes: labels, value }))
  if (type === 'counter')
    return { ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }
  return { ...base, dataPointType: DataPointType.GAUGE, dataPoints }
}

/** One point for the lines with the same labels. Buckets of Prometheus are cumulative. */
function series({ name, values }: PromMetric, period: Period): DataPoint<Histogram>[] {
  const points = new Map<string, DataPoint<Histogram>>()
  for (const { value, labels, metricName } of values) {
    const { le, ...attributes } = labels
    const key = JSON.stringify(attributes)
    const buckets = { boundaries: [], counts: [] }
    const point = points.get(key) ?? { ...period, attributes, value: { buckets, count: 0, sum: 0 } }
    points.set(key, point)
    add(point.value, { part: metricName?.slice(name.length), le, value })
  }
  return [...points.values()]
}

function add(
  histogram: Histogram,
  { part, le, value }: { part: string | undefined; le: unknown; value: number },
): void {
  const { boundaries, counts } = histogram.buckets
  if (part === '_sum') histogram.sum = value
  else if (part === '_count') histogram.count = value
  else {
    counts.push(value - counts.reduce((sum, count) => sum + count, 0))
    if (le !== '+Inf') boundaries.push(Number(le))
  }
}

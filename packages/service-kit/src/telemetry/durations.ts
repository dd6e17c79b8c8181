import type { Metric, Registry } from 'prom-client'

const NAME = 'http_request_duration_seconds'
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
export const METHODS: ReadonlySet<string> = new Set(
  'GET HEAD POST PUT PATCH DELETE OPTIONS'.split(' '),
)

interface Series {
  /** Such as 2, of 2xx. */
  readonly statusClass: number
  readonly labels: Readonly<Record<'method' | 'route' | 'status', string>>
  /** One count per bucket, then the count of all. */
  readonly counts: Float64Array
  sum: number
}

/**
 * The histogram of request durations, counted into typed arrays: prom-client's own costs several
 * times as much per request. Methods are from a list, routes are patterns, statuses are classes.
 */
export function createDurations(registry: Registry) {
  /** Of each route, the series that were seen. */
  const routes = new Map<string, readonly Series[]>()
  const metric = {
    name: NAME,
    help: 'Seconds from the first byte of a request to the last of its answer.',
    type: 'histogram',
    aggregator: 'sum',
    reset: () => routes.clear(),
    get: async () => ({ ...metric, values: [...routes.values()].flat().flatMap(samples) }),
  }
  registry.registerMetric(metric as unknown as Metric)

  function seriesOf(method: string, route: string, statusClass: number): Series {
    const seen = routes.get(route) ?? []
    for (const each of seen)
      if (each.labels.method === method && each.statusClass === statusClass) return each
    const made = {
      statusClass,
      labels: { method, route, status: `${statusClass}xx` },
      counts: new Float64Array(BUCKETS.length + 1),
      sum: 0,
    }
    routes.set(route, [...seen, made])
    return made
  }

  return function observe(method: string, route: string, status: number, seconds: number): void {
    const known = METHODS.has(method) ? method : 'OTHER'
    const series = seriesOf(known, route, Math.trunc(status / 100))
    series.sum += seconds
    let bucket = 0
    while (bucket < BUCKETS.length && seconds > Number(BUCKETS[bucket])) bucket++
    series.counts[bucket] = Number(series.counts[bucket]) + 1
  }
}

function samples({ labels, counts, sum }: Series) {
  let total = 0
  const buckets = [...counts].map((count, i) => {
    total += count
    const le = BUCKETS[i] ?? '+Inf'
    return { metricName: `${NAME}_bucket`, labels: { ...labels, le }, value: total }
  })
  return [
    ...buckets,
    { metricName: `${NAME}_sum`, labels, value: sum },
    { metricName: `${NAME}_count`, labels, value: total },
  ]
}

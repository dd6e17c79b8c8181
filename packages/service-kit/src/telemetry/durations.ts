import type { Metric, Registry } from 'prom-client'

const NAME = 'http_request_duration_seconds'
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
export const METHODS: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
])

interface Series {
  readonly labels: Readonly<Record<string, string>>
  /** One count per bucket, then the count of all. */
  readonly counts: Float64Array
  sum: number
}

/**
 * The histogram of request durations, counted into typed arrays: prom-client's own costs several
 * times as much per request. Methods are from a list, routes are patterns, statuses are classes.
 */
export function createDurations(registry: Registry) {
  const series = new Map<string, Series>()
  const metric = {
    name: NAME,
    help: 'Seconds from the first byte of a request to the last of its answer.',
    type: 'histogram',
    aggregator: 'sum',
    reset: () => series.clear(),
    get: async () => ({ ...metric, values: [...series.values()].flatMap(samples) }),
  }
  registry.registerMetric(metric as unknown as Metric)

  return function observe(method: string, route: string, status: number, seconds: number): void {
    const known = METHODS.has(method) ? method : 'OTHER'
    const statusClass = Math.trunc(status / 100)
    const key = `${known} ${statusClass} ${route}`
    let entry = series.get(key)
    if (!entry) {
      const labels = { method: known, route, status: `${statusClass}xx` }
      entry = { labels, counts: new Float64Array(BUCKETS.length + 1), sum: 0 }
      series.set(key, entry)
    }
    entry.sum += seconds
    let bucket = 0
    while (bucket < BUCKETS.length && seconds > Number(BUCKETS[bucket])) bucket++
    entry.counts[bucket] = Number(entry.counts[bucket]) + 1
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

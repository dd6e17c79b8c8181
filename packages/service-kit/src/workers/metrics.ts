import { AggregatorRegistry, type Registry } from 'prom-client'
import { Metrics } from '../telemetry/metrics.ts'
import type { Crew } from './crew.ts'
import type { Member } from './member.ts'

/** The time for which a scrape waits for a worker, in ms; one that is too busy counts as at the last scrape. */
const SCRAPE_MS = 1_000

/** Metrics as prom-client makes them JSON. */
type MetricsJson = readonly { readonly type: unknown }[]

/** The metrics of all workers together, under the names that those of a single process have. */
export class CrewMetrics {
  readonly #own: Metrics
  readonly #crew: Crew
  readonly #last = new Map<Member, MetricsJson>()
  /** The counts of workers that have ended, so that no sum ever falls. */
  #ended: Promise<MetricsJson> = Promise.resolve([])

  constructor({ name, version }: { readonly name: string; readonly version: string }, crew: Crew) {
    this.#crew = crew
    this.#own = new Metrics({ service: name, version })
    this.#own.gauge({
      name: 'gatehouse_workers',
      help: 'Worker processes that answer requests.',
      aggregator: 'first',
      collect: () => crew.ready.length,
    })
    this.#own.gauge({
      name: 'gatehouse_ready',
      help: 'Whether the service can do its work: 1, or 0 while it starts, stops or has no store.',
      aggregator: 'min',
      collect: () => (crew.ready.length > 0 ? 1 : 0),
    })
    const startedAt = Math.round(performance.timeOrigin / 1_000)
    this.#own.gauge({
      name: 'process_start_time_seconds',
      help: 'Start time of the process since unix epoch in seconds.',
      aggregator: 'first',
      collect: () => startedAt,
    })
  }

  /** The metrics in the Prometheus text format. */
  async text(): Promise<string> {
    await Promise.all(this.#crew.ready.map((member) => this.#read(member)))
    const own = await jsonOf(this.#own.registry)
    return aggregate([own, await this.#ended, ...this.#last.values()]).metrics()
  }

  /** Keeps the counts that a worker which has ended had at the last scrape. */
  #forget(member: Member): void {
    const counted = this.#last.get(member)?.filter(({ type }) => type !== 'gauge') ?? []
    this.#last.delete(member)
    this.#ended = this.#ended.then((ended) => jsonOf(aggregate([ended, counted])))
  }

  async #read(member: Member): Promise<void> {
    const metrics = await member
      .ask<MetricsJson>('metrics', undefined, SCRAPE_MS)
      .catch(() => undefined)
    if (!metrics || member.outcome !== undefined) return
    if (!this.#last.has(member)) void member.ended.then(() => this.#forget(member))
    this.#last.set(member, metrics)
  }
}

async function jsonOf(registry: Registry): Promise<MetricsJson> {
  return (await registry.getMetricsAsJSON()) as unknown as MetricsJson
}

function aggregate(all: readonly MetricsJson[]): Registry {
  return AggregatorRegistry.aggregate(all as unknown as object[])
}

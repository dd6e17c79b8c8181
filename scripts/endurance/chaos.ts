// Kills, failovers and partitions, while clients go on.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster } from './cluster.ts'
import { until } from './commands.ts'
import type { Journal } from './journal.ts'
import type { Random } from './random.ts'
import type { Replica } from './replicas.ts'
import type { World } from './world.ts'

const KILL_EVERY = 5_000
const FAILOVER_EVERY = 60_000
/** The first one comes while a short run still has time to see what it did. */
const FIRST_FAILOVER = 30_000
const PARTITION_EVERY = 35_000
const PARTITION_MS = 10_000
/** For the database to be as it was, on a machine that has much to do. */
const PATIENCE = 120_000
/** Within that time a server that was killed is usually a standby again. */
const STANDBY_BACK = 40_000
const LOOK_EVERY = 250

/** Does something at random times with that mean, until the end. */
export class Chaos {
  /** What was done, and how often. */
  readonly counts = new Map<string, number>()
  readonly #world: World
  readonly #journal: Journal
  readonly #random: Random
  readonly #signal: AbortSignal

  constructor(world: World, journal: Journal, random: Random, signal: AbortSignal) {
    this.#world = world
    this.#journal = journal
    this.#random = random
    this.#signal = signal
  }

  /** Resolves when everything that was begun is over. */
  async run(): Promise<void> {
    const { cluster } = this.#world
    const kills = this.#every(KILL_EVERY, KILL_EVERY, () => this.#kill())
    if (!cluster) return kills
    await Promise.all([
      kills,
      this.#every(FIRST_FAILOVER, FAILOVER_EVERY, () => this.#failOver(cluster)),
      this.#every(PARTITION_EVERY / 2, PARTITION_EVERY, () => this.#partition(cluster)),
      this.#watchDatabase(cluster),
    ])
  }

  async #every(firstMs: number, pauseMs: number, act: () => Promise<void>): Promise<void> {
    await this.#pause(firstMs)
    for (let begun = performance.now(); !this.#signal.aborted; begun = performance.now()) {
      await act()
      await this.#pause(pauseMs - (performance.now() - begun))
    }
  }

  async #pause(ms: number): Promise<void> {
    await sleep(Math.max(ms, 0), undefined, { signal: this.#signal }).catch(() => {})
  }

  #count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1)
  }

  async #kill(): Promise<void> {
    const { cert, auth, balancer, cluster } = this.#world
    const random = this.#random
    const drawn = random.next()
    if (cluster && drawn < 0.15) return this.#killServer(cluster)
    const program = drawn < 0.25 ? balancer : random.pick([...cert, ...auth]).program
    this.#count(`killed: ${program.host.name}`)
    await program.kill()
  }

  async #killServer(cluster: Cluster): Promise<void> {
    const node = this.#random.pick(cluster.nodes)
    const isLeader = node === (await cluster.leader())
    const end = isLeader ? this.#journal.begin('database') : () => {}
    if (await cluster.killServer(node)) this.#count(`killed: PostgreSQL of ${node.host.name}`)
    if (isLeader) await this.#untilWritable(cluster)
    end()
  }

  /** A server that was killed in its start may have written what its leader never had. */
  async #untilStandby(cluster: Cluster): Promise<void> {
    const what = 'a standby that can take over'
    try {
      await until(what, () => cluster.standby(), STANDBY_BACK)
    } catch {
      this.#count('standbys made anew')
      await cluster.remakeStandby()
      await until(what, () => cluster.standby(), PATIENCE)
    }
  }

  /** By turns: handed over in order, and taken by the other one because the power is off. */
  async #failOver(cluster: Cluster): Promise<void> {
    const isHandedOver = ((this.counts.get('failovers') ?? 0) + this.#random.seed) % 2 === 0
    await this.#untilStandby(cluster)
    const before = await cluster.leader()
    const end = this.#journal.begin('database')
    try {
      if (!(await (isHandedOver ? cluster.switchOver() : cluster.killLeader()))) return
      await this.#untilWritable(cluster)
      this.#count('failovers')
      this.#count(isHandedOver ? 'failovers: handed over' : 'failovers: leader without power')
      if ((await cluster.leader()) === before) this.#count('failovers: back to the same one')
    } finally {
      end()
    }
  }

  async #untilWritable(cluster: Cluster): Promise<void> {
    await until('a primary', () => cluster.leader(), PATIENCE)
  }

  async #partition(cluster: Cluster): Promise<void> {
    const { cert, auth, network } = this.#world
    const replica: Replica = this.#random.pick([...cert, ...auth])
    const { host } = replica.program
    const end = this.#journal.begin('partition', replica.name)
    this.#count(`cut off: ${replica.name}`)
    const heal = await network.separate(
      host,
      cluster.nodes.map((node) => node.host),
    )
    try {
      await this.#pause(PARTITION_MS)
    } finally {
      await heal()
      end()
    }
  }

  /** Notes when nobody takes writes, whatever the reason. */
  async #watchDatabase(cluster: Cluster): Promise<void> {
    let end: (() => void) | undefined
    for (; !this.#signal.aborted; await this.#pause(LOOK_EVERY)) {
      const leader = await cluster.leader()
      if (leader && end) {
        end()
        end = undefined
      } else if (!leader) end ??= this.#journal.begin('database')
    }
    end?.()
  }
}

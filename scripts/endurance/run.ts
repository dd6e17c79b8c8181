// Runs both services as replicas while everything around them fails, and counts what clients were told.
import { cpSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { AcmeClients } from './acme-client.ts'
import { CertificateClient } from './certificate-client.ts'
import { Chaos } from './chaos.ts'
import { until } from './commands.ts'
import { type Evidence, gather } from './evidence.ts'
import { Journal } from './journal.ts'
import { Load } from './load.ts'
import { type Options, readOptions } from './options.ts'
import { judge } from './oracle/judge.ts'
import { isHeld } from './oracle/verdict.ts'
import { createRandom, type Random } from './random.ts'
import { API_KEY, isReady, STALENESS } from './replicas.ts'
import { printReport, progressLine } from './report.ts'
import { missing } from './requirements.ts'
import { RootClient } from './root-client.ts'
import { SessionClient } from './session-client.ts'
import { Availability, watchLists } from './watch.ts'
import { makeFolder, startWorld, targetsOf, Undo, type World } from './world.ts'

const PROGRESS_EVERY = 10_000
const HELD = 'held.own.example'
/** For what was interrupted to be finished, once everything runs again. */
const SETTLE_MS = 10_000
/** For ACME clients to come to the end of what they began. */
const CLIENTS_END_MS = 120_000

class Run {
  readonly journal = new Journal()
  readonly availability = [
    new Availability('a held certificate was answered by nobody'),
    new Availability('a check was answered by nobody'),
  ]
  readonly #options: Options
  readonly #random: Random
  readonly #stopping: AbortController

  constructor(options: Options, stopping: AbortController) {
    this.#options = options
    this.#random = createRandom(options.seed)
    this.#stopping = stopping
  }

  /** Gives whether every promise was held. */
  async start(undo: Undo): Promise<boolean> {
    console.log(
      `seed ${this.#options.seed}, ${this.#options.minutes} minutes, ${this.#options.storage}`,
    )
    const folder = makeFolder(undo)
    try {
      const world = await startWorld(folder, this.#options, this.#random.fork('world'), undo)
      const certificates = this.#certificates(world)
      const load = this.#load(world, certificates)
      const ending = new AbortController()
      const { signal } = this.#stopping
      const acmeClients = this.#acmeClients(world).run(ending.signal, signal)
      // It is waited for below.
      acmeClients.catch(() => {})
      const counts = await this.#trouble(world, load, certificates)
      ending.abort()
      await this.#heal(world)
      const late = sleep(CLIENTS_END_MS).then(() => {
        throw new Error('an ACME client came to no end')
      })
      await Promise.race([acmeClients, late])
      const endAt = performance.now()
      for (const name of load.names)
        await Promise.all(targetsOf(world.cert).map((target) => certificates.read(name, target)))
      const evidence = await this.#gather(world)
      const result = judge(this.journal, evidence, endAt, { staleness: STALENESS })
      printReport(world, this.journal, counts, this.availability, result)
      const areHeld = result.verdicts.every(isHeld)
      if (!areHeld || this.#options.keep) this.#keep(folder)
      return areHeld
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#keep(folder)
      throw error
    }
  }

  #certificates(world: World): CertificateClient {
    return new CertificateClient(
      this.journal,
      this.#random.fork('certificates'),
      world.targets('cert'),
    )
  }

  #acmeClients({ targets }: World): AcmeClients {
    return new AcmeClients(this.journal, this.#random.fork('acme clients'), targets('cert'))
  }

  #load(world: World, certificates: CertificateClient): Load {
    const { journal } = this
    const { people, provider, cert, auth } = world
    const random = this.#random.fork('sessions')
    const sessions = new SessionClient(journal, random, world.targets('auth'), provider)
    return new Load({
      ...{ journal, certificates, sessions, people, names: this.#options.names },
      ...{ certTargets: targetsOf(cert), authTargets: targetsOf(auth) },
      random: this.#random.fork('load'),
    })
  }

  /** Load and chaos, for the whole time. Gives what chaos did. */
  async #trouble(world: World, load: Load, certificates: CertificateClient) {
    const { minutes, requests } = this.#options
    const durationMs = minutes * 60_000
    const over = new AbortController()
    const signal = AbortSignal.any([over.signal, this.#stopping.signal])
    const chaos = new Chaos(world, this.journal, this.#random.fork('chaos'), signal)
    const loading = load
      .run(requests, durationMs, this.#stopping.signal)
      .finally(() => over.abort())
    await Promise.all([
      loading,
      chaos.run(),
      this.#rollRoot(world, durationMs, signal),
      this.#watch(world, certificates, signal),
      this.#progress(world, load, chaos, signal),
    ])
    this.#stopping.signal.throwIfAborted()
    return chaos.counts
  }

  async #rollRoot({ targets }: World, durationMs: number, signal: AbortSignal): Promise<void> {
    const client = new RootClient(this.journal, this.#random.fork('roots'), targets('cert'))
    await Promise.all([client.roll(durationMs, signal), client.watch(signal)])
  }

  async #watch(world: World, certificates: CertificateClient, signal: AbortSignal): Promise<void> {
    const [held, check] = this.availability
    await certificates.issue(HELD)
    const headers = { authorization: `APIKey ${API_KEY}` }
    const silent = new Journal()
    const random = this.#random.fork('watch')
    const people = new SessionClient(silent, random, world.targets('auth'), world.provider)
    const session = await people.signIn('person-0')
    const checked = { 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/' }
    const app = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'app.example.com' }
    await Promise.all([
      held?.watch(targetsOf(world.cert), { path: `/api/certificate/${HELD}`, headers }, signal),
      check?.watch(
        targetsOf(world.auth),
        { path: '/portals/main', headers: { ...checked, ...app, cookie: session?.cookie } },
        signal,
      ),
      watchLists(certificates, signal),
    ])
  }

  async #progress(world: World, load: Load, chaos: Chaos, signal: AbortSignal): Promise<void> {
    const begun = performance.now()
    for (;;) {
      await sleep(PROGRESS_EVERY, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
      const leader = world.cluster
        ? [`leader ${(await world.cluster.leader())?.host.name ?? 'none'}`]
        : []
      const done = [...chaos.counts.values()].reduce((sum, times) => sum + times, 0)
      const parts = [
        `${world.acmeCa.count()} orders finalized`,
        `${load.liveSessions} live sessions`,
        `${done} disturbances`,
        ...leader,
      ]
      console.log(progressLine(performance.now() - begun, this.journal, parts))
    }
  }

  /** Waits until everything runs, and what was interrupted is finished. */
  async #heal({ cert, auth, cluster }: World): Promise<void> {
    if (cluster) await until('a primary', () => cluster.leader(), 120_000)
    for (const replica of [...cert, ...auth])
      await until(`${replica.name} is ready`, async () => (await isReady(replica)) || undefined)
    await sleep(SETTLE_MS, undefined, { signal: this.#stopping.signal })
  }

  async #gather({ acmeCa, cluster, cert, auth }: World): Promise<Evidence> {
    const [certReplica, authReplica] = [cert[0], auth[0]]
    if (!certReplica || !authReplica) throw new Error('there is no replica')
    for (const { program } of [...cert, ...auth]) await program.end('SIGTERM')
    return gather(acmeCa, cluster, certReplica, authReplica)
  }

  /** Copies logs, and writes the journal, where the next run does not remove them. */
  #keep(folder: string): void {
    const kept = join(process.cwd(), 'node_modules/.cache/endurance', `${this.#options.seed}`)
    mkdirSync(kept, { recursive: true })
    this.journal.write(join(kept, 'journal.jsonl'))
    for (const file of readdirSync(folder).filter((name) => name.endsWith('.log')))
      cpSync(join(folder, file), join(kept, file))
    console.log(`\njournal and logs: ${kept}`)
  }
}

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2), process.env)
  const lacking = missing(options.storage)
  if (lacking !== undefined) {
    console.error(`This run lacks something: ${lacking}`)
    return 2
  }
  const undo = new Undo()
  const stopping = new AbortController()
  for (const [signal, code] of Object.entries({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }))
    process.once(signal, async () => {
      stopping.abort(new Error(`stopped by ${signal}`))
      // Without waiting for what is under way, which would take too long.
      await undo.run()
      process.exit(code)
    })
  try {
    return (await new Run(options, stopping).start(undo)) ? 0 : 1
  } catch (error) {
    if (!stopping.signal.aborted) console.error(error)
    return 1
  } finally {
    await undo.run()
  }
}

process.exit(await main())

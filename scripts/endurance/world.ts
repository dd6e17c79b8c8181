// Everything that runs, and the order in which it starts and ends.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTestCa } from '../test/certificates.ts'
import { type AcmeCa, HTTP_01_PORT, startAcmeCa } from './acme-ca.ts'
import type { Route } from './balancer.ts'
import { closeConnections, send, type Target } from './client.ts'
import { type Cluster, startCluster } from './cluster.ts'
import { until } from './commands.ts'
import { type Identity, startIdentity } from './identity.ts'
import { ANY_REPLICA } from './journal.ts'
import { type Host, Network } from './network.ts'
import type { Options } from './options.ts'
import { Program } from './program.ts'
import type { Random } from './random.ts'
import {
  AUTH_PORT,
  CERT_PORT,
  CHALLENGE_PORT,
  isReady,
  type Replica,
  type ReplicaOptions,
  startReplicas,
} from './replicas.ts'

const REPLICAS = 3
const PEOPLE = 40
const MINUTE = 60
const DAY_MS = 86_400_000

export interface World {
  readonly network: Network
  /** Undefined with SQLite. */
  readonly cluster: Cluster | undefined
  readonly acmeCa: AcmeCa
  readonly balancer: Program
  readonly cert: readonly Replica[]
  readonly auth: readonly Replica[]
  readonly people: readonly string[]
  readonly provider: Target
  /** Where a client may send requests for a service: each replica, and the balancer. */
  targets(service: 'cert' | 'auth'): readonly Target[]
}

/** Ends what was begun, the last one first. */
export class Undo {
  readonly #steps: (() => unknown)[] = []
  #running: Promise<void> | undefined

  add(step: () => unknown): void {
    this.#steps.unshift(step)
  }

  /** Once, however often it is asked for: Ctrl-C comes while the end may be near already. */
  run = (): Promise<void> => (this.#running ??= this.#runAll())

  async #runAll(): Promise<void> {
    for (const step of this.#steps) {
      try {
        await step()
      } catch (error) {
        console.error(error)
      }
    }
  }
}

/** A folder for everything that the run writes. */
export function makeFolder(undo: Undo): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-endurance-'))
  undo.add(() => rmSync(folder, { recursive: true, force: true }))
  // The databases run as somebody else.
  chmodSync(folder, 0o755)
  return folder
}

/** Starts everything; resolves when all replicas are ready. */
export async function startWorld(
  folder: string,
  options: Options,
  random: Random,
  undo: Undo,
): Promise<World> {
  const network = await Network.create()
  undo.add(network.remove)
  undo.add(closeConnections)
  const cluster = options.storage === 'postgres' ? await startCluster(network, folder) : undefined
  if (cluster) undo.add(() => cluster.stop())

  // Valid for clocks that were moved as well.
  const serverCa = await createTestCa(Date.now() - DAY_MS)
  const people = Array.from({ length: PEOPLE }, (_, n) => `person-${n}`)
  const identity = await startIdentity(network.address, serverCa, people)
  undo.add(() => identity.close())
  const front = await network.add('balancer')
  // So that some are renewed within the run, and none ends while a failover takes its time.
  const acmeValiditySeconds = Math.max(3 * MINUTE, Math.min(10, options.minutes / 3) * MINUTE)
  const around = { network, folder, serverCa, target: front.address }
  const acmeCa = await startAcmeCa({ ...around, validitySeconds: acmeValiditySeconds })
  undo.add(() => acmeCa.stop())

  const count = cluster ? REPLICAS : 1
  const settings = {
    ...{ network, folder, acmeValiditySeconds, url: cluster?.url },
    ...{ acmeDirectory: acmeCa.directory, issuerUrl: identity.issuer, caPem: serverCa.root },
    clocks: cluster ? movedClocks(random) : new Map<string, string>(),
  }
  const { cert, auth } = await startServices(count, settings, undo)
  const balancer = startBalancer(front, cert, auth, folder)
  undo.add(() => balancer.end())
  await until('the balancer', async () => {
    const { status } = await send({ ...front, port: CERT_PORT }, { path: '/healthz' })
    return status === 200 || undefined
  })
  return {
    ...{ network, cluster, acmeCa, balancer, cert, auth, people },
    provider: providerOf(identity, serverCa.root),
    targets: (service) =>
      service === 'cert'
        ? [...targetsOf(cert), { name: ANY_REPLICA, address: front.address, port: CERT_PORT }]
        : [...targetsOf(auth), { name: ANY_REPLICA, address: front.address, port: AUTH_PORT }],
  }
}

async function startServices(count: number, settings: ReplicaOptions, undo: Undo) {
  const cert = await startReplicas('cert-service', count, settings)
  const auth = await startReplicas('forward-auth', count, settings)
  for (const { program } of [...cert, ...auth]) undo.add(() => program.end())
  for (const replica of [...cert, ...auth])
    await until(`${replica.name} is ready`, async () => (await isReady(replica)) || undefined)
  return { cert, auth }
}

export const targetsOf = (replicas: readonly Replica[]): readonly Target[] =>
  replicas.map(({ name, address, port }) => ({ name, address, port }))

/** One replica of each service has a clock that is wrong by five minutes. */
function movedClocks(random: Random): ReadonlyMap<string, string> {
  const ofOne = (short: string): [string, string] => [
    `${short}-${1 + random.below(REPLICAS)}`,
    random.pick(['+5m', '-5m']),
  ]
  return new Map([ofOne('cert'), ofOne('auth')])
}

function providerOf({ issuer }: Identity, ca: string): Target {
  const { hostname, port } = new URL(issuer)
  return { name: 'provider', address: hostname, port: Number(port), ca }
}

function startBalancer(
  host: Host,
  cert: readonly Replica[],
  auth: readonly Replica[],
  folder: string,
): Program {
  const to = (replicas: readonly Replica[], port: number) =>
    replicas.map(({ address }) => `${address}:${port}`)
  const routes: readonly Route[] = [
    { host: host.address, port: HTTP_01_PORT, to: to(cert, CHALLENGE_PORT) },
    { host: host.address, port: CERT_PORT, to: to(cert, CERT_PORT) },
    { host: host.address, port: AUTH_PORT, to: to(auth, AUTH_PORT) },
  ]
  const file = join(import.meta.dirname, 'balancer.ts')
  const program = new Program({
    host,
    logFile: join(folder, 'balancer.log'),
    command: [process.execPath, file, JSON.stringify(routes)],
  })
  program.start()
  return program
}

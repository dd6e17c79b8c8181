import { existsSync, readFileSync } from 'node:fs'
import type {
  AcmeClients,
  AcmeLoad,
  AcmeResult,
  ClientsId,
  GeneratorReady,
} from './harness/acme-generator.ts'
import { startChild } from './harness/child.ts'
import { compare, type Effort, median, type Round } from './harness/compare.ts'
import { httpRequest, startServers, type Target } from './harness/http.ts'
import { atLeast, atMost, compared, notMeasured, type Row, stated } from './harness/rows.ts'
import type { Memory, ServerReady } from './harness/serve.ts'
import { API_KEY } from './harness/service-files.ts'
import { type StepCa, startStepCa } from './harness/step-ca.ts'
import { startLeafSides } from './leaf.ts'

const MIB = 2 ** 20
const ACCOUNTS = 10_000
const NONCES = 100_000
const CONNECTIONS = 32
const MOST_REQUESTS = 5
const MOST_MS = 60
const FLOOR = 'raw signatures of an order'

/** Orders of ACME clients at the private CA, in each case durable before the answer. */
export async function* acmeServer(effort: Effort): AsyncGenerator<Row> {
  if (effort.wants('acme-server: alone')) yield* await alone(effort)
  const isStated = (name: string) => effort.comparisons === 'all' && effort.wants(name)
  if (isStated('acme-server: orders')) yield* await orders(effort)
  if (isStated('acme-server: requests')) yield* await requests(effort)
  if (isStated('acme-server: accounts')) yield await ofMany(effort)
  if (isStated('acme-server: nonces')) yield await ofNonces()
  if (effort.wants('acme-server: step-ca')) yield* await besideStepCa(effort)
}

export interface Slice extends AcmeResult {
  /** Seconds that the server has used. */
  readonly cpu: number
}

/** How a side is driven: by whom, what they do, and what becomes the figure. */
export interface Drive {
  readonly server: string
  readonly clients: Omit<AcmeClients, 'port' | 'ca'>
  readonly what: AcmeLoad['what']
  readonly figure: 'per cpu second' | 'per second' | 'p50'
  readonly args?: readonly string[]
  readonly onResult?: (slice: Slice) => void
}

/** Clients that are bound to the caller of the bench, by its rules. */
export const BOUND: Drive['clients'] = {
  directory: '/acme/directory',
  accounts: CONNECTIONS,
  connections: CONNECTIONS,
  names: 'dns',
  external: { path: '/api/acme/key', authorization: `APIKey ${API_KEY}` },
}
export const ORDERS: Drive = {
  server: 'cert-service',
  clients: BOUND,
  what: 'order',
  figure: 'per second',
  args: ['tls'],
}

async function alone({ noise, ...effort }: Effort): Promise<Row[]> {
  let requests = 0
  const onResult = (result: AcmeResult) => {
    requests = result.requests / result.answers
  }
  const clients = { ...BOUND, accounts: 1, connections: 1 }
  const drive: Drive = { ...ORDERS, clients, figure: 'p50', onResult }
  const { value } = await compare(() => startAcme({ order: drive }), { noise, ...effort })
  const row = (name: string, value: number, most: number, unit: string) =>
    atMost({ name, value, unit, baseline: most, ratio: value / most, target: 1, noise })
  return [
    row('acme-server: alone, requests of an order / allowed', requests, MOST_REQUESTS, ''),
    row('acme-server: alone, newOrder to certificate / allowed', value('order'), MOST_MS, 'ms'),
  ]
}

async function orders(effort: Effort): Promise<Row[]> {
  const plain = { ...ORDERS, args: [] }
  const { value, ratio } = await compare(
    () => together(startAcme({ http: plain, https: ORDERS }), startLeafSides([FLOOR])),
    effort,
  )
  return [
    compared({
      name: `acme-server: orders over HTTP, durable / ${FLOOR}`,
      value: value('http'),
      unit: '/s',
      baseline: value(FLOOR),
      ratio: ratio('http', FLOOR),
    }),
    stated('acme-server: orders over HTTPS, durable', value('https'), '/s'),
  ]
}

/** What it costs that keys are not in memory, and that the store is larger. */
async function ofMany(effort: Effort): Promise<Row> {
  const few: Drive = { ...ORDERS, args: [], figure: 'per cpu second' }
  const many: Drive = { ...few, clients: { ...BOUND, accounts: ACCOUNTS } }
  const { value, ratio } = await compare(() => startAcme({ few, many }), effort)
  return compared({
    name: `acme-server: accounts, orders of 10,000 in turn / of ${CONNECTIONS}`,
    value: value('many'),
    unit: '/s',
    baseline: value('few'),
    ratio: ratio('many', 'few'),
  })
}

async function requests(effort: Effort): Promise<Row[]> {
  const own = (what: AcmeLoad['what']): Drive => ({
    ...ORDERS,
    args: [],
    what,
    figure: 'per cpu second',
  })
  const nonce = [httpRequest('GET', '/acme/new-nonce')]
  const bare: Target = { server: 'bare-answer', args: ['500'], requests: [] }
  const { value, ratio } = await compare(
    () =>
      together(
        startAcme({
          read: own('read'),
          refused: own('refused'),
        }),
        startServers({
          'bare GET': { ...bare, requests: nonce },
          newNonce: { server: 'cert-service', requests: nonce },
          'bare POST': {
            ...bare,
            requests: [httpRequest('POST', '/api/certificate', { body: { a: 'x'.repeat(400) } })],
          },
        }),
      ),
    effort,
  )
  type Side = Parameters<typeof value>[0]
  const row = (name: string, side: Side, baseline: Side) =>
    compared({
      name: `acme-server: requests, ${name}`,
      value: value(side),
      unit: 'req/s',
      baseline: value(baseline),
      ratio: ratio(side, baseline),
    })
  return [
    row('newNonce / bare Fastify GET', 'newNonce', 'bare GET'),
    row('POST-as-GET of an order / bare Fastify POST', 'read', 'bare POST'),
    row('one with a wrong signature / bare Fastify POST', 'refused', 'bare POST'),
  ]
}

async function ofNonces(): Promise<Row> {
  const live = async (...args: string[]) => {
    const server = await startChild<ServerReady>('../sides/cert-service.ts', { core: 0, args })
    const { live } = await server.call<Memory>('memory')
    await server.stop()
    return live / MIB
  }
  const added = (await live(`nonces=${NONCES}`)) - (await live())
  return stated(`acme-server: nonces, live memory of ${NONCES} used ones`, added, 'MiB')
}

/** The same clients, keys and addresses, one after the other, each server on the one core. */
async function besideStepCa(effort: Effort): Promise<Row[]> {
  const program = process.env.STEP_CA ?? ''
  if (!existsSync(program)) return [notMeasured('acme-server: step-ca', 'STEP_CA names no program')]
  const rounds: Record<string, Slice[]>[] = []
  const onResult = (side: string) => (slice: Slice) => {
    const round = rounds.at(-1)!
    round[side] = [...(round[side] ?? []), slice]
  }
  const { external: _, ...unbound } = BOUND
  const open = { ...unbound, names: 'ip' } as const
  const step = { ...open, directory: '/acme/acme/directory' }
  const sides = {
    rules: { ...ORDERS, onResult: onResult('rules') },
    'http-01': { ...ORDERS, clients: open, args: ['tls', 'proofs'], onResult: onResult('http-01') },
    'step-ca': { ...ORDERS, server: program, clients: step, onResult: onResult('step-ca') },
  } satisfies Record<string, Drive>
  const { value, ratio } = await compare(() => {
    rounds.push({})
    return startAcme(sides)
  }, effort)
  // Those before warmed a side up.
  const slices = (side: string) => rounds.flatMap((round) => round[side]!.slice(-effort.slices))
  const cpu = (side: string) =>
    median(slices(side).map(({ cpu, answers }) => cpu / answers)) * 1_000
  const baseline = value('step-ca')
  const sum = (what: 'answers' | 'failed') =>
    slices('step-ca').reduce((all, slice) => all + slice[what], 0)
  return [
    atLeast({
      name: 'acme-server: step-ca, orders by rules (3 requests) / its by http-01 (5 requests)',
      value: value('rules'),
      unit: '/s',
      baseline,
      ratio: ratio('rules', 'step-ca'),
      target: 1.5,
      noise: effort.noise,
    }),
    compared({
      name: 'acme-server: step-ca, orders by http-01 (5 requests) / its',
      value: value('http-01'),
      unit: '/s',
      baseline,
      ratio: ratio('http-01', 'step-ca'),
    }),
    ...(['rules', 'http-01'] as const).map((side) =>
      compared({
        name: `acme-server: step-ca, CPU time of an order by ${side} / its`,
        value: cpu(side),
        unit: 'ms',
        baseline: cpu('step-ca'),
        ratio: cpu(side) / cpu('step-ca'),
      }),
    ),
    stated(
      'acme-server: step-ca, of its orders failed',
      (100 * sum('failed')) / (sum('failed') + sum('answers')),
      '%',
    ),
  ]
}

/** Starts a server for each side on the first core, and one process of clients on the second. */
export async function startAcme<Side extends string>(
  drives: Record<Side, Drive>,
): Promise<Round<Side>> {
  const generator = await startChild<GeneratorReady>('./acme-generator.ts', { core: 1 })
  const { proofPort } = generator.ready
  const stops: (() => Promise<void>)[] = [() => generator.stop()]
  const measure = {} as Record<Side, (ms: number) => Promise<number>>
  for (const [side, drive] of Object.entries(drives) as [Side, Drive][]) {
    const server = await startServer(drive, proofPort)
    stops.push(() => server.stop())
    const { port, ca } = server
    const own: AcmeClients = { ...drive.clients, port, ca }
    const clients = await generator.call<ClientsId>(own)
    measure[side] = async (ms) => {
      const before = cpuOf(server.pid)
      const load: AcmeLoad = { clients, what: drive.what, ms }
      const result = await generator.call<AcmeResult>(load)
      const cpu = cpuOf(server.pid) - before
      if (result.failed > 0 && drive.server === 'cert-service') throw new Error('an order failed')
      drive.onResult?.({ ...result, cpu })
      if (drive.figure === 'p50') return result.p50
      return result.answers / (drive.figure === 'per second' ? result.seconds : cpu)
    }
  }
  return {
    measure,
    stop: async () => {
      await Promise.all(stops.map((stop) => stop()))
    },
  }
}

type Server = Pick<StepCa, 'port' | 'pid' | 'stop'> & { readonly ca?: string | undefined }

async function startServer({ server, args = [] }: Drive, proofPort: number): Promise<Server> {
  if (server !== 'cert-service') return startStepCa(server, proofPort)
  const child = await startChild<ServerReady>('../sides/cert-service.ts', {
    core: 0,
    args: args.map((arg) => (arg === 'proofs' ? `proofs=${proofPort}` : arg)),
  })
  return { ...child.ready, pid: child.pid, stop: () => child.stop() }
}

/** Seconds that all threads of a process have used, in steps of a hundredth. */
export function cpuOf(pid: number): number {
  const [, fields = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const [user, system] = fields.split(' ').slice(11)
  return (Number(user) + Number(system)) / 100
}

async function together<A extends string, B extends string>(
  ...rounds: [Promise<Round<A>>, Promise<Round<B>>]
): Promise<Round<A | B>> {
  const [a, b] = await Promise.all(rounds)
  return {
    measure: { ...a.measure, ...b.measure } as Round<A | B>['measure'],
    stop: async () => {
      await Promise.all([a.stop(), b.stop()])
    },
  }
}

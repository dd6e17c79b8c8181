import { randomBytes } from 'node:crypto'
import { bundle } from '../scripts/bundle.ts'
import { type PostgresServer, startPostgres } from '../scripts/test/postgres.ts'
import { type Child, startChild } from './harness/child.ts'
import { compare, type Effort, median, type Round } from './harness/compare.ts'
import { certificateRequest, startServers, type Target } from './harness/http.ts'
import type { Load, LoadResult, RequestsId } from './harness/load-generator.ts'
import { atLeast, compared, type Row, stated } from './harness/rows.ts'
import type { ServerReady } from './harness/serve.ts'
import { API_KEY, certServiceFiles, databaseStorage } from './harness/service-files.ts'
import { checkRequest, visitorCookies } from './harness/visitors.ts'
import { startMs } from './start.ts'

const NAMES = Array.from({ length: 200 }, (_, n) => `app-${n}.example.com`)
const NEW = certificateRequest('n########.example.com')
const VISITORS = 1_000
const REPLICAS = 3
/** As an operator sets up a database: what it has confirmed is on the disk. */
const DURABLE = { fsync: 'on', full_page_writes: 'on', shared_buffers: '128MB' }

type StorageOf = (service: 'certs' | 'auth') => string

/** The same load on SQLite and on PostgreSQL, with one and with three replicas. */
export async function* replicas(effort: Effort): AsyncGenerator<Row> {
  const closing: (() => unknown)[] = []
  const server = await startPostgres(
    { teardown: (close) => closing.push(close) },
    {
      settings: DURABLE,
    },
  )
  try {
    const storage = storageIn(server)
    yield* await fromMemory(effort, storage)
    yield* await issued(effort, storage)
    yield* await several(effort, storage)
    yield* await large(effort, server)
  } finally {
    for (const close of closing.toReversed()) await close()
  }
}

/** Each call gives a new store: a schema of its own. */
function storageIn({ url }: PostgresServer): StorageOf {
  let count = 0
  const masterKey = randomBytes(32).toString('base64')
  return (service) => {
    count += 1
    const schema = `bench_${service}_${count}`
    return databaseStorage(url, schema, service === 'certs' ? masterKey : undefined)
  }
}

/** A certificate that is held, and a check, are answered from memory on both. */
async function fromMemory(effort: Effort, storage: StorageOf): Promise<Row[]> {
  const checks = visitorCookies(VISITORS).map((cookie) => checkRequest(cookie))
  const posts = NAMES.map((name) => certificateRequest(name))
  return [
    await compareEngines('POST of a held certificate', effort, {
      server: 'cert-service',
      storage: storage('certs'),
      requests: posts,
    }),
    await compareEngines('check of a session seen before', effort, {
      server: 'forward-auth',
      storage: storage('auth'),
      requests: checks,
    }),
  ]
}

async function compareEngines(
  what: string,
  effort: Effort,
  { server, storage, requests }: Pick<Target, 'server' | 'requests'> & { storage: string },
): Promise<Row> {
  const sessions = server === 'forward-auth' ? [String(VISITORS)] : []
  const { value, ratio } = await compare(
    () =>
      startServers({
        SQLite: { server, args: ['', ...sessions], requests },
        PostgreSQL: { server, args: [storage, ...sessions], requests },
      }),
    effort,
  )
  return atLeast({
    name: `replicas: ${what}, PostgreSQL / SQLite`,
    value: value('PostgreSQL'),
    unit: 'req/s',
    baseline: value('SQLite'),
    ratio: ratio('PostgreSQL', 'SQLite'),
    target: 1,
    noise: effort.noise,
  })
}

/** New certificates: a write to the disk, and on PostgreSQL a way through the network. */
async function issued(effort: Effort, storage: StorageOf): Promise<Row[]> {
  const times: Record<string, LoadResult[]> = { SQLite: [], PostgreSQL: [] }
  const target = (side: string, args: readonly string[]): Target => ({
    server: 'cert-service',
    args,
    requests: [NEW],
    measured: 'per second',
    onResult: (result) => times[side]?.push(result),
  })
  const { value, ratio } = await compare(
    () =>
      startServers({
        SQLite: target('SQLite', []),
        PostgreSQL: target('PostgreSQL', [storage('certs')]),
        'SQLite, CPU': { server: 'cert-service', requests: [NEW] },
        'PostgreSQL, CPU': { server: 'cert-service', args: [storage('certs')], requests: [NEW] },
      }),
    effort,
  )
  const timeOf = (side: string, of: (result: LoadResult) => number) =>
    median((times[side] ?? []).map(of))
  return [
    atLeast({
      name: 'replicas: new certificates over HTTP, PostgreSQL / SQLite, one process each',
      value: value('PostgreSQL'),
      unit: '/s',
      baseline: value('SQLite'),
      ratio: ratio('PostgreSQL', 'SQLite'),
      target: 0.5,
      noise: effort.noise,
    }),
    compared({
      name: 'replicas: CPU time of the process for a new certificate, PostgreSQL / SQLite',
      value: 1000 / value('PostgreSQL, CPU'),
      unit: 'ms',
      baseline: 1000 / value('SQLite, CPU'),
      ratio: ratio('SQLite, CPU', 'PostgreSQL, CPU'),
    }),
    ...(['p50', 'p99'] as const).map((name) =>
      compared({
        name: `replicas: ${name} of new certificates with 64 connections at full load, PostgreSQL / SQLite`,
        value: timeOf('PostgreSQL', (result) => result[name]),
        unit: 'ms',
        baseline: timeOf('SQLite', (result) => result[name]),
        ratio:
          timeOf('PostgreSQL', (result) => result[name]) /
          timeOf('SQLite', (result) => result[name]),
      }),
    ),
  ]
}

/** Replicas on the cores of one machine: they share these with each other and the database. */
async function several(effort: Effort, storage: StorageOf): Promise<Row[]> {
  const p99: number[] = []
  const { value, ratio } = await compare(async () => {
    const one = await startReplicas(1, storage('certs'), () => {})
    const three = await startReplicas(REPLICAS, storage('certs'), (result) => p99.push(result.p99))
    return {
      measure: { one: one.measure.rate, three: three.measure.rate },
      stop: async () => {
        await Promise.all([one.stop(), three.stop()])
      },
    }
  }, effort)
  return [
    compared({
      name: `replicas: new certificates over HTTP on PostgreSQL, ${REPLICAS} replicas / 1, on two cores`,
      value: value('three'),
      unit: '/s',
      baseline: value('one'),
      ratio: ratio('three', 'one'),
    }),
    stated(`replicas: p99 of new certificates of ${REPLICAS} replicas`, median(p99), 'ms'),
  ]
}

/** A replica of a store that has many certificates, which share a key and differ in their names. */
async function large({ rounds }: Effort, server: PostgresServer): Promise<Row[]> {
  const schema = 'bench_large'
  const masterKey = randomBytes(32).toString('base64')
  const storage = databaseStorage(server.url, schema, masterKey)
  const first = await startChild<ServerReady>('../sides/cert-service.ts', {
    core: 0,
    args: [storage, 'holds=first.example.com'],
  })
  await first.stop()
  await server.sql(copiesOf(schema))
  await server.sql(`VACUUM ANALYZE ${schema}.certificates`)

  const files = certServiceFiles('off', storage)
  const program = await bundle('cert-service')
  const starts: number[] = []
  for (let n = 0; n < rounds; n++)
    starts.push(await startMs([program, 'serve', '--config', files.config]))
  files.remove()
  const replica = await startChild<ServerReady>('../sides/cert-service.ts', {
    core: 0,
    args: [storage],
  })
  const listings: number[] = []
  for (let n = 0; n < LISTINGS; n++) listings.push(await listingMs(replica.ready))
  await replica.stop()
  const number = MANY.toLocaleString('en-GB')
  return [
    stated(`replicas: start with ${number} certificates in PostgreSQL`, median(starts), 'ms'),
    stated(`replicas: listing of 100 of them over HTTP, p50`, median(listings), 'ms'),
  ]
}

const MANY = 200_000
const LISTINGS = 50

/** SQL that copies the only certificate of a schema. */
function copiesOf(schema: string): string {
  const columns = `is_current, issuer, name_count, key_type, fingerprint, certificate, chain, sealed_key,
    not_before, not_after, renew_at, fetched_at, fetched_ran, made_at, made_ran, probe_at`
  const names = `json_build_array(n || domain)::text`
  return `INSERT INTO ${schema}.certificates (request_key, domain, names, searched, serial_number, ${columns})
    SELECT request_key || n, n || domain, ${names}, ${names}, md5(n::text), ${columns}
    FROM ${schema}.certificates, generate_series(1, ${MANY}) AS n WHERE is_current`
}

async function listingMs({ port }: ServerReady): Promise<number> {
  const started = performance.now()
  const answer = await fetch(`http://127.0.0.1:${port}/api/certificates?limit=100`, {
    headers: { authorization: `APIKey ${API_KEY}` },
  })
  if (answer.status !== 200) throw new Error(await answer.text())
  await answer.arrayBuffer()
  return performance.now() - started
}

/** Replicas of one store, each with connections of its own: `rate` is that of all together. */
async function startReplicas(
  count: number,
  storage: string,
  onResult: (result: LoadResult) => void,
): Promise<Round<'rate'>> {
  const children: Child[] = []
  const drives: ((ms: number) => Promise<LoadResult>)[] = []
  for (let n = 0; n < count; n++) {
    const core = n % 2 === 0 ? 0 : 1
    const args = [storage]
    const server = await startChild<ServerReady>('../sides/cert-service.ts', { core, args })
    const generator = await startChild('./load-generator.ts', { core: 1 })
    // Each generator has numbers of its own.
    const requests = await generator.call<RequestsId>([
      certificateRequest(`r${n}-########.example.com`),
    ])
    children.push(server, generator)
    drives.push((ms) => {
      const connections = Math.floor(64 / count)
      const load: Load = { ...server.ready, connections, ms, requests }
      return generator.call<LoadResult>(load)
    })
  }
  return {
    measure: {
      async rate(ms) {
        const results = await Promise.all(drives.map((drive) => drive(ms)))
        for (const result of results) onResult(result)
        return results.reduce((sum, { answers, seconds }) => sum + answers / seconds, 0)
      },
    },
    stop: async () => {
      await Promise.all(children.map((child) => child.stop()))
    },
  }
}

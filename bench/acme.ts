import { spawnSync } from 'node:child_process'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { startPebbleServer } from '../packages/acme/test/integration/pebble.ts'
import { openStore } from '../packages/cert-store/src/index.ts'
import type { Store } from '../packages/cert-store/src/port/store.ts'
import { buildApp } from '../services/cert-service/src/app.ts'
import { loadCertConfig } from '../services/cert-service/src/config/load.ts'
import { AUTHORIZATION, writeExample } from '../services/cert-service/test/helpers/acme-example.ts'
import { startPublicDns } from '../services/cert-service/test/helpers/public-dns.ts'
import type { Effort } from './harness/compare.ts'
import { notMeasured, type Row, stated } from './harness/rows.ts'

const AT_A_TIME = 20
const ALONE = 10
const ORDERS_PER_ROUND = 30

/** Certificates of a public CA: Pebble that never sleeps, BIND, rfc2136 and SQLite on one machine. */
export async function* acme({ rounds }: Effort): AsyncGenerator<Row> {
  const env = { PATH: `${process.env.PATH}:/usr/sbin` }
  const missing = ['pebble', 'named'].find((program) => spawnSync(program, ['-v'], { env }).error)
  if (missing) return yield notMeasured('acme', `there is no ${missing}`)
  const closing: (() => unknown)[] = []
  try {
    yield* await measure(rounds, { teardown: (close) => void closing.push(close) })
  } finally {
    for (const close of closing.reverse()) await close()
  }
}

async function measure(
  rounds: number,
  context: { teardown(close: () => unknown): void },
): Promise<Row[]> {
  const { order, writes } = await startService(context)
  await order()
  const times: number[] = []
  for (let n = 0; n < ALONE; n += 1) {
    const started = performance.now()
    await order()
    times.push(performance.now() - started)
  }
  const before = writes()
  const count = rounds * ORDERS_PER_ROUND
  const started = performance.now()
  let left = count
  const orderOn = async () => {
    while (left-- > 0) await order()
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, orderOn))
  const minutes = (performance.now() - started) / 60_000
  return [
    stated(
      'acme: from POST to certificate by dns-01, alone',
      times.toSorted((a, b) => a - b)[ALONE / 2] ?? 0,
      'ms',
    ),
    stated(`acme: orders by dns-01, ${AT_A_TIME} at a time`, count / minutes, '/min'),
    stated('acme: writes to the store per order', (writes() - before) / count, ''),
  ]
}

/** What orders a certificate for a name that nobody had before. */
async function startService(context: { teardown(close: () => unknown): void }) {
  const dns = await startPublicDns(context)
  const env = { PEBBLE_WFE_NONCEREJECT: '0', PEBBLE_AUTHZREUSE: '0' }
  const pebble = await startPebbleServer(context, { dns: dns.server, env })
  const provider = (own: object) => ({ ...own, server: dns.server })
  const file = writeExample(context, 'rfc2136.yaml', { pebble, dns, provider })
  const { value: config } = await loadCertConfig(file, {})
  const stream = { write() {} }
  const log = createLogger({ ...config.log, format: 'json', name: 'cert-service', stream })
  let written = 0
  const app = await buildApp(config, {
    log,
    openStore: async (options) => countWrites(await openStore(options), () => written++),
  })
  context.teardown(() => app.close())
  let name = 0
  return {
    writes: () => written,
    async order(): Promise<void> {
      name += 1
      const payload = { domain: `n${name}.example.com` }
      const headers = AUTHORIZATION
      const answer = await app.inject({ method: 'POST', url: '/api/certificate', headers, payload })
      if (answer.statusCode !== 200) throw new Error(`${payload.domain}: ${answer.statusCode}`)
    },
  }
}

const WRITES = /^(add|change|create|delete|drop|file|put|remove|replace|revoke|save|set)|countSeals/

function countWrites(store: Store, onWrite: () => void): Store {
  return new Proxy(store, {
    get(target, method: keyof Store & string) {
      if (WRITES.test(method)) onWrite()
      return target[method]
    },
  })
}

import { startChild } from './harness/child.ts'
import { compare, type Effort, median } from './harness/compare.ts'
import { certificateRequest, startServers } from './harness/http.ts'
import type { LoadResult } from './harness/load-generator.ts'
import { atLeast, type Row, stated } from './harness/rows.ts'
import type { ServerReady } from './harness/serve.ts'
import { API_KEY } from './harness/service-files.ts'

const NAMES = 200
const requests = Array.from({ length: NAMES }, (_, n) => certificateRequest(`app-${n}.example.com`))

/** Certificates that are held, through guard, policy, audit and log, against a body of that size. */
export async function handOut(effort: Effort): Promise<Row[]> {
  const p99: number[] = []
  const bodyBytes = String(await measureAnswer())
  const { value, ratio } = await compare(
    () =>
      startServers({
        bare: { server: 'bare-post', args: [bodyBytes], requests },
        service: {
          server: 'cert-service',
          requests,
          onResult: (result: LoadResult) => p99.push(result.p99),
        },
      }),
    effort,
  )
  return [
    atLeast({
      name: 'hand-out: POST /api/certificate from the store / bare Fastify POST of that size',
      value: value('service'),
      unit: 'req/s',
      baseline: value('bare'),
      ratio: ratio('service', 'bare'),
      target: 0.6,
      noise: effort.noise,
    }),
    stated('hand-out: p99 with 64 connections at full load', median(p99), 'ms'),
  ]
}

/** Bytes in the body of one answer. */
async function measureAnswer(): Promise<number> {
  const server = await startChild<ServerReady>('../sides/cert-service.ts', { core: 0 })
  const answer = await fetch(`http://127.0.0.1:${server.ready.port}/api/certificate`, {
    method: 'POST',
    headers: { authorization: `APIKey ${API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ domain: 'app-0.example.com' }),
  })
  const body = await answer.arrayBuffer()
  await server.stop()
  return body.byteLength
}

import { startChild } from './harness/child.ts'
import { compare, type Effort, median } from './harness/compare.ts'
import { certificateRequest, httpRequest, startServers } from './harness/http.ts'
import type { LoadResult } from './harness/load-generator.ts'
import { atLeast, type Row, stated } from './harness/rows.ts'
import type { ServerReady } from './harness/serve.ts'
import { API_KEY } from './harness/service-files.ts'

const NAMES = Array.from({ length: 200 }, (_, n) => `app-${n}.example.com`)
const AUTHORIZATION = `APIKey ${API_KEY}`

/** Certificates that are held, through guard, policy and audit, against a body of that size. */
export async function* held(effort: Effort): AsyncGenerator<Row> {
  const p99: number[] = []
  const args = [String(await measureAnswer())]
  const posts = NAMES.map((name) => certificateRequest(name))
  const gets = NAMES.map((name) =>
    httpRequest('GET', `/api/certificate/${name}`, { authorization: AUTHORIZATION }),
  )
  const onResult = (result: LoadResult) => p99.push(result.p99)
  const { value, ratio } = await compare(
    () =>
      startServers({
        'bare POST': { server: 'bare-answer', args, requests: posts },
        POST: { server: 'cert-service', requests: posts, onResult },
        'bare GET': { server: 'bare-answer', args, requests: gets },
        GET: { server: 'cert-service', args: NAMES.map((name) => `holds=${name}`), requests: gets },
      }),
    effort,
  )
  const row = (method: 'POST' | 'GET', route: string) =>
    atLeast({
      name: `held: ${method} ${route} of a held certificate / bare Fastify ${method} of that size`,
      value: value(method),
      unit: 'req/s',
      baseline: value(`bare ${method}`),
      ratio: ratio(method, `bare ${method}`),
      target: 0.5,
      noise: effort.noise,
    })
  yield row('POST', '/api/certificate')
  yield row('GET', '/api/certificate/:domain')
  yield stated('held: p99 of POST with 64 connections at full load', median(p99), 'ms')
}

/** Bytes in the body of one answer. */
async function measureAnswer(): Promise<number> {
  const server = await startChild<ServerReady>('../sides/cert-service.ts', { core: 0 })
  const answer = await fetch(`http://127.0.0.1:${server.ready.port}/api/certificate`, {
    method: 'POST',
    headers: { authorization: AUTHORIZATION, 'content-type': 'application/json' },
    body: JSON.stringify({ domain: NAMES[0] }),
  })
  const body = await answer.arrayBuffer()
  await server.stop()
  return body.byteLength
}

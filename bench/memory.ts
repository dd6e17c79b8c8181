import { startChild } from './harness/child.ts'
import type { Effort } from './harness/compare.ts'
import { certificateRequest } from './harness/http.ts'
import type { Load, LoadResult, RequestsId } from './harness/load-generator.ts'
import { atMost, type Row, stated } from './harness/rows.ts'
import type { Memory, ServerReady } from './harness/serve.ts'

const MIB = 2 ** 20

/** What a service holds after many certificates against what it held after half of them. */
export async function memory({ certificates, noise }: Effort): Promise<Row[]> {
  const server = await startChild<ServerReady>('../sides/cert-service.ts', { core: 0 })
  const generator = await startChild('./load-generator.ts', { core: 1 })
  const requests = await generator.call<RequestsId>([certificateRequest('n########.example.com')])
  const load: Load = { ...server.ready, connections: 64, ms: 500, requests }
  let issued = 0
  async function issueUntil(count: number): Promise<Memory> {
    while (issued < count) issued += (await generator.call<LoadResult>(load)).answers
    return server.call<Memory>('memory')
  }
  const half = await issueUntil(certificates / 2)
  const all = await issueUntil(certificates)
  await Promise.all([server.stop(), generator.stop()])

  const number = certificates.toLocaleString('en-GB')
  return [
    atMost({
      name: `memory: live after ${number} certificates / after half of them`,
      value: all.live / MIB,
      unit: 'MiB',
      baseline: half.live / MIB,
      ratio: all.live / half.live,
      target: 1.1,
      noise,
    }),
    stated(`memory: resident after ${number} certificates`, all.resident / MIB, 'MiB'),
  ]
}

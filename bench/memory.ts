import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { bundle } from '../scripts/bundle.ts'
import { nodeCommand, startChild } from './harness/child.ts'
import { type Effort, median } from './harness/compare.ts'
import { certificateRequest } from './harness/http.ts'
import type { Load, LoadResult, RequestsId } from './harness/load-generator.ts'
import { atMost, type Row, stated } from './harness/rows.ts'
import type { Memory, ServerReady } from './harness/serve.ts'
import { forwardAuthFiles } from './harness/service-files.ts'
import { checkRequest, storeVisitorsBeside, visitorCookies } from './harness/visitors.ts'

const MIB = 2 ** 20
const SESSIONS = 10_000
/** What forward-auth may take with so many sessions, in MiB. */
const MAX_RESIDENT = 150
const SESSIONS_ROW = `memory: resident of forward-auth with ${SESSIONS.toLocaleString('en-GB')} sessions / allowed`

export async function* memory(effort: Effort): AsyncGenerator<Row> {
  if (effort.wants(SESSIONS_ROW)) yield await ofSessions(effort)
  if (effort.wants('memory: live')) yield* ofCertificates(effort)
}

/** What the bundle holds, as it ships, after each of the sessions was checked six times. */
async function ofSessions({ rounds, noise }: Effort): Promise<Row> {
  const program = await bundle('forward-auth')
  const checks = visitorCookies(SESSIONS).map((cookie) => checkRequest(cookie))
  const figures: number[] = []
  for (let n = 0; n < rounds; n++) figures.push(await residentOf(program, checks))
  const resident = median(figures)
  return atMost({
    name: SESSIONS_ROW,
    value: resident,
    unit: 'MiB',
    baseline: MAX_RESIDENT,
    ratio: resident / MAX_RESIDENT,
    target: 1,
    noise,
  })
}

/** Mebibytes, as Linux tells them. */
async function residentOf(program: string, checks: readonly string[]): Promise<number> {
  const files = forwardAuthFiles()
  await storeVisitorsBeside(files.config, SESSIONS)
  const [command, ...pinned] = nodeCommand(0)
  // As the images and the units for systemd start it.
  const args = [...pinned, '--max-semi-space-size=2', program, 'serve', '--config', files.config]
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  const port = await new Promise<number>((resolve) => {
    child.stdout.on('data', (lines) => {
      const [, found] = /"url":"http:\/\/[^"]*?:(\d+)"/.exec(String(lines)) ?? []
      if (found !== undefined) resolve(Number(found))
    })
  })
  const generator = await startChild('./load-generator.ts', { core: 1 })
  const requests = await generator.call<RequestsId>(checks)
  const load: Load = { port, connections: 64, ms: 500, requests, status: 200 }
  for (let done = 0; done < 6 * checks.length; )
    done += (await generator.call<LoadResult>(load)).answers
  const [, kib] =
    /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8')) ?? []
  await generator.stop()
  child.kill()
  await exited
  files.remove()
  return Number(kib) / 1_024
}

/** What a service holds after many certificates against what it held after half of them. */
async function* ofCertificates({ certificates, noise }: Effort): AsyncGenerator<Row> {
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
  yield atMost({
    name: `memory: live after ${number} certificates / after half of them`,
    value: all.live / MIB,
    unit: 'MiB',
    baseline: half.live / MIB,
    ratio: all.live / half.live,
    target: 1.1,
    noise,
  })
  yield stated(`memory: resident after ${number} certificates`, all.resident / MIB, 'MiB')
}

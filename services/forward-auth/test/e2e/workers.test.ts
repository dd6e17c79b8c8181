import { writeFile } from 'node:fs/promises'
import type { Agent } from 'node:http'
import { join } from 'node:path'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import { Client, credentials } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { programOf } from '../../../../scripts/test/program.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ask, connectEach, startRunning } from '../../../../scripts/test/running.ts'
import { createProbe, PROBE_MARK, REPORT_PATH } from '../../src/doctor/probes.ts'
import { EXT_AUTHZ } from '../../src/grpc/messages.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { bothCookies } from '../helpers/both-cookies.ts'
import { freePort } from '../helpers/process.ts'
import { SHAPES } from '../shapes.ts'

const WORKERS = 3
const UNTOLD = 'a worker could not be told'
const PORTALS = portalOf('main')
const CHECK = { ...SHAPES[0]?.headers, accept: 'application/json' }
const FORM = {
  host: 'auth.example.com',
  origin: 'https://auth.example.com',
  'content-type': 'application/x-www-form-urlencoded',
  'sec-fetch-mode': 'navigate',
  accept: 'text/html',
}

async function start(t: Test, server = '') {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  const rest = `server: { port: 0, workers: ${WORKERS}${server} }
metrics: { enabled: false }
log: { checks: all }
storage: { path: data }`
  await writeFile(file, yamlOf(PORTALS, rest))
  const running = startRunning(t, [...programOf('forward-auth'), 'serve', '--config', file])
  const { url, workers } = await running.said('ready')
  return { ...running, folder, url: String(url), workers: workers as readonly number[] }
}

/** A connection to each worker. */
async function connect(
  t: Test,
  { url, said, workers }: Awaited<ReturnType<typeof start>>,
): Promise<readonly Agent[]> {
  let asked = 0
  const owners = await connectEach(t, workers, async (agent) => {
    await ask(`${url}/portals/main`, { agent, headers: CHECK })
    asked += 1
    return (await said('request', asked)).pid
  })
  return [...new Map([...owners].map(([agent, pid]) => [pid, agent])).values()]
}

t.test('what one worker signs out, all others refuse before it has answered', async (t) => {
  expectWarnings(t, UNTOLD)
  const running = await start(t)
  const { url, folder } = running
  const agents = await connect(t, running)

  // Another instance on the folder makes the sessions.
  const yaml = yamlOf(PORTALS, `storage: { path: "${folder}/data" }`)
  const other = await startApp(t, yaml, undefined, { clock: systemClock })
  const statuses = (cookie: string) =>
    Promise.all(
      agents.map(async (agent) => {
        const headers = { ...CHECK, cookie }
        return (await ask(`${url}/portals/main`, { agent, headers })).status
      }),
    )
  let missed = 0
  for (let n = 0, refusedByAll = 0; refusedByAll < 100; n++) {
    const cookies = await bothCookies(other, { sub: `person-${n}` })
    t.strictSame(await statuses(cookies.app), [200, 200, 200])
    const agent = agents[n % agents.length]!
    const headers = { ...FORM, cookie: cookies.auth }
    const out = await ask(`${url}/portals/main/logout`, { method: 'POST', agent, headers })
    t.equal(out.status, 200)
    let after = await statuses(cookies.app)
    const late = after.filter((status) => status !== 401).length
    if (late === 0) refusedByAll += 1
    missed += late
    // Whom a busy machine keeps from answering for a second is named in the log.
    if (missed > 0) await running.said(UNTOLD, missed)
    while (after.includes(200)) after = await statuses(cookies.app)
    t.strictSame(after, [401, 401, 401])
  }
})

t.test('the doctor learns at any worker what arrived at another one', async (t) => {
  expectWarnings(t, UNTOLD)
  const running = await start(t)
  const agents = await connect(t, running)
  const { app } = await startApp(t, yamlOf(PORTALS))
  const token = createProbe(app.keys.login, Date.now())
  const headers = { ...CHECK, 'user-agent': `${PROBE_MARK}${token}` }
  const arrivedAt = async (agent: Agent) =>
    JSON.parse((await ask(`${running.url}${REPORT_PATH}`, { agent, headers })).body).length
  let missed = 0
  for (const [n, agent] of [...agents, ...agents].entries()) {
    t.equal((await ask(`${running.url}/portals/main`, { agent, headers })).status, 401)
    for (const other of agents) {
      let arrived = await arrivedAt(other)
      for (; arrived < n + 1; arrived = await arrivedAt(other)) {
        missed += 1
        await running.said(UNTOLD, missed)
      }
      t.equal(arrived, n + 1)
    }
  }
})

t.test('all workers answer gRPC on one port', async (t) => {
  expectWarnings(t, 'provider cannot be used')
  const port = await freePort()
  const running = await start(t, `, grpc: { port: ${port} }`)
  await running.said('ready for gRPC', WORKERS)
  const { Check } = EXT_AUTHZ as never as {
    Check: { path: string; requestSerialize: never; responseDeserialize: never }
  }
  const http = { method: 'GET', path: '/', host: 'app.example.com', scheme: 'https' }
  const message = { attributes: { request: { http } } }
  const call = () =>
    new Promise((resolve, reject) => {
      // Otherwise all clients share one connection.
      const options = { 'grpc.use_local_subchannel_pool': 1 }
      const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), options)
      t.teardown(() => client.close())
      const { path, requestSerialize, responseDeserialize } = Check
      client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        message,
        (error, answer) => (error ? reject(error) : resolve(answer)),
      )
    })
  const pids = new Set<unknown>()
  for (let n = 1; pids.size < WORKERS; n++) {
    t.match(await call(), { deniedResponse: {} })
    pids.add((await running.said('request', n)).pid)
  }
  t.strictSame(pids, new Set(running.workers))
  running.child.kill('SIGTERM')
  t.match(await running.ended, { code: 0 })
})

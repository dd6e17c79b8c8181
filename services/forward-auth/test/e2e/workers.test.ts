import { writeFile } from 'node:fs/promises'
import type { Agent } from 'node:http'
import { join } from 'node:path'
import { systemClock } from '@gatehouse/service-kit'
import { testFolder } from '@gatehouse/service-kit/testing'
import { Client, credentials } from '@grpc/grpc-js'
import { fromJSON } from '@grpc/proto-loader'
import t, { type Test } from 'tap'
import { programOf } from '../../../../scripts/test/program.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ask, connections, startRunning } from '../../../../scripts/test/running.ts'
import { createProbe, PROBE_MARK, REPORT_PATH } from '../../src/doctor/probes.ts'
import { EXT_AUTHZ } from '../../src/grpc/messages.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { freePort } from '../helpers/process.ts'
import { SHAPES } from '../shapes.ts'

const WORKERS = 3
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
  const file = join(testFolder(t), 'config.yaml')
  const rest = `server: { port: 0, workers: ${WORKERS}${server} }
metrics: { enabled: false }
log: { checks: all }
storage: { path: data }`
  await writeFile(file, yamlOf(PORTALS, rest))
  const running = startRunning(t, [...programOf('forward-auth'), 'serve', '--config', file])
  const { url, workers } = await running.said('ready')
  return { ...running, url: String(url), workers: workers as readonly number[] }
}

/** Which worker each connection belongs to; there are enough for all. */
async function connect(
  t: Test,
  { url, said }: Awaited<ReturnType<typeof start>>,
): Promise<ReadonlyMap<Agent, unknown>> {
  const owners = new Map<Agent, unknown>()
  for (const agent of connections(t, 2 * WORKERS)) {
    await ask(`${url}/portals/main`, { agent, headers: CHECK })
    owners.set(agent, (await said('request', owners.size + 1)).pid)
  }
  return owners
}

t.test('what one worker signs out, all others refuse before it has answered', async (t) => {
  const running = await start(t)
  const { url } = running
  const owners = await connect(t, running)
  t.strictSame(new Set(owners.values()), new Set(running.workers))

  const { signIn } = await startApp(t, yamlOf(PORTALS), undefined, { clock: systemClock })
  const agents = [...owners.keys()]
  const check = async (agent: Agent, cookie: string) =>
    (await ask(`${url}/portals/main`, { agent, headers: { ...CHECK, cookie } })).status
  const statuses = async (cookie: string) =>
    new Set(await Promise.all(agents.map((agent) => check(agent, cookie))))
  for (let n = 0; n < 100; n++) {
    const cookie = signIn('main', { sub: `person-${n}` })
    const before = await statuses(cookie)
    const agent = agents[n % agents.length]!
    const headers = { ...FORM, cookie }
    const out = await ask(`${url}/portals/main/logout`, { method: 'POST', agent, headers })
    const after = await statuses(cookie)
    t.strictSame([before, out.status, after], [new Set([200]), 200, new Set([401])])
  }
})

t.test('the doctor learns at any worker what arrived at another one', async (t) => {
  const running = await start(t)
  const agents = [...(await connect(t, running)).keys()]
  const { app } = await startApp(t, yamlOf(PORTALS))
  const token = createProbe(app.keys.session.first, Date.now())
  const headers = { ...CHECK, 'user-agent': `${PROBE_MARK}${token}` }
  for (const [n, agent] of agents.entries()) {
    t.equal((await ask(`${running.url}/portals/main`, { agent, headers })).status, 401)
    for (const other of agents) {
      const { body } = await ask(`${running.url}${REPORT_PATH}`, { agent: other, headers })
      t.equal(JSON.parse(body).length, n + 1)
    }
  }
})

t.test('all workers answer gRPC on one port', async (t) => {
  expectWarnings(t, 'provider cannot be used')
  const port = await freePort()
  const running = await start(t, `, grpc: { port: ${port} }`)
  await running.said('ready for gRPC', WORKERS)
  const { Check } = fromJSON(EXT_AUTHZ as never, { defaults: true })[
    'envoy.service.auth.v3.Authorization'
  ] as never as {
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
  for (let n = 1; n <= 4 * WORKERS; n++) {
    t.match(await call(), { deniedResponse: {} })
    pids.add((await running.said('request', n)).pid)
  }
  t.strictSame(pids, new Set(running.workers))
  running.child.kill('SIGTERM')
  t.match(await running.ended, { code: 0 })
})

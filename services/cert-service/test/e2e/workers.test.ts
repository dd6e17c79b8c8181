import { randomBytes, X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import type { Agent } from 'node:http'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { freePort } from '../../../../packages/acme/test/integration/processes.ts'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ask, connectEach, connections, startRunning } from '../../../../scripts/test/running.ts'

const WORKERS = 3
const KEY = 'a-key-of-sixteen-or-more'
const HEADERS = { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' }

async function start(t: Test, { url }: PostgresServer, plainPort: number) {
  const file = join(testFolder(t), 'config.yaml')
  const yaml = `server: { port: 0, workers: ${WORKERS}, tls: off, plainHttp: { port: ${plainPort} } }
metrics: { enabled: false }
storage: { url: "${url}", masterKey: "${randomBytes(32).toString('base64')}" }
auth: { psk: { key: ${KEY} } }
`
  await writeFile(file, yaml)
  const running = startRunning(t, [...programOf('cert-service'), 'serve', '--config', file])
  const { url: at, workers } = await running.said('ready')
  return { ...running, url: String(at), workers: workers as readonly number[] }
}

t.test('several workers on one database are one service', async (t) => {
  expectWarnings(t, 'a worker ended')
  const server = await startPostgres(t)
  const plainPort = await freePort()
  const running = await start(t, server, plainPort)
  const { url, said, workers } = running
  let asked = 0
  const ownerOf = async (agent: Agent) => {
    const path = `/asked/${asked++}`
    await ask(url + path, { agent })
    return (await said('request', 1, path)).pid
  }
  const owners = await connectEach(t, workers, ownerOf)
  const agents = [...owners.keys(), ...connections(t, WORKERS)]
  const issue = async (agent: Agent, domain: string) => {
    const body = JSON.stringify({ domain })
    const options = { method: 'POST', headers: HEADERS, agent, body }
    const answer = await ask(`${url}/api/certificate`, options)
    t.equal(answer.status, 200)
    return new X509Certificate(JSON.parse(answer.body).certificate).serialNumber
  }

  const serials = new Set<string>()
  for (let n = 0; n < 10; n++) {
    const domain = `n${n}.example.com`
    const given = new Set(await Promise.all(agents.map((agent) => issue(agent, domain))))
    t.equal(given.size, 1, 'who asks at once gets one certificate, at whichever worker')
    for (const serial of given) serials.add(serial)
  }
  t.equal(serials.size, 10)

  let plain = 0
  const plainOwners = await connectEach(t, workers, async (agent) => {
    t.equal((await ask(`http://127.0.0.1:${plainPort}/ca/root.pem`, { agent })).status, 200)
    plain += 1
    return (await said('request', plain, '/ca/root.pem')).pid
  })
  const pids = new Set(plainOwners.values())
  t.strictSame(pids, new Set(workers), 'they share the second listener, too')

  const names = async () =>
    (
      await server.sql<{ name: string }>('SELECT name FROM gatehouse_certs.replicas ORDER BY name')
    ).map(({ name }) => name.slice(name.lastIndexOf('/')))
  t.strictSame(await names(), ['/1', '/2', '/3'])
  process.kill(workers[1]!, 'SIGKILL')
  const { worker } = await said('a worker is ready')
  let replicas: readonly string[] = []
  while (replicas.join() !== '/1,/2,/3') replicas = await names()
  t.pass('whoever takes its place is the same replica')
  for (const agent of (await connectEach(t, [workers[0], worker, workers[2]], ownerOf)).keys())
    t.ok(serials.has(await issue(agent, 'n0.example.com')), 'what was issued before is held')

  running.child.kill('SIGTERM')
  t.match(await running.ended, { code: 0, stderr: '' })
})

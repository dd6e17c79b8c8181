import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { startScriptedCa } from '../../../../packages/acme/test/scripted-ca/index.ts'
import { storeFile } from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ask, startRunning } from '../../../../scripts/test/running.ts'
import { until } from '../../../../scripts/test/until.ts'

const KEY = 'a-key-of-sixteen-or-more'
const HEADERS = { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' }
const CALLERS = 5
const names = Array.from({ length: CALLERS }, (_, n) => `n${n}.example.com`)

/** How often the CA is seen to validate: for ever. */
const NEVER = Number.POSITIVE_INFINITY

/** A service at its default settings, whose public CA comes to no end. */
async function startWaiting(t: Test, storage: string) {
  const ca = await startScriptedCa({ validating: NEVER })
  t.teardown(() => ca.close())
  const folder = testFolder(t)
  const start = () => {
    const file = join(folder, 'config.yaml')
    writeFileSync(
      file,
      `server: { port: 0, tls: off }
metrics: { enabled: false }
storage: ${storage.replace('FOLDER', folder)}
auth: { psk: { key: ${KEY} } }
issuers:
  - name: acme
    type: acme
    directory: ${ca.directoryUrl.href}
    challenges: [{ type: http-01, listen: { port: 0 } }]
`,
    )
    return startRunning(t, [...programOf('cert-service'), 'serve', '--config', file])
  }
  const running = start()
  const url = String((await running.said('ready')).url)
  return { ca, running, url, folder, start }
}

const obtain = (url: string, domain: string) =>
  ask(`${url}/api/certificate`, {
    method: 'POST',
    headers: HEADERS,
    body: JSON.stringify({ domain }),
  })

const ENGINES = {
  SQLite: async (_t: Test) => {
    const storage = '{ path: FOLDER/data, masterKeyFile: FOLDER/master.key }'
    const counted = (folder: string) => {
      const sqlite = new DatabaseSync(storeFile(join(folder, 'data')), { readOnly: true })
      const [row] = sqlite.prepare(`SELECT count(*) AS orders FROM orders`).all()
      sqlite.close()
      return { ...row }
    }
    return { storage, counted, left: { orders: CALLERS } }
  },
  PostgreSQL: async (t: Test) => {
    const server = await startPostgres(t)
    const storage = `{ url: "${server.url}", masterKey: "${randomBytes(32).toString('base64')}" }`
    const counted = async () => {
      const count = (table: string) =>
        `(SELECT count(*)::int FROM gatehouse_certs.${table}) AS ${table}`
      const [row] = await server.sql(`SELECT ${['orders', 'leases', 'replicas'].map(count).join()}`)
      return row
    }
    return { storage, counted, left: { orders: CALLERS, leases: 0, replicas: 0 } }
  },
}

for (const [engine, open] of Object.entries(ENGINES))
  t.test(`${engine}: SIGTERM while callers wait for an order`, async (t) => {
    const { storage, counted, left } = await open(t)
    const { ca, running, url, folder, start } = await startWaiting(t, storage)
    const answers = Promise.all(names.map((name) => obtain(url, name)))
    await until(() => ca.count('challenge') === CALLERS)
    const since = performance.now()
    running.child.kill('SIGTERM')

    const locations = new Set<string>()
    for (const { status, headers } of await answers) {
      t.equal(status, 202)
      t.match(headers.location, /^\/api\/orders\/[\w-]+$/)
      locations.add(headers.location ?? '')
    }
    t.equal(locations.size, CALLERS)
    t.match(await running.ended, { code: 0, stderr: '' })
    t.comment(`ended ${Math.round(performance.now() - since)} ms after SIGTERM`)
    t.strictSame(await counted(folder), left)
    t.strictSame(
      running.lines.filter(({ level }) => Number(level) > 30).map(({ msg }) => msg),
      [],
    )

    const again = start()
    const next = (await again.said('ready')).url
    for (const location of locations)
      t.equal((await ask(`${next}${location}`, { headers: HEADERS })).status, 200, 'goes on')
    again.child.kill('SIGINT')
    t.match(await again.ended, { code: 0 })
  })

t.test('PostgreSQL: a replica that stands still is named, whoever has its name', async (t) => {
  expectWarnings(t, 'replicas may still serve')
  const server = await startPostgres(t)
  const storage = `{ url: "${server.url}", masterKey: "${randomBytes(32).toString('base64')}" }`
  const file = join(testFolder(t), 'config.yaml')
  // All three have the same host and port.
  writeFileSync(
    file,
    `server: { port: 0, tls: off }
metrics: { enabled: false }
storage: ${storage}
auth: { psk: { key: ${KEY} } }
`,
  )
  const start = async () => {
    const running = startRunning(t, [...programOf('cert-service'), 'serve', '--config', file])
    return { ...running, url: String((await running.said('ready')).url) }
  }
  const ids = async () =>
    (await server.sql<{ id: string }>('SELECT id FROM gatehouse_certs.replicas')).map(
      ({ id }) => id,
    )
  const b = await start()
  const [idOfB] = await ids()
  const a = await start()
  for (const { url } of [a, b]) t.equal((await obtain(url, 'app.example.com')).status, 200)
  const idOfA = (await ids()).find((id) => id !== idOfB)

  b.child.kill('SIGSTOP')
  a.child.kill('SIGKILL')
  await a.ended
  const again = await start()
  await until(async () => !(await ids()).includes(String(idOfA)))
  const revoked = await ask(`${again.url}/api/certificate/revoke`, {
    method: 'POST',
    headers: HEADERS,
    body: JSON.stringify({ domain: 'app.example.com' }),
  })
  t.match(JSON.parse(revoked.body), { unconfirmed: [`${hostname()}:0`] })
  b.child.kill('SIGCONT')
  await until(async () => {
    const path = `${b.url}/api/certificate/app.example.com`
    return (await ask(path, { headers: HEADERS })).status === 404
  })
})

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Plugin } from 'esbuild'
import t, { type Test } from 'tap'
import { until } from '../../../../packages/cert-store/test/helpers/engines.ts'
import { bundleInto } from '../../../../scripts/bundle.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { type Running, startRunning } from '../../../../scripts/test/running.ts'
import { freePort } from '../../../forward-auth/test/helpers/process.ts'
import { KEY, obtain, revoke } from '../helpers/service.ts'

const SCHEMA = 'gatehouse_certs'
const NEXT_VERSION = '99.0.0'
const NEXT_MIGRATION = 'ALTER TABLE certificates ADD COLUMN later text'

/** The sources of a version to come. */
const NEXT: Plugin = {
  name: 'next-version',
  setup({ onLoad }) {
    onLoad({ filter: /cert-service\/src\/version\.ts$/ }, () => ({
      contents: `export const VERSION = '${NEXT_VERSION}'`,
      loader: 'ts',
    }))
    onLoad({ filter: /cert-store\/src\/schema\/tables\.ts$/ }, async ({ path }) => {
      const contents = await readFile(path, 'utf8')
      return {
        contents: contents.replace(/\n\]\s*$/, `\n() => '${NEXT_MIGRATION}',\n]`),
        loader: 'ts',
      }
    })
  },
}

interface Replica extends Running {
  readonly url: string
}

/** A replica of a version, on the database of all. */
async function replicaOf(t: Test, name: string, database: string) {
  const folder = t.testdirName
  const [config, key] = [join(folder, `${name}.yaml`), join(folder, 'master.key')]
  await writeFile(key, `${Buffer.alloc(32, 1).toString('base64')}\n`, { mode: 0o600 })
  await writeFile(
    config,
    `server: { port: ${await freePort()}, tls: off }
metrics: { enabled: false }
log: { format: json }
storage: { url: "${database}", masterKeyFile: ${key} }
auth: { psk: { key: ${KEY} } }
`,
  )
  return (program: readonly string[]) => startRunning(t, [...program, 'serve', '--config', config])
}

async function ready(running: Running): Promise<Replica> {
  const { url } = await running.said('ready')
  return { ...running, url: url as string }
}

async function serialAt({ url }: Replica, domain: string): Promise<string> {
  const { status, body } = await obtain(url, domain)
  if (status !== 200) throw new Error(`${domain}: ${status} ${JSON.stringify(body)}`)
  return body.serialNumber
}

async function renew({ url }: Replica, domain: string): Promise<number> {
  const response = await fetch(`${url}/api/certificate/renew`, {
    method: 'POST',
    headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ domain }),
  })
  return response.status
}

t.test('a version and the next one serve from one schema', async (t) => {
  const bundling = bundleInto(testFolder(t), 'cert-service', [NEXT])
  const server = await startPostgres(t)
  const startOld = await replicaOf(t, 'old', server.url)
  const startNew = await replicaOf(t, 'new', server.url)
  const next = await bundling
  const a = await ready(startOld(programOf('cert-service')))
  const versions = () =>
    server.sql(`SELECT version FROM ${SCHEMA}.schema_versions ORDER BY version`)
  const count = (await versions()).length

  const issued: string[] = []
  const failed: unknown[] = []
  let isOver = false
  const load = (async () => {
    for (let n = 0; !isOver; n++)
      await serialAt(a, `${n}.load.example`).then(
        (one) => issued.push(one),
        (error) => failed.push(error),
      )
  })()
  await until(() => issued.length > 3)
  const b = await ready(startNew([next]))
  const document = await (await fetch(`${b.url}/openapi.json`)).json()
  t.match(document, { info: { version: NEXT_VERSION } })
  const before = issued.length
  await until(() => issued.length > before + 3)
  isOver = true
  await load
  t.strictSame(failed, [], 'the old version issues while the new one starts, and after it')
  t.equal((await versions()).length, count + 1)
  t.match(await server.sql(`SELECT later FROM ${SCHEMA}.certificates LIMIT 1`), [{ later: null }])

  for (const [one, other, name] of [
    [a, b, 'old'],
    [b, a, 'new'],
  ] as const) {
    const domain = `${name}.example`
    const first = await serialAt(one, domain)
    t.equal(await serialAt(other, domain), first, 'what one issues, the other answers')

    const due = `due.${domain}`
    const early = await serialAt(one, due)
    // Renewals are due in days. The other replica has not read the certificate yet.
    await server.sql(`UPDATE ${SCHEMA}.certificates SET renew_at = 1 WHERE domain = '${due}'`)
    t.equal(await renew(other, due), 200)
    const renewed = await serialAt(other, due)
    t.not(renewed, early)
    await until(async () => (await serialAt(one, due)) === renewed)

    t.strictSame(await revoke(one.url, domain), [first])
    t.not(await serialAt(other, domain), first, 'what one revokes, the other no longer answers')
  }

  a.child.kill('SIGTERM')
  t.match(await a.ended, { code: 0 })
  const refused = await startOld(programOf('cert-service')).ended
  t.equal(refused.code, 1)
  const known = `schema ${count + 1}, and this version knows up to ${count}`
  t.equal(refused.stderr, `gatehouse-certs: The store has ${known}. [STORE_NEWER]\n`)
  t.match(await serialAt(b, 'later.example'), /^[0-9a-f]+$/, 'the new version goes on')
  t.ok(issued.length > 6)
})

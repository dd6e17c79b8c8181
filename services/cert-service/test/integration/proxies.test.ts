import { createPrivateKey, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { toPem } from '@gatehouse/pki'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { Agent, request } from 'undici'
import { parse } from 'yaml'
import { freePort } from '../../../forward-auth/test/helpers/process.ts'
import { serve } from '../../src/cli/serve.ts'
import { loadCertConfig } from '../../src/config/load.ts'
import { PROXIES, readExample, visit } from '../helpers/proxies.ts'

const APP = 'app.example.com'
const WILD = 'some.apps.example.com'
const SYSTEM = { actor: 'system' }

/** The cert-service of the examples; it can be stopped and started again. */
async function startGatehouse(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'gh-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'h'))
  for (const proxy of ['traefik', 'caddy', 'nginx', 'haproxy'])
    writeFileSync(join(folder, `${proxy}.key`), keyOf(proxy))
  const certServicePort = await freePort()
  const file = join(folder, 'cert-service.yaml')
  const example = readExample('cert-service.yaml', [
    ['port: 7401', `port: ${certServicePort}`],
    ['/var/lib/gatehouse/cert-service', join(folder, 'data')],
    ['/etc/gatehouse/cert-service', folder],
  ])
  writeFileSync(file, `${example}\nmetrics: { enabled: false }\n`)

  let running: Awaited<ReturnType<typeof serve>> | undefined
  const start = async () => {
    const load = () => loadCertConfig(file, {})
    const log = createLogger({ level: 'fatal', format: 'json', name: 'test' })
    running = await serve({ loaded: await load(), log, load })
    return running.app
  }
  const stop = async () => {
    await running?.close()
    running = undefined
  }
  t.teardown(stop)
  const { ca, store } = await start()
  const root = toPem('CERTIFICATE', ca.root() as Uint8Array)
  writeFileSync(join(folder, 'root.pem'), root)
  while ((await store.list({ after: 0, limit: 9 })).length < 2) await setTimeout(10)
  return {
    folder,
    certServicePort,
    root,
    start,
    stop,
    service: () => running?.app as FastifyInstance,
  }
}

const keyOf = (proxy: string) => `a-key-of-${proxy}-000000000`

async function startApp(t: Test): Promise<number> {
  const app = createServer((_request, response) => void response.end('the app'))
  app.listen(0, '127.0.0.1')
  await once(app, 'listening')
  t.teardown(() => void app.close())
  return (app.address() as AddressInfo).port
}

for (const [name, startProxy] of Object.entries(PROXIES)) {
  t.test(name, async (t) => {
    const gatehouse = await startGatehouse(t)
    const { folder, certServicePort, root } = gatehouse
    const port = await freePort()
    const appPort = await startApp(t)
    const proxy = await startProxy(t, { folder, port, certServicePort, appPort })
    const look = (host: string) => visit(port, host, root)
    t.ok(await proxy.refresh(), 'it gets its certificates')

    const before = await look(APP)
    t.match(before, { names: 'DNS:app.example.com', page: 'the app' }, 'a name')
    t.match(await look(WILD), { names: 'DNS:*.apps.example.com', page: 'the app' }, 'a wildcard')
    for (const other of ['other.example.com', 'apps.example.com', 'a.b.apps.example.com'])
      await t.rejects(look(other), `${other} is refused`)

    for (const record of await gatehouse.service().store.list({ after: 0, limit: 9 }))
      await gatehouse.service().issuance.renew(record, SYSTEM)
    t.ok(await proxy.refresh())
    const after = await look(APP)
    t.not(after.serialNumber, before.serialNumber, 'a new certificate without a restart')
    t.match(after, { names: 'DNS:app.example.com', page: 'the app' })

    await gatehouse.stop()
    if (name === 'caddy') await t.rejects(look(APP), 'nothing is kept')
    else {
      t.notOk(await proxy.refresh(), 'the failure is told')
      t.equal((await look(APP)).serialNumber, after.serialNumber, 'the old one is kept')
    }
    await gatehouse.start()
    t.ok(await proxy.refresh())
    t.equal((await look(APP)).serialNumber, after.serialNumber, 'as before')
    t.notMatch(proxy.output(), keyOf(name), 'its key is not logged')

    if (name === 'haproxy') {
      await t.rejects(look('www.example.com'))
      t.ok(await proxy.refresh('www.example.com'))
      t.match(await look('www.example.com'), { names: 'DNS:www.example.com' }, 'one more name')
    }
  })
}

t.test('traefik: what its configuration asks for is all of its certificates', async (t) => {
  const { certServicePort, root, service } = await startGatehouse(t)
  const { providers } = parse(
    readExample('traefik.yaml', [
      ['127.0.0.1:7401', `127.0.0.1:${certServicePort}`],
      ['the-key-of-traefik', keyOf('traefik')],
    ]),
  )
  const { endpoint, headers } = providers.http
  const dispatcher = new Agent({ connect: { ca: root } })
  t.teardown(() => dispatcher.close())
  const poll = async () => {
    const { statusCode, body } = await request(endpoint, { dispatcher, headers })
    return { status: statusCode, text: await body.text() }
  }

  const first = await poll()
  t.equal(first.status, 200, 'the one status that Traefik takes')
  t.same(await poll(), first, 'byte by byte the same')
  const { tls, ...others } = JSON.parse(first.text)
  t.same(others, {})
  const found = tls.certificates.map(({ certFile, keyFile, ...rest }: Entry) => {
    const leaf = new X509Certificate(certFile)
    t.same(rest, {})
    t.ok(leaf.checkPrivateKey(createPrivateKey(keyFile)), 'the key is its own')
    return leaf.subjectAltName
  })
  t.same(found, ['DNS:*.apps.example.com', 'DNS:app.example.com, DNS:www.example.com'])

  for (const record of await service().store.list({ after: 0, limit: 9 }))
    await service().issuance.renew(record, SYSTEM)
  t.not((await poll()).text, first.text, 'renewed ones are there at once')
})

interface Entry {
  readonly certFile: string
  readonly keyFile: string
}

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { createFetch } from '@gatehouse/net'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { until } from '../../../../scripts/test/until.ts'
import type { Container } from '../../src/docker/app.ts'
import { buildReader } from '../../src/docker/reader.ts'
import { composed, containerOf, type Labels, SECRET, ZONE } from '../docker/containers.ts'
import { GREEDY, UNFIT_RULES } from '../docker/hostile.ts'
import { freePort, startProcess } from '../helpers/process.ts'
import { missingProgram } from '../proxies/index.ts'

const HOMELAB = join(import.meta.dirname, '../../../../docker/homelab')
const EVIL = '127.0.0.66'
const [APP, SECOND, NAS] = ['127.0.0.11', '127.0.0.12', '127.0.0.13']

/** Whoever answered, and whether the check was asked. */
interface Served {
  readonly status: number
  readonly address?: string
  readonly location?: string | undefined
}

t.test('labels through a real Traefik', { skip: missingProgram('traefik') }, async (t) => {
  const { containers, port, ask, reader } = await start(t)
  const appOf = (service: string, address: string, labels: Labels = {}): Container =>
    containerOf(
      { 'traefik.enable': 'true', ...composed(service), ...labels },
      {
        Ports: [{ PrivatePort: port, Type: 'tcp' }],
        NetworkSettings: { Networks: { 'gatehouse-apps': { IPAddress: address } } },
      },
    )
  const show = async (all: Container[], host: string, status: number) => {
    containers.splice(0, Infinity, ...all)
    await until(async () => (await ask(host)).status === status)
  }
  const host = (name: string) => `${name}.lab.home.arpa`
  const whoami = appOf('whoami', APP)
  const rule = (text: string) => ({ 'traefik.http.routers.x.rule': text })

  await t.test('no app takes a host that is not its own', async (t) => {
    await show([whoami], host('whoami'), 401)
    const evil = [
      ...GREEDY.map(([, labels]) => appOf('notes', EVIL, labels)),
      ...UNFIT_RULES.map((text, index) => appOf(`unfit${index}`, EVIL, rule(text))),
      ...['auth', 'certs', 'id'].map((service) => appOf(service, EVIL)),
      appOf('other', EVIL, rule(`Host(\`${host('whoami')}\`)`)),
      appOf('nas', EVIL),
    ]
    await show([whoami, ...evil, appOf('last', EVIL)], host('last'), 401)
    const expected: [host: string, anonymous: Served, signedIn: Served][] = [
      [host('auth'), { status: 200, address: 'gatehouse' }, { status: 200, address: 'gatehouse' }],
      [host('id'), { status: 200, address: 'gatehouse' }, { status: 200, address: 'gatehouse' }],
      [host('certs'), { status: 401 }, { status: 200, address: 'gatehouse' }],
      [host('nas'), { status: 401 }, { status: 200, address: NAS }],
      [host('whoami'), { status: 401 }, { status: 200, address: APP }],
      [host('notes'), { status: 401 }, { status: 200, address: EVIL }],
      [host('nowhere'), { status: 404 }, { status: 404 }],
      ['www.example.com', { status: 404 }, { status: 404 }],
      ...['lab.home.arpa'].map((name): [string, Served, Served] => {
        const leads = { status: 302, location: 'https://auth.lab.home.arpa/portals/main/account' }
        return [name, leads, leads]
      }),
    ]
    for (const [name, anonymous, signedIn] of expected) {
      t.match(await ask(name), anonymous, name)
      t.match(await ask(name, { 'x-test': 'pass' }), signedIn, `${name}, signed in`)
      // What a client sends first may name another host than what it asks for.
      const fronted = await ask(name, { 'x-test': 'pass' }, host('notes'))
      if (name !== host('notes')) t.not(fronted.address, EVIL, `${name}, by another name`)
    }
  })

  await t.test('containers of one service share the requests', async (t) => {
    await show([whoami, appOf('whoami', SECOND), appOf('first', APP)], host('first'), 401)
    const addresses = new Set<string | undefined>()
    for (let time = 0; time < 10; time++)
      addresses.add((await ask(host('whoami'), { 'x-test': 'pass' })).address)
    t.strictSame([...addresses].sort(), [APP, SECOND])
    await show(
      [{ ...whoami, Status: 'Up 2 minutes (unhealthy)' }, appOf('whoami', SECOND)],
      host('first'),
      404,
    )
    for (let time = 0; time < 4; time++)
      t.equal((await ask(host('whoami'), { 'x-test': 'pass' })).address, SECOND)
  })

  await t.test('what stops has no route, also if it was the last', async (t) => {
    await show([{ ...whoami, Status: 'Exited (0) 1 second ago' }], host('whoami'), 404)
    await show([whoami], host('whoami'), 401)
    await show([], host('whoami'), 404)
    t.match(await ask(host('auth')), { status: 200, address: 'gatehouse' })
  })

  await t.test('Traefik keeps what it has without the reader', async (t) => {
    await show([whoami], host('whoami'), 401)
    await reader.close()
    t.equal((await ask(host('whoami'))).status, 401)
    t.equal((await ask(host('whoami'), { 'x-test': 'pass' })).address, APP)
  })
})

/** Traefik with the files of the homelab, a reader that it asks, and a socket that answers as Docker does. */
async function start(t: Test) {
  const folder = testFolder(t)
  const containers: Container[] = []
  // The path of a socket is short.
  const socketFolder = mkdtempSync(join(tmpdir(), 'gh-docker-'))
  t.teardown(() => rmSync(socketFolder, { recursive: true }))
  const socketPath = join(socketFolder, 'docker.sock')
  await listen(t, socketPath, ({ url = '' }) =>
    url.startsWith('/images/') ? { Config: { Env: [SECRET], Labels: null } } : containers,
  )
  const stream = { write() {} }
  const reader = buildReader(ZONE, {
    log: createLogger({ level: 'warn', format: 'json', name: 'docker-reader', stream }),
    docker: createFetch({ socketPath }),
    now: Date.now,
  })
  t.teardown(() => reader.close())
  const endpoint = await reader.listen({ host: '127.0.0.1', port: 0 })

  const port = await freePort()
  for (const address of [APP, SECOND, NAS, EVIL])
    await listen(t, { host: address, port }, () => ({ address }))
  const gatehouse = await listen(t, { host: '127.0.0.1', port: 0 }, ({ url = '', headers }) =>
    url.startsWith('/portals/main?policy=any') ? 'x-test' in headers : { address: 'gatehouse' },
  )
  const [http, https, login] = [await freePort(), await freePort(), await freePort()]
  const own = `http://127.0.0.1:${(gatehouse.address() as AddressInfo).port}`
  const routes = join(folder, 'routes.yaml')
  writeFileSync(
    routes,
    changed('routes.yaml', [
      [/http:\/\/forward-auth:4181|http:\/\/[a-z]+-id:1411|https:\/\/cert-service:7401/g, own],
      [/ {6}rootCAs: .*\n/g, ''],
      [/127\.0\.0\.1:4443/g, `127.0.0.1:${login}`],
      [
        / {2}routers:\n(?= {4}#)/g,
        `  routers:\n    nas: { rule: Host(\`nas.lab.home.arpa\`), service: nas }\n`,
      ],
      [
        / {2}services:\n(?= {4}forward-auth)/g,
        `  services:\n    nas: { loadBalancer: { servers: [{ url: http://${NAS}:${port} }] } }\n`,
      ],
    ]),
  )
  const config = join(folder, 'traefik.yaml')
  writeFileSync(
    config,
    changed('traefik.yaml', [
      [/":80"/g, `"127.0.0.1:${http}"`],
      [/":443"/g, `"127.0.0.1:${https}"`],
      [/127\.0\.0\.1:4443/g, `127.0.0.1:${login}`],
      [/\{ certResolver: gatehouse \}/g, '{}'],
      [/\/etc\/gatehouse\/routes\.yaml/g, routes],
      [/http:\/\/docker-reader:2375/g, endpoint],
      [/pollInterval: 2s/g, 'pollInterval: 50ms'],
      [/certificatesResolvers:.*/gs, ''],
    ]),
  )
  const command = process.env.TRAEFIK ?? ''
  const env = { DOMAIN: 'lab.home.arpa' }
  await startProcess(t, { command, args: [`--configFile=${config}`], folder, port: https, env })
  const ask = (host: string, headers = {}, servername = host) =>
    new Promise<Served>((resolve, reject) => {
      const sent = request({
        ...{ host: '127.0.0.1', port: https, servername, agent: false, rejectUnauthorized: false },
        headers: { host, ...headers },
      })
      sent.on('error', reject)
      sent.on('response', async (response) => {
        const { statusCode: status = 0, headers } = response
        const body = status === 200 ? await json(response) : response.resume() && {}
        resolve({ status, location: headers.location, ...(body as object) })
      })
      sent.end()
    })
  // Traefik listens before it has read its routes.
  await until(
    async () => (await ask('auth.lab.home.arpa').catch(() => ({ status: 0 }))).status === 200,
  )
  return { containers, port, ask, reader }
}

/** A file of the homelab with what depends on the machine replaced. */
function changed(name: string, changes: readonly [from: RegExp, to: string][]): string {
  return changes.reduce(
    (text, [from, to]) => {
      if (text.search(from) < 0) throw new Error(`${name} has no ${from}`)
      return text.replaceAll(from, () => to)
    },
    readFileSync(join(HOMELAB, name), 'utf8'),
  )
}

/** A server that answers with JSON; with true and false as a check does. */
async function listen(
  t: Test,
  where: string | { host: string; port: number },
  answer: (request: { url?: string | undefined; headers: object }) => unknown,
): Promise<Server> {
  const server = createServer((request, response) => {
    const value = answer(request)
    response.writeHead(value === false ? 401 : 200, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify(value))
  })
  await new Promise<void>((resolve) => server.listen(where, resolve))
  t.teardown(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  return server
}

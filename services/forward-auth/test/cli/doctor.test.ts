import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { type DoctorOptions, doctor } from '../../src/cli/doctor.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { createClient, HANGS } from '../../src/doctor/client.ts'
import { DOMAINS, portalOf, SESSION_KEY, yamlOf } from '../app.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { startToolServer } from '../helpers/tool-servers.ts'

const PORTALS = portalOf('main', `allow: { groups: [staff] }`)
const APP = 'http://app.example.com'
const LOCAL = 'domains: [{ domain: localhost, authHost: "http://auth.localhost" }]'

async function start(t: Test) {
  const folder = testFolder(t, { 'list.json': '[]', 'none.json': '{}' })
  const gatehouse = await startGatehouse(t, yamlOf(PORTALS))
  const configOf = async (yaml: string) => {
    const file = join(folder, 'config.yaml')
    const server = `server: { port: ${gatehouse.port} }`
    writeFileSync(file, `${server}\nstorage: { path: "${folder}/data" }\n${yaml}`)
    return (await loadForwardAuthConfig(file, {})).value
  }
  const config = await configOf(yamlOf(PORTALS))
  const run = (options: Partial<DoctorOptions>, changed = config) =>
    doctor(changed, { url: APP, ...options }, { clock: gatehouse.clock })
  return { folder, configOf, run }
}

/** A proxy that lets everything pass. */
async function startOpenProxy(t: Test): Promise<string> {
  const server = createServer((_request, response) => response.end('hello'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('what the doctor cannot work with', async (t) => {
  const { folder, configOf, run } = await start(t)
  const resolve = await startOpenProxy(t)
  const table: [options: Partial<DoctorOptions>, message: RegExp][] = [
    [{ url: 'app.example.com' }, /needs the URL of an app/],
    [{ url: 'ftp://app.example.com' }, /needs the URL of an app/],
    [{ url: 'https://elsewhere.test' }, /elsewhere\.test is not an app on one/],
    [{ url: 'https://auth.example.com' }, /auth\.example\.com is not an app/],
    [{ proxy: 'apache' }, /--proxy must be one of nginx, caddy/],
    [{ portal: 'other' }, /--portal must be one of main/],
    [{ resolve: 'a b' }, /--resolve must be an address/],
    [{ as: join(folder, 'none.json') }, /the portal main does not admit the person of --as/],
    [{ as: join(folder, 'absent.json') }, /absent\.json/],
    [{ as: 'psk:ci' }, /^doctor does not know the keys: give --as a file with the claims/],
    [{ as: import.meta.filename }, /doctor\.test\.ts holds no JSON object of claims/],
    [{ ca: join(folder, 'absent.pem') }, /absent\.pem/],
    [{ resolve: '127.0.0.1:1' }, /ECONNREFUSED/],
  ]
  for (const [options, message] of table) await t.rejects(run(options), { message })

  const other = await configOf(
    yamlOf(PORTALS).replace(SESSION_KEY, SESSION_KEY.replace('0123', '3210')),
  )
  await t.rejects(run({ resolve }, other), { message: /answers 404: run the doctor with the/ })
  const two = await configOf(yamlOf(PORTALS + portalOf('other')))
  await t.rejects(run({ resolve }, two), { message: '--portal must be one of main, other' })
})

t.test('the report of an app that no check protects', async (t) => {
  const { configOf, run } = await start(t)
  const resolve = await startOpenProxy(t)
  const yaml = yamlOf(PORTALS)
  const config = await configOf(yaml.replace(DOMAINS, LOCAL))
  const reportOf = (options: Partial<DoctorOptions>) =>
    run({ url: 'http://app.localhost', resolve, ...options }, config).catch(
      ({ message }: Error) => message,
    )
  t.equal(
    await reportOf({}),
    `\
http://app.localhost: 2 mistakes

1. app.localhost answers 200 without a check.
2. auth.localhost answers 200, not the sign-in pages.

Name the proxy to see which line to change: --proxy nginx

Not checked: what the app receives. Let an app answer that tells its headers, such as traefik/whoami,
and name a file with the claims of a person: --as claims.json`,
  )
  t.match(
    await reportOf({ proxy: 'nginx' }),
    /^http:\/\/app\.localhost behind nginx: 2 mistakes\n\n1\. .*\n {3}Look at: auth_request \/_gatehouse;/,
  )
  const resources =
    ', resources: [{ url: "http://app.localhost/mcp", authorizationServers: ["https://id.example.com"] }]'
  const withResource = await configOf(
    yamlOf(portalOf('main', `allow: { groups: [staff] }${resources}`)).replace(DOMAINS, LOCAL),
  )
  await t.rejects(run({ url: 'http://app.localhost', resolve, proxy: 'nginx' }, withResource), {
    message:
      /: 3 mistakes[\s\S]*\n3\. http:\/\/app\.localhost\/mcp answers 200 without resource_metadata\.\n {3}Look at: /,
  })
  const upstream = ', upstream: { url: "http://notes:8000/mcp" } }]'
  const withUpstream = await configOf(
    yamlOf(
      portalOf('main', `allow: { groups: [staff] }${resources.replace(' }]', upstream)}`),
    ).replace(DOMAINS, LOCAL),
  )
  const url = 'http://app.localhost/mcp'
  await t.rejects(
    run({ url, resolve, proxy: 'nginx' }, withUpstream),
    {
      message:
        /^http:\/\/app\.localhost\/mcp behind nginx: 1 mistake\n\n1\. .*\/mcp answers 200 without resource_metadata\.\n/,
    },
    'the resource alone, since there may be nothing else at its host',
  )
})

t.test('an app that never answers is named, and nobody waits longer for it', async (t) => {
  const server = createServer(() => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.closeAllConnections())
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const { timeout } = AbortSignal
  t.teardown(() => Object.assign(AbortSignal, { timeout }))
  AbortSignal.timeout = () => timeout(20)
  const ask = createClient()
  t.equal(await ask(new URL(`http://127.0.0.1:${port}`), { headers: {} }), HANGS)
})

t.test('an MCP server itself, on none of the domains', async (t) => {
  const { folder, run } = await start(t)
  const { port } = await startToolServer(t, 2)
  const server = { url: `http://127.0.0.1:${port}/mcp`, tool: 'whoami' }
  t.equal(
    await run(server),
    'This server compares headers and body: whoami ran in 0 of 7 calls whose headers say something else.\n',
  )
  await t.rejects(run({ ...server, tool: 'other' }), {
    message: /^other does not run/,
  })
  await t.rejects(run({ ...server, resolve: '127.0.0.1:1' }), { message: /ECONNREFUSED/ })
  const ca = join(folder, 'absent.pem')
  await t.rejects(run({ ...server, ca }), { message: /absent\.pem/ })
})

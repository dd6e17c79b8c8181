import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { type RequestOptions, request } from 'node:https'
import { dirname, join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { makeFolder } from '@gatehouse/service-kit/files'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { programOf } from '../../../../scripts/test/program.ts'
import { expectWarnings, quietLog } from '../../../../scripts/test/quiet.ts'
import { startRunning } from '../../../../scripts/test/running.ts'
import { until } from '../../../../scripts/test/until.ts'
import { serve } from '../../src/cli/serve.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { auditFolder, dayFilesIn } from '../../src/store/sqlite/day-files.ts'
import { DOMAINS, portalOf, SESSION_KEY } from '../app.ts'
import { freePort } from '../helpers/process.ts'
import { SHAPES } from '../shapes.ts'

// Nothing listens where CORP is.
expectWarnings(t, 'provider cannot be used')

const FIXTURES = fileURLToPath(import.meta.resolve('../fixtures'))
const PORTAL = `portals:\n${portalOf('main')}`
const { Host: _, ...TRAEFIK } = SHAPES[0]?.headers ?? {}
const CHECK = { ...TRAEFIK, accept: 'application/json' }

/** A configuration file in a folder of its own. */
async function createHome(t: Test, server: string, rest = PORTAL): Promise<string> {
  const file = join(testFolder(t), 'config.yaml')
  const yaml = `server: ${server}\nmetrics: { enabled: false }\nlog: { format: json }\n${DOMAINS}\n${SESSION_KEY}\n${rest}`
  await writeFile(file, yaml)
  return file
}

function start(t: Test, args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [...programOf('forward-auth'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

async function run(t: Test, ...args: string[]) {
  const child = start(t, args)
  const [stdout, stderr, [code]] = await Promise.all([
    textOf(child.stdout),
    textOf(child.stderr),
    once(child, 'exit'),
  ])
  return { code, stdout, stderr }
}

async function textOf(stream: NodeJS.ReadableStream | null): Promise<string> {
  let text = ''
  for await (const chunk of stream ?? []) text += chunk
  return text
}

t.test('check-config', async (t) => {
  const file = await createHome(t, '{}')
  t.match(await run(t, 'check-config', '--config', file), {
    code: 0,
    stdout: `${file} is valid\nRedirect URI to register at each provider:\n  main/corp: https://auth.example.com/portals/main/providers/corp/callback\n`,
  })
  const faulty = await createHome(t, '{}', PORTAL.replace('corp', 'Corp').replace('main', 'Main'))
  t.match(await run(t, 'check-config', '--config', faulty), {
    code: 1,
    stderr:
      /config\.yaml:7:\d+ \/portals\/0\/name must match .*\n.*\/portals\/0\/providers\/0\/name/,
  })
})

t.test('check-config looks the names of proxies up', async (t) => {
  const list = (names: string) => createHome(t, `{ trustedProxies: ${names} }`)
  const known = await run(t, 'check-config', '--config', await list('[localhost]'))
  t.match(known, { code: 0, stdout: /^\S+ is valid$/m })
  const file = await list('[localhost, proxy.invalid]')
  const unknown =
    /\/server\/trustedProxies\/1 (has no address|cannot be looked up now) \(warning\)\n/
  t.match(await run(t, 'check-config', '--config', file), { code: 0, stdout: unknown })
  t.notMatch((await run(t, 'check-config', '--no-secrets', '--config', file)).stdout, unknown)
})

t.test('migrate: prints what it can, and says what is to be decided', async (t) => {
  const file = join(testFolder(t), 'proxy.cfg')
  await writeFile(file, 'provider = "google"\nclient_id = "a"\nclient_secret = "CANARY"\n')
  const { code, stdout, stderr } = await run(t, 'migrate', 'oauth2-proxy', file)
  t.equal(code, 3)
  t.match(stdout, /clientSecretFile: client-secret # client_secret, line 3\n[\s\S]*TODO: /)
  t.match(stderr, /^2 places are marked TODO/)
  t.notMatch(stdout + stderr, 'CANARY')
  const checked = await run(t, 'check-config', '--config', file)
  const said = `${file} is a configuration of oauth2-proxy; run gatehouse-auth migrate oauth2-proxy`
  t.match(checked, { code: 1, stderr: said })
  const absent = await run(t, 'migrate', 'oauth2-proxy', `${file}.absent`)
  t.match(absent, { code: 1, stderr: '[CONFIG_UNREADABLE]' })
})

t.test('wrong use', async (t) => {
  t.match(await run(t, 'serv'), {
    code: 2,
    stderr: "unknown command 'serv' (Did you mean serve?); see gatehouse-auth --help",
  })
})

t.test('audit: lists the rows, and ends early for a reader that has enough', async (t) => {
  const file = await createHome(t, '{}')
  const folder = join(dirname(file), 'data')
  const row = { event: 'sign-in', portal: 'main', requestId: 'a', ran: 0 } as const
  const rows = Array.from({ length: 20_000 }, (_, i) => ({
    ...row,
    time: new Date().toISOString(),
    person: `corp:${i}`,
  }))
  await makeFolder(folder)
  const age = () => ({ now: Date.now(), running: 0 })
  await dayFilesIn(auditFolder({ path: folder }), age).append(rows)
  const { code, stdout } = await run(t, 'audit', '--json', '--config', file)
  t.equal(code, 0)
  t.same(
    stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
    rows,
  )
  const one = await run(
    t,
    'audit',
    '--json',
    '--config',
    file,
    '--person',
    'corp:7',
    '--portal',
    'main',
  )
  t.same(JSON.parse(one.stdout), rows[7])
  const call = { ...row, event: 'program-passed', time: new Date().toISOString() } as const
  const calls = ['delete_repo', 'read_repo'].map((tool) => {
    return { ...call, person: 'corp:alice', provider: 'corp', client: 'spa', tool }
  })
  await dayFilesIn(auditFolder({ path: folder }), age).append(calls)
  const query = ['--person', 'alice', '--tool', 'delete*', '--client', 'spa', '--since', '7d']
  t.same(JSON.parse((await run(t, 'audit', '--json', '--config', file, ...query)).stdout), calls[0])

  const reader = start(t, ['audit', '--config', file])
  const exited = once(reader, 'exit')
  const said = textOf(reader.stderr)
  reader.stdout?.destroy()
  t.same(await exited, [0, null])
  t.equal(await said, '')
  const wrong = await run(t, 'audit', '--config', file, '--since', 'ever')
  t.match(wrong, { code: 2, stderr: /--since must be a time such as 24h/ })
})

t.test('serve: answers, is healthy, reloads and ends', async (t) => {
  expectWarnings(t, 'FWA_NOT_FOUND', 'configuration not reloaded')
  const port = await freePort()
  const file = await createHome(t, `{ port: ${port} }`)
  const down = await run(t, 'healthcheck', '--config', file)
  t.match(down, { code: 1, stderr: /not ready: / }, 'before it runs')

  const program = [...programOf('forward-auth'), 'serve', '--config', file]
  const { child, said, ended } = startRunning(t, program)
  await said('ready')
  t.match(await run(t, 'healthcheck', '--config', file), { code: 0, stdout: 'ready\n' })
  const url = `http://127.0.0.1:${port}`
  const check = async (portal: string) =>
    (await fetch(`${url}/portals/${portal}`, { headers: CHECK })).status
  t.same([await check('main'), await check('next')], [401, 404])

  const yaml = await readFile(file, 'utf8')
  await writeFile(file, yaml.replaceAll('name: main', 'name: next'))
  child.kill('SIGHUP')
  await said('configuration reloaded')
  t.same([await check('main'), await check('next')], [404, 401], 'another portal')

  await writeFile(file, 'portals: []')
  child.kill('SIGHUP')
  await said('configuration not reloaded, the old one stays')
  t.equal(await check('next'), 401, 'a faulty configuration changes nothing')

  child.kill('SIGTERM')
  t.match(await ended, { code: 0, signal: null })
})

/** The service in this process. */
async function serving(t: Test, file: string) {
  const { log, logged } = quietLog(t)
  const load = () => loadForwardAuthConfig(file, {})
  const running = await serve({ loaded: await load(), log, load })
  t.teardown(running.close)
  const said = (msg: string) => until(() => logged.some((line) => JSON.parse(line).msg === msg))
  return { ...running, log, load, said }
}

t.test('ready though a provider is down, which is told', async (t) => {
  const file = await createHome(t, '{ port: 0 }')
  const { url, app } = await serving(t, file)
  // The provider is asked for the first time after the service has started.
  while (app.readiness().degraded.length === 0) await new Promise(setImmediate)
  const ready = await fetch(`${url}/readyz`)
  t.equal(ready.status, 200)
  t.same(await ready.json(), { status: 'ready', degraded: ['provider main/corp'] })
})

t.test('client certificates', async (t) => {
  expectWarnings(t, 'FWA_PEER_UNTRUSTED')
  const tls = ['certFile: server.cert', 'keyFile: server.key', 'clientCaFile: client-ca.cert']
    .map((row) => row.replace(': ', `: ${FIXTURES}/`).concat('.pem'))
    .join(', ')
  const port = await freePort()
  const file = await createHome(t, `{ port: ${port}, trustedProxies: [], tls: { ${tls} } }`)
  const { log, load } = await serving(t, file)

  const ask = askFrom(port, await read('server.cert'))
  const ca = await read('server.cert')
  t.equal(await ask(await pair('proxy')), 401, 'of the CA: trusted, so that it is answered')
  t.equal(await ask({}), 403, 'no client certificate')
  t.equal(await ask(await pair('stranger')), 403, 'of another CA')

  const session = await ticketOf(connect({ host: '127.0.0.1', port, ca }))
  t.equal(await ask({ session }), 403, 'none, in a session that was resumed')
  t.match(
    await run(t, 'healthcheck', '--config', file),
    { code: 0 },
    'the health check uses TLS if the service does',
  )

  const nonsense = join(dirname(file), 'ca.pem')
  await writeFile(nonsense, 'no certificate')
  const { value, ...rest } = await load()
  const broken = structuredClone(value)
  Object.assign(broken.server.tls ?? {}, { clientCaFile: nonsense })
  await t.rejects(serve({ loaded: { ...rest, value: broken }, log, load }), {
    code: 'CONFIG_TLS_INVALID',
    message: /ca\.pem: holds no PEM certificate/,
  })
})

t.test('the CA of client certificates is read again when its file changes', async (t) => {
  expectWarnings(t, 'FWA_PEER_UNTRUSTED', 'new client CA refused')
  const port = await freePort()
  const clientCa = join(testFolder(t), 'clients.pem')
  await copyFile(join(FIXTURES, 'client-ca.cert.pem'), clientCa)
  const tls = `certFile: ${FIXTURES}/server.cert.pem, keyFile: ${FIXTURES}/server.key.pem, clientCaFile: ${clientCa}`
  const file = join(t.testdirName, 'config.yaml')
  await writeFile(
    file,
    `server: { port: ${port}, trustedProxies: [], tls: { ${tls} } }\nmetrics: { enabled: false }\n${DOMAINS}\n${SESSION_KEY}\n${PORTAL}`,
  )
  const { said } = await serving(t, file)
  const ask = askFrom(port, await read('server.cert'))
  const statuses = async () => [
    await ask(await pair('proxy')),
    await ask(await pair('stranger')),
    await ask({}),
  ]
  t.strictSame(await statuses(), [401, 403, 403])

  await writeFile(clientCa, 'no certificate')
  await said('new client CA refused, the old one stays')
  t.strictSame(await statuses(), [401, 403, 403], 'one that cannot be used')

  await copyFile(join(FIXTURES, 'stranger.cert.pem'), clientCa)
  await said('client CA replaced')
  t.strictSame(await statuses(), [403, 401, 403], 'another one')

  const both = await Promise.all(['stranger.cert', 'client-ca.cert'].map(read))
  await writeFile(clientCa, both.join(''))
  await until(async () => (await statuses())[0] === 401)
  t.strictSame(await statuses(), [401, 401, 403], 'both')
})

const read = (name: string) => readFile(join(FIXTURES, `${name}.pem`), 'utf8')
const pair = async (name: string) => ({
  cert: await read(`${name}.cert`),
  key: await read(`${name}.key`),
})

/** Asks for a check over a connection of its own, and gives the status. */
function askFrom(port: number, ca: string) {
  return async (options: RequestOptions & { session?: Buffer }): Promise<number> => {
    const asked = request({
      host: '127.0.0.1',
      port,
      path: '/portals/main',
      headers: CHECK,
      ca,
      agent: false,
      ...options,
    })
    asked.end()
    const [response] = await once(asked, 'response')
    response.resume()
    return response.statusCode
  }
}

/** What a client needs to resume the session; TLS 1.3 sends it after the handshake. */
async function ticketOf(socket: TLSSocket): Promise<Buffer> {
  const [session] = await once(socket, 'session')
  socket.end()
  return session
}

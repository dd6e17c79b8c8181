import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { parse } from 'yaml'
import type { Labels } from '../../../services/forward-auth/test/docker/containers.ts'
import { SECRET } from '../../../services/forward-auth/test/docker/containers.ts'
import { GREEDY, UNFIT_RULES } from '../../../services/forward-auth/test/docker/hostile.ts'
import { launchChromium } from '../../../services/forward-auth/test/integration/chromium.ts'
import { readProjectFile } from '../compose-files.ts'
import { readDocument } from '../markdown.ts'
import { until } from '../until.ts'
import {
  BEHIND_TRAEFIK,
  HOMELAB as ENV,
  identityIn,
  PROJECT,
  signIn,
  visit,
  waitUntilReady,
} from './demo.ts'
import type { Docker } from './docker.ts'

export const HOMELAB = 'compose.homelab.yml'
const STAND_INS = 'scripts/test/integration/homelab/stand-ins.yml'
const MORE = ['examples/homelab/notes.yml', 'scripts/test/integration/homelab/notes.yml']
const PATIENCE = 120_000
const { DOMAIN, GATEHOUSE_ADDRESS } = ENV
const hostOf = (service: string) => `${service}.${DOMAIN}`

/** From nothing to a second app, which needs one label for the login and none for its certificate. */
export async function holdHomelab(t: Test, { compose: composeWith, docker }: Docker) {
  const compose = (...args: string[]) => composeWith([HOMELAB, STAND_INS], ...args)
  t.teardown(() => compose('down', '--volumes', '--timeout', '1'))
  await compose('up', '--detach')
  const root = await compose('exec', '-T', 'cert-service', 'cat', ROOT_FILE)
  const ask = (service: string, headers = {}, path = '/') =>
    askOnce(root, hostOf(service), headers, path)
  const browser = await launchChromium(
    t,
    `--host-resolver-rules=MAP *.${DOMAIN} ${GATEHOUSE_ADDRESS}`,
  )
  const context = await browser.newContext({ ignoreHTTPSErrors: true })
  const tab = await context.newPage()
  tab.setDefaultTimeout(20_000)

  await t.test('the first app', async (t) => {
    const { status, location } = await untilServed(() => ask('whoami'), 302)
    t.equal(status, 302)
    t.match(location, `https://${hostOf('auth')}/portals/main/signin?`)
    // Pocket ID has a certificate too, and forward-auth has read its configuration.
    await waitUntilReady(({ path }) => ask('auth', {}, path), [])
    await signIn(tab, 'Alice', `https://${hostOf('whoami')}/`)
    t.match(await identityIn(tab), /x-forwarded-useralice(x-|$)/)
  })

  await t.test('a second app', async (t) => {
    t.teardown(() => composeWith(MORE, 'rm', '--stop', '--force', 'notes'))
    t.equal((await ask('notes').catch(() => ({ status: 0 }))).status, 0, 'no certificate before')
    await composeWith(MORE, 'up', '--detach', 'notes')
    const { names, location } = await untilServed(() => ask('notes'), 302)
    t.equal(names, `DNS:${hostOf('notes')}`, 'a certificate of its own, which leads to our root')
    t.match(location, `https://${hostOf('auth')}/portals/main/signin?`)
    await visit(tab, `https://${hostOf('notes')}/`)
    t.equal(tab.url(), `https://${hostOf('notes')}/`, 'who is signed in at one is at the other')
    t.match(await identityIn(tab), /x-forwarded-useralice(x-|$)/)
  })

  const runIn = async (network: string, ...urls: string[]) => {
    const program = `for (const question of ${JSON.stringify(urls)}) {
      const [method, url] = question.split(' ')
      const answer = await fetch(url, { method })
      console.log(answer.status, await answer.text())
    }`
    const args = ['run', '--rm', '--network', `${PROJECT}_${network}`, 'gatehouse/demo']
    const said = await docker(...args, '--input-type=module', '-e', program)
    return said.trim().split('\n')
  }

  const routersIn = (answer: string): object => JSON.parse(answer.slice('200 '.length)).http.routers

  await t.test('labels take nothing that is not theirs', async (t) => {
    const start = async (name: string, labels: Labels, image = 'gatehouse/demo') => {
      const words = Object.entries(labels).flatMap((label) => ['--label', label.join('=')])
      const set = ['--network', 'gatehouse-apps', '--name', `${PROJECT}-${name}`, '--env', SECRET]
      const id = await docker(
        'run',
        '--detach',
        '--rm',
        ...set,
        ...words,
        image,
        'apps/main.js',
        'app',
      )
      t.teardown(() => docker('kill', id.trim()))
    }
    const enabled = { 'traefik.enable': 'true' }
    const ofService = (name: string) => ({ ...enabled, 'com.docker.compose.service': name })
    for (const name of ['auth', 'certs', 'id']) await start(name, ofService(name))
    // The command line takes no label with a space.
    const greedy = GREEDY.filter(([, labels]) => !/\s/.test(Object.keys(labels).join('')))
    for (const [index, [, labels]] of greedy.entries())
      await start(`greedy-${index}`, { ...enabled, ...labels })
    const unfit = UNFIT_RULES.filter((rule) => /auth|certs|PathPrefix|Regexp|[*]|`lab/.test(rule))
    for (const [index, rule] of [...unfit, `Host(\`${hostOf('whoami')}\`)`].entries())
      await start(`unfit-${index}`, { ...enabled, 'traefik.http.routers.x.rule': rule })
    // Labels of the image: once alone, once beside the label of whoever starts it.
    const id = await docker('create', '--label', 'none', 'gatehouse/demo')
    const change = `LABEL traefik.enable=true traefik.http.routers.x.rule=Host(\`tv.${DOMAIN}\`)`
    await docker('commit', '--change', change, id.trim(), 'gatehouse/labelled')
    await docker('rm', id.trim())
    t.teardown(() => docker('image', 'rm', '--force', 'gatehouse/labelled'))
    await start('image', {}, 'gatehouse/labelled')
    await start('shop', { 'traefik.enable': '1' }, 'gatehouse/labelled')
    await start('last', ofService('my_app'))

    await untilServed(() => ask('my-app'), 302)
    const own = [...greedy.map((_, index) => `${PROJECT}-greedy-${index}`), `${PROJECT}-shop`]
    const hosts = [...own, 'whoami', 'my-app'].map(hostOf)
    // Each is asked for its health before it gets a route.
    const answer = await until(async () => {
      const [said = ''] = await runIn('docker', 'GET http://docker-reader:2375')
      return Object.keys(routersIn(said)).length < hosts.length ? '' : said
    })
    t.strictSame(Object.keys(routersIn(answer)).sort(), hosts.sort())
    t.notMatch(answer, SECRET)
    t.equal((await ask('auth', {}, '/readyz')).status, 200, 'the sign-in pages stay')
    const discovery = await ask('id', {}, '/.well-known/openid-configuration')
    t.equal(discovery.status, 200, 'and so does Pocket ID')
    t.match((await ask('certs', {}, '/acme/directory')).body, 'newOrder', 'and cert-service')
    t.equal((await ask('whoami')).status, 302, 'and the first app')
    for (const service of own)
      t.match((await untilServed(() => ask(service), 302)).location, `https://${hostOf('auth')}/`)
    const logs = await compose('logs', 'docker-reader')
    t.match(logs, `unfit-${unfit.length} has no route: another app has ${hostOf('whoami')}`)
    t.match(logs, `${PROJECT}-auth has no route: ${hostOf('auth')} is not below`)
    t.notMatch(logs, SECRET)
  })

  await t.test('what is stopped has no route, and the last one goes too', async (t) => {
    await untilServed(() => ask('my-app'), 404)
    await compose('stop', 'whoami')
    await untilServed(() => ask('whoami'), 404)
    await compose('up', '--detach', '--scale', 'whoami=2', 'whoami')
    await untilServed(() => ask('whoami'), 302)
    const [answer = ''] = await runIn('docker', 'GET http://docker-reader:2375')
    const { services } = JSON.parse(answer.slice('200 '.length)).http
    t.equal(services[hostOf('whoami')].loadBalancer.servers.length, 2, 'two containers are one app')
  })

  await t.test('the domain itself', async (t) => {
    const { status, location } = await untilServed(() => askOnce(root, DOMAIN, {}), 302)
    t.strictSame([status, location], [302, `https://${hostOf('auth')}/portals/main/account`])
  })

  await t.test('what a client may not do', async (t) => {
    const forged = { 'x-forwarded-user': 'alice', 'remote-user': 'alice' }
    t.equal((await ask('whoami', forged)).status, 302)
    const cookies = await context.cookies(`https://${hostOf('whoami')}`)
    const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
    t.equal((await ask('whoami', { cookie })).status, 200)
    const upgrade = { cookie, connection: 'Upgrade', upgrade: 'h2c' }
    t.equal((await ask('whoami', upgrade)).status, 418)
  })

  await t.test('what a container may not do', async (t) => {
    const reader = 'http://docker-reader:2375'
    const asked = ['GET /containers/json', 'POST /', 'GET /images/json', 'GET /info']
    const paths = asked.map((question) => question.replace(' ', ` ${reader}`))
    for (const answer of await runIn('docker', ...paths)) t.match(answer, /^404 /)
    const check = 'GET http://forward-auth:4181/portals/main?policy=any'
    t.match(await runIn('front', check), [/^403 .*FWA_PEER_UNTRUSTED/])
  })
}

/** What docs/traefik.md has to paste, beside a Traefik that knows nothing of Gatehouse. */
export async function holdBehindTraefik(t: Test, { compose: composeWith, docker }: Docker) {
  const compose = (...args: string[]) => composeWith(BEHIND, ...args)
  writeConfigurations(t)
  await docker('network', 'create', 'traefik')
  t.teardown(() => docker('network', 'rm', 'traefik'))
  t.teardown(() => compose('down', '--volumes', '--timeout', '1'))
  await compose('up', '--detach')
  const anonymous = await untilServed(() => askOnce(undefined, 'app.example.com', {}), 302)
  t.match(anonymous.location, 'https://auth.example.com/portals/main/signin?')
  const { host } = new URL(anonymous.location)
  t.equal((await askOnce(undefined, host, {}, '/readyz')).status, 200, 'the sign-in pages')
  const headers = { Authorization: `APIKey ${API_KEY}`, 'X-Forwarded-User': 'alice' }
  const passed = await askOnce(undefined, 'app.example.com', headers)
  t.match(
    passed,
    { status: 200, body: /<dt>x-forwarded-user<\/dt><dd>psk:ci<\/dd>/ },
    'who is known gets to the app',
  )
  const forgery = { ...headers, Connection: 'Upgrade', Upgrade: 'h2c' }
  t.equal((await askOnce(undefined, 'app.example.com', forgery)).status, 418)
  const root = await compose('exec', '-T', 'cert-service', 'node', '-e', PRINT_ROOT)
  const served = await untilServed(() => askOnce(root, CERTS, {}, '/acme/directory'), 200)
  t.match(served.names, `DNS:${CERTS}`, 'by the certificate of cert-service itself')
}

const BEHIND = [
  'examples/homelab/behind-traefik.yml',
  'scripts/test/integration/homelab/behind-traefik.yml',
]
const CERTS = 'certs.example.com'
const API_KEY = 'a-key-of-a-program-with-enough-characters'
const PRINT_ROOT = `process.env.NODE_TLS_REJECT_UNAUTHORIZED = 0
  fetch('https://127.0.0.1:7401/ca/root.pem').then((answer) => answer.text()).then(console.log)`

/** As the guide says: the example, and the fragments for containers. */
function writeConfigurations(t: Test): void {
  t.teardown(() => rmSync(BEHIND_TRAEFIK, { recursive: true }))
  const fragmentOf = (service: string) => {
    const { blocks } = readDocument('docs/traefik.md')
    const found = blocks.find(
      ({ info, text }) => info === `yaml ${service}` && text.includes('0.0.0.0'),
    )
    return found?.text ?? ''
  }
  const callers = `    callers: { keys: [{ name: ci, key: ${API_KEY}, hosts: [app.example.com] }] }\n`
  const files = {
    'forward-auth/config.yaml':
      fragmentOf('forward-auth') +
      readProjectFile('examples/proxies/forward-auth.yaml').replace(
        '    policies:',
        `${callers}$&`,
      ),
    'forward-auth/client-secret': 'the-secret-of-the-client',
    'cert-service/config.yaml': `${fragmentOf('cert-service')}auth: { psk: { key: ${API_KEY} } }\n`,
  }
  for (const [name, content] of Object.entries(files)) {
    const file = join(BEHIND_TRAEFIK, name)
    mkdirSync(join(file, '..'), { recursive: true })
    writeFileSync(file, content)
  }
}

/** The Caddyfile and the container of docs/caddy.md. */
export async function holdCaddyInContainer(t: Test, { docker }: Docker) {
  const { services } = parse(readProjectFile(`${CADDY}/compose.yml`))
  for (const { labels, volumes = [] } of Object.values<{ labels?: object; volumes?: string[] }>(
    services,
  ))
    t.strictSame(
      [labels, volumes.filter((mount) => mount.includes('docker.sock'))],
      [undefined, []],
    )
  const folder = t.testdir({ Caddyfile: readProjectFile(`${CADDY}/Caddyfile`) })
  const caddy = parse(readProjectFile('compose.caddy.yml')).services.proxy.image
  const args = [
    'run',
    '--rm',
    '-v',
    `${folder}:/config:ro`,
    '-e',
    'EAB_KID=caddy-1',
    '-e',
    'EAB_KEY=key',
  ]
  const adapt = ['caddy', 'adapt', '--config', '/config/Caddyfile', '--adapter', 'caddyfile']
  const config = JSON.parse(await docker(...args, caddy, ...adapt))
  const routes: Route[] = config.apps.http.servers.srv0.routes
  const ofApp = routes.find(({ match }) => match?.[0]?.host?.includes('app.example.com'))
  const handlers = ofApp?.handle[0]?.routes?.flatMap(({ handle }) => handle) ?? []
  const steps = handlers.map(({ handler, upstreams }) =>
    handler === 'headers' ? 'guard' : (upstreams?.map(({ dial }) => dial).join() ?? handler),
  )
  t.strictSame([...new Set(steps)], ['guard', 'forward-auth:4181', 'whoami:80'], 'in this order')
  t.equal(steps.lastIndexOf('guard'), steps.indexOf('forward-auth:4181') - 1)
  const { policies } = config.apps.tls.automation
  const directory = 'https://cert-service:7401/acme/directory'
  t.match(policies, [{ issuers: [{ module: 'acme', ca: directory }] }], 'from cert-service alone')
}

const CADDY = 'examples/homelab/caddy'

interface Route {
  readonly match?: readonly { readonly host?: readonly string[] }[]
  readonly handle: readonly {
    readonly handler: string
    readonly routes?: readonly Route[]
    readonly upstreams?: readonly { readonly dial: string }[]
  }[]
}

const ROOT_FILE = '/var/lib/gatehouse/trust/root.pem'

interface Served {
  readonly status: number
  readonly location: string
  readonly body: string
  /** The names of the certificate. */
  readonly names: string
}

/** Trusts nothing but this root; without one, whatever the proxy has. */
function askOnce(
  ca: string | undefined,
  host: string,
  headers: object,
  path = '/',
): Promise<Served> {
  return new Promise((resolve, reject) => {
    const sent = request({
      ...{ host: GATEHOUSE_ADDRESS, servername: host, ca, agent: false, timeout: 20_000 },
      ...{ path, rejectUnauthorized: ca !== undefined },
      headers: { Host: host, Accept: 'text/html', ...headers },
    })
    let names = ''
    sent.on('socket', (socket) =>
      socket.once('secureConnect', () => {
        names = (socket as TLSSocket).getPeerCertificate().subjectaltname ?? ''
      }),
    )
    sent.on('timeout', () => sent.destroy(new Error(`${host}: no answer`)))
    sent.on('error', reject)
    sent.on('response', (response) => {
      const { statusCode: status = 0, headers } = response
      const location = headers.location ?? ''
      text(response).then((body) => resolve({ status, location, names, body }), reject)
    })
    sent.end()
  })
}

async function untilServed(ask: () => Promise<Served>, status: number): Promise<Served> {
  let said = ''
  for (const start = Date.now(); Date.now() - start < PATIENCE; await setTimeout(250)) {
    const answer = await ask().catch(({ message }: Error) => {
      said = message
      return undefined
    })
    if (answer?.status === status) return answer
    if (answer) said = `status ${answer.status}`
  }
  throw new Error(`not served: ${said}`)
}

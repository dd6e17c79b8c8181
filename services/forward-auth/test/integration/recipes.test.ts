// Sends the requests of docs/recipes.md through the proxies, with the lines of each recipe.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { createDemoIdp } from '@gatehouse/demo-idp'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { BrowserContext } from 'playwright-core'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { startServer } from '../../../../packages/identity-providers/test/stand-ins/server.ts'
import { createTestCa } from '../../../../scripts/test/certificates.ts'
import {
  type Block,
  blockOf,
  codeOf,
  readDocument,
  tableRows,
} from '../../../../scripts/test/markdown.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { Ask } from '../helpers/client.ts'
import { CONFIG, type Gate, type GateOptions, startGate } from '../helpers/gate.ts'
import { missingProgram } from '../proxies/index.ts'
import { launchChromium } from './chromium.ts'
import { CASES, navigation, preflight, SIGN_IN } from './proxy-cases.ts'

expectWarnings(t, 'check refused', 'caller refused')

const KEY = 'key-of-the-phone-0123456789abcdef'
const PROXY_NAMES = ['nginx', 'caddy', 'traefik'] as const
const HOSTS = ['photos', 'books', 'series', 'films', 'cloud', 'vault', 'home', 'tv', 'api'].map(
  (name) => `${name}.example.com`,
)

/** What makes the examples serve every host of the recipes, without a policy; `$$` is a dollar. */
const EVERY_HOST: NonNullable<GateOptions['changes']> = {
  'nginx.conf': [
    [
      'server_name app.example.com admin.example.com;',
      'server_name app.example.com *.example.com;',
    ],
    ['app.example.com any;', 'default any;'],
  ],
  Caddyfile: [
    ['app.example.com, admin.example.com {', `app.example.com, ${HOSTS.join(', ')} {`],
    ['\t\tapp.example.com any', '\t\tdefault any'],
  ],
  'traefik.yaml': [
    [
      'rule: Host(`app.example.com`)\n      middlewares: [without-forged, gatehouse]',
      'rule: HostRegexp(`^[a-z]+\\.example\\.com$$`)\n      priority: 1\n      middlewares: [without-forged, gatehouse]',
    ],
  ],
}

type From = Pick<Ask, 'headers' | 'body'> & { readonly isSignedIn?: true; readonly isAtHome?: true }

const script = {
  accept: '*/*',
  'sec-fetch-mode': 'cors',
  'sec-fetch-site': 'same-site',
  origin: 'https://app.example.com',
}
const client = { accept: '*/*' }
const basic = Buffer.from(`phone:${KEY}`).toString('base64')

/** Who sends a request, by the second column of the tables. */
const FROM: Readonly<Record<string, From>> = {
  'a browser': { headers: navigation },
  'a browser with a session': { headers: navigation, isSignedIn: true },
  'a client': { headers: client },
  'a client at home': { headers: client, isAtHome: true },
  'a client with the key': { headers: { ...client, authorization: `APIKey ${KEY}` } },
  'a client with user and password': { headers: { ...client, authorization: `Basic ${basic}` } },
  'a preflight': { headers: preflight },
  'a script without a session': { headers: script },
  'a script with a session': { headers: script, isSignedIn: true },
  'a form of another site': {
    headers: {
      ...navigation,
      'sec-fetch-site': 'cross-site',
      origin: 'https://id.example.net',
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: 'SAMLResponse=signed',
  },
}

/** The status of each answer, and whether the app heard of the request. */
const ANSWERS: Readonly<Record<string, readonly [status: number, isHeard: boolean]>> = {
  'of the app': [200, true],
  'sign-in page': [302, false],
  '401': [401, false],
  '403': [403, false],
}

interface Recipe {
  readonly title: string
  readonly block: Block | undefined
  readonly rows: readonly string[][]
}

const { prose, blocks } = readDocument('docs/recipes.md')

/** The sections with requests, each with the block before its table. */
const RECIPES: readonly Recipe[] = prose.flatMap((line, index) => {
  if (!/^\| Request /.test(line)) return []
  const title = prose.slice(0, index).findLast((heading) => heading.startsWith('#')) ?? ''
  const length = prose.slice(index).indexOf('')
  const block = blocks.findLast(({ info, line: at }) => info === 'yaml forward-auth' && at < index)
  return [{ title, block, rows: tableRows(prose.slice(index, index + length)) }]
})

/** The configuration of the examples with the lines of a recipe. */
function configWith(block: Block | undefined, isAtHome: boolean): string {
  const text = (block?.text ?? '')
    .replace(/keyFile: \S+/, `key: ${KEY}`)
    .replace('192.168.1.0/24', isAtHome ? '127.0.0.0/8' : '192.168.1.0/24')
  const config = parse(CONFIG)
  const [portal] = block ? parse(text).portals : [{}]
  return stringify({ ...config, portals: [{ ...config.portals[0], ...portal }], server: {} })
}

async function holdRow(t: Test, gate: Gate, [request = '', sender = '', expected = '']: string[]) {
  const [method = '', url = ''] = codeOf(request)[0]?.split(' ') ?? []
  const { host, pathname: path } = new URL(url)
  const from = FROM[sender]
  const [status, isHeard] = ANSWERS[expected] ?? []
  if (!from || status === undefined) throw new Error(`nobody knows ${sender} or ${expected}`)
  const cookie = from.isSignedIn ? await gate.gatehouse.signIn('main', {}, { host }) : undefined
  const before = gate.echo.count()
  const headers = { ...from.headers, cookie }
  const answer = await gate.ask({ method, host, path, headers, body: from.body ?? '' })
  t.equal(answer.status, status, `${request}, ${sender}`)
  t.equal(gate.echo.count() - before, isHeard ? 1 : 0, 'whether the app hears of it')
  if (expected === 'sign-in page') t.ok(answer.headers.location?.startsWith(`${SIGN_IN}?rd=`))
  if (isHeard) t.notMatch(answer.body, KEY, 'the app never gets the key')
}

t.test('every recipe has requests that are sent', async (t) => {
  t.equal(RECIPES.length, 8)
  for (const { title, rows } of RECIPES) t.ok(rows.length >= 3, title)
})

for (const proxy of PROXY_NAMES)
  t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
    const gate = await startGate(t, proxy, { changes: EVERY_HOST, hosts: HOSTS })
    for (const { title, block, rows } of RECIPES)
      await t.test(title, async (t) => {
        for (const row of rows) {
          const isAtHome = FROM[row[1] ?? '']?.isAtHome ?? false
          await gate.gatehouse.reload(configWith(block, isAtHome))
          await holdRow(t, gate, row)
        }
      })
    await t.test('what a script is told', async (t) => {
      await gate.gatehouse.reload(configWith(undefined, false))
      const { body } = await gate.ask({ headers: script })
      t.match(JSON.parse(body), JSON.parse(blockOf('docs/recipes.md', 'json')))
    })
  })

const OF_GATEHOUSE =
  '    gatehouse:\n      loadBalancer:\n        servers: [{ url: http://127.0.0.1:4181 }]\n'

/** What a block of the page takes the place of, in the example of each proxy. */
const TO_APP = {
  nginx: ['nginx.conf', '      proxy_pass http://app;\n'],
  caddy: ['Caddyfile', '\t\treverse_proxy 127.0.0.1:8080\n'],
  traefik: [
    'traefik.yaml',
    `    app:\n      loadBalancer:\n        servers: [{ url: http://127.0.0.1:8080 }]\n${OF_GATEHOUSE}`,
  ],
} as const

for (const proxy of PROXY_NAMES)
  t.test(`a device behind ${proxy}`, { skip: missingProgram(proxy) }, async (t) => {
    const ca = await createTestCa()
    const other = await createTestCa()
    const rows = RECIPES.at(-1)?.rows ?? []
    const gate = await startDevice(t, proxy, ca.root, ca.certificateFor('pve1.example.com'))
    for (const row of rows) await holdRow(t, gate, row)
    const cookie = await gate.gatehouse.signIn('main')
    const socket = await gate.ask({
      headers: { ...CASES['signed in, WebSocket']?.headers, cookie },
    })
    t.equal(socket.status, 101, 'its console')
    socket.socket?.destroy()
    for (const [title, certificate] of [
      ['of another authority', other.certificateFor('pve1.example.com')],
      ['of another name', ca.certificateFor('other.example.com')],
    ] as const) {
      const wrong = await startDevice(t, proxy, ca.root, certificate)
      const answer = await wrong.ask({
        headers: { cookie: await wrong.gatehouse.signIn('main') },
      })
      t.ok(answer.status >= 500, `a certificate ${title}: ${answer.status}`)
      t.equal(wrong.echo.count(), 0, 'the device hears nothing')
    }
  })

/** A proxy with the lines of the page, before a device that serves HTTPS. */
async function startDevice(
  t: Test,
  proxy: (typeof PROXY_NAMES)[number],
  root: string,
  { cert, key }: { readonly cert: string; readonly key: string },
): Promise<Gate> {
  const folder = testFolder(t, { 'root.pem': root })
  const device = createTlsServer({ cert, key, ALPNProtocols: ['http/1.1'] }, (socket) => {
    const plain = connect(gate.echo.port, '127.0.0.1')
    for (const side of [socket, plain]) side.on('error', () => {})
    socket.pipe(plain).pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(device, 'listening')
  t.teardown(() => device.close())
  const { port } = device.address() as AddressInfo
  const text = blocks.find(({ info }) => info.endsWith(' appliance') && isOf(proxy, info))?.text
  const lines = (text ?? '')
    .replace('192.168.1.20:8006', `127.0.0.1:${port}`)
    .replace('/etc/gatehouse/root.pem', join(folder, 'root.pem'))
  const [file, place] = TO_APP[proxy]
  const [service = '', transports = ''] = lines.split(/^(?= {2}serversTransports)/m)
  const changed = proxy === 'traefik' ? service + OF_GATEHOUSE + transports : lines
  const gate = await startGate(t, proxy, { changes: { [file]: [[place, changed]] } })
  return gate
}

const LANGUAGES = { nginx: 'nginx', caddy: 'caddyfile', traefik: 'yaml' } as const
const isOf = (proxy: (typeof PROXY_NAMES)[number], info: string) =>
  info.startsWith(`${LANGUAGES[proxy]} `)

const SIGNED_OUT = blocks.find(({ info }) => info === 'js signed-out.js')?.text ?? ''

/** An app whose page fetches news, and has what a person has typed. */
async function startPage(t: Test): Promise<number> {
  const files: Readonly<Record<string, readonly [type: string, text: string]>> = {
    '/signed-out.js': ['text/javascript', SIGNED_OUT],
    '/news': ['application/json', '"news"'],
    '/app.webmanifest': ['application/manifest+json', '{"name":"Notes"}'],
  }
  const page = `<!doctype html><title>App</title><link rel="icon" href="data:,">
<textarea></textarea><a id="sign-in" hidden>Signed out. Sign in</a><p id="status"></p>
<script type="module">
import { fetchSignedIn } from '/signed-out.js'
globalThis.fetchNews = async () => (await fetchSignedIn('/news')).status
</script>`
  const manifests: Readonly<Record<string, string>> = {
    '/': '<link rel="manifest" href="/app.webmanifest">',
    '/with-cookies': '<link rel="manifest" href="/app.webmanifest" crossorigin="use-credentials">',
    '/opened': '<link rel="manifest" href="/manifest.webmanifest">',
  }
  const server = createServer(({ url = '' }, response) => {
    const [type, text] = files[url.replace('/manifest.', '/app.')] ?? [
      'text/html; charset=utf-8',
      page.replace('<title>', `${manifests[url] ?? ''}<title>`),
    ]
    response.setHeader('content-type', type)
    response.setHeader('cache-control', 'no-store')
    response.end(text)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

t.test('in a browser', async (t) => {
  const registered = {
    clientId: 'gatehouse',
    clientSecret: 'the-secret-of-gatehouse',
    redirectUris: ['https://auth.example.com/portals/main/providers/corp/callback'],
  }
  const { origin } = await startServer(t, (issuer) =>
    createDemoIdp({ issuer, clients: [registered], signsIn: () => 'alice' }),
  )
  const [manifests] = RECIPES.filter(({ title }) => title.includes('installed'))
  const config = parse(configWith(manifests?.block, false))
  Object.assign(config.portals[0].providers[0], {
    issuerUrl: origin,
    clientId: registered.clientId,
    clientSecret: registered.clientSecret,
  })
  const { server: _, ...rest } = config
  const gate = await startGate(t, 'caddy', { yaml: stringify(rest), appPort: await startPage(t) })
  const rules = `--host-resolver-rules=MAP *.example.com:443 127.0.0.1:${gate.port}`
  const browser = await launchChromium(t, rules)
  const open = async (): Promise<BrowserContext> => {
    const context = await browser.newContext({ ignoreHTTPSErrors: true })
    context.setDefaultTimeout(20_000)
    t.teardown(() => context.close())
    return context
  }

  await t.test('a page whose session ends keeps what was typed', async (t) => {
    const context = await open()
    const tab = await context.newPage()
    await tab.goto('https://app.example.com/notes?a=b')
    const fetchNews = () => tab.evaluate('fetchNews()')
    const link = tab.locator('#sign-in')
    await tab.locator('textarea').fill('half a letter')
    t.equal(await fetchNews(), 200)
    t.notOk(await link.isVisible())
    await context.clearCookies()
    t.equal(await fetchNews(), 401)
    t.ok(await link.isVisible())
    const [signedIn] = await Promise.all([context.waitForEvent('page'), link.click()])
    await signedIn.waitForURL('https://app.example.com/notes?a=b')
    t.equal(await fetchNews(), 200)
    t.notOk(await link.isVisible())
    t.equal(await tab.locator('textarea').inputValue(), 'half a letter')
  })

  await t.test('a manifest', async (t) => {
    const tab = await (await open()).newPage()
    const session = await tab.context().newCDPSession(tab)
    for (const [path, isRead] of [
      ['/', false],
      ['/with-cookies', true],
      ['/opened', true],
    ] as const) {
      await tab.goto(`https://app.example.com${path}`)
      const { data = '' } = await session.send('Page.getAppManifest')
      t.equal(data.includes('Notes'), isRead, path)
    }
  })
})

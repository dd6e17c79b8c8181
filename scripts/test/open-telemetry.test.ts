import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { startCollector, valuesOf } from '../../packages/service-kit/test/telemetry/collector.ts'

const ROOT = join(import.meta.dirname, '../..')
const KEY = 'canary-of-sixteen-characters'
const TRACE = '0af7651916cd43dd8448eb211c80319c'
const TRACEPARENT = `00-${TRACE}-b7ad6b7169203331-01`
const SERVER = 2
/** What has no span. */
const QUIET = ['/healthz', '/readyz', '/docs', '/openapi.json', '/errors']
const COMMON = 'server: { port: 0 PLAIN }\nmetrics: { enabled: false }\nlog: { format: json }\n'

/** Tells on standard error what of OpenTelemetry is loaded; prom-client loads the API for itself. */
const TELL_LOADED = `data:text/javascript,${encodeURIComponent(`
import { registerHooks } from 'node:module'
registerHooks({
  resolve(specifier, context, next) {
    if (/^@opentelemetry\\/(?!api$)/.test(specifier)) process._rawDebug(specifier)
    return next(specifier, context)
  },
})`)}`

const SERVICES = [
  {
    name: 'cert-service',
    config: `${COMMON.replace('PLAIN', ', tls: off')}storage: { path: data, masterKeyFile: master.key }
auth: { psk: { key: ${KEY} } }
`,
    path: '/api/certificate?dryRun=false',
    init: {
      method: 'POST',
      headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
      body: '{ "domain": "app.example.com" }',
    },
    status: 200,
    span: 'POST /api/certificate',
    attributes: { 'http.route': '/api/certificate', 'http.response.status_code': 200 },
  },
  {
    name: 'forward-auth',
    config: `${COMMON.replace(' PLAIN', '')}domains: [{ domain: example.com, authHost: auth.example.com }]
session: { keys: [{ secret: ${KEY}-and-more-of-it }] }
portals: [{ name: main, providers: [{ type: openIDConnect, name: corp,
  issuerUrl: "http://localhost:1", clientId: a, clientSecret: canary }] }]
`,
    path: '/portals/main?if=ClaimEqual(%22a%22,%22canary%22)',
    init: {
      headers: {
        accept: 'application/json',
        cookie: '__Host-gatehouse-app.main=canary',
        'x-forwarded-method': 'GET',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'app.example.com',
        'x-forwarded-uri': '/canary?canary',
        'x-forwarded-for': '203.0.113.7',
      },
    },
    status: 401,
    span: 'GET /portals/:portal',
    attributes: {
      'http.route': '/portals/:portal',
      'http.response.status_code': 401,
      'gatehouse.portal': 'main',
    },
  },
] as const

/** Reads the whole answer, since a service that stops waits for whoever is still reading one. */
async function statusOf(url: string, init: RequestInit = {}): Promise<number> {
  const response = await fetch(url, init)
  await response.arrayBuffer()
  return response.status
}

/** Starts a service with `env`, asks it once, stops it. Gives what it loaded of OpenTelemetry. */
async function runOnce(t: Test, service: (typeof SERVICES)[number], env: Record<string, string>) {
  const { name, config, path, init, status } = service
  const file = join(t.testdir(), 'config.yaml')
  writeFileSync(file, config)
  const main = join(ROOT, 'services', name, 'src/main.ts')
  const args = ['--conditions=@gatehouse/source', '--import', TELL_LOADED, main]
  const child = spawn(process.execPath, [...args, 'serve', '--config', file], {
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const exited = once(child, 'close')
  let loaded = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (loaded += text))
  let url = ''
  for await (const line of createInterface(child.stdout)) {
    const { msg, url: told } = JSON.parse(line)
    if (msg === 'ready') url = told
    if (url) break
  }
  if (!url) throw new Error(`${name} did not start: ${loaded}`)
  const headers = { ...init.headers, traceparent: TRACEPARENT }
  t.equal(await statusOf(url + path, { ...init, headers }), status)
  for (const quiet of QUIET) t.equal(await statusOf(url + quiet), 200, quiet)
  child.kill('SIGTERM')
  t.strictSame(await exited, [0, null])
  return loaded
}

for (const service of SERVICES) {
  t.test(`${service.name}: nothing is loaded unless a variable asks for it`, async (t) => {
    const collector = await startCollector(t)
    const off = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SDK_DISABLED: 'true' }
    t.equal(await runOnce(t, service, off), '')
    t.strictSame(collector.received, [])
  })

  t.test(`${service.name}: a trace`, async (t) => {
    const collector = await startCollector(t)
    const loaded = await runOnce(t, service, {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    })
    t.match(loaded, '@opentelemetry/sdk-trace')
    const [span, ...others] = collector.spans().filter(({ kind }) => kind === SERVER)
    t.match(span, { name: service.span, traceId: TRACE })
    t.strictSame(others, [], 'health and documentation have none')
    t.match(valuesOf(span?.attributes ?? []), service.attributes)
    for (const resource of collector.resources())
      t.match(resource, { 'service.name': service.name, 'deployment.environment.name': 'test' })
    t.notMatch(collector.received.map(({ text }) => text).join(), 'canary')
  })

  t.test(`${service.name}: as Protocol Buffers, when no protocol is named`, async (t) => {
    const collector = await startCollector(t)
    await runOnce(t, service, { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/traces` })
    t.match(collector.received, [
      { path: '/traces', headers: { 'content-type': 'application/x-protobuf' } },
    ])
    t.match(collector.received[0]?.text, service.span)
  })
}

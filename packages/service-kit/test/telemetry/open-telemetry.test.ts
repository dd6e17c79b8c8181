import { once } from 'node:events'
import { request } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { createFetch } from '@gatehouse/net'
import Fastify from 'fastify'
import t from 'tap'
import { createLogger, createMetrics, requestTelemetry } from '../../src/telemetry/index.ts'
import { readVariables, startOpenTelemetry } from '../../src/telemetry/open-telemetry.ts'
import type { OpenTelemetryOptions } from '../../src/telemetry/otel/sdk.ts'
import { startCollector, valuesOf } from './collector.ts'

const SERVER = 2
const CLIENT = 3
const ERROR = 2
const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'

/** OpenTelemetry started by `env`, and what it logs. */
async function start(env: Record<string, string>, rest: Partial<OpenTelemetryOptions> = {}) {
  // The exporters read the process's own.
  const before = process.env
  process.env = { ...before, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', ...env }
  const logged: Record<string, unknown>[] = []
  const stream = { write: (line: string) => void logged.push(JSON.parse(line)) }
  const log = createLogger({ level: 'info', format: 'json', name: 'test', stream })
  const identity = { service: 'test', version: '1.2.3' }
  const metrics = createMetrics(identity)
  const telemetry = await startOpenTelemetry({
    ...identity,
    env: process.env,
    log,
    ...rest,
  })
  process.env = before
  const close = async () => telemetry?.close()
  return { telemetry, metrics, log, logged, close }
}

t.test(
  'the variables choose the exporters of traces, and say how a collector gets the rest',
  async (t) => {
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }
    const metrics = 'have the collector scrape /metrics'
    const logs = 'have the collector read standard output'
    const cases: [env: Record<string, string>, exporters: string[], ...ignored: RegExp[]][] = [
      [{}, []],
      [{ OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: 'always_on' }, []],
      [{ OTEL_EXPORTER_OTLP_ENDPOINT: ' ', OTEL_TRACES_EXPORTER: '' }, []],
      [endpoint, ['otlp']],
      [{ ...endpoint, OTEL_SDK_DISABLED: 'True', OTEL_LOGS_EXPORTER: 'otlp' }, []],
      [{ ...endpoint, OTEL_SDK_DISABLED: 'no' }, ['otlp']],
      [{ ...endpoint, OTEL_TRACES_EXPORTER: 'otlp,none' }, []],
      [{ ...endpoint, OTEL_TRACES_EXPORTER: 'console' }, ['console']],
      [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:4318/x' }, ['otlp']],
      [{ OTEL_TRACES_EXPORTER: 'otlp' }, ['otlp']],
      [{ OTEL_TRACES_EXPORTER: 'console, otlp,otlp' }, ['console', 'otlp']],
      [{ ...endpoint, OTEL_METRICS_EXPORTER: 'none', OTEL_LOGS_EXPORTER: 'none' }, ['otlp']],
      [{ ...endpoint, OTEL_METRICS_EXPORTER: 'prometheus' }, ['otlp']],
      [{ OTEL_METRICS_EXPORTER: 'otlp' }, [], new RegExp(`^OTEL_METRICS_EXPORTER .*${metrics}$`)],
      [{ OTEL_LOGS_EXPORTER: 'console' }, [], new RegExp(`^OTEL_LOGS_EXPORTER .*${logs}$`)],
      [
        {
          OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://127.0.0.1:4318/x',
          OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: 'http://127.0.0.1:4318/x',
        },
        [],
        new RegExp(`^OTEL_EXPORTER_OTLP_METRICS_ENDPOINT .*${metrics}$`),
        new RegExp(`^OTEL_EXPORTER_OTLP_LOGS_ENDPOINT .*${logs}$`),
      ],
    ]
    for (const [env, exporters, ...ignored] of cases) {
      const read = readVariables(env)
      t.strictSame(read.exporters, exporters, JSON.stringify(env))
      t.match(read.ignored, ignored)
      t.equal(read.ignored.length, ignored.length)
    }
  },
)

t.test('creates a span for each request, without secrets', async (t) => {
  const collector = await startCollector(t)
  const { telemetry, metrics, close } = await start(
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=of-collector',
    },
    { params: ['portal'] },
  )
  const fetch = createFetch()
  t.teardown(() => fetch.close())
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const { port: silentPort } = silent.address() as AddressInfo
  const app = Fastify({ forceCloseConnections: true })
  await app.register(requestTelemetry, { metrics, traceRequests: telemetry?.traceRequests })
  app.get('/portals/:portal', async () => 'ok')
  app.get('/probe', { logLevel: 'warn' }, async () => 'ok')
  app.post('/fetch/:portal/:other', async () => {
    await fetch(`${collector.url}/canary?token=canary`)
    await fetch(`${collector.url}/canary`, { status: [404] }).catch(() => {})
    await fetch('http://127.0.0.1:1/canary').catch(() => {})
    await fetch(`http://127.0.0.1:${silentPort}/canary`, { timeoutMs: 50 }).catch(() => {})
    return 'ok'
  })
  app.get('/refuse', async () => {
    throw Object.assign(new Error('canary'), { statusCode: 403, code: 'TEST_REFUSED' })
  })
  app.get('/fail', async () => {
    throw new Error('canary')
  })
  const begun = Promise.withResolvers<void>()
  const dropped = Promise.withResolvers<void>()
  app.get('/hang', (_request, reply) => {
    reply.raw.once('close', dropped.resolve)
    begun.resolve()
    return new Promise(() => {})
  })
  t.teardown(() => app.close())
  const { port } = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  const secrets = { authorization: 'Bearer canary', cookie: 'canary=canary' }
  const ask = async (method: string, path: string, headers = {}) => {
    const asked = request({ port, method, path, headers: { ...secrets, ...headers }, agent: false })
    if (method === 'POST') asked.setHeader('content-type', 'application/json').end('{"canary":1}')
    else asked.end()
    const [response] = await once(asked, 'response')
    await once(response.resume(), 'close')
  }
  const traceparent = (flags: string) => ({ traceparent: `00-${TRACE}-${PARENT}-${flags}` })

  const base = { 'url.scheme': 'http' }
  const cases: [
    method: string,
    path: string,
    name: string,
    attributes: object,
    headers?: object,
  ][] = [
    [
      'GET',
      '/portals/main?code=canary',
      'GET /portals/:portal',
      {
        'http.route': '/portals/:portal',
        'http.response.status_code': 200,
        'gatehouse.portal': 'main',
      },
    ],
    [
      'POST',
      '/fetch/second/canary',
      'POST /fetch/:portal/:other',
      { 'http.request.method': 'POST', 'gatehouse.portal': 'second', 'gatehouse.other': undefined },
      traceparent('01'),
    ],
    ['GET', '/canary/canary', 'GET', { 'http.response.status_code': 404, 'http.route': undefined }],
    ['PROPFIND', '/canary', 'HTTP', { 'http.request.method': '_OTHER' }],
    [
      'GET',
      '/refuse',
      'GET /refuse',
      { 'gatehouse.code': 'TEST_REFUSED', 'error.type': undefined },
    ],
    ['GET', '/fail', 'GET /fail', { 'http.response.status_code': 500, 'error.type': '500' }],
    ['GET', '/portals/unsampled', '', {}, traceparent('00')],
    ['GET', '/probe', '', {}],
    [
      'GET',
      '/portals/foreign',
      'GET /portals/:portal',
      { 'gatehouse.portal': 'foreign' },
      { traceparent: `00-${TRACE}-canary-01` },
    ],
  ]
  for (const [method, path, , , headers] of cases) await ask(method, path, headers)
  const hanging = request({ port, path: '/hang', agent: false }).on('error', () => {})
  hanging.end()
  await begun.promise
  hanging.destroy()
  await dropped.promise
  await close()

  const spans = collector.spans()
  const servers = spans.filter(({ kind }) => kind === SERVER)
  const expected = [
    ...cases.filter(([, , name]) => name !== ''),
    ['GET', '', 'GET /hang', { 'error.type': 'aborted' }],
  ] as typeof cases
  t.strictSame(
    servers.map(({ name }) => name),
    expected.map(([, , name]) => name),
  )
  for (const [index, [method, path, , attributes]] of expected.entries()) {
    const values = valuesOf(servers[index]?.attributes ?? [])
    t.match(
      values,
      { ...base, ...attributes, 'gatehouse.request_id': /^[0-9a-f]{12}-/ },
      `${method} ${path}`,
    )
    t.equal(servers[index]?.status.code === ERROR, 'error.type' in values)
  }

  const posted = servers[1]
  t.match(posted, { traceId: TRACE, parentSpanId: PARENT }, 'a child of what called')
  t.notOk(servers[6]?.parentSpanId, 'a traceparent that is not valid names no parent')
  const clients = spans.filter(({ kind }) => kind === CLIENT)
  const collectorPort = Number(new URL(collector.url).port)
  t.match(
    clients.map(({ attributes }) => valuesOf(attributes)),
    [
      {
        'http.request.method': 'GET',
        'server.address': '127.0.0.1',
        'server.port': collectorPort,
        'http.response.status_code': 200,
        'error.type': undefined,
      },
      { 'http.response.status_code': 200 },
      { 'server.port': 1, 'error.type': 'ECONNREFUSED' },
      { 'server.port': silentPort, 'error.type': 'TimeoutError' },
    ],
    'the requests that it makes itself',
  )
  for (const { traceId, parentSpanId } of clients)
    t.strictSame({ traceId, parentSpanId }, { traceId: TRACE, parentSpanId: posted?.spanId })

  const exported = collector.received.filter(({ path }) => path.startsWith('/v1/'))
  t.match(exported[0]?.headers, { 'x-key': 'of-collector' })
  t.notMatch(exported.map(({ text }) => text).join(), 'canary')
  t.notMatch(JSON.stringify(collector.received.map(({ headers }) => headers)), 'traceparent')
})

t.test('logs unusable values and uses the defaults', async (t) => {
  const { telemetry, logged, close } = await start({
    OTEL_LOGS_EXPORTER: 'canary',
    OTEL_TRACES_EXPORTER: 'zipkin,otlp',
    OTEL_METRICS_EXPORTER: 'canary,otlp',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'canary',
    OTEL_EXPORTER_OTLP_TIMEOUT: 'canary',
    OTEL_EXPORTER_OTLP_HEADERS: 'canary=%',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'canary',
    OTEL_EXPORTER_OTLP_CERTIFICATE: '/canary',
    OTEL_RESOURCE_ATTRIBUTES: 'canary==,=',
    OTEL_TRACES_SAMPLER: 'traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '2',
    OTEL_BSP_MAX_QUEUE_SIZE: '-1',
  })
  await close()
  t.ok(telemetry?.traceRequests)
  const lines = logged.map(({ msg }) => String(msg)).toSorted()
  t.match(lines, [
    /^OTEL_BSP_MAX_QUEUE_SIZE is not a whole number from 1 to 2147483647/,
    /^OTEL_EXPORTER_OTLP_ENDPOINT is not a URL/,
    /^OTEL_EXPORTER_OTLP_PROTOCOL is not one of http\/protobuf, http\/json/,
    /^OTEL_LOGS_EXPORTER is ignored/,
    /^OTEL_METRICS_EXPORTER is ignored/,
    /^OTEL_TRACES_EXPORTER supports otlp, console and none/,
    /^OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1/,
  ])
  t.equal(lines.length, 7)
  t.notMatch(lines.join(), 'canary')
})

t.test('logs one line if the collector does not work', async (t) => {
  const hangs = await startCollector(t, () => undefined)
  const cases: [what: string, url: string, timeout: string, line: object][] = [
    [
      'down',
      'http://127.0.0.1:1',
      '50',
      { msg: 'telemetry cannot be exported', reason: 'ECONNREFUSED' },
    ],
    ['silent', hangs.url, '3500', { msg: 'stopped before all telemetry was sent' }],
  ]
  for (const [what, url, timeout, line] of cases) {
    const { telemetry, logged, close } = await start({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_TIMEOUT: timeout,
      OTEL_BSP_MAX_QUEUE_SIZE: '8',
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '2',
    })
    const app = Fastify()
    await app.register(requestTelemetry, { traceRequests: telemetry?.traceRequests })
    app.get('/', async () => 'ok')
    for (let n = 0; n < 20; n += 1) t.equal((await app.inject('/')).statusCode, 200)
    await app.close()
    await close()
    t.match(logged, [{ level: 40, ...line }], what)
    t.equal(logged.length, 1)
  }
})

t.test('logs when the collector works again', async (t) => {
  const collector = await startCollector(t, (count) => (count < 2 ? 400 : 200))
  const { telemetry, logged, close } = await start({
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: '1',
  })
  const app = Fastify()
  await app.register(requestTelemetry, { traceRequests: telemetry?.traceRequests })
  app.get('/', async () => 'ok')
  while (logged.length < 2) {
    await app.inject('/')
    await new Promise(setImmediate)
  }
  await close()
  t.match(logged, [
    { level: 40, msg: 'telemetry cannot be exported', reason: '400' },
    { level: 30, msg: 'telemetry is exported again' },
  ])
  t.equal(logged.length, 2)
})

t.test('the sampler decides whether a request is traced', async (t) => {
  const parents = ['00', '01', undefined].map((flags) =>
    flags ? { traceparent: `00-${TRACE}-${PARENT}-${flags}` } : {},
  )
  const cases: [sampler: string, argument: string, traced: boolean[]][] = [
    ['', '', [false, true, true]],
    ['parentbased_always_on', '', [false, true, true]],
    ['parentbased_always_off', '', [false, true, false]],
    ['parentbased_traceidratio', '0', [false, true, false]],
    ['always_on', '', [true, true, true]],
    ['always_off', '', [false, false, false]],
    ['traceidratio', '', [true, true, true]],
    ['traceidratio', '0', [false, false, false]],
  ]
  for (const [sampler, argument, traced] of cases) {
    const collector = await startCollector(t)
    const { telemetry, close } = await start(
      {
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces`,
        OTEL_TRACES_SAMPLER: sampler,
        OTEL_TRACES_SAMPLER_ARG: argument,
      },
      { params: ['case'] },
    )
    const app = Fastify()
    await app.register(requestTelemetry, { traceRequests: telemetry?.traceRequests })
    app.get('/:case', async () => 'ok')
    for (const [index, headers] of parents.entries())
      await app.inject({ url: `/${index}`, headers })
    await app.close()
    await close()
    const cases = collector.spans().map(({ attributes }) => valuesOf(attributes)['gatehouse.case'])
    t.strictSame(
      parents.map((_, index) => cases.includes(String(index))),
      traced,
      `${sampler} ${argument}`,
    )
  }
})

t.test('a line of a request has the ids of its span', async (t) => {
  const collector = await startCollector(t)
  const { telemetry, log, logged, close } = await start({
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  })
  const app = Fastify({ loggerInstance: log, disableRequestLogging: true })
  await app.register(requestTelemetry, { traceRequests: telemetry?.traceRequests })
  app.get('/', async ({ log }, reply) => {
    log.info('inside')
    reply.log.info('reply')
  })
  await app.inject({ url: '/', headers: { traceparent: `00-${TRACE}-${PARENT}-01` } })
  await app.inject('/')
  await app.close()
  await close()
  const [called, alone] = collector.spans()
  const ids = [called, called, called, alone, alone, alone].map((span) => [
    span?.traceId,
    span?.spanId,
  ])
  t.strictSame(ids[0]?.[0], TRACE)
  t.strictSame(
    logged.map(({ trace_id, span_id }) => [trace_id, span_id]),
    ids,
  )
})

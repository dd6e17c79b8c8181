import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import Fastify from 'fastify'
import t from 'tap'
import { Type } from 'typebox'
import { clock, systemClock } from '../../src/clock.ts'
import type { Readiness } from '../../src/http/health.ts'
import {
  appOptions,
  type HealthReport,
  health,
  openapi,
  ProblemSchema,
  problems,
} from '../../src/http/index.ts'
import { createLogger, createMetrics } from '../../src/telemetry/index.ts'
import { manualClock } from '../../src/testing.ts'

t.test('health', async (t) => {
  let state: HealthReport = { degraded: ['issuer corp'] }
  const app = Fastify()
  await app.register(problems, { statusOf: {}, docsUrl: '/errors' })
  await app.register(health, {})
  app.addHealthCheck(() => state)

  t.strictSame((await app.inject('/healthz')).json(), { status: 'ok' })
  t.strictSame((await app.inject('/readyz')).json(), { status: 'ready', degraded: ['issuer corp'] })

  for (const header of ['x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'forwarded', 'via']) {
    state = { degraded: ['issuer corp', 'issuer other', 'ca-intermediate'] }
    const asked = await app.inject({ url: '/readyz', headers: { [header]: 'x' } })
    t.strictSame(asked.json().degraded, ['issuer', 'ca-intermediate'], `${header}: no names`)
  }

  const reasons: [reason: Readiness['reason'], detail: string][] = [
    ['starting', 'The service is starting.'],
    ['draining', 'The service is stopping.'],
    ['store', 'The store cannot be used.'],
  ]
  for (const [reason, detail] of reasons)
    t.test(`not ready: ${reason}`, async (t) => {
      state = { unready: reason }
      const response = await app.inject('/readyz')
      t.match(response.headers['content-type'], 'application/problem+json')
      t.match(response.json(), {
        status: 503,
        code: 'NOT_READY',
        detail,
        type: '/errors#NOT_READY',
      })
      t.equal((await app.inject('/healthz')).statusCode, 200, 'though alive')
    })
})

t.test('health checks of plugins', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  let store: HealthReport = {}
  const app = Fastify()
  await app.register(problems, { statusOf: {} })
  await app.register(health, { metrics })
  const closing: Readiness[] = []
  app.addHook('onClose', async () => void closing.push(app.readiness()))
  app.addHealthCheck(() => store)
  await app.register(async (child) =>
    child.addHealthCheck(() => ({ degraded: ['issuer corp', 'ca-intermediate'] })),
  )
  const lines = async () => (await metrics.text()).match(/^gatehouse_(ready|degraded).*$/gm)

  t.test('are combined', async (t) => {
    store = { degraded: ['audit'] }
    const { statusCode, body } = await app.inject('/readyz')
    t.equal(statusCode, 200)
    t.equal(body, '{"status":"ready","degraded":["audit","issuer corp","ca-intermediate"]}')
  })

  t.test('make the service unready', async (t) => {
    store = { unready: 'store' }
    t.match((await app.inject('/readyz')).json(), { status: 503, code: 'NOT_READY' })
    t.match(app.readiness(), { ready: false, reason: 'store' })
  })

  t.test('are measured', async (t) => {
    store = {}
    const degraded = [
      'gatehouse_degraded{part="issuer corp"} 1',
      'gatehouse_degraded{part="ca-intermediate"} 1',
    ]
    t.strictSame(await lines(), ['gatehouse_ready 1', ...degraded])
    store = { unready: 'store' }
    t.strictSame(await lines(), ['gatehouse_ready 0', ...degraded])
  })

  t.test('a service that is closing is draining', async (t) => {
    store = {}
    await app.close()
    t.match(closing, [{ ready: false, reason: 'draining' }])
  })
})

t.test('the clock is the system clock unless another is given', async (t) => {
  const frozen = manualClock()
  for (const [options, expected] of [
    [{}, systemClock],
    [{ clock: frozen }, frozen],
  ] as const) {
    const app = Fastify()
    await app.register(clock, options)
    t.equal(app.clock, expected)
  }
})

const FORM = 'application/x-www-form-urlencoded'

t.test('openapi', async (t) => {
  const app = Fastify()
  const info = { title: 'Test <service>', version: '1.2.3', description: 'For a test.' }
  await app.register(problems, { statusOf: {} })
  await app.register(openapi, {
    ...info,
    hiddenTag: 'people',
    securitySchemes: {
      key: { type: 'http', scheme: 'APIKey', description: 'Made by hand.' },
      cookie: { type: 'apiKey', in: 'cookie', name: 'sid' },
      certificate: { type: 'mutualTLS' },
    },
  })
  app.post(
    '/things/:id',
    {
      schema: {
        summary: 'Makes a <thing>',
        security: [{ key: [] }, { cookie: [] }],
        params: Type.Object({ id: Type.String() }),
        querystring: Type.Object({ why: Type.String(), how: Type.Optional(Type.String()) }),
        body: Type.Object({
          name: Type.String({ description: 'Its `name`, not <this>.' }),
          kind: Type.Optional(Type.Enum(['a', 'b'])),
          parts: Type.Array(Type.Object({ weight: Type.Number() })),
          at: Type.Union([Type.String({ format: 'date-time' }), Type.Null()]),
        }),
        response: { 200: Type.Object({ ok: Type.Literal(true) }), '4xx': ProblemSchema },
      },
    },
    async () => ({ ok: true as const }),
  )
  app.get('/secret', { schema: { hide: true } }, async () => '')
  app.get('/page', { schema: { tags: ['people'] } }, async () => '')
  app.post('/forms/of-people', { schema: { tags: ['a', 'people'] } }, async () => '')
  app.get('/files/*', { schema: { security: [{ certificate: [] }] } }, async () => '')
  await app.register(async (forms) => {
    forms.removeAllContentTypeParsers()
    forms.addContentTypeParser(FORM, { parseAs: 'string' }, (_request, _body, done) => done(null))
    const body = Type.Object({ answer: Type.String({ examples: ['yes'] }) })
    forms.post('/forms', { schema: { security: [{ cookie: [] }], body } }, async () => '')
  })

  t.test('describes the routes in OpenAPI 3.1', async (t) => {
    const response = await app.inject('/openapi.json')
    t.match(response.headers['content-type'], 'application/json')
    const document = response.json()
    t.match(document, { openapi: /^3\.1/, info, servers: [{ url: '/' }] })
    t.strictSame(Object.keys(document.paths), ['/things/{id}', '/files/{rest}', '/forms'])
    t.match(document.paths['/files/{rest}'].get.parameters, [{ in: 'path', name: 'rest' }])
    t.match(document.info.license, { identifier: 'MIT' })
    t.strictSame(document.security, [])
    const operation = document.paths['/things/{id}'].post
    t.match(operation.requestBody.content['application/json'].schema.properties.name, {
      type: 'string',
      description: 'Its `name`, not <this>.',
    })
    t.match(operation.responses, { 200: Object, '4XX': Object })
  })

  t.test('has the operations that it hides for tests', async (t) => {
    const { paths = {} } = app.swagger()
    t.strictSame(
      Object.keys(paths).filter(
        (path) => !['/things/{id}', '/files/{rest}', '/forms'].includes(path),
      ),
      ['/page', '/forms/of-people'],
    )
  })

  t.test('shows a form as what its parser takes', async (t) => {
    const { paths } = (await app.inject('/openapi.json')).json()
    t.strictSame(Object.keys(paths['/things/{id}'].post.requestBody.content), ['application/json'])
    t.strictSame(Object.keys(paths['/forms'].post.requestBody.content), [FORM])
  })

  t.test('has a page without scripts, that leads to every operation', async (t) => {
    const { headers, body } = await app.inject('/docs')
    t.match(headers['content-security-policy'], /^default-src 'none'; style-src 'sha256-[^']+'; /)
    t.notMatch(body, /<script|style=|https?:\/\/(?!www\.w3\.org)|secret/)
    const anchors = [...body.matchAll(/href="#([^"]+)"/g)].map(([, anchor = '']) => anchor)
    t.ok(anchors.includes('POST-things-id'))
    for (const anchor of anchors) t.equal(body.split(` id="${anchor}"`).length, 2, anchor)
    t.match(body, 'href="/openapi.json"')
    t.match(body, 'Makes a &lt;thing&gt;')
    const text = body
      .replaceAll('&quot;', '"')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&#39;', "'")
    for (const part of [
      'curl -X POST "$URL/things/$ID?why=$WHY" \\\n' +
        '  -H "Authorization: APIKey $KEY" \\\n' +
        "  -H 'Content-Type: application/json' \\\n" +
        `  -d '{"name":"string","parts":[]}'`,
      'curl -X POST "$URL/forms" \\\n' +
        '  -b "sid=$SESSION" \\\n' +
        `  -H 'Content-Type: ${FORM}' \\\n` +
        "  -d 'answer=yes'",
      'curl -X GET "$URL/files/$REST" \\\n  --cert client.crt --key client.key',
      '// Its `name`, not <this>.\n  name: string',
      '  kind?: "a" | "b"',
      '  parts: Array<{\n    weight: number\n  }>',
      '  at: date-time | null',
      'Made by hand.',
    ])
      t.ok(text.includes(part), part)
  })
})

t.test('answers bytes that are not HTTP with a problem', async (t) => {
  const log = createLogger({ level: 'silent', format: 'json', name: 'test' })
  const app = Fastify(appOptions(log))
  await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())

  const rows: [what: string, bytes: string, status: number][] = [
    ['nonsense', 'HELLO\r\n\r\n', 400],
    ['a header that is too large', `GET / HTTP/1.1\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
  ]
  for (const [what, bytes, status] of rows)
    t.test(what, async (t) => {
      const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
      socket.end(bytes)
      let answer = ''
      socket.on('data', (chunk) => {
        answer += chunk
      })
      await once(socket, 'close')
      const [head = '', body = ''] = answer.split('\r\n\r\n')
      t.ok(head.startsWith(`HTTP/1.1 ${status} `))
      t.match(head, 'Content-Type: application/problem+json')
      t.match(JSON.parse(body), { status, code: 'HTTP_INVALID' })
    })
})

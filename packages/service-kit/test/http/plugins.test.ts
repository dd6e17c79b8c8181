import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import Fastify from 'fastify'
import t from 'tap'
import { Type } from 'typebox'
import {
  appOptions,
  createLogger,
  health,
  openapi,
  ProblemSchema,
  type Readiness,
} from '../../src/index.ts'

t.test('health', async (t) => {
  let state: Readiness = { ready: true, degraded: ['issuer corp'] }
  const app = Fastify()
  await app.register(health, { readiness: () => state })

  t.strictSame((await app.inject('/healthz')).json(), { status: 'ok' })
  t.strictSame((await app.inject('/readyz')).json(), { status: 'ready', degraded: ['issuer corp'] })

  const reasons: [reason: Readiness['reason'], detail: string][] = [
    ['starting', 'The service is starting.'],
    ['draining', 'The service is stopping.'],
    ['store', 'The store cannot be used.'],
  ]
  for (const [reason, detail] of reasons)
    t.test(`not ready: ${reason}`, async (t) => {
      state = { ready: false, degraded: [], ...(reason && { reason }) }
      const response = await app.inject('/readyz')
      t.match(response.headers['content-type'], 'application/problem+json')
      t.match(response.json(), { status: 503, code: 'NOT_READY', detail })
      t.equal((await app.inject('/healthz')).statusCode, 200, 'though alive')
    })
})

t.test('openapi', async (t) => {
  const app = Fastify()
  const info = { title: 'Test <service>', version: '1.2.3', description: 'For a test.' }
  await app.register(openapi, info)
  app.post(
    '/things/:id',
    {
      schema: {
        summary: 'Makes a <thing>',
        params: Type.Object({ id: Type.String() }),
        body: Type.Object({ name: Type.String({ description: 'Its name.' }) }),
        response: { 200: Type.Object({ ok: Type.Boolean() }), '4xx': ProblemSchema },
      },
    },
    async () => ({ ok: true }),
  )
  app.get('/secret', { schema: { hide: true } }, async () => '')

  t.test('describes the routes in OpenAPI 3.1', async (t) => {
    const response = await app.inject('/openapi.json')
    t.match(response.headers['content-type'], 'application/json')
    const document = response.json()
    t.match(document, { openapi: /^3\.1/, info })
    t.strictSame(Object.keys(document.paths), ['/things/{id}'])
    const operation = document.paths['/things/{id}'].post
    t.match(operation.requestBody.content['application/json'].schema.properties.name, {
      type: 'string',
      description: 'Its name.',
    })
    t.match(operation.responses, { 200: Object, '4XX': Object })
  })

  t.test('has a page without script, loading nothing, escaping everything', async (t) => {
    const { headers, body } = await app.inject('/docs')
    t.match(headers['content-security-policy'], /^default-src 'none'; style-src 'sha256-/)
    t.match(body, '<code>POST /things/{id}</code> Makes a &#60;thing&#62;')
    t.notMatch(body, /<script|<thing>|<service>|src=/)
  })
})

t.test('bytes that are no HTTP are answered with a problem', async (t) => {
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

import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { Type } from 'typebox'
import { appOptions, problems, strictHttp } from '../../src/http/index.ts'
import { createLogger } from '../../src/telemetry/index.ts'

const docsUrl = '/errors'

async function start(t: Test) {
  const lines: string[] = []
  const stream = { write: (line: string) => void lines.push(line) }
  const log = createLogger({ level: 'info', format: 'json', name: 'test', stream })
  const app = Fastify(appOptions(log)) as unknown as FastifyInstance
  await app.register(problems, { statusOf: {}, docsUrl })
  await app.register(strictHttp)
  const body = Type.Object({ a: Type.Integer() })
  app.post('/items', { schema: { body } }, async () => ({ ok: true }))
  app.delete('/items', async (_request, reply) => reply.code(204).send())
  app.get('/items', async () => ({ ok: true }))
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    scope.post('/check', async () => ({ ok: true }))
  })
  await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  const { port } = app.server.address() as AddressInfo
  return { app, lines, port }
}

/** The whole answer to these bytes. */
async function exchange(
  port: number,
  ...lines: string[]
): Promise<{ status: number; head: string; body: string }> {
  const socket = connect(port, '127.0.0.1')
  socket.write(lines.join('\r\n'))
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk
  })
  await once(socket, 'close')
  const [head = '', body = ''] = answer.split('\r\n\r\n')
  return { status: Number(head.slice(9, 12)), head, body }
}

const JSON_BODY = [
  'Content-Type: application/json',
  'Content-Length: 7',
  'Connection: close',
  '',
  '{"a":1}',
]

t.test('refuses requests that a proxy may interpret differently', async (t) => {
  const { port } = await start(t)
  const post = 'POST /items HTTP/1.1'
  const host = 'Host: a.test'
  const chunks = [
    'Content-Type: application/json',
    'Connection: close',
    '',
    '7\r\n{"a":1}\r\n0\r\n\r\n',
  ]
  const table: [what: string, status: number, code: string | undefined, ...lines: string[]][] = [
    ['one Host', 200, undefined, post, host, ...JSON_BODY],
    ['two Hosts', 400, 'HTTP_INVALID', post, host, 'Host: b.test', ...JSON_BODY],
    ['the same Host twice', 400, 'HTTP_INVALID', post, host, 'hOST: a.test', ...JSON_BODY],
    ['two Hosts on an unknown path', 400, 'HTTP_INVALID', 'GET /x HTTP/1.1', host, host, '', ''],
    ['chunks', 200, undefined, post, host, 'Transfer-Encoding: chunked', ...chunks],
    [
      'zipped chunks',
      501,
      'HTTP_ENCODING',
      post,
      host,
      'Transfer-Encoding: gzip, chunked',
      ...chunks,
    ],
    [
      'a content encoding',
      415,
      'HTTP_ENCODING',
      post,
      host,
      'Content-Encoding: gzip',
      ...JSON_BODY,
    ],
    [
      'the encoding identity',
      200,
      undefined,
      post,
      host,
      'Content-Encoding: identity',
      ...JSON_BODY,
    ],
    [
      'an encoding without a body',
      200,
      undefined,
      'GET /items HTTP/1.1',
      host,
      'Content-Encoding: gzip',
      'Connection: close',
      '',
      '',
    ],
    [
      'an encoding of a body that is not read',
      200,
      undefined,
      'POST /check HTTP/1.1',
      host,
      'Content-Encoding: gzip',
      ...JSON_BODY,
    ],
  ]
  for (const [what, status, code, ...lines] of table) {
    const answer = await exchange(port, ...lines)
    t.equal(answer.status, status, what)
    t.match(answer.head, /x-content-type-options: nosniff/i, `${what}: no sniffing`)
    if (code) t.match(JSON.parse(answer.body), { code, type: `/errors#${code}`, status }, what)
    if (code) t.match(answer.head, /connection: close/i, `${what}: the connection ends`)
  }
})

t.test('a DELETE may carry a content type without a body', async (t) => {
  const { app } = await start(t)
  for (const type of ['application/json', 'application/x-www-form-urlencoded', 'nonsense']) {
    const headers = { 'content-type': type }
    const { statusCode } = await app.inject({ method: 'DELETE', url: '/items', headers })
    t.equal(statusCode, 204, type)
  }
  const headers = { 'content-type': 'application/json' }
  const broken = await app.inject({ method: 'DELETE', url: '/items', headers, payload: '{' })
  t.equal(broken.statusCode, 400, 'a body is read all the same')
})

t.test('does not log an error if a client hangs up while sending', async (t) => {
  const { port, lines, app } = await start(t)
  lines.length = 0
  const refused = once(app.server, 'request')
  const socket = connect(port, '127.0.0.1')
  socket.write(
    [
      'POST /items HTTP/1.1',
      'Host: a',
      ...JSON_BODY.slice(0, 1),
      'Content-Length: 9',
      '',
      '{',
    ].join('\r\n'),
  )
  const [request] = await refused
  const closed = new Promise((resolve) => request.on('close', resolve))
  socket.destroy()
  await closed
  while (lines.length === 0) await new Promise(setImmediate)
  const told = lines.map((line) => JSON.parse(line))
  t.match(told, [{ level: 30, msg: 'client hung up before its request was complete' }])
  t.equal(told.length, 1)
})

t.test('answers what comes while the service stops, and closes the connection', async (t) => {
  const { app, port } = await start(t)
  let arrived = () => {}
  const arrival = new Promise<void>((resolve) => {
    arrived = resolve
  })
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  app.server.prependListener('request', arrived)
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk
  })
  socket.write(
    'POST /items HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n',
  )
  await arrival
  const closing = app.close().then(release)
  socket.write('{"a":1}GET /items HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(socket, 'close')
  await closing
  await released
  const [first = '', second = ''] = answer.split(/(?<=})(?=HTTP)/)
  t.match(first, 'HTTP/1.1 200', 'what had begun is finished')
  t.match(second, /^HTTP\/1.1 200/)
  t.match(second, /connection: close/i)
})

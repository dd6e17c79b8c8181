import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { oldToolCall } from '../helpers/mcp-requests.ts'
import { messagesIn, startProxy } from './kit.ts'

// What servers do wrong here is said in the log.
expectWarnings(t, 'check refused', 'FWA_UPSTREAM_FAILED')

const OLD = { 'mcp-protocol-version': '2025-11-25' }
const RESULT = { jsonrpc: '2.0', id: 1, result: { content: [] } }

async function startServer(t: Test, listener: RequestListener): Promise<number> {
  const server = createServer({ maxHeaderSize: 1_048_576 }, (request, response) => {
    request.resume()
    listener(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

const json = { 'content-type': 'application/json' }
const text = JSON.stringify(RESULT)

t.test('servers whose answers clients must not see', async (t) => {
  const servers: Record<string, RequestListener> = {
    'leads to another authorization server': (_, response) =>
      response
        .writeHead(401, { 'www-authenticate': 'Bearer resource_metadata="https://evil.example"' })
        .end('secret'),
    'refuses by itself': (_, response) => response.writeHead(403).end('secret'),
    'asks for a proxy password': (_, response) => response.writeHead(407).end('secret'),
    redirects: (_, response) =>
      response.writeHead(302, { location: 'https://evil.example' }).end('secret'),
    'redirects with the body': (_, response) =>
      response.writeHead(307, { location: 'https://evil.example' }).end(),
    'encodes what nobody asked for': (_, response) =>
      response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(gzipSync(text)),
    'says that it encodes': (_, response) =>
      response.writeHead(200, { ...json, 'content-encoding': 'br' }).end(text),
    'hangs up': (_, response) => response.destroy(),
    'hangs up in the middle': (_, response) => {
      response.writeHead(200, { ...json, 'content-length': '1000' }).write(text)
      setImmediate(() => response.destroy())
    },
    'sends headers without an end': (_, response) =>
      response.writeHead(200, { ...json, 'x-long': 'x'.repeat(500_000) }).end(text),
    'speaks no HTTP': (_, response) => response.socket?.end('hello\r\n\r\n'),
  }
  for (const [title, listener] of Object.entries(servers)) {
    const { send } = await startProxy(t, await startServer(t, listener))
    const answer = await send(oldToolCall('read_note'), { headers: OLD })
    t.equal(answer.statusCode, 502, title)
    t.match(messagesIn(answer), [
      { id: 1, error: { code: -32_603, data: { code: 'FWA_UPSTREAM_FAILED' } } },
    ])
    t.notMatch(answer.body, /secret|evil|ECONN|127\.0\.0\.1/, title)
    t.notOk(answer.headers.location, title)
    t.notOk(answer.headers['www-authenticate'], title)
  }
})

t.test('a server that is not there', async (t) => {
  const { send } = await startProxy(t, 1)
  const answer = await send(oldToolCall('read_note'), { headers: OLD })
  t.equal(answer.statusCode, 502)
  t.notMatch(answer.body, /ECONN|127\.0\.0\.1/)
})

t.test('what comes back, and what does not', async (t) => {
  const port = await startServer(t, (_, response) =>
    response
      .writeHead(200, {
        ...json,
        'cache-control': 'no-cache',
        'retry-after': '3',
        'set-cookie': 'a=b; Domain=example.com',
        'access-control-allow-credentials': 'true',
        'content-security-policy': 'x',
        'x-secret': 'a',
        link: '<https://evil.example>; rel=preload',
      })
      .end(text),
  )
  const { send } = await startProxy(t, port)
  const { headers, body } = await send(oldToolCall('read_note'), { headers: OLD })
  t.equal(body, text)
  t.match(headers, { 'content-type': 'application/json', 'retry-after': '3' })
  for (const name of ['set-cookie', 'access-control-allow-credentials', 'x-secret', 'link'])
    t.notOk(name in headers, name)
})

t.test('errors of a server reach its client, and the audit trail', async (t) => {
  const answers: [status: number, body: object | string, outcome: string][] = [
    [200, RESULT, 'ran'],
    [200, { ...RESULT, result: { isError: true, content: [] } }, 'failed'],
    [200, { jsonrpc: '2.0', id: 1, error: { code: -32_602, message: 'no' } }, 'failed'],
    [200, { ...RESULT, id: 2 }, 'unknown'],
    [200, 'no JSON', 'unknown'],
    [400, { jsonrpc: '2.0', id: null, error: { code: -32_022, message: 'version' } }, 'failed'],
    [404, 'no such session', 'failed'],
    [500, 'broken', 'failed'],
  ]
  for (const [status, body, outcome] of answers) {
    const sent = typeof body === 'string' ? body : JSON.stringify(body)
    const port = await startServer(t, (_, response) => response.writeHead(status, json).end(sent))
    const { send, app } = await startProxy(t, port)
    const answer = await send(oldToolCall('read_note'), { headers: OLD })
    t.equal(answer.statusCode, status)
    t.equal(answer.body, sent)
    await app.auditTrail.flush()
    const rows = await Array.fromAsync(app.authStore.audit.rows(0))
    t.match(
      rows.filter(({ event }) => event === 'tool-called'),
      [{ outcome }],
      sent,
    )
  }
})

t.test('a stream that its server cuts off ends', async (t) => {
  const port = await startServer(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {"id"')
    setImmediate(() => response.destroy())
  })
  const { send } = await startProxy(t, port)
  const answer = await send(oldToolCall('read_note'), { headers: OLD })
  t.equal(answer.statusCode, 200)
  t.match(answer.body, /^:\n\n/)
})

t.test('long answers pass', async (t) => {
  const long = JSON.stringify({ ...RESULT, result: { text: 'x'.repeat(6_000_000), n: 1 } })
  const event = `event: message\ndata: ${long}\n\ndata: ${text}\n\n`
  for (const [type, sent] of [
    ['application/json', long],
    ['text/event-stream', event],
  ] as const) {
    const port = await startServer(t, (_, response) =>
      response.writeHead(200, { 'content-type': type }).end(sent),
    )
    const { send } = await startProxy(t, port)
    const { body } = await send(oldToolCall('read_note'), { headers: OLD })
    t.ok(body.endsWith(sent), type)
  }
})

t.test('answers that are no UTF-8 pass byte for byte', async (t) => {
  const sent = Buffer.concat([Buffer.from('{"text":"'), Buffer.from([0xe9, 0xff, 0x00])])
  for (const type of ['application/json', 'text/plain; charset=iso-8859-1', 'image/png']) {
    const port = await startServer(t, (_, response) =>
      response.writeHead(200, { 'content-type': type }).end(sent),
    )
    const { send } = await startProxy(t, port)
    const { rawPayload } = await send(oldToolCall('read_note'), { headers: OLD })
    t.same(rawPayload, sent, type)
  }
})

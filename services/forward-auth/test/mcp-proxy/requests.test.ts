import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { oldToolCall } from '../helpers/mcp-requests.ts'
import { startToolServer } from '../helpers/tool-servers.ts'
import { messagesIn, startProxy, URL, WRITER } from './kit.ts'

expectWarnings(t, 'check refused')

const OLD = { 'mcp-protocol-version': '2025-11-25' }
const INITIALIZE = {
  ...{ jsonrpc: '2.0', id: 1, method: 'initialize' },
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'a', version: '1' },
  },
}

t.test('requests that do not reach the server', async (t) => {
  const server = await startToolServer(t, 1)
  const { send } = await startProxy(t, server.port, { upstream: 'maxBody: 2000' })
  const call = oldToolCall('read_note')
  type Row = [
    why: string,
    options: Parameters<typeof send>[1] & { body?: object | string },
    status: number,
    code: string,
  ]
  const table: Row[] = [
    ['nobody', { key: '' }, 401, 'FWA_NO_SESSION'],
    ['a wrong key', { key: 'x'.repeat(40) }, 401, 'AUTH_KEY_INVALID'],
    [
      'nobody, with a body of any size',
      { key: '', body: 'x'.repeat(9_000) },
      401,
      'FWA_NO_SESSION',
    ],
    [
      'a long body',
      { body: { ...call, params: { name: 'read_note', arguments: { x: 'y'.repeat(2_000) } } } },
      413,
      'FST_ERR_CTP_BODY_TOO_LARGE',
    ],
    [
      'another type',
      { headers: { 'content-type': 'text/plain' } },
      415,
      'FST_ERR_CTP_INVALID_MEDIA_TYPE',
    ],
    [
      'another charset',
      { headers: { 'content-type': 'application/json; charset=utf-16' } },
      415,
      'FST_ERR_CTP_INVALID_MEDIA_TYPE',
    ],
    [
      'an encoding',
      { headers: { 'content-encoding': 'gzip' } },
      415,
      'FST_ERR_CTP_INVALID_MEDIA_TYPE',
    ],
    ['no JSON', { body: '{' }, 400, 'FWA_CALL_UNREADABLE'],
    ['a batch', { body: [call] }, 400, 'FWA_CALL_UNREADABLE'],
    [
      'another method in the header',
      { headers: { 'mcp-method': 'tools/list' } },
      400,
      'FWA_CALL_MISMATCH',
    ],
    ['another tool in the header', { headers: { 'mcp-name': 'whoami' } }, 400, 'FWA_CALL_MISMATCH'],
    [
      'a method that MCP does not have',
      { body: { ...call, method: 'Tools/Call' } },
      403,
      'FWA_TOOL_REFUSED',
    ],
    ['a tool that no rule names', { body: oldToolCall('READ_NOTE') }, 403, 'FWA_TOOL_REFUSED'],
    [
      'a session that nobody has opened',
      { headers: { 'mcp-session-id': 'a' } },
      404,
      'FWA_MCP_SESSION_UNKNOWN',
    ],
    [
      'a response without a session',
      { body: { jsonrpc: '2.0', id: 1, result: {} } },
      404,
      'FWA_MCP_SESSION_UNKNOWN',
    ],
    ['a path below', { url: `${URL}/x` }, 404, 'FWA_NOT_FOUND'],
    ['a path with a slash', { url: `${URL}/` }, 404, 'FWA_NOT_FOUND'],
    [
      'a path in another case',
      { url: URL.toUpperCase().replace('/PORTALS/MAIN/MCP-PROXY', '/portals/main/mcp-proxy') },
      404,
      'FWA_NOT_FOUND',
    ],
    ['a path that is encoded', { url: URL.replace(/mcp$/, 'm%63p') }, 404, 'FWA_NOT_FOUND'],
    ['two slashes', { url: URL.replace(/mcp$/, '/mcp') }, 404, 'FWA_NOT_FOUND'],
    ['another host', { headers: { host: 'other.example.com' } }, 404, 'FWA_NOT_FOUND'],
    [
      'the host of the sign-in pages',
      { headers: { host: 'auth.example.com' } },
      404,
      'FWA_NOT_FOUND',
    ],
    [
      'a spelling of a header that apps fold',
      { headers: { x_forwarded_host: 'a' } },
      400,
      'FWA_HEADER_ALIAS',
    ],
  ]
  for (const [why, { body = call, ...options }, status, code] of table) {
    const answer = await send(body, { ...options, headers: { ...OLD, ...options.headers } })
    t.equal(answer.statusCode, status, `${why}: ${answer.body}`)
    const [message] = messagesIn(answer)
    t.match(message, { jsonrpc: '2.0', error: { data: { code, status } } }, why)
    t.match(answer.headers['content-type'], /^application\/json/, why)
  }
  t.strictSame(server.ran, [])
  t.equal(server.last(), undefined, 'the server has had no request')
  const named = await send({ ...call, id: 'seven', method: 'acme/x' }, { headers: OLD })
  t.match(messagesIn(named), [{ id: 'seven' }])
})

t.test('what the server gets, and what it does not', async (t) => {
  const server = await startToolServer(t, 1)
  const { send } = await startProxy(t, server.port)
  const more = {
    ...{
      cookie: 'a=b',
      origin: 'https://a.example',
      'x-forwarded-for': '1.2.3.4',
      'x-real-ip': '1.2.3.4',
    },
    ...{
      'x-forwarded-user': 'root',
      'x-evil': 'a',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    },
    ...{ 'mcp-param-region': 'eu', 'accept-encoding': 'gzip' },
  }
  await send(oldToolCall('read_note'), { headers: { ...OLD, ...more }, url: `${URL}?a=b` })
  const headers = server.last() ?? {}
  t.match(headers, {
    host: `127.0.0.1:${server.port}`,
    'content-type': 'application/json',
    'mcp-protocol-version': '2025-11-25',
    'mcp-param-region': 'eu',
    'accept-encoding': 'identity',
    'x-forwarded-user': 'psk:reader',
    traceparent: /^00-0af7/,
  })
  for (const name of [
    'authorization',
    'cookie',
    'origin',
    'x-forwarded-for',
    'x-real-ip',
    'x-evil',
    'x-forwarded-host',
  ])
    t.notOk(name in headers, name)
  t.strictSame(server.ran, ['read_note'])
})

t.test('a session is of its person and resource', async (t) => {
  const server = await startToolServer(t, 1.12)
  const { send } = await startProxy(t, server.port)
  const { headers, statusCode } = await send(INITIALIZE, { headers: OLD })
  t.equal(statusCode, 200)
  const id = String(headers['mcp-session-id'])
  t.match(id, /^[\w-]+\.[\w-]{43}$/)
  const withSession = (sessionId: string) => ({ headers: { ...OLD, 'mcp-session-id': sessionId } })
  const call = oldToolCall('read_note')
  t.equal((await send(call, withSession(id))).statusCode, 200)
  t.notMatch(String(server.last()?.['mcp-session-id']), /\./, 'the server has its own ID')
  const [own = '', mac = ''] = id.split('.')
  for (const other of [
    own,
    `${own}.`,
    `.${mac}`,
    `${own}x.${mac}`,
    `${own}.${mac}x`,
    `${id}, ${id}`,
  ])
    t.equal((await send(call, withSession(other))).statusCode, 404, other)
  t.equal((await send(call, { ...withSession(id), key: WRITER })).statusCode, 404, 'somebody else')
  t.strictSame(server.ran, ['read_note'])
})

t.test('each call has a row in the audit trail, without its arguments', async (t) => {
  const server = await startToolServer(t, 1)
  const { send, app } = await startProxy(t, server.port)
  const call = {
    ...oldToolCall('read_note'),
    params: { name: 'read_note', arguments: { secret: 'canary' } },
  }
  for (let i = 0; i < 3; i++) await send(call, { headers: OLD })
  await app.auditTrail.flush()
  const rows = []
  for await (const row of app.authStore.audit.rows(0)) rows.push(row)
  const called = rows.filter(({ event }) => event === 'tool-called')
  t.equal(called.length, 3)
  for (const row of called)
    t.match(row, {
      tool: 'read_note',
      person: 'psk:reader',
      host: 'app.example.com',
      outcome: 'ran',
      duration: Number,
    })
  t.notMatch(JSON.stringify(rows), 'canary')
})

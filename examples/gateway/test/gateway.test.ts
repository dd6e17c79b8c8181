import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import t, { type Test } from 'tap'
import { until } from '../../../scripts/test/until.ts'
import { issueCertificate } from '../../../services/forward-auth/test/helpers/certificates.ts'
import { type Ask, createClient } from '../../../services/forward-auth/test/helpers/client.ts'
import { buildGateway, type Route } from '../src/index.ts'
import { fakeApp } from './fake-app.ts'

const HOST = 'app.example.test'
const IDENTITY = ['X-Forwarded-User', 'Remote-Email']
const SESSION =
  '__Host-gatehouse-app.main=s; __Secure-gatehouse-app.main=t; __Host-gatehouse-hop.main.01234567=u'
const LOCATION = 'https://auth.example.test/portals/main/signin?rd=x'
const FORGED = {
  ...{ 'X-Forwarded-User': 'mallory', X_Forwarded_User: 'mallory', 'X.Forwarded.User': 'mallory' },
  ...{ 'remote-email': 'mallory@example.test', Remote_Email: 'mallory@example.test' },
  ...{ 'X-Forwarded-For': '192.0.2.1', 'X-Forwarded-Host': 'evil.test', X_Forwarded_Host: 'evil' },
  ...{ 'X-Forwarded-Method': 'OPTIONS', 'X-Forwarded-Proto': 'http', 'X-Forwarded-Uri': '/public' },
  ...{ 'X-Forwarded-Port': '1', 'X-Forwarded-Prefix': '/evil', 'X-Original-URL': 'https://evil/' },
  ...{ Forwarded: 'for=192.0.2.1', 'X-Real-IP': '192.0.2.1', 'X-Forward-Auth-If': 'true' },
}
const WEB_SOCKET = {
  ...{ connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
}

const answers =
  (status: number, headers: Record<string, string | string[]> = {}, body = ''): RequestListener =>
  (_request, response) =>
    void response.writeHead(status, headers).end(body)
const allows = answers(200, { 'x-forwarded-user': 'alice', 'remote-email': '', 'x-other': 'no' })

async function listen(t: Test, server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A gateway between a client, a check that does what it is told, and an app that notes all. */
async function start(t: Test, timing: { checkTimeoutMs?: number } = {}) {
  const asked: IncomingMessage[] = []
  let verdict: RequestListener = allows
  const { heard, listener, upgrade } = fakeApp()
  const app = await listen(t, createServer(listener).on('upgrade', upgrade))
  const check = await listen(
    t,
    createServer((request, response) => {
      asked.push(request)
      verdict(request, response)
    }),
  )
  const { rootPem, crt, key } = await issueCertificate(t.testdir(), ['*.example.test', `*.${HOST}`])
  const gateway = await buildGateway({
    routes: new Map<string, Route>([
      [HOST, { upstream: app, check: `${check}/portals/main?policy=any` }],
      ['auth.example.test', { upstream: app, isGatehouse: true }],
      ['open.example.test', { upstream: app }],
      ['gone.example.test', { upstream: 'http://127.0.0.1:1' }],
      ['unchecked.example.test', { upstream: app, check: 'http://127.0.0.1:1' }],
    ]),
    identityHeaders: IDENTITY,
    ...timing,
    tls: { cert: await readFile(crt, 'utf8'), key: await readFile(key, 'utf8') },
    log: createLogger({ level: 'silent', format: 'json', name: 'gateway' }),
  })
  t.teardown(() => gateway.close())
  await gateway.listen({ host: '127.0.0.1', port: 0 })
  const { port } = gateway.server.address() as AddressInfo
  const client = createClient(port, rootPem)

  /** What the client gets; what the check and the app heard, and how often the app did. */
  async function visit(ask: Ask, decide: RequestListener = allows) {
    verdict = decide
    asked.length = heard.length = 0
    const { socket, ...answer } = await client({ host: HOST, ...ask })
    // Of a WebSocket, the app speaks first.
    const frame = socket && String((await once(socket, 'data'))[0])
    return { answer, socket, frame, asked: asked[0], heard: heard[0], times: heard.length }
  }
  return { gateway, visit }
}

const { gateway, visit } = await start(t)

t.test('what a check is told', async (t) => {
  const ask = {
    method: 'POST',
    path: '/a%2Fb?c=d&e',
    headers: { ...FORGED, cookie: SESSION, accept: 'text/html', 'content-type': 'text/plain' },
    body: 'not for the check',
  }
  const { asked } = await visit({ ...ask, host: `${HOST}:8443` })
  t.match(asked, { method: 'GET', url: '/portals/main?policy=any' })
  const { host: _host, connection: _connection, ...headers } = asked?.headers ?? {}
  t.strictSame(headers, {
    accept: 'text/html',
    cookie: SESSION,
    'content-type': 'text/plain',
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-host': `${HOST}:8443`,
    'x-forwarded-method': 'POST',
    'x-forwarded-port': '8443',
    'x-forwarded-proto': 'https',
    'x-forwarded-uri': '/a%2Fb?c=d&e',
  })
  const { asked: upgrade } = await visit({ headers: WEB_SOCKET }, answers(401))
  t.match(upgrade?.headers, { 'x-forwarded-proto': 'wss', 'x-forwarded-port': '443' })
  t.equal(upgrade?.headers.upgrade, undefined)

  const names = Object.keys(headers).join(', ')
  const { asked: stripped } = await visit({ headers: { connection: `close, ${names}` } })
  t.match(stripped?.headers, { 'x-forwarded-method': 'GET', 'x-forwarded-for': '127.0.0.1' })
})

t.test('what an app hears', async (t) => {
  const cookie = `a=1; ${SESSION}; b=2`
  const { heard, answer } = await visit({ path: '/x/y?z', headers: { ...FORGED, cookie } })
  t.match(answer, { status: 200, headers: { 'x-app': '1', 'x-hop': undefined } })
  t.strictSame(heard, {
    method: 'GET',
    url: '/x/y?z',
    cgi: {
      HTTP_HOST: [HOST],
      HTTP_COOKIE: ['a=1; b=2'],
      HTTP_X_FORWARDED_FOR: ['127.0.0.1'],
      HTTP_X_FORWARDED_HOST: [HOST],
      HTTP_X_FORWARDED_PORT: ['443'],
      HTTP_X_FORWARDED_PROTO: ['https'],
      HTTP_X_FORWARDED_USER: ['alice'],
      HTTP_REMOTE_EMAIL: [''],
      HTTP_CONNECTION: ['keep-alive'],
    },
    body: '',
  })

  const CASES: Record<string, { ask?: Ask; decide?: RequestListener; cgi: object; body?: string }> =
    {
      'an identity header that the check leaves out is nobody’s': {
        ask: { headers: FORGED },
        decide: answers(204),
        cgi: { HTTP_X_FORWARDED_USER: undefined, HTTP_REMOTE_EMAIL: undefined },
      },
      'a client cannot have identity headers cut off': {
        ask: { headers: { connection: 'close, X-Forwarded-User, Remote-Email, X-Forwarded-For' } },
        cgi: { HTTP_X_FORWARDED_USER: ['alice'], HTTP_X_FORWARDED_FOR: ['127.0.0.1'] },
      },
      'a cookie header of Gatehouse alone goes away': {
        ask: { headers: { cookie: SESSION } },
        cgi: { HTTP_COOKIE: undefined },
      },
      'Gatehouse gets its own cookies': {
        ask: { host: 'auth.example.test', headers: { cookie: SESSION } },
        cgi: { HTTP_COOKIE: [SESSION], HTTP_X_FORWARDED_USER: undefined },
      },
      'without a check nobody is somebody': {
        ask: { host: 'open.example.test', headers: { ...FORGED, cookie: SESSION } },
        cgi: { HTTP_COOKIE: undefined, HTTP_X_FORWARDED_USER: undefined },
      },
      'another spelling of the host': {
        ask: { host: `${HOST.toUpperCase()}.:8443` },
        cgi: { HTTP_X_FORWARDED_USER: ['alice'], HTTP_X_FORWARDED_PORT: ['8443'] },
      },
      'a body': {
        ask: { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'hello' },
        cgi: { HTTP_CONTENT_LENGTH: ['5'] },
        body: 'hello',
      },
      'a body of unknown length': {
        ask: { method: 'PUT', headers: { 'transfer-encoding': 'chunked' }, body: 'hello' },
        cgi: {},
        body: 'hello',
      },
      'JSON as it is': {
        ask: { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{ "a":1 }' },
        cgi: {},
        body: '{ "a":1 }',
      },
    }
  for (const [name, { ask = {}, decide, cgi, body = '' }] of Object.entries(CASES)) {
    const { heard } = await visit(ask, decide)
    t.match(heard, { cgi, body }, name)
  }
})

t.test(
  'every other answer of a check is that of the gateway, and no app hears of it',
  async (t) => {
    const cookies = ['a=1; Secure', 'b=2; Secure']
    const CASES: [name: string, decide: RequestListener, wants: object][] = [
      [
        '302',
        answers(302, { location: LOCATION }),
        { status: 302, headers: { location: LOCATION } },
      ],
      ['cookies', answers(303, { 'set-cookie': cookies }), { headers: { 'set-cookie': cookies } }],
      ['304', answers(304), { status: 304 }],
      [
        '401',
        answers(401, { 'www-authenticate': 'Bearer', 'content-type': 'application/json' }, '{}'),
        { status: 401, body: '{}', headers: { 'www-authenticate': 'Bearer' } },
      ],
      ['403', answers(403, {}, 'no'), { status: 403, body: 'no' }],
      ['500', answers(500, {}, 'oh'), { status: 500, body: 'oh' }],
      [
        '503',
        answers(503, { 'retry-after': '1' }),
        { status: 503, headers: { 'retry-after': '1' } },
      ],
      [
        'what belongs to the connection',
        answers(401, { connection: 'close, x-hop', 'x-hop': '1', 'keep-alive': 'timeout=9' }),
        { status: 401, headers: { 'x-hop': undefined } },
      ],
    ]
    for (const method of ['GET', 'POST', 'HEAD'])
      for (const [name, decide, wants] of CASES) {
        const { answer, times } = await visit({ method }, decide)
        const expected = method === 'HEAD' ? { ...wants, body: '' } : wants
        t.match({ ...answer, times }, { ...expected, times: 0 }, `${method} ${name}`)
      }
  },
)

t.test('the app gets the credentials that the check answers', async (t) => {
  const authorization = 'Basic cmVhZGVyOmtleQ=='
  const told = async (headers: Record<string, string>) =>
    (await visit({ headers: { authorization } }, answers(200, headers))).heard?.cgi
      .HTTP_AUTHORIZATION
  t.strictSame(await told({ authorization }), [authorization])
  t.strictSame(await told({ authorization: '' }), [''], 'no key of Gatehouse')
  t.strictSame(await told({}), [authorization], 'those of the client, if the check says nothing')
})

t.test('a check that does not answer denies', async (t) => {
  const { visit } = await start(t, { checkTimeoutMs: 100 })
  const CASES: [name: string, decide: RequestListener][] = [
    ['hangs', () => {}],
    ['hangs after its headers', (_, response) => void response.writeHead(200).write('half')],
    ['goes away', (request) => void request.socket.destroy()],
    ['says too much', answers(200, {}, 'x'.repeat(100_000))],
    ['sends no HTTP', (request) => void request.socket.end('nonsense\r\n\r\n')],
    ['sends a status that is none', (request) => void request.socket.end('HTTP/1.1 700 X\r\n\r\n')],
  ]
  for (const [name, decide] of CASES) {
    const { answer, times } = await visit({}, decide)
    t.match(
      { ...answer, times },
      { status: 500, body: '500 Internal Server Error\n', times: 0 },
      name,
    )
  }
  t.match(await visit({ host: 'unchecked.example.test' }), { answer: { status: 500 }, times: 0 })
})

t.test('what is refused without asking anybody', async (t) => {
  const open = 'open.example.test'
  const CASES: [name: string, ask: Ask, status: number][] = [
    ['a host that is not ours', { host: 'other.example.test' }, 404],
    ['a host below ours', { host: `a.${HOST}` }, 404],
    ['a port that is none', { host: `${HOST}:0` }, 404],
    ['another host in the path', { host: open, path: '//evil.test/x' }, 400],
    ['a whole URL for a path', { host: open, path: 'http://127.0.0.1:1/x' }, 400],
    ['a way up', { host: open, path: '/a/%2e%2e/b' }, 400],
    ['an app that is down', { host: 'gone.example.test' }, 502],
  ]
  for (const [name, ask, status] of CASES) {
    const { answer, asked, times } = await visit(ask)
    t.match({ status: answer.status, asked, times }, { status, asked: undefined, times: 0 }, name)
  }
  const { answer, times } = await visit({ path: '/503' })
  t.match({ ...answer, times }, { status: 503, times: 1 }, 'an app that is busy is asked once')
})

t.test('an upgrade', async (t) => {
  const headers = {
    ...WEB_SOCKET,
    ...FORGED,
    cookie: SESSION,
    'sec-websocket-protocol': 'chat, other',
  }
  for (const status of [302, 401, 500]) {
    const { answer, times } = await visit({ headers }, answers(status))
    t.match({ ...answer, times }, { status, times: 0 }, `denied with ${status}`)
  }
  const { answer, frame, heard, socket } = await visit({ path: '/live?a', headers })
  t.match({ status: answer.status, frame }, { status: 101, frame: /hello$/ })
  t.match(answer.headers, { 'sec-websocket-protocol': 'chat' })
  t.match(heard, {
    url: '/live?a',
    cgi: {
      HTTP_HOST: [HOST],
      HTTP_COOKIE: undefined,
      HTTP_X_FORWARDED_USER: ['alice'],
      HTTP_X_FORWARDED_PROTO: ['wss'],
      HTTP_REMOTE_EMAIL: [''],
    },
  })
  t.strictSame(heard?.cgi.HTTP_SEC_WEBSOCKET_PROTOCOL, ['chat'], 'a handshake of its own')
  t.match(await visit({ headers: { ...headers, upgrade: 'h2c' } }), { answer: { status: 400 } })

  await gateway.close()
  t.ok(await until(() => socket?.destroyed || socket?.readableEnded), 'ends with the gateway')
})

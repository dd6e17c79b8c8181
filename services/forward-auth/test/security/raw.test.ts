import { once } from 'node:events'
import { type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'

// What is wrong in these tests, and said.
expectWarnings(
  t,
  'ERR_INVALID_CHAR',
  'FWA_HEADER_ALIAS',
  'FWA_HEADER_INVALID',
  'FWA_HOST_UNKNOWN',
  'INTERNAL',
)

const FORWARDED = [
  'Host: auth.example.com',
  'X-Forwarded-Method: GET',
  'X-Forwarded-Proto: https',
  'X-Forwarded-Host: app.example.com',
  'X-Forwarded-Uri: /',
]
const CHECK = 'GET /portals/main HTTP/1.1'
const ENVOY = '/portals/main/authz/envoy/policy/any'

/** A listening service, and what it answers to bytes. */
async function start(t: Test) {
  const { app, signIn } = await startApp(t, yamlOf(portalOf('main')))
  const url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  const send = async (lines: readonly string[], body = ''): Promise<string> => {
    const socket = connect(Number(url.port), url.hostname)
    await once(socket, 'connect')
    socket.end(`${[...lines, 'Connection: close', '', ''].join('\r\n')}${body}`)
    // What was refused early may be reset before it was read to its end.
    return text(socket).catch(() => '')
  }
  return { send, cookie: `Cookie: ${await signIn('main')}` }
}

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])

t.test('refuses malformed requests written to the socket', async (t) => {
  const { send, cookie } = await start(t)
  t.equal(statusOf(await send([CHECK, ...FORWARDED, cookie])), 200, 'as it should be')
  const table: [what: string, status: number, lines: string[], body?: string][] = [
    ['a URL in the request line', 401, ['GET http://evil/portals/main HTTP/1.1', ...FORWARDED]],
    ['the same for Envoy', 401, [`GET http://evil${ENVOY}/x HTTP/1.1`, 'Host: app.example.com']],
    ['an asterisk', 405, ['OPTIONS * HTTP/1.1', ...FORWARDED]],
    ['HTTP/1.0', 401, ['GET /portals/main HTTP/1.0', ...FORWARDED]],
    ['an upgrade', 401, [CHECK, ...FORWARDED, 'Upgrade: websocket', 'Connection: Upgrade']],
    ['an expectation', 417, [CHECK, ...FORWARDED, cookie, 'Expect: 200-ok']],
    ['two lengths', 400, [CHECK, ...FORWARDED, cookie, 'Content-Length: 0', 'Content-Length: 1']],
    [
      'a length and chunks',
      400,
      [CHECK, ...FORWARDED, cookie, 'Content-Length: 3', 'Transfer-Encoding: chunked'],
      '0\r\n\r\n',
    ],
    ['a folded line', 400, [CHECK, ...FORWARDED, cookie, 'X-Folded: a', ' b']],
    ['a space before the colon', 400, [CHECK, ...FORWARDED, cookie, 'X-Forwarded-User : admin']],
    ['a bare line feed', 400, [CHECK, ...FORWARDED, cookie, 'X-A: b\nX-C: d']],
    ['NUL', 400, [CHECK, ...FORWARDED, cookie, 'X-A: \0']],
    ['two hosts', 400, [`GET ${ENVOY}/ HTTP/1.1`, 'Host: app.example.com', 'Host: evil', cookie]],
    ['no host', 400, [`GET ${ENVOY}/ HTTP/1.1`, cookie]],
    ['a path of no encoding', 400, [`GET ${ENVOY}/%zz HTTP/1.1`, 'Host: app.example.com', cookie]],
    ['a long policy', 414, [`GET ${ENVOY}${'y'.repeat(200)}/ HTTP/1.1`, ...FORWARDED, cookie]],
    ['two cookies of one name', 401, [CHECK, ...FORWARDED, cookie, cookie]],
    ['a forwarded host twice', 403, [CHECK, ...FORWARDED, cookie, 'X-Forwarded-Host: evil.test']],
    ['a forwarded URI twice', 400, [CHECK, ...FORWARDED, cookie, 'X-Forwarded-Uri: /public']],
    ['a forwarded method twice', 400, [CHECK, ...FORWARDED, cookie, 'X-Forwarded-Method: HEAD']],
  ]
  for (const [what, status, lines, body] of table)
    t.equal(statusOf(await send(lines, body)), status, what)
})

t.test('an identity that Node does not send denies', async (t) => {
  const { send, cookie } = await start(t)
  const { writeHead } = ServerResponse.prototype
  t.intercept(ServerResponse.prototype, 'writeHead', {
    value(this: ServerResponse, status: number, headers: OutgoingHttpHeaders) {
      const sent = status === 200 ? { ...headers, 'x-refused': '\n' } : headers
      return writeHead.call(this, status, sent)
    },
  })
  const answer = await send([CHECK, ...FORWARDED, cookie])
  t.equal(statusOf(answer), 500)
  t.notMatch(answer, /x-forwarded-user/i)
})

t.test('answers to one connection stay apart, bodies or none', async (t) => {
  const { send, cookie } = await start(t)
  const requests: [method: string, lines: string[], body: string][] = [
    ['HEAD', [], ''],
    ['POST', ['Content-Length: 5'], 'hello'],
    ['PUT', ['Transfer-Encoding: chunked'], '5\r\nhello\r\n0\r\n\r\n'],
    ['DELETE', ['If-None-Match: *', 'Range: bytes=0-0'], ''],
  ]
  const before = requests.map(
    ([method, lines, body]) =>
      `${[`${method} /portals/main HTTP/1.1`, ...FORWARDED, cookie, ...lines, '', ''].join('\r\n')}${body}`,
  )
  const answers = await send([`${before.join('')}${CHECK}`, ...FORWARDED, cookie])
  t.strictSame(
    answers.split(/^(?=HTTP)/m).map((answer) => [statusOf(answer), answer.split('\r\n\r\n')[1]]),
    [[200, ''], ...Array.from({ length: 4 }, () => [200, 'OK\n'])],
  )
})

t.test('finds an alias behind thousands of other headers', async (t) => {
  const { send, cookie } = await start(t)
  const alias = 'X_Forwarded_User: admin'
  t.equal(statusOf(await send([CHECK, ...FORWARDED, cookie, alias])), 400)
  for (const count of [100, 900, 2_000, 4_000]) {
    const others = Array.from({ length: count }, (_, i) => `G${i.toString(36)}:`)
    const answer = await send([CHECK, ...FORWARDED, cookie, ...others, alias])
    t.notMatch(answer, /^HTTP\/1\.1 [23]/, `behind ${count} headers`)
  }
})

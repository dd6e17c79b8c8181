import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { UsageError } from '@gatehouse/service-kit/program'
import t, { type Test } from 'tap'
import { createClient } from '../../src/doctor/client.ts'
import { examineServer } from '../../src/doctor/lies.ts'
import { createMcpClient } from '../../src/doctor/mcp-client.ts'
import { type Sdk, startToolServer } from '../helpers/tool-servers.ts'

/** What is said of a server, and what kind of error that is. */
async function examine(port: number) {
  const send = createMcpClient(new URL(`http://127.0.0.1:${port}/mcp`), createClient())
  return examineServer(send, 'whoami').then(
    (text) => ({ error: undefined, text }),
    (error: Error) => ({
      error: error instanceof UsageError ? 'usage' : 'server',
      text: error.message,
    }),
  )
}

const COMPARES = /^This server compares headers and body: whoami ran in 0 of 7 calls/
const OLDER =
  /older versions of MCP only: .* refuses every call \(400, error -32\d+\)\. Give .*`upstream`/
const RUNS = /^This server runs whatever the body says: whoami in 7 of 7 calls/

t.test('real servers', async (t) => {
  const table: [sdk: Sdk, runs: number, text: RegExp][] = [
    [2, 2, COMPARES],
    [1, 1, OLDER],
    [
      1.12,
      8,
      /^This server runs whatever the body says: whoami in 7 of 14 .* as another tool\. Give/,
    ],
  ]
  for (const [sdk, runs, text] of table)
    await t.test(`SDK ${sdk}`, async (t) => {
      const server = await startToolServer(t, sdk)
      t.match((await examine(server.port)).text, text)
      t.strictSame(server.ran, Array(runs).fill('whoami'))
    })
})

type Message = { readonly method?: string; readonly params?: { readonly name?: string } }
type Answer = readonly [status: number, body: object | string, headers?: Record<string, string>]

/** A server that is written by hand. */
async function startServer(
  t: Test,
  answer: (message: Message, headers: IncomingHttpHeaders) => Answer,
) {
  const server = createServer(async (request, response) => {
    const message = [await json(request)].flat()[0] as Message
    const [status, body, headers] = answer(message, request.headers)
    response.writeHead(status, headers)
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

const RESULT = { jsonrpc: '2.0', id: 1, result: { content: [] } }
const errorOf = (code: number) => ({ jsonrpc: '2.0', id: 1, error: { code, message: 'no' } })
const isHonest = (headers: IncomingHttpHeaders) =>
  ['whoami', undefined].includes(headers['mcp-name'] as string | undefined) &&
  ['tools/call', undefined].includes(headers['mcp-method'] as string | undefined)
const NO_SESSION: Answer = [202, '']
/** A server with sessions, and nothing without one. */
const inSession =
  (answer: (headers: IncomingHttpHeaders) => Answer) =>
  ({ method }: Message, headers: IncomingHttpHeaders): Answer => {
    if (method === 'initialize') return [200, RESULT, { 'mcp-session-id': 's' }]
    return headers['mcp-session-id'] === 's' ? answer(headers) : [400, errorOf(-32_000)]
  }

t.test('servers that are written by hand', async (t) => {
  const table: [
    what: string,
    answer: Parameters<typeof startServer>[1],
    text: RegExp,
    error?: 'usage' | 'server',
  ][] = [
    ['body only', () => [200, RESULT], RUNS, 'server'],
    [
      'events, after one without a message',
      () => [
        200,
        `id: 1\ndata:\n\nevent: message\ndata: {"method":"notifications/progress"}\n\ndata:${JSON.stringify(RESULT)}\n\n`,
        { 'content-type': 'text/event-stream; charset=utf-8' },
      ],
      RUNS,
      'server',
    ],
    ['a list of answers', () => [200, [RESULT]], RUNS, 'server'],
    ['a result that is no object', () => [200, { result: 'done' }], RUNS, 'server'],
    [
      'headers compared',
      (_, headers) => (isHonest(headers) ? [200, RESULT] : [400, errorOf(-32_020)]),
      COMPARES,
    ],
    [
      'headers compared, and the error with 200',
      (_, headers) => [200, isHonest(headers) ? RESULT : errorOf(-32_020)],
      COMPARES,
    ],
    [
      'an answer that shows nothing',
      (_, headers) => (isHonest(headers) ? [200, RESULT] : [500, 'sorry']),
      RUNS,
      'server',
    ],
    [
      'nothing but 202',
      (_, headers) => (isHonest(headers) ? [200, RESULT] : NO_SESSION),
      RUNS,
      'server',
    ],
    [
      'only in a session',
      inSession(() => [200, RESULT]),
      /in 7 of 14 .* another tool\. Give/,
      'server',
    ],
    [
      'compared in a session',
      inSession((headers) => (isHonest(headers) ? [200, RESULT] : [400, errorOf(-32_020)])),
      OLDER,
      'server',
    ],
    ['a guard before it', () => [401, 'no'], /^whoami does not run.* \(401\)$/, 'usage'],
    ['no such tool', () => [200, errorOf(-32_602)], /\(200, error -32602\)$/, 'usage'],
    ['no MCP', () => [200, '<html>'], /\(200\)$/, 'usage'],
  ]
  for (const [what, answer, text, error] of table)
    await t.test(what, async (t) => {
      const said = await examine(await startServer(t, answer))
      t.match(said.text, text)
      t.equal(said.error, error)
    })
})

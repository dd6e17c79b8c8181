import type { LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { createClient, HANGS, type HttpClient } from '../../src/doctor/client.ts'
import type { HttpAnswer } from '../../src/doctor/diagnose.ts'
import { examineResources } from '../../src/doctor/resource.ts'
import type { TestApp } from '../app.ts'
import { startToolServer } from '../helpers/tool-servers.ts'
import { startProxy } from '../mcp-proxy/kit.ts'

expectWarnings(t, 'check refused', 'call refused')

const RESOURCE = 'https://app.example.com/mcp'

function answerOf({ statusCode: status, headers, body }: LightMyRequestResponse): HttpAnswer {
  const texts = Object.entries(headers).map(([name, value]) => [name, String(value)])
  return { status, headers: Object.fromEntries(texts), body }
}

/** What a proxy in front does with a request. */
type Route = (app: TestApp['app']) => HttpClient

/** Asks the check, which lets nobody pass. */
const toCheck: Route =
  (app) =>
  async ({ host, pathname }, { method = 'GET', headers }) =>
    answerOf(
      await app.inject({
        url: '/portals/main',
        headers: {
          ...headers,
          'x-forwarded-method': method,
          'x-forwarded-proto': 'https',
          'x-forwarded-host': host,
          'x-forwarded-uri': pathname,
        },
      }),
    )

const toMcpProxy: Route =
  (app) =>
  async ({ host, pathname }, { method = 'GET', headers, body }) =>
    answerOf(
      await app.inject({
        method: method as 'GET' | 'POST',
        url: `/portals/main/mcp-proxy${pathname}`,
        headers: { ...headers, host, 'x-forwarded-proto': 'https' },
        ...(body !== undefined && { payload: body }),
      }),
    )

/** Sends a request to the server itself. */
const toServer =
  (port: number): Route =>
  () =>
  ({ pathname }, request) =>
    createClient()(new URL(`http://127.0.0.1:${port}${pathname}`), request)

const answers =
  (answer: HttpAnswer): Route =>
  () =>
  async () =>
    answer

async function start(t: Test) {
  const server = await startToolServer(t, 2)
  const { app } = await startProxy(t, server.port)
  const { gate } = app.portals.get('main')!
  /** What is found where a proxy has these routes by path, and the check for all other paths. */
  async function find(routes: Readonly<Record<string, Route>>, url = RESOURCE) {
    const ask: HttpClient = (target, request) =>
      (routes[target.pathname] ?? toCheck)(app)(target, request)
    const findings = await Array.fromAsync(examineResources(gate, new URL(url), ask))
    return findings.map(({ mistake, text }) => `${mistake}: ${text}`)
  }
  return { find, server }
}

t.test('a proxy as in the guide', async (t) => {
  const { find, server } = await start(t)
  t.strictSame(await find({ '/mcp': toMcpProxy }), [])
  t.strictSame(await find({ '/mcp': toMcpProxy, '//mcp': toMcpProxy, '/mcp/': toMcpProxy }), [])
  t.equal(server.last(), undefined, 'nothing reaches the server')
  t.strictSame(await find({}, 'https://other.example.com/'), [], 'an app without resources')
})

t.test('a resource that is not sent to the MCP proxy', async (t) => {
  const { find, server } = await start(t)
  t.strictSame(await find({}), [
    `other: ${RESOURCE} leads to a check, not to /portals/main/mcp-proxy/mcp.`,
  ])
  const lacking = 'without resource_metadata'
  t.strictSame(await find({ '/mcp': toServer(server.port) }), [
    `challenge: ${RESOURCE} answers 200 ${lacking}.`,
  ])
  const bare = answers({ status: 401, headers: { 'www-authenticate': 'Bearer' }, body: '' })
  t.strictSame(await find({ '/mcp': bare }), [`challenge: ${RESOURCE} answers 401 ${lacking}.`])
})

t.test('other paths that lead to an MCP server', async (t) => {
  const { find, server } = await start(t)
  const open = (path: string) =>
    `other: https://app.example.com${path} leads to an MCP server without a check.`
  for (const path of ['/sse', '/messages', '/mcp/', '//mcp', '/mcp/x'])
    t.strictSame(await find({ '/mcp': toMcpProxy, [path]: toServer(server.port) }), [open(path)])

  const rows: [what: string, answer: HttpAnswer, isOpen: boolean][] = [
    ['a stream', HANGS, true],
    ['an error', { status: 400, headers: {}, body: '{"error":{"code":-32000}}' }, true],
    ['a page', { status: 200, headers: {}, body: '<html>' }, false],
    ['JSON', { status: 404, headers: {}, body: '{"status":404}' }, false],
    [
      'an error of Gatehouse',
      { status: 403, headers: {}, body: '{"error":{"data":{"code":"FWA_X"}}}' },
      false,
    ],
  ]
  for (const [what, answer, isOpen] of rows)
    t.strictSame(
      await find({ '/mcp': toMcpProxy, '/sse': answers(answer) }),
      isOpen ? [open('/sse')] : [],
      what,
    )
})

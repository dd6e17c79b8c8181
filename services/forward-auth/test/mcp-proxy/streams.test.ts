import { once } from 'node:events'
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import { portalOf, yamlOf } from '../app.ts'
import { NOTES, startIssuer } from '../oauth/kit.ts'
import { READER, startProxy } from './kit.ts'

expectWarnings(t, 'check refused')

const MINUTE = 60_000

/** A server that opens a stream for each request, and tells of each. */
async function startStreamServer(t: Test) {
  const open = new Set<ServerResponse>()
  const server = createServer((request, response) => {
    open.add(response)
    response.once('close', () => open.delete(response))
    if (request.method === 'DELETE') return response.writeHead(204).end()
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': hello\n\n')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port, open }
}

/** Opens a stream at the listening service. */
async function openStream(port: number, authorization: string, method = 'GET', body = '') {
  const sent = httpRequest({
    ...{ port, method, path: '/portals/main/mcp-proxy/mcp' },
    headers: {
      host: 'app.example.com',
      'x-forwarded-proto': 'https',
      accept: 'application/json, text/event-stream',
      authorization,
      ...(method === 'POST' && { 'content-type': 'application/json' }),
    },
  })
  sent.on('error', () => {})
  sent.end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  let text = ''
  let isOver = false
  answer.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
  })
  answer.on('error', () => {})
  answer.on('close', () => {
    isOver = true
  })
  return {
    status: answer.statusCode,
    text: () => text,
    isOver: () => isOver,
    leave: () => sent.destroy(),
  }
}

const CALL = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'read_note' },
})
const KEY = `APIKey ${READER}`

/** An agent of Ada at a server with streams. */
async function startAgent(t: Test, session = 'refresh: "off"') {
  const server = await startStreamServer(t)
  const yaml = (require = 'signedIn') =>
    yamlOf(
      portalOf(
        'main',
        `resources: [{ url: "${NOTES}", upstream: { url: "http://127.0.0.1:${server.port}/mcp" }, scopes: [{ name: "notes:read", text: Read }] }], policies: { nobody: 'Group("nobody")' }, rules: [{ hosts: [app.example.com], tools: ["*"], require: ${require} }], session: { ${session} }`,
      ),
    )
  const issuer = await startIssuer(t, { yaml: yaml() })
  const { app } = issuer
  await app.listen({ port: 0, host: '127.0.0.1' })
  const ada = await issuer.person('ada')
  const tokens = await issuer.connect(ada)
  const { port } = app.server.address() as AddressInfo
  const open = () => openStream(port, `Bearer ${tokens.access_token}`)
  return { ...issuer, ...tokens, server, ada, open, yaml }
}

t.test('a stream begins at once, and has signs of life', async (t) => {
  const { open, clock, server } = await startAgent(t)
  const stream = await open()
  t.equal(stream.status, 200)
  t.ok(await until(() => stream.text() === ':\n\n: hello\n\n'))
  await clock.advance(15_000)
  t.ok(await until(() => stream.text() === ':\n\n: hello\n\n:\n\n'))
  stream.leave()
  t.ok(await until(() => server.open.size === 0), 'the server learns that its client has left')
})

t.test('a stream ends with', async (t) => {
  type Started = Awaited<ReturnType<typeof startAgent>>
  const ends: Record<string, (test: Started) => unknown> = {
    'its agent': ({ post, refresh_token: token }) =>
      post('/revoke', { token, client_id: 'https://assistant.test/oauth/client.json' }),
    'the session of its person': async ({ app }) => {
      const [portal] = [...app.portals.values()]
      const { endTarget } = await import('../../src/account/end.ts')
      await endTarget(app, portal!, { person: 'ada' }, { endedBy: 'operator' })
    },
    'its rule': ({ reload, yaml }) => reload(yaml('nobody')),
    'a session that is not used': ({ clock }) => clock.advance(32 * MINUTE),
    'an hour': ({ clock }) => clock.advance(60 * MINUTE),
    'the service': ({ app }) => void app.close(),
  }
  for (const [title, end] of Object.entries(ends))
    await t.test(title, async (t) => {
      const isIdle = title.includes('not used')
      const test = await startAgent(t, isIdle ? 'idle: 30m, refresh: "off"' : undefined)
      const stream = await test.open()
      await until(() => stream.text().includes('hello'))
      t.notOk(stream.isOver())
      await end(test)
      t.ok(await until(stream.isOver))
      t.ok(await until(() => test.server.open.size === 0))
    })
})

t.test(
  'a stream outlives a reload, its token, and that its person is asked about again',
  async (t) => {
    const { open, reload, yaml, clock } = await startAgent(t)
    const stream = await open()
    await until(() => stream.text().includes('hello'))
    await reload(yaml())
    await clock.advance(12 * MINUTE)
    for (let turn = 0; turn < 200; turn++) await setImmediate()
    t.notOk(stream.isOver())
    stream.leave()
  },
)

t.test('somebody has so many calls and streams at once', async (t) => {
  const server = await startStreamServer(t)
  const { app } = await startProxy(t, server.port)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const table: [method: string, body: string, most: number][] = [
    ['GET', '', 4],
    ['POST', CALL, 16],
  ]
  for (const [method, body, most] of table) {
    const streams = []
    for (let i = 0; i < most; i++) streams.push(await openStream(port, KEY, method, body))
    t.ok(streams.every(({ status }) => status === 200))
    const refused = await openStream(port, KEY, method, body)
    t.equal(refused.status, 429, `${method}: one more`)
    streams[0]?.leave()
    t.ok(await until(() => server.open.size === most - 1))
    const next = await openStream(port, KEY, method, body)
    t.equal(next.status, 200, `${method}: after one has ended`)
    for (const stream of [...streams, next]) stream.leave()
    t.ok(await until(() => server.open.size === 0))
  }
})

t.test('a rule limits calls', async (t) => {
  const server = await startStreamServer(t)
  const rules = '{ hosts: [app.example.com], tools: [read_note], require: reads, limit: 3/m }'
  const { app, clock } = await startProxy(t, server.port, { rules })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const statusOf = async () => {
    const stream = await openStream(port, KEY, 'POST', CALL)
    stream.leave()
    return stream.status
  }
  const statuses = []
  for (let i = 0; i < 4; i++) statuses.push(await statusOf())
  t.same(statuses, [200, 200, 200, 429])
  await clock.advance(20_000)
  t.equal(await statusOf(), 200, 'one more after a third of a minute')
})

t.test('a call whose client leaves is cut, is not counted any more, and has a row', async (t) => {
  const { promise, resolve } = Promise.withResolvers<ServerResponse>()
  const server = createServer((_request, response) => resolve(response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { app } = await startProxy(t, (server.address() as AddressInfo).port)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const sent = httpRequest({
    ...{ port, method: 'POST', path: '/portals/main/mcp-proxy/mcp' },
    headers: {
      ...{ host: 'app.example.com', 'x-forwarded-proto': 'https', authorization: KEY },
      ...{ accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
    },
  })
  sent.on('error', () => {})
  sent.end(CALL)
  const response = await promise
  sent.destroy()
  await once(response, 'close')
  const rows = async () => {
    await app.auditTrail.flush()
    const all = await Array.fromAsync(app.authStore.audit.rows(0))
    return all.filter(({ event }) => event === 'tool-called')
  }
  while ((await rows()).length === 0) await setImmediate()
  t.match(await rows(), [{ tool: 'read_note', outcome: 'unknown' }])
})

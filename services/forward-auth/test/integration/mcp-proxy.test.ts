import {
  Client as Client2,
  StreamableHTTPClientTransport as Transport2,
} from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as Transport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import { PROVIDERS, type Provider, startAgents } from '../helpers/agents.ts'
import { CONFIG, type Gate, startGate } from '../helpers/gate.ts'
import { createFetch } from '../helpers/mcp.ts'
import { callHeaders, oldToolCall, toolCall } from '../helpers/mcp-requests.ts'
import { openHttp2, type RawRequest, sendRaw } from '../helpers/raw-client.ts'
import { LONG, startTalkingServer } from '../helpers/talking-server.ts'
import { startToolServer } from '../helpers/tool-servers.ts'
import { missingProgram, PROXIES, type ProxyName } from '../proxies/index.ts'
import {
  ATTEMPTS,
  type Attempt,
  BODIES,
  endsSession,
  request,
  requestsOf,
  withSession,
} from './mcp-attempts.ts'

expectWarnings(t, 'check refused', 'request refused')

const READER = 'key-of-one-who-reads-0123456789abcdef'
const WRITER = 'key-of-one-who-writes-0123456789abcdef'
const NOTES = 'https://app.example.com/mcp'
const PROXY_NAMES = Object.keys(PROXIES) as ProxyName[]
const MAX_BODY = 4_194_304
const QUIET = 15_000

/** The configuration of the examples, with a server behind Gatehouse. */
const yamlFor = (port: number, rules: string) =>
  CONFIG.replace(
    '    policies:\n',
    `    callers:
      keys:
        - { name: reader, key: ${READER}, hosts: [app.example.com], scopes: [notes:read] }
        - { name: writer, key: ${WRITER}, hosts: [app.example.com], scopes: [notes:read, notes:write] }
    resources:
      - url: ${NOTES}
        upstream: { url: "http://127.0.0.1:${port}/mcp", maxBody: ${MAX_BODY} }
        scopes: [{ name: notes:read, text: Read }, { name: notes:write, text: Write }]
    rules: [${rules}]
    policies:
      reads: Scope("notes:read")
      writes: Scope("notes:write")
`,
  )
const OF_NOTES = `
      { hosts: [app.example.com], tools: [read_note, whoami], require: reads },
      { hosts: [app.example.com], tools: [delete_note], require: writes }`
const OF_ALL = '{ hosts: [app.example.com], tools: ["*"], require: reads }'

type TalkingServer = Awaited<ReturnType<typeof startTalkingServer>>
type Server = Awaited<ReturnType<typeof startToolServer>>

const deletedBy = ({ ran }: Server) => ran.filter((name) => name === 'delete_note').length

const SERVERS: Readonly<Record<string, (t: Test) => Promise<Server>>> = {
  'SDK 1': (t) => startToolServer(t, 1),
  'SDK 1 with sessions': (t) => startToolServer(t, 1, true),
  'SDK 1.12 with sessions': (t) => startToolServer(t, 1.12),
  'SDK 2': (t) => startToolServer(t, 2),
}

/** A client of one of the SDKs. */
interface McpClient {
  /** The text of an answer. */
  call(name: string, options?: CallOptions): Promise<string>
  list(): Promise<readonly string[]>
  end(): Promise<void>
}

interface CallOptions {
  readonly text?: string
  readonly signal?: AbortSignal
  readonly onprogress?: (told: { readonly progress: number }) => void
}

const ABOUT = { name: 'assistant', version: '1.0.0' }
const capabilities = { elicitation: {}, sampling: {} }
const elicited = { action: 'accept' as const, content: { name: 'Ada' } }
const sampled = {
  model: 'm',
  role: 'assistant' as const,
  content: { type: 'text' as const, text: 'Because.' },
}

const CLIENTS = {
  'SDK 1.32': async (t: Test, gate: Gate, key = READER) => {
    const client = new Client1(ABOUT, { capabilities })
    client.setRequestHandler(ElicitRequestSchema, () => elicited)
    client.setRequestHandler(CreateMessageRequestSchema, () => sampled)
    const transport = new Transport1(new URL(NOTES), optionsOf(gate, key))
    await client.connect(transport as Transport)
    return actions(t, client, transport)
  },
  'SDK 2.4, old version': async (t: Test, gate: Gate, key = READER) =>
    connect2(t, gate, key, 'legacy'),
  'SDK 2.4': async (t: Test, gate: Gate, key = READER) => connect2(t, gate, key, 'auto'),
} as const
const CLIENT_NAMES = Object.keys(CLIENTS) as (keyof typeof CLIENTS)[]

async function connect2(t: Test, gate: Gate, key: string, mode: 'legacy' | 'auto') {
  const client = new Client2(ABOUT, { capabilities, versionNegotiation: { mode } })
  client.setRequestHandler('elicitation/create', () => elicited)
  client.setRequestHandler('sampling/createMessage', () => sampled)
  const transport = new Transport2(new URL(NOTES), optionsOf(gate, key))
  await client.connect(transport)
  return actions(t, client, transport)
}

const optionsOf = ({ port, certificate }: Gate, key: string) => ({
  fetch: createFetch(port, certificate.rootPem),
  requestInit: { headers: { authorization: keyOf(key) } },
})

function actions(
  t: Test,
  client: Client1 | Client2,
  transport: { terminateSession(): Promise<void> },
): McpClient {
  t.teardown(() => client.close())
  return {
    async call(name, { text, ...options } = {}) {
      const params = { name, ...(text !== undefined && { arguments: { text } }) }
      const { content } =
        client instanceof Client1
          ? await client.callTool(params, undefined, options)
          : await client.callTool(params, options)
      const [first] = content as { text?: string }[]
      return first?.text ?? ''
    },
    list: async () => (await client.listTools()).tools.map(({ name }) => name),
    end: () => transport.terminateSession(),
  }
}

for (const proxy of PROXY_NAMES)
  for (const [sdk, start] of Object.entries(SERVERS))
    t.test(`${proxy}, ${sdk}`, { skip: missingProgram(proxy) }, async (t) => {
      const server = await start(t)
      const gate = await startGate(t, proxy, { yaml: yamlFor(server.port, OF_NOTES) })
      for (const name of CLIENT_NAMES)
        await t.test(`a client of ${name}`, (t) => holdClient(t, name, gate, server))
      await t.test('attempts', (t) => holdAttempts(t, gate, server))
      await t.test('other paths', (t) => holdPaths(t, proxy, gate, server))
    })

async function holdClient(
  t: Test,
  name: keyof typeof CLIENTS,
  gate: Gate,
  server: Server,
): Promise<void> {
  const before = server.ran.length
  const reader = await CLIENTS[name](t, gate)
  t.equal(await reader.call('read_note'), 'read_note')
  await reader.call('whoami')
  t.match(server.last(), { 'x-forwarded-user': 'psk:reader', authorization: undefined })
  t.same(await reader.list(), ['read_note', 'whoami'], 'what it may not call is not listed')
  await t.rejects(reader.call('delete_note'), /403|FWA_TOOL_REFUSED|scope/)
  t.same(server.ran.slice(before), ['read_note', 'whoami'])
  const writer = await CLIENTS[name](t, gate, WRITER)
  t.equal(await writer.call('delete_note'), 'delete_note')
  t.same(await writer.list(), ['read_note', 'delete_note', 'whoami'])
}

/** Messages of a raw client, in a session if there is one. */
const headersFor = (authorization: string, session?: string) => ({
  authorization,
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  ...(session !== undefined && { 'mcp-session-id': session }),
})

const keyOf = (key: string) => `APIKey ${key}`

/** The session of somebody who may only read. */
const openReaders = ({ port, certificate }: Gate) =>
  openSession(createFetch(port, certificate.rootPem), keyOf(READER))

/** The ID of a session that somebody opens through the gate; undefined if the server has none. */
async function openSession(
  fetchThere: (url: string, init: RequestInit) => Promise<Response>,
  authorization: string,
): Promise<string | undefined> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: ABOUT }
  const answer = await fetchThere(NOTES, {
    method: 'POST',
    headers: headersFor(authorization),
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
  })
  await answer.text()
  return answer.headers.get('mcp-session-id') ?? undefined
}

const IS_FRAMING = /^(host|connection)$/i
const isWellFormed = ({ target, headers }: RawRequest) =>
  target.startsWith('/') && headers.every(([, value]) => /^[\t -~\x80-\xff]*$/.test(value))

/** Whatever somebody who may not call it sends, the server never runs the tool. */
async function holdAttempts(t: Test, gate: Gate, server: Server): Promise<void> {
  const before = deletedBy(server)
  const to = { port: gate.port, ca: gate.certificate.rootPem }
  const session = await openReaders(gate)
  const honest = request(READER, [...callHeaders('read_note'), ['Connection', 'keep-alive']], {
    body: JSON.stringify(toolCall('read_note')),
  })
  const requestsFor = (attempt: Attempt, session: string | undefined) => {
    const all = requestsOf(attempt, READER, session)
    return session === undefined ? all : all.map((one) => withSession(one, session))
  }
  // Last what ends the session.
  const attempts = Object.entries(ATTEMPTS).sort(
    ([, a], [, b]) => Number(endsSession(a)) - Number(endsSession(b)),
  )
  for (const [title, attempt] of attempts)
    for (const one of requestsFor(attempt, session)) {
      await sendRaw(to, attempt.isSecond ? [honest, one] : [one])
      requests += 1
      if (deletedBy(server) !== before) throw new Error(`${title}: delete_note has run`)
    }

  const other = await openReaders(gate)
  const byHttp2 = attempts
    .filter(([, { trailers, isSecond }]) => !trailers && !isSecond)
    .flatMap(([, attempt]) => requestsFor(attempt, other))
    .map((one) => ({ ...one, headers: one.headers.filter(([name]) => !IS_FRAMING.test(name)) }))
  const send = async (all: readonly RawRequest[]) => {
    let http2 = await openHttp2(t, to)
    for (const one of all) {
      if (!http2.isOpen()) http2 = await openHttp2(t, to)
      await http2.send(one)
      requests += 1
    }
  }
  // What ends a connection, which takes Envoy a second, has one of its own.
  await Promise.all([
    send(byHttp2.filter(isWellFormed)),
    ...byHttp2.filter((one) => !isWellFormed(one)).map((one) => send([one])),
  ])
  t.equal(deletedBy(server), before, 'delete_note never runs')
}

let requests = 0

/** Spellings of the path that lead to no MCP server. Traefik makes `/mcp` of `//mcp` for whatever is behind it. */
const OTHER_PATHS = ['/mcp/', '/MCP', '/mcp%2f', '/mcp/x', '/mcp;x', '/portals/main/mcp-proxy/mcp']

async function holdPaths(t: Test, proxy: ProxyName, gate: Gate, server: Server): Promise<void> {
  const before = server.ran.length
  const to = { port: gate.port, ca: gate.certificate.rootPem }
  const session = await openReaders(gate)
  const call = (target: string) =>
    request(READER, session === undefined ? [] : [['Mcp-Session-Id', session]], {
      target,
      body: JSON.stringify(oldToolCall('read_note')),
    })
  for (const target of [...OTHER_PATHS, ...(proxy === 'traefik' ? [] : ['//mcp'])]) {
    const answers = [...(await sendRaw(to, [call(target)]))]
    const { headers, ...rest } = call(target)
    const http2 = await openHttp2(t, to)
    const sent = { ...rest, headers: headers.filter(([name]) => !IS_FRAMING.test(name)) }
    answers.push(await http2.send(sent))
    for (const { status } of answers) t.ok([403, 404].includes(status), `${target}: ${status}`)
  }
  t.equal(server.ran.length, before)
  for (const target of ['/mcp', '/mcp?a=b'])
    t.match(await sendRaw(to, [call(target)]), [{ status: 200 }])
  t.equal(server.ran.length, before + 2)
}

/** The comment that begins a stream, and breaks its silence. */
const COMMENT = ':\n\n'

for (const proxy of PROXY_NAMES)
  t.test(`${proxy}: streams`, { skip: missingProgram(proxy) }, async (t) => {
    const server = await startTalkingServer(t)
    const yaml = yamlFor(server.port, OF_ALL)
    const changes = {
      'nginx.conf': [['client_max_body_size 1m', 'client_max_body_size 8m']],
    } as const
    const gate = await startGate(t, proxy, { yaml, changes })
    const fetchThere = createFetch(gate.port, gate.certificate.rootPem)
    const send = (key: string, session: string | undefined, init: RequestInit = {}) =>
      fetchThere(NOTES, { headers: headersFor(keyOf(key), session), ...init })
    const post = (body: string) => ({ method: 'POST', body })
    const list = post(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }))

    for (const name of ['SDK 1.32', 'SDK 2.4, old version'] as const)
      await t.test(`a client of ${name}`, async (t) => {
        const client = await CLIENTS[name](t, gate)
        await holdStreams(t, client, server)
        const open = server.sessions.size
        await client.end()
        t.equal(server.sessions.size, open - 1, 'DELETE')
      })

    await t.test('the session of somebody else', async (t) => {
      const session = await openReaders(gate)
      for (const init of [list, {}, { method: 'DELETE' }])
        t.match(await send(WRITER, session, init), { status: 404 })
      t.match(await send(READER, `${session}x`, list), { status: 404 })
      t.match(await send(READER, session, list), { status: 200 })
    })

    await t.test('a quiet stream, until no rule allows it', async (t) => {
      const stream = await send(READER, await openReaders(gate))
      const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader()
      t.same(await reader?.read(), { done: false, value: COMMENT }, 'it begins at once')
      await gate.gatehouse.clock.advance(QUIET)
      t.same(await reader?.read(), { done: false, value: COMMENT })
      await gate.gatehouse.reload(yamlFor(server.port, OF_ALL.replace('reads', 'writes')))
      const end = await reader?.read().catch(() => ({ done: true }))
      t.match(end, { done: true })
      await gate.gatehouse.reload(yaml)
    })

    await t.test('a client that leaves', async (t) => {
      for (const init of [{}, post(JSON.stringify(oldToolCall('wait')))]) {
        const cut = server.cut.length
        const abort = new AbortController()
        const session = await openReaders(gate)
        const answer = await send(READER, session, { ...init, signal: abort.signal })
        t.equal(answer.status, 200)
        t.equal(server.cut.length, cut)
        abort.abort()
        await until(async () => {
          // It hears of it when the next comment cannot be sent.
          if (proxy === 'haproxy') await gate.gatehouse.clock.advance(QUIET)
          return server.cut.length > cut
        })
      }
    })

    await t.test('a body that is slow, and one that is too long', async (t) => {
      const session = await openReaders(gate)
      const body = Buffer.from(JSON.stringify(oldToolCall('count')))
      const slow = new ReadableStream({
        async start(controller) {
          controller.enqueue(body.subarray(0, 10))
          t.match(await send(READER, session, list), { status: 200 }, 'it delays nobody')
          controller.enqueue(body.subarray(10))
          controller.close()
        },
      })
      const init = { method: 'POST', body: slow, duplex: 'half' } as const
      t.match(await send(READER, session, init), { status: 200 })
      const long = await send(READER, session, post(' '.repeat(MAX_BODY + 1)))
      t.equal(long.status, 413)
      t.match(await long.json(), { jsonrpc: '2.0', error: { data: { status: 413 } } })
    })
  })

const ISSUER = 'https://auth.example.com/portals/main'

/** What ends an agent. */
const ENDS: Readonly<Record<string, (agents: Agents) => Promise<unknown>>> = {
  async 'its token is revoked'({ agent, document }) {
    const { refresh_token: token = '' } = agent.tokens() ?? {}
    const body = new URLSearchParams({ token, client_id: document.id })
    t.match(await agent.fetch(`${ISSUER}/revoke`, { method: 'POST', body }), { status: 200 })
  },
  async 'its person signs out'({ browser }) {
    await browser.press(await browser.open(`${ISSUER}/logout`), 'Sign out')
  },
}
type Agents = Awaited<ReturnType<typeof startAgents>>

for (const [what, end] of Object.entries(ENDS))
  t.test(`the stream of an agent, until ${what}`, async (t) => {
    const provider = (await PROVIDERS['oidc-provider']?.(t)) as Provider
    const { port } = await startTalkingServer(t)
    const agents = await startAgents(t, 'nginx', provider, { upstreamPort: port })
    const { agent } = agents
    await agent.connect(NOTES)
    const authorization = `Bearer ${agent.tokens()?.access_token}`
    const session = await openSession(agent.fetch, authorization)
    const stream = await agent.fetch(NOTES, { headers: headersFor(authorization, session) })
    t.equal(stream.status, 200)
    const ended = stream.text()
    await end(agents)
    t.equal(await ended.catch(() => COMMENT), COMMENT)
  })

/** What server and client say to each other besides calls and their answers. */
async function holdStreams(t: Test, client: McpClient, server: TalkingServer): Promise<void> {
  const told: number[] = []
  const onprogress = ({ progress }: { readonly progress: number }) => void told.push(progress)
  t.equal(await client.call('count', { onprogress }), 'counted')
  t.same(told, [1, 2, 3], 'progress')
  t.equal(await client.call('ask_person'), 'accept Ada', 'elicitation')
  t.match(await client.call('ask_model'), 'Because.', 'sampling')
  t.equal(await client.call('cut'), 'after the cut', 'resumption')
  t.equal(await client.call('measure', { text: 'a'.repeat(3_000_000) }), '3000000', '3 MB in')
  t.equal((await client.call('long')).length, LONG, '20 MB out')
  const abort = new AbortController()
  const cancelled = server.cancelled.length
  const call = client.call('wait', { signal: abort.signal })
  await until(() => server.begun.at(-1) === 'wait')
  abort.abort()
  await t.rejects(call)
  await until(() => server.cancelled.length > cancelled)
  t.equal(server.cancelled.at(-1), 'wait', 'notifications/cancelled')
}

t.test('each attempt is tried through every proxy', async (t) => {
  const present = PROXY_NAMES.filter((proxy) => !missingProgram(proxy))
  const bodies = Object.values(ATTEMPTS).flatMap(({ bodies = BODIES }) => bodies)
  const servers = Object.keys(SERVERS).length
  t.ok(requests > bodies.length * present.length * servers, `${requests} requests`)
  t.comment(`${requests} requests through ${present.join(', ')}`)
})

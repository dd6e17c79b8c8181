import { systemClock } from '@gatehouse/service-kit/clock'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { CONFIG, type Gate, startGate } from '../helpers/gate.ts'
import { createFetch } from '../helpers/mcp.ts'
import { callHeaders, envelope, type Line, toolCall } from '../helpers/mcp-requests.ts'
import { openHttp2, type RawRequest, sendRaw } from '../helpers/raw-client.ts'
import { type Sdk, startToolServer } from '../helpers/tool-servers.ts'
import { missingProgram, PROXIES, type ProxyName } from '../proxies/index.ts'
import { ATTEMPTS, BODIES, request, requestsOf } from './mcp-attempts.ts'

expectWarnings(t, 'check refused')

const READER = 'key-of-one-who-reads-0123456789abcdef'
const WRITER = 'key-of-one-who-writes-0123456789abcdef'
const OPEN = CONFIG.replace(
  '    policies:\n',
  `    callers:
      keys:
        - { name: reader, key: ${READER}, hosts: [app.example.com], scopes: [notes:read] }
        - { name: writer, key: ${WRITER}, hosts: [app.example.com], scopes: [notes:read, notes:write] }
    policies:
      reads: Scope("notes:read")
      writes: Scope("notes:write")
`,
)
const YAML = OPEN.replace(
  '    policies:\n',
  `    rules:
      - { hosts: [app.example.com], paths: [/mcp/*], tools: [read_note, whoami], require: reads }
      - { hosts: [app.example.com], paths: [/mcp/*], tools: [delete_note], require: writes }
    policies:
`,
)
const URL = 'https://app.example.com/mcp'
const PROXY_NAMES = (Object.keys(PROXIES) as ProxyName[]).filter((name) => !missingProgram(name))
const SDKS: readonly Sdk[] = [1, 1.12, 2]

const call = (key: string, tool: string, headers: readonly Line[] = []) =>
  request(key, [...callHeaders(tool), ...headers], { body: JSON.stringify(toolCall(tool)) })

type Server = Awaited<ReturnType<typeof startToolServer>>

/** How many requests of each attempt were sent, and what was answered. */
const tried = new Map<string, Map<string, string>>()
let sent = 0

for (const proxy of Object.keys(PROXIES) as ProxyName[])
  for (const sdk of SDKS)
    t.test(`${proxy}, SDK ${sdk}`, { skip: missingProgram(proxy) }, async (t) => {
      const server = await startToolServer(t, sdk)
      const gate = await startGate(t, proxy, {
        yaml: YAML,
        appPort: server.port,
        changes: PROXIES[proxy].withoutMcpProxy,
        clock: systemClock,
      })
      const to = { port: gate.port, ca: gate.certificate.rootPem }
      const ask = async (one: RawRequest) => (await sendRaw(to, [one]))[0]

      await t.test('who may call a tool', async (t) => {
        // A server of SDK 1 does not know the version, one of 1.12 no call outside of a session.
        const passed = sdk === 2 ? 200 : 400
        t.match(await ask(call(READER, 'read_note')), { status: passed })
        t.match(await ask(call(READER, 'delete_note')), { status: 403 })
        t.match(await ask(call(WRITER, 'delete_note')), { status: passed })
        t.same(server.ran, sdk === 2 ? ['read_note', 'delete_note'] : [])
      })

      await t.test('attempts', async (t) => {
        const before = deletedBy(server)
        const session = sdk === 2 ? undefined : await server.openSession()
        const honest = request(
          READER,
          [...callHeaders('read_note'), ['Connection', 'keep-alive']],
          {
            body: JSON.stringify(toolCall('read_note')),
          },
        )
        for (const [title, attempt] of Object.entries(ATTEMPTS)) {
          const statuses: number[] = []
          for (const one of requestsOf(attempt, READER, session)) {
            const answers = await sendRaw(to, attempt.isSecond ? [honest, one] : [one]).catch(
              (cause) => {
                throw new Error(title, { cause })
              },
            )
            statuses.push(answers.at(-1)?.status ?? 0)
            sent += 1
            if (deletedBy(server) !== before) return t.fail(`${title}: delete_note has run`)
          }
          const cells = tried.get(title) ?? new Map<string, string>()
          tried.set(title, cells.set(`${proxy} ${sdk}`, statuses.join(' ')))
        }
        t.equal(deletedBy(server), before, 'delete_note never runs')
      })

      await t.test('attempts by HTTP/2', async (t) => {
        const before = deletedBy(server)
        const byHttp2 = Object.values(ATTEMPTS)
          .filter(({ trailers, isSecond }) => !trailers && !isSecond)
          .flatMap((attempt) => requestsOf(attempt, READER))
          .map((one) => ({
            ...one,
            headers: one.headers.filter(([name]) => !IS_FRAMING.test(name)),
          }))
        let answered = 0
        const send = async (requests: readonly RawRequest[]) => {
          let http2 = await openHttp2(t, to)
          for (const one of requests) {
            if (!http2.isOpen()) http2 = await openHttp2(t, to)
            if ((await http2.send(one)).status !== 0) answered += 1
          }
        }
        // What ends a connection, which takes Envoy a second, has one of its own.
        await Promise.all([
          send(byHttp2.filter(isWellFormed)),
          ...byHttp2.filter((one) => !isWellFormed(one)).map((one) => send([one])),
        ])
        t.equal(deletedBy(server), before, 'delete_note never runs')
        t.ok(answered > 100, `${answered} were answered`)
      })

      await t.test('a client of SDK 2', (t) => holdClient(t, sdk, gate, server))
      await t.test('what the server is told', (t) => holdTold(t, gate, server, ask))
      if (sdk === 1.12)
        await t.test('why: in a session, the server runs what the body calls', async (t) => {
          const session: Line = ['Mcp-Session-Id', await server.openSession()]
          const lie = request(READER, [...callHeaders('read_note'), session], {
            body: JSON.stringify(toolCall('delete_note')),
          })
          t.match(await ask(lie), { status: 200 }, 'where no rule names tools')
          t.same(server.ran, ['delete_note'], 'and never before')
        })
    })

const IS_FRAMING = /^(host|connection)$/i
const isWellFormed = ({ target, headers }: RawRequest) =>
  target.startsWith('/') && headers.every(([, value]) => /^[\t -~\x80-\xff]*$/.test(value))

const deletedBy = ({ ran }: Server) => ran.filter((name) => name === 'delete_note').length

/** With a server of its version, what the rules allow works; with another one, nothing does. */
async function holdClient(t: Test, sdk: Sdk, { port, certificate }: Gate, server: Server) {
  const connect = async (mode: 'auto' | 'legacy') => {
    const client = new Client(
      { name: 'assistant', version: '1.0.0' },
      { versionNegotiation: { mode } },
    )
    const transport = new StreamableHTTPClientTransport(new globalThis.URL(URL), {
      fetch: createFetch(port, certificate.rootPem),
      requestInit: { headers: { authorization: `APIKey ${READER}` } },
    })
    t.teardown(() => client.close())
    await client.connect(transport)
    return client
  }
  const before = server.ran.length
  await t.rejects(connect('legacy'), 'an older version is refused')
  if (sdk !== 2) {
    await t.rejects(connect('auto'), 'the server knows an older version only')
    t.equal(server.ran.length, before)
    return
  }
  const client = await connect('auto')
  t.match(await client.callTool({ name: 'read_note' }), { content: [{ text: 'read_note' }] })
  const { content } = await client.callTool({ name: 'whoami' })
  const [whoami] = content
  t.match(JSON.parse(whoami?.type === 'text' ? whoami.text : ''), {
    'x-forwarded-user': 'psk:reader',
  })
  const { tools } = await client.listTools()
  t.match(
    tools.map(({ name }) => name),
    ['read_note', 'delete_note', 'whoami'],
    'a proxy cannot leave tools out',
  )
  await t.rejects(client.callTool({ name: 'delete_note' }), /403|FWA_TOOL_REFUSED|scope/)
  t.same(server.ran.slice(before), ['read_note', 'whoami'])
}

/** The tools that the caller may use, and never what the caller says about them. */
async function holdTold(
  t: Test,
  gate: Gate,
  server: Server,
  ask: (one: RawRequest) => Promise<{ readonly status: number } | undefined>,
) {
  const lists: readonly Line[] = [
    ['MCP-Protocol-Version', '2026-07-28'],
    ['Mcp-Method', 'tools/list'],
  ]
  const body = JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: envelope() } },
  })
  const toldTo = async (key: string, own: readonly Line[]) => {
    await ask(request(key, [...lists, ...own], { body }))
    return server.last()?.['x-gatehouse-tools']
  }
  const forged: readonly Line[] = [['X-Gatehouse-Tools', 'delete_note']]
  const twice: readonly Line[] = [...forged, ['x-gatehouse-tools', '*']]
  for (const own of [[], forged, twice]) {
    t.equal(await toldTo(READER, own), 'read_note,whoami,!delete_note')
    t.equal(await toldTo(WRITER, own), 'read_note,whoami,delete_note')
    await ask(call(READER, 'read_note', own))
    t.notOk(server.last()?.['x-gatehouse-tools'], 'nothing with a call')
  }
  await gate.gatehouse.reload(OPEN)
  for (const own of [forged, twice])
    t.notMatch((await toldTo(READER, own)) ?? '', /delete_note|\*/, 'nothing of its client')
}

t.test('each attempt is tried through every proxy', async (t) => {
  const attempts = Object.keys(ATTEMPTS)
  const pairs = PROXY_NAMES.length * SDKS.length
  t.equal(attempts.length, 217, 'as docs/mcp-tools.md says')
  t.same(
    attempts.filter((title) => tried.get(title)?.size !== pairs),
    [],
  )
  const perPair = Object.values(ATTEMPTS).reduce(
    (sum, { bodies = BODIES }) => sum + bodies.length,
    0,
  )
  t.equal(sent, perPair * pairs)
  // For reports.
  t.comment(`${attempts.length} attempts, ${sent} requests through ${PROXY_NAMES.join(', ')}`)
  for (const [title, cells] of tried) t.comment(`${title}: ${[...cells.values()].join(' | ')}`)
})

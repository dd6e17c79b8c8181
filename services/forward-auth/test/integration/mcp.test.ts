import { systemClock } from '@gatehouse/service-kit/clock'
import {
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import t, { type Test } from 'tap'
import { REGISTERED, startAuthorizationServer } from '../helpers/authorization-server.ts'
import { CONFIG, startGate } from '../helpers/gate.ts'
import { createMcpClient, type McpConnection, startMcpServer } from '../helpers/mcp.ts'
import { missingProgram, PROXIES, type ProxyName } from '../proxies/index.ts'
import { cookiesOf, navigation } from './proxy-cases.ts'

const NOTES = 'https://app.example.com/mcp'
const OTHER = 'https://app.example.com/other'
const WELL_KNOWN = '/.well-known/oauth-protected-resource'
const METADATA = `https://app.example.com${WELL_KNOWN}/mcp`

/** The configuration of the examples, with two resources, and scopes that policies demand. */
const configOf = (issuer: string) =>
  CONFIG.replace(
    '    policies:\n',
    `    resources:
      - { url: ${NOTES}, authorizationServers: [${issuer}], scopes: [notes:read] }
      - { url: ${OTHER}, authorizationServers: [${issuer}], scopes: [notes:read] }
    rules:
      - { paths: [/mcp/admin/*], require: [reads, writes] }
      - { paths: [/mcp/*], require: reads }
    policies:
      reads: Scope("notes:read")
      writes: Scope("notes:write")
`,
  )

/** The headers that a tool sees. */
async function headersAtTool({ client }: McpConnection): Promise<Record<string, string>> {
  const { content } = await client.callTool({ name: 'whoami' })
  const [{ text }] = content as [{ text: string }]
  return JSON.parse(text)
}

for (const proxy of Object.keys(PROXIES) as ProxyName[])
  t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
    const scopes = ['notes:read', 'notes:write']
    const issuer = await startAuthorizationServer(t, { resources: [NOTES, OTHER], scopes })
    const mcp = await startMcpServer(t)
    const { port, certificate } = await startGate(t, proxy, {
      yaml: configOf(issuer),
      appPort: mcp.port,
      changes: PROXIES[proxy].withoutMcpProxy,
      clock: systemClock,
    })
    const ca = certificate.rootPem

    await t.test('a client that knows only the URL signs in and calls a tool', async (t) => {
      const { connect, transcript } = createMcpClient(t, { port, ca })
      const connection = await connect(NOTES)
      const seen = await headersAtTool(connection)
      t.equal(seen['x-forwarded-user'], `${issuer}:alice`, 'the server knows who calls')
      await holdStreams(t, connection)
      await connection.transport.terminateSession()
      t.equal(mcp.sessions.size, 0, 'DELETE arrives')
      t.comment(['', ...transcript].join('\n'))
      const challenge = `Bearer realm="main", scope="notes:read", resource_metadata="${METADATA}", Cookie realm="main"`
      const lines = transcript.map((line) => line.replace(`${issuer}`, 'ISSUER').split('?')[0])
      t.match(lines.slice(0, 10), [
        `POST ${NOTES} 401 ${challenge}`,
        `GET ${METADATA} 200`,
        'GET ISSUER/.well-known/oauth-authorization-server 200',
        'POST ISSUER/reg 201',
        'browser ISSUER/auth',
        `GET ${METADATA} 200`,
        'GET ISSUER/.well-known/oauth-authorization-server 200',
        'POST ISSUER/token 200',
        `POST ${NOTES} 200`,
        `POST ${NOTES} 202`,
      ])
    })

    await t.test('a token for another resource is refused', async (t) => {
      const { connect, fetch, tokens } = createMcpClient(t, { port, ca })
      await connect(OTHER)
      const headers = { authorization: `Bearer ${tokens()?.access_token}` }
      const { status, headers: answered } = await fetch(NOTES, { method: 'POST', headers })
      t.equal(status, 401)
      const challenge = answered.get('www-authenticate') ?? ''
      t.match(challenge, /^Bearer realm="main", error="invalid_token", error_description="[^"]+"/)
      t.match(challenge, `resource_metadata="${METADATA}"`)
      t.notMatch(challenge, /Bearer.*Bearer/)
      t.equal(answered.get('access-control-allow-origin'), '*', 'scripts may read it')
      t.equal(answered.get('access-control-expose-headers'), 'www-authenticate')
    })

    await t.test('a client gets the scopes that a policy demands', async (t) => {
      const { connect, transcript } = createMcpClient(t, { port, ca, registered: REGISTERED })
      await headersAtTool(await connect(`${NOTES}/admin`))
      t.match(
        transcript.find((line) => line.includes(' 403 ')),
        /error="insufficient_scope", .*scope="notes:read notes:write", resource_metadata=/,
      )
      const asked = transcript.filter((line) => line.startsWith('browser'))
      t.match(asked, [/scope=notes%3Aread&/, /scope=notes%3Aread\+notes%3Awrite&/])
      t.comment(['', ...transcript].join('\n'))
    })

    await t.test('the path of the metadata leads to nothing else', (t) => holdMetadata(t, proxy))
  })

/** What the server sends while a request lasts, or without one, arrives at once. */
async function holdStreams(t: Test, { client }: McpConnection): Promise<void> {
  const changed = new Promise<void>((resolve) =>
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve()),
  )
  client.setNotificationHandler(LoggingMessageNotificationSchema, async () => {
    await client.callTool({ name: 'release' })
  })
  t.match(await client.callTool({ name: 'wait' }), { content: [{ text: 'released' }] })
  await changed
}

async function holdMetadata(t: Test, proxy: ProxyName): Promise<void> {
  const gate = await startGate(t, proxy, { yaml: configOf('https://id.example.com') })
  const cookie = await cookiesOf(gate.gatehouse, 'ada')
  for (const [path, status] of [
    [`${WELL_KNOWN}/mcp`, 200],
    [`${WELL_KNOWN}/mcp?a=b`, 200],
    [WELL_KNOWN, 404],
    [`${WELL_KNOWN}/unknown`, 404],
    [`${WELL_KNOWN}x`, 401],
  ] as const)
    t.equal((await gate.pass(path)).status, status, path)
  const check = '/portals/main/authz/envoy/policy/any'
  for (const target of [
    `${WELL_KNOWN}/../..${check}`,
    `${WELL_KNOWN}/%2e%2e/%2e%2e${check}`,
    `${WELL_KNOWN}/..%2f..${check}`,
    `${check}/../../../../../..${WELL_KNOWN}/mcp`,
    `${check}/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e${WELL_KNOWN}/mcp`,
    `${check}//..//../../../../../../..${WELL_KNOWN}/mcp`,
    `/portals/main/../..${WELL_KNOWN}/mcp`,
    `${WELL_KNOWN}/mcp%0d%0aX-Forwarded-User:%20eve`,
    `${WELL_KNOWN}/mcp%3f/../../..${check}`,
  ]) {
    const { status, told, heard } = await gate.pass(target, { ...navigation, cookie })
    t.ok(told === undefined || heard !== undefined || status !== 200, `${target}: ${status}`)
  }
}

import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { ROOT, readDocument } from '../../../../scripts/test/markdown.ts'
import { PROVIDERS, type Provider, startAgents } from '../helpers/agents.ts'
import { AT_PROXY, atProxy } from '../helpers/at-proxy.ts'
import { freePort, startProcess } from '../helpers/process.ts'

const SERVER = 'https://mcp.example.com'
const METADATA = `${SERVER}/.well-known/oauth-protected-resource/mcp`
const ISSUER = 'https://auth.example.com/portals/main'

const { blocks } = readDocument('docs/mcp-fastify.md')
const block = (info: string) => blocks.find((one) => one.info === info)?.text ?? ''

t.test('the server of the guide', async (t) => {
  const [{ resources }] = parse(block('yaml forward-auth')).portals
  const port = await freePort()
  const provider = (await PROVIDERS['oidc-provider']?.(t)) as Provider
  const portal = { resources, rules: [], policies: {} }
  const origins = { [SERVER]: `http://127.0.0.1:${port}` }
  const started = await startAgents(t, 'nginx', provider, { portal, origins })
  const { agent, asked, certificate, document, folder } = started

  const caFile = join(folder, 'ca.pem')
  writeFileSync(caFile, certificate.rootPem)
  symlinkSync(join(ROOT, 'services/forward-auth/node_modules'), join(folder, 'node_modules'))
  const code = block('ts server.ts').replace(
    "host: '0.0.0.0', port: 3000",
    `host: '127.0.0.1', port: ${port}`,
  )
  const file = join(folder, 'server.mts')
  writeFileSync(file, code)
  await startProcess(t, {
    command: process.execPath,
    args: ['--conditions=@gatehouse/source', ...AT_PROXY, file],
    folder,
    port,
    env: atProxy({ port: started.port, caFile }),
  })

  const { client, call } = await agent.connect(`${SERVER}/mcp`)
  const challenge = `scope="notes:read", resource_metadata="${METADATA}"`
  const lines = () => agent.transcript.splice(0).map((line) => line.split('?')[0])
  t.match(lines(), [
    `POST ${SERVER}/mcp 401 Bearer realm="api", ${challenge}`,
    `GET ${METADATA} 200`,
    `GET https://auth.example.com/.well-known/oauth-authorization-server/portals/main 200`,
    `browser ${ISSUER}/authorize`,
    `POST ${ISSUER}/token 200`,
    `POST ${SERVER}/mcp 200`,
  ])
  const tools = async () => (await client.listTools()).tools.map(({ name }) => name)

  await t.test('a tool runs for its person, and who lacks the scope sees no other', async (t) => {
    t.equal(await call('read_note'), 'a note of corp:alice')
    t.strictSame(await tools(), ['read_note', 'delete_note'])
    lines()
  })

  await t.test('a tool that needs another scope', async (t) => {
    t.equal(await call('delete_note'), 'deleted')
    t.match(lines(), [
      /^POST .*403 Bearer .*error="insufficient_scope".*scope="notes:read notes:write"/,
      `browser ${ISSUER}/authorize`,
      `POST ${ISSUER}/token 200`,
      `POST ${SERVER}/mcp 200`,
    ])
    t.equal(asked.length, 2)
    t.strictSame(await tools(), ['read_note', 'delete_note', 'read_trash'])
    t.match(asked[1]?.body, document.host)
  })

  await t.test('what is no token for this server is refused', async (t) => {
    const post = async (authorization: string) => {
      const answer = await agent.fetch(`${SERVER}/mcp`, {
        method: 'POST',
        headers: { authorization },
      })
      return [answer.status, answer.headers.get('www-authenticate')]
    }
    const { access_token: token = '' } = agent.tokens() ?? {}
    const refused = [401, /error="invalid_token".*resource_metadata=/]
    t.match(await post(`Bearer ${token.slice(0, -6)}AAAAAA`), refused)
    t.match(await post(`Bearer ${agent.tokens()?.refresh_token}`), refused)
    t.match(await post('Basic YTpi'), [401, challenge])
  })
})

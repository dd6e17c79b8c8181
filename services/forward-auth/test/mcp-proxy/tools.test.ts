import t from 'tap'
import { portalOf, yamlOf } from '../app.ts'
import { startToolServer } from '../helpers/tool-servers.ts'
import { NOTES, startIssuer } from '../oauth/kit.ts'
import { messagesIn, READER, startProxy, URL } from './kit.ts'

const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list' }

/** The names in an answer to `tools/list`. */
function namesIn(answer: Parameters<typeof messagesIn>[0]): readonly string[] {
  const [message] = messagesIn(answer) as [{ result: { tools: { name: string }[] } }]
  return message.result.tools.map(({ name }) => name)
}

t.test('an agent sees the tools that it can ask its person for', async (t) => {
  const { port } = await startToolServer(t, 1)
  const portal = `
    policies: { reads: 'Scope("notes:read")', writes: 'Scope("notes:write")', editors: 'Group("editors")' },
    resources: [{ url: "${NOTES}", upstream: { url: "http://127.0.0.1:${port}/mcp" },
      scopes: [{ name: "notes:read", text: Read }, { name: "notes:write", text: Write, onDemand: true }] }],
    rules: [
      { hosts: [app.example.com], tools: [delete_note], require: [reads, writes, editors] },
      { hosts: [app.example.com], tools: ["*"], require: reads }]`
  const issuer = await startIssuer(t, {
    yaml: yamlOf(portalOf('main', portal.replace(/\s+/g, ' '))),
  })
  const toolsOf = async (sub: string, groups: readonly string[]) => {
    const tokens = await issuer.connect(await issuer.person(sub, { groups }))
    t.equal(tokens.scope, 'notes:read')
    const answer = await issuer.app.inject({
      method: 'POST',
      url: URL,
      headers: {
        host: 'app.example.com',
        'x-forwarded-proto': 'https',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${tokens.access_token}`,
      },
      payload: LIST,
    })
    return namesIn(answer)
  }
  t.same(await toolsOf('ada', ['editors']), ['read_note', 'delete_note', 'whoami'])
  t.same(await toolsOf('bob', []), ['read_note', 'whoami'], 'no scope would help')
})

t.test('a key sees the tools of its scopes', async (t) => {
  const { port } = await startToolServer(t, 1)
  const { send } = await startProxy(t, port)
  t.same(namesIn(await send(LIST, { key: READER })), ['read_note', 'whoami'])
})

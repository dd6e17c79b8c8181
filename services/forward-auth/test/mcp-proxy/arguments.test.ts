import t from 'tap'
import { parse } from 'yaml'
import { readDocument } from '../../../../scripts/test/markdown.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { toolCall } from '../helpers/mcp-requests.ts'
import { startToolServer } from '../helpers/tool-servers.ts'
import { messagesIn, startProxy, WRITER } from './kit.ts'

expectWarnings(t, 'check refused')

const { blocks } = readDocument('docs/conditions.md')
const example = blocks.find(({ text }) => text.includes('mcp.arguments'))?.text ?? ''
const POLICIES: Record<string, string> = parse(example).portals[0].policies
const at = 'hosts: [app.example.com]'

async function startGuide(t: Parameters<typeof startProxy>[0]) {
  const server = await startToolServer(t, 2)
  const { send } = await startProxy(t, server.port, {
    policies: JSON.stringify(POLICIES).slice(1, -1),
    rules: `
      { ${at}, tools: [delete_note], require: [reads, gentle] },
      { ${at}, tools: [read_note], require: few },
      { ${at}, tools: [whoami], require: [writes, drafts] }`,
  })
  const call = async (tool: string, sent: string | undefined, key?: string) => {
    const headers = {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': tool,
    }
    const { params, ...message } = toolCall(tool)
    const { arguments: _, ...others } = params
    const body = JSON.stringify({ ...message, params: others })
    const withArguments =
      sent === undefined ? body : body.replace('{"name"', `{"arguments":${sent},"name"`)
    return (await send(withArguments, { headers, ...(key && { key }) })).statusCode
  }
  return { send, call, ran: server.ran, server }
}

t.test('calls by what the arguments in their body say', async (t) => {
  const { call, ran } = await startGuide(t)
  const table: [tool: string, sent: string | undefined, status: number][] = [
    ['delete_note', undefined, 200],
    ['delete_note', '{}', 200],
    ['delete_note', '{"force": false}', 200],
    ['delete_note', '{"enforce": true}', 200],
    ['delete_note', '{"\\u0066orce": false}', 200],
    ['delete_note', '{"force": true}', 403],
    ['delete_note', '{"\\u0066orce": true}', 403],
    ['delete_note', '{"force": "true"}', 403],
    ['delete_note', '{"force": "false"}', 403],
    ['delete_note', '{"force": null}', 403],
    ['delete_note', '{"force": 0}', 403],
    ['delete_note', '{"force": [false]}', 403],
    ['delete_note', '{"Force": true}', 403],
    ['delete_note', '{"Force": false}', 403],
    ['delete_note', '{"\\u0066ORCE": false}', 403],
    ['delete_note', '{"force": false, "force": true}', 400],
    ['delete_note', '{"force": false, "FORCE": true}', 400],
    ['read_note', '{"count": 10}', 200],
    ['read_note', '{"count": 1e1}', 200],
    ['read_note', '{"count": 10.0}', 200],
    ['read_note', '{"count": 10.5}', 403],
    ['read_note', '{"count": 11}', 403],
    ['read_note', '{"count": "9"}', 403],
    ['read_note', '{"count": -9007199254740993}', 403],
    ['read_note', '{"count": -1e300}', 403],
    ['read_note', '{"count": -1e999}', 400],
    ['read_note', '{}', 403],
    ['whoami', '{"folder": "inbox"}', 403],
  ]
  for (const [tool, sent, status] of table) {
    const before = ran.length
    t.equal(await call(tool, sent), status, `${tool} ${sent}`)
    t.same(ran.slice(before), status === 200 ? [tool] : [], `${tool} ${sent}`)
  }
  t.equal(await call('whoami', '{"folder": "inbox"}', WRITER), 200)
  t.equal(await call('whoami', '{"folder": "Inbox"}', WRITER), 403)
})

t.test('a list has the tools that somebody may call with some arguments', async (t) => {
  const { send, server } = await startGuide(t)
  const list = { ...toolCall('-'), method: 'tools/list', params: {} }
  const headers = { 'mcp-protocol-version': '2025-11-25' }
  const table: [key: string | undefined, tools: string[]][] = [
    [undefined, ['read_note', 'delete_note']],
    [WRITER, ['read_note', 'delete_note', 'whoami']],
  ]
  for (const [key, tools] of table) {
    const answer = await send(list, { headers, ...(key && { key }) })
    t.match(messagesIn(answer), [{ result: { tools: tools.map((name) => ({ name })) } }])
    for (const name of ['whoami'].filter((tool) => !tools.includes(tool)))
      t.notMatch(answer.body, name)
    const names = ['delete_note', 'read_note', 'whoami']
    const told = names.map((name) => (tools.includes(name) ? name : `!${name}`))
    t.equal(server.last()?.['x-gatehouse-tools'], told.join(), 'so is the server')
  }
})

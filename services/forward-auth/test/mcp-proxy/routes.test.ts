import t from 'tap'
import { envelope, oldToolCall, toolCall, VERSION } from '../helpers/mcp-requests.ts'
import { startToolServer } from '../helpers/tool-servers.ts'
import { messagesIn, startProxy, WRITER } from './kit.ts'

t.test('calls by what their body says', async (t) => {
  for (const sdk of [1, 2] as const)
    await t.test(`SDK ${sdk}`, async (t) => {
      const server = await startToolServer(t, sdk)
      const { send } = await startProxy(t, server.port)
      const call = sdk === 2 ? toolCall : oldToolCall
      const version = { 'mcp-protocol-version': sdk === 2 ? VERSION : '2025-11-25' }
      const headers = sdk === 2 ? { ...version, 'mcp-method': 'tools/call' } : version
      const named = (name: string) => (sdk === 2 ? { ...headers, 'mcp-name': name } : headers)
      const read = await send(call('read_note'), { headers: named('read_note') })
      t.equal(read.statusCode, 200)
      t.match(messagesIn(read), [{ id: 1, result: { content: [{ text: 'read_note' }] } }])
      const refused = await send(call('delete_note'), { headers: named('delete_note') })
      t.match(refused, { statusCode: 403 })
      t.same(server.ran, ['read_note'])
      t.match(await send(call('delete_note'), { key: WRITER, headers: named('delete_note') }), {
        statusCode: 200,
      })
      t.match(await send(call('read_note'), { key: '' }), { statusCode: 401 })
      t.same(server.ran, ['read_note', 'delete_note'])
      const list = { jsonrpc: '2.0', id: 2, method: 'tools/list', params: { _meta: envelope() } }
      const listed = await send(list, { headers: { ...version, 'mcp-method': 'tools/list' } })
      const tools = [{ name: 'read_note' }, { name: 'whoami' }]
      t.match(messagesIn(listed), [{ result: { tools } }])
      t.notMatch(listed.body, /delete_note/)
    })
})

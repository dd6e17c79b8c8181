import t from 'tap'
import { readMcp } from '../src/mcp.ts'

const V = '2026-07-28'
const base64 = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`

t.test('a call is known only if its headers are certain', async (t) => {
  type Row = [title: string, version: unknown, method: unknown, name: unknown, call: unknown]
  const table: readonly Row[] = [
    ['a tool', V, 'tools/call', 'read_note', { method: 'tools/call', name: 'read_note' }],
    ['a later version', '2027-01-01', 'tools/call', 'a', { method: 'tools/call', name: 'a' }],
    ['a resource', V, 'resources/read', 'a://b', { method: 'resources/read', name: 'a://b' }],
    ['a prompt', V, 'prompts/get', 'x', { method: 'prompts/get', name: 'x' }],
    ['a method without a name', V, 'tools/list', undefined, { method: 'tools/list' }],
    ['a name that does not count', V, 'tools/list', 'delete', { method: 'tools/list' }],
    ['base64', V, 'tools/call', base64('lösche'), { method: 'tools/call', name: 'lösche' }],
    ['base64 with a comma', V, 'tools/call', base64('a,b'), { method: 'tools/call', name: 'a,b' }],
    ['base64 of nothing', V, 'tools/call', base64(''), { method: 'tools/call', name: '' }],
    ['spaces inside', V, 'tools/call', 'read note', { method: 'tools/call', name: 'read note' }],
    ['another case', V, 'Tools/Call', 'a', { method: 'Tools/Call' }],
    ['no version', undefined, 'tools/call', 'a', undefined],
    ['an older version', '2025-11-25', 'tools/call', 'a', undefined],
    ['a version of the day before', '2026-07-27', 'tools/call', 'a', undefined],
    ['two versions', `${V}, ${V}`, 'tools/call', 'a', undefined],
    ['a version and more', `${V}-draft`, 'tools/call', 'a', undefined],
    ['no date', 'latest', 'tools/call', 'a', undefined],
    ['a list of versions', [V, V], 'tools/call', 'a', undefined],
    ['no method', V, undefined, 'a', undefined],
    ['two methods', V, 'tools/call, tools/call', 'a', undefined],
    ['an empty method', V, '', 'a', undefined],
    ['no name', V, 'tools/call', undefined, undefined],
    ['an empty name', V, 'tools/call', '', undefined],
    ['two names', V, 'tools/call', 'read, delete', undefined],
    ['two names without a space', V, 'tools/call', 'read,delete', undefined],
    ['a space at the end', V, 'tools/call', 'read ', undefined],
    ['bytes', V, 'tools/call', 'l\u00f6sche', undefined],
    ['a control character', V, 'tools/call', 'a\tb', undefined],
    ['base64 in capitals', V, 'tools/call', base64('a').replace('base64', 'BASE64'), undefined],
    ['another encoding', V, 'tools/call', '=?utf-8?q?delete?=', undefined],
    ['base64 without an end', V, 'tools/call', '=?base64?YQ==', undefined],
    ['base64 without padding', V, 'tools/call', '=?base64?YQ?=', undefined],
    ['base64 with other bits', V, 'tools/call', '=?base64?YR==?=', undefined],
    ['base64url', V, 'tools/call', '=?base64?_-8=?=', undefined],
    ['base64 with a byte order mark', V, 'tools/call', base64('\uFEFFa'), undefined],
    ['no UTF-8', V, 'tools/call', '=?base64?/w==?=', undefined],
    ['two of base64', V, 'tools/call', `${base64('read')}, ${base64('delete')}`, undefined],
  ]
  for (const [title, version, method, name, call] of table) {
    const headers = { 'mcp-protocol-version': version, 'mcp-method': method, 'mcp-name': name }
    t.same(readMcp('POST', headers as never), call, title)
  }
})

t.test('only POST calls anything', async (t) => {
  const headers = { 'mcp-protocol-version': V, 'mcp-method': 'tools/call', 'mcp-name': 'a' }
  for (const method of ['GET', 'DELETE', 'post', undefined])
    t.equal(readMcp(method, headers), undefined, String(method))
})

t.test('a call of a session, or of a stream that goes on, is not known', async (t) => {
  const headers = { 'mcp-protocol-version': V, 'mcp-method': 'tools/call', 'mcp-name': 'a' }
  t.same(readMcp('POST', headers), { method: 'tools/call', name: 'a' }, 'for comparison')
  for (const name of ['mcp-session-id', 'last-event-id'])
    for (const value of ['x', '', 'x, y', '0'])
      for (const method of ['tools/call', 'tools/list', 'initialize'])
        t.equal(readMcp('POST', { ...headers, 'mcp-method': method, [name]: value }), undefined)
})

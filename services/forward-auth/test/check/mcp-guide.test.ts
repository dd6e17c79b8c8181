import { spawnSync } from 'node:child_process'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import t from 'tap'
import { parse } from 'yaml'
import { compilePattern } from '../../../../packages/gate/src/patterns.ts'
import { readDocument } from '../../../../scripts/test/markdown.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { envelope, VERSION } from '../helpers/mcp-requests.ts'
import { SHAPES } from '../shapes.ts'

expectWarnings(t, 'check refused')

const { blocks } = readDocument('docs/mcp-tools.md')
const textOf = (info: string, has = '') =>
  blocks.find((block) => block.info === info && block.text.includes(has))?.text ?? ''

const READER = 'key-of-one-who-reads-0123456789abcdef'
const WRITER = 'key-of-one-who-writes-0123456789abcdef'
const [{ policies, rules }] = parse(textOf('yaml forward-auth', 'mcpMethods:')).portals
const YAML = yamlOf(
  portalOf(
    'main',
    Object.entries({
      policies,
      rules,
      callers: {
        keys: [
          { name: 'reader', key: READER, hosts: ['*.example.com'], scopes: ['notes:read'] },
          {
            name: 'writer',
            key: WRITER,
            hosts: ['*.example.com'],
            scopes: ['notes:read', 'notes:write'],
          },
        ],
      },
    })
      .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
      .join(', '),
  ),
)
const [SHAPE] = SHAPES.filter(({ proxy }) => proxy === 'caddy')

/** Asks what happens to a call of an MCP server. */
async function startGuide(t: Parameters<typeof startApp>[0]) {
  const { check } = await startApp(t, YAML)
  return async (key: string, method: string, name?: string) => {
    if (!SHAPE) throw new Error('there is no shape of Caddy')
    const { statusCode, headers, body } = await check(SHAPE, {
      authorization: `APIKey ${key}`,
      'x-forwarded-host': 'mcp.example.com',
      'x-forwarded-method': 'POST',
      'mcp-protocol-version': VERSION,
      'mcp-method': method,
      ...(name !== undefined && { 'mcp-name': name }),
    })
    return { status: statusCode, tools: headers['x-gatehouse-tools'], body }
  }
}

t.test('the rules of the guide', async (t) => {
  const ask = await startGuide(t)
  type Row = [method: string, name: string | undefined, reader: number, writer: number]
  const table: readonly Row[] = [
    ['tools/call', 'read_note', 200, 200],
    ['tools/call', 'notes.list', 200, 200],
    ['tools/call', 'delete_note', 403, 200],
    ['tools/call', 'other', 403, 403],
    ['resources/read', 'note://a', 200, 200],
    ['prompts/list', undefined, 200, 200],
    ['notifications/cancelled', undefined, 200, 200],
    ['completion/complete', undefined, 403, 403],
    ['tools/list', undefined, 200, 200],
    ['server/discover', undefined, 200, 200],
  ]
  for (const [method, name, reader, writer] of table) {
    t.equal((await ask(READER, method, name)).status, reader, `${method} ${name}: reader`)
    t.equal((await ask(WRITER, method, name)).status, writer, `${method} ${name}: writer`)
  }
  t.match((await ask(READER, 'tools/call', 'other')).body, 'FWA_TOOL_REFUSED')
})

t.test('what a server is told of nobody, and by policies that read the call', async (t) => {
  const options = {
    callers: {
      keys: [{ name: 'reader', key: READER, hosts: ['*.example.com'], scopes: ['notes:read'] }],
    },
    policies: {
      careful: 'mcp.tool != "keep"',
      reads: 'Scope("notes:read")',
    },
    rules: [
      { hosts: ['mcp.example.com'], tools: ['keep', 'drop', 'x_*'], require: 'careful' },
      { hosts: ['mcp.example.com'], tools: ['find'], require: 'anyone' },
      { hosts: ['mcp.example.com'], tools: ['read_*'], require: 'reads' },
      { hosts: ['mcp.example.com'], mcpMethods: ['prompts/*'], require: 'reads' },
      { hosts: ['mcp.example.com'], mcpMethods: ['prompts/*', 'tools/*'], require: 'reads' },
    ],
  }
  const texts = Object.entries(options).map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
  const { check } = await startApp(t, yamlOf(portalOf('main', texts.join(', '))))
  const table: readonly [who: object, method: string, status: number, told: string][] = [
    [{}, 'tools/list', 200, '!keep,!drop,!x_*,find,!read_*,!*'],
    [{}, 'tools/call', 200, ''],
    [{ authorization: `APIKey ${READER}` }, 'tools/list', 200, '!keep,drop,!x_*,find,read_*,*'],
  ]
  for (const [who, method, status, told] of table) {
    const answer = await check(SHAPE!, {
      ...who,
      'x-forwarded-host': 'mcp.example.com',
      'x-forwarded-method': 'POST',
      ...{ 'mcp-protocol-version': VERSION, 'mcp-method': method, 'mcp-name': 'find' },
    })
    t.match([answer.statusCode, answer.headers['x-gatehouse-tools']], [status, told])
  }
})

t.test('a list of tools that is too long for a header is left out', async (t) => {
  const at = { hosts: ['mcp.example.com'], require: 'anyone' }
  const answerTo = async (length: number) => {
    const rules = JSON.stringify([
      { ...at, tools: ['a'.repeat(100)] },
      { ...at, tools: ['b', ...Array.from({ length }, (_, i) => `${'c'.repeat(100)}${i}`)] },
    ])
    const { check } = await startApp(t, yamlOf(portalOf('main', `rules: ${rules}`)))
    const { statusCode, headers } = await check(SHAPE!, {
      'x-forwarded-host': 'mcp.example.com',
      'x-forwarded-method': 'POST',
      ...{ 'mcp-protocol-version': VERSION, 'mcp-method': 'tools/list' },
    })
    return [statusCode, String(headers['x-gatehouse-tools']).length]
  }
  t.strictSame(await answerTo(10), [200, 1_122])
  t.strictSame(await answerTo(30), [200, 0])
})

t.test('the header of the guide, and lines that read it', async (t) => {
  const ask = await startGuide(t)
  const { tools } = await ask(READER, 'tools/list')
  t.equal(`X-Gatehouse-Tools: ${tools}\n`, textOf('text', 'X-Gatehouse-Tools'))
  t.equal((await ask(WRITER, 'tools/list')).tools, 'delete_*,read_*,notes.list')
  t.equal((await ask(READER, 'tools/call', 'read_note')).tools, '')

  const names = [
    'read_note',
    'delete_note',
    'other',
    'notes.list',
    'notesXlist',
    'a.b',
    'aXb',
    'Read_',
  ]
  const told = [
    ...[String(tools), 'delete_*,read_*,notes.list', '*', '!*', '!read_note,*', 'read_*,!*', ''],
    ...['a.b', 'a*', '*e*_*e', '!delete_*,!read_*', '!a.b,a*,*', 'read_note', '*t*', 'notes.*'],
  ]
  const allowed = told.map((one) => names.filter((name) => isAllowed(one, name)))
  for (const [i, one] of told.entries())
    t.same(await listed(one, names), allowed[i], `TypeScript: ${one}`)
  await t.test('Python', { skip: !HAS_PYTHON && 'there is no Python' }, async (t) => {
    t.same(listedByPython(told, names), allowed)
  })
})

/** As docs/mcp-tools.md says it. */
function isAllowed(told: string, name: string): boolean {
  if (told === '') return true
  const first = told.split(',').find((one) => compilePattern(one.replace(/^!/, ''))(name))
  return first !== undefined && !first.startsWith('!')
}

/** What the server of the guide lists, with other tools. */
async function listed(told: string, names: readonly string[]): Promise<string[]> {
  const tools = names.map(
    (name) => `${JSON.stringify(name)}: server.registerTool(${JSON.stringify(name)}, {}, run),`,
  )
  const code = textOf('js mcp').replace(
    /const tools = \{[^}]*\{\}[^}]*\{\}[^}]*\}/,
    `const tools = { ${tools.join(' ')} }`,
  )
  const make = new Function('createMcpHandler', 'McpServer', 'run', `${code}; return handler`)
  const handler = make(createMcpHandler, McpServer, () => ({ content: [] }))
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: envelope() } }
  const answer = await handler.fetch(
    new Request('http://mcp.example.com/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': VERSION,
        'mcp-method': 'tools/list',
        'x-gatehouse-tools': told,
      },
      body: JSON.stringify(body),
    }),
  )
  const { result } = await answer.json()
  return result.tools.map(({ name }: { name: string }) => name)
}

const HAS_PYTHON = spawnSync('python3', ['--version']).status === 0

function listedByPython(told: readonly string[], names: readonly string[]): string[][] {
  const code = `import json, sys
from fnmatch import fnmatchcase
from types import SimpleNamespace
all, names = json.load(sys.stdin)
listed = []
for told in all:
    tools = [SimpleNamespace(name=name) for name in names]
    ${textOf('python mcp').trim()}
    listed.append([tool.name for tool in tools])
print(json.dumps(listed))`
  const { stdout, stderr } = spawnSync('python3', ['-c', code], {
    input: JSON.stringify([told, names]),
    encoding: 'utf8',
  })
  if (stderr) throw new Error(stderr)
  return JSON.parse(stdout)
}

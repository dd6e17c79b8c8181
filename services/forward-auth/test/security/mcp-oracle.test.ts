import { parseHost } from '@gatehouse/net'
import { createMcpHandler, McpServer, Server } from '@modelcontextprotocol/server'
import fc from 'fast-check'
import t from 'tap'
import { MCP_HEADERS, readMcp } from '../../../../packages/gate/src/mcp.ts'
import type { RuleConfig } from '../../../../packages/gate/src/options.ts'
import { readPath } from '../../../../packages/gate/src/paths.ts'
import { createPolicies } from '../../../../packages/gate/src/policy.ts'
import {
  admissionFor,
  createRules,
  type RuledRequest,
} from '../../../../packages/gate/src/rules.ts'
import { compileCondition } from '../../../../packages/profile/src/conditions.ts'
import { envelope, VERSION } from '../helpers/mcp-requests.ts'

/** `GATEHOUSE_FAULT_RUNS` draws more, `GATEHOUSE_FAULT_SEED` others. */
const RUNS = Number(process.env.GATEHOUSE_FAULT_RUNS ?? 20_000)
const SEED = Number(process.env.GATEHOUSE_FAULT_SEED ?? 31)

const READ = 'read_note'
const DELETE = 'delete_note'
const policies = createPolicies({ reads: 'Scope("read")', writes: 'Scope("write")' })
const rulesOf = (rules: readonly RuleConfig[]) => createRules(rules, policies)

/** Rules, and whether a tool may run for somebody who only reads. */
const RULES = [
  {
    rules: rulesOf([
      { tools: ['read_*'], require: 'reads' },
      { tools: ['delete_*'], require: 'writes' },
    ]),
    mayRun: (tool: string) => tool.startsWith('read_'),
  },
  {
    rules: rulesOf([
      { tools: ['delete_*'], require: 'writes' },
      { tools: ['*'], require: 'reads' },
    ]),
    mayRun: (tool: string) => !tool.startsWith('delete_'),
  },
  {
    rules: rulesOf([
      { mcpMethods: ['prompts/*', 'resources/*', 'tools/list'], require: 'reads' },
      { tools: ['*'], require: 'writes' },
    ]),
    mayRun: () => false,
  },
]

/** What a server of SDK 2 runs. It has a tool of every name. */
const ran: string[] = []
const server = createMcpHandler(() => {
  const one = new Server({ name: 'notes', version: '1.0.0' }, { capabilities: { tools: {} } })
  one.setRequestHandler('tools/call', ({ params }) => {
    ran.push(params.name)
    return { content: [] }
  })
  return one
})

const base64 = (text: string) => Buffer.from(text).toString('base64')
const encoded = (text: string) => `=?base64?${base64(text)}?=`

const NAMES = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(READ, DELETE) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ...['READ_NOTE', 'read_note ', ' read_note', 'read_note,delete_note', '', 'read_', 'x'],
      ...['\uFEFFdelete_note', 'read_note\0', 'read_nоte', 'délete', 'delete_note\n', '=?base64?'],
      ...['=?base64?eA==?=', 'read_\uFEFFdelete_note', '\u200bdelete_note', '__proto__', 'a?='],
    ),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 12 }) },
)

/** A name as a client may write it, honestly or not quite. */
const written = (name: string) =>
  fc.oneof(
    { weight: 6, arbitrary: fc.constant(name) },
    { weight: 4, arbitrary: fc.constant(encoded(name)) },
    {
      weight: 4,
      arbitrary: fc.constantFrom(
        ...[encoded(`\uFEFF${name}`), encoded(encoded(name)), encoded(`${name} `)],
        ...[` ${name}\t`, `\t${encoded(name)} `, name.toUpperCase(), `${name},${name}`],
        ...[`"${name}"`, encodeURIComponent(name), `=?BASE64?${base64(name)}?=`],
        ...[encoded(name).replaceAll('=?=', '?='), `=?base64?${base64(name)}`, `=?base64??=`],
        ...[`=?base64?${Buffer.from(name).toString('base64url')}?=`, `=?utf-8?q?${name}?=`],
        ...[`=?base64?${Buffer.from(name, 'latin1').toString('base64')}?=`, `${name}\u00a0`],
        ...[`=?base64?${base64(name)}\n?=`, `=?base64?${base64(name).slice(0, -1)}?=`],
        ...[`=?base64? ${base64(name)}?=`, `=?base64?${base64(name)}?= `, `${name};q=1`],
        `=?base64?${Buffer.from(name, 'utf16le').toString('base64')}?=`,
      ),
    },
  )

const VERSIONS = fc.oneof(
  { weight: 12, arbitrary: fc.constant('2026-07-28') },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ...['2025-11-25', '2025-03-26', '2026-07-29', '2099-01-01', '9999-99-99', '', 'draft'],
      ...['2026-07-28 ', '2026-7-28', ' 2026-07-28', '２026-07-28', '2026-07-28,2025-11-25'],
      ...['2026-07-28\u00a0', '+2026-07-28', '2026-07-28T00:00:00Z', '2026-07-27'],
    ),
  },
)
const METHODS = fc.oneof(
  { weight: 12, arbitrary: fc.constant('tools/call') },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ...['Tools/Call', 'tools/list', 'initialize', 'resources/read', 'prompts/get', 'ping', ''],
      ...['tools/call ', 'tools/call,tools/list', 'tools%2Fcall', 'tools//call', 'tools/call/x'],
      ...[
        'notifications/initialized',
        'server/discover',
        'tools\\call',
        'tools/call;',
        'tasks/get',
      ],
    ),
  },
)

interface Headers {
  readonly version: readonly string[]
  readonly method: readonly string[]
  readonly name: readonly string[]
}

/** Mostly once; rarely not at all, or twice. */
const lines = (one: fc.Arbitrary<string>) =>
  fc.oneof(
    { weight: 14, arbitrary: fc.tuple(one) },
    { weight: 1, arbitrary: fc.array(one, { maxLength: 3 }) },
  )

const BODIES = fc.record({
  method: METHODS,
  name: NAMES,
  version: VERSIONS,
  shape: fc.oneof(
    { weight: 12, arbitrary: fc.constant('call') },
    {
      weight: 4,
      arbitrary: fc.constantFrom(
        ...(['batch', 'old', 'old batch', 'notification', 'doubled', 'doubled params'] as const),
        ...(['proto', 'answer', 'nested', 'no name', 'list'] as const),
      ),
    },
  ),
})
type Body = typeof BODIES extends fc.Arbitrary<infer One> ? One : never

const CASES = BODIES.chain((body) =>
  fc.record({
    body: fc.constant(body),
    headers: fc.record<Headers>({
      version: lines(
        fc.oneof(
          { weight: 6, arbitrary: fc.constant(body.version) },
          { weight: 1, arbitrary: VERSIONS },
        ),
      ),
      method: lines(
        fc.oneof(
          { weight: 6, arbitrary: fc.constant(body.method) },
          { weight: 1, arbitrary: METHODS },
        ),
      ),
      name: lines(
        fc.oneof(
          { weight: 5, arbitrary: written(body.name) },
          { weight: 2, arbitrary: NAMES.chain(written) },
        ),
      ),
    }),
    /** What becomes of a header that comes twice, on the way to the server. */
    kept: fc.constantFrom('all', 'first', 'last'),
    http: fc.constantFrom(...Array(20).fill('POST'), 'GET', 'PUT'),
  }),
)

function textOf({ method, name, version, shape }: Body): string {
  const params = { name, arguments: {}, _meta: envelope(version) }
  const call = { jsonrpc: '2.0', id: 1, method, params }
  const old = { ...call, params: { name, arguments: {} } }
  const { id: _, ...notification } = call
  const other = JSON.stringify(name === READ ? DELETE : READ)
  const text = JSON.stringify(call)
  switch (shape) {
    case 'call':
      return text
    case 'batch':
      return JSON.stringify([call])
    case 'old':
      return JSON.stringify(old)
    case 'old batch':
      return JSON.stringify([old, call])
    case 'notification':
      return JSON.stringify(notification)
    case 'doubled':
      return text.replace('"params":{', `"params":{"name":${other},`)
    case 'doubled params':
      return text.replace('"params":', `"params":{"name":${other}},"params":`)
    case 'proto':
      return text.replace('"params":{', `"params":{"__proto__":{"name":${other}},`)
    case 'answer':
      return JSON.stringify({ ...call, result: {} })
    case 'nested':
      return text.replace('"arguments":{}', `"arguments":{"name":${other}}`)
    case 'no name':
      return JSON.stringify({ ...call, params: { _meta: params._meta } })
    case 'list':
      return JSON.stringify({ ...call, params: { ...params, name: [name] } })
  }
}

/** As Node reads them: without white space around, and joined. */
function headersOf({ version, method, name }: Headers): Record<string, string> {
  const all = [version, method, name].map((values, i) => [MCP_HEADERS[i], values] as const)
  return Object.fromEntries(
    all.flatMap(([header, values]) => {
      const trimmed = values.map((value) => value.replaceAll(/^[ \t]+|[ \t]+$/g, ''))
      return values.length === 0 ? [] : [[header, trimmed.join(', ')]]
    }),
  )
}

/** Whether Node lets a header have this value. */
const isSendable = (value: string) => /^[\t\x20-\x7e\x80-\xff]*$/.test(value)

/** The tools that the server runs for a request. */
async function toolsRun(one: { http: string; kept: string; headers: Headers; body: Body }) {
  const { version, method, name } = one.headers
  const headers = new Headers({
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  })
  for (const [i, values] of [version, method, name].entries()) {
    const kept =
      one.kept === 'all' ? values : one.kept === 'first' ? values.slice(0, 1) : values.slice(-1)
    for (const value of kept) headers.append(MCP_HEADERS[i] ?? '', value)
  }
  ran.length = 0
  const body = one.http === 'GET' ? {} : { body: textOf(one.body) }
  const answer = await server.fetch(
    new Request('http://notes.example.com/mcp', { method: one.http, headers, ...body }),
  )
  await answer.body?.cancel()
  return [...ran]
}

t.test('what the gate allows under a name is what the server runs under it', async (t) => {
  let known = 0
  let calls = 0
  const host = parseHost('notes.example.com')
  if (!host) throw new Error('it is a host')
  const request = { host, path: readPath('/mcp') }
  const property = fc.asyncProperty(CASES, async (one) => {
    const headers = headersOf(one.headers)
    if (!Object.values(headers).every(isSendable)) return
    const mcp = readMcp(one.http, headers)
    if (!mcp) return
    known += 1
    const tools = await toolsRun(one)
    calls += tools.length
    for (const tool of tools) {
      if (mcp.method !== 'tools/call' || mcp.name !== tool)
        throw new Error(`ran ${JSON.stringify(tool)} as ${JSON.stringify(mcp)}`)
      for (const { rules, mayRun } of RULES) {
        const asked: RuledRequest = {
          ...request,
          method: one.http,
          mcp: () => mcp,
          clientIp: () => undefined,
        }
        const { isClosed, demanded } = admissionFor(rules, asked)
        const onlyReads = !isClosed && demanded.every(({ name }) => name === 'reads')
        if (onlyReads && !mayRun(tool)) throw new Error(`${tool} ran for somebody who only reads`)
      }
    }
  })
  await fc.assert(property, { seed: SEED, numRuns: RUNS })
  await server.close()
  t.comment(`${RUNS} requests: ${known} of a known call, ${calls} tools ran`)
  t.ok(known > RUNS / 5, 'many are known')
  t.ok(calls > RUNS / 20, 'many run')
})

t.test('no spelling of a URI reads a resource that a condition leaves out', async (t) => {
  const SECRET = 'note://team/secret'
  let reads = 0
  const { fetch } = createMcpHandler(() => {
    const one = new McpServer({ name: 'notes', version: '1.0.0' })
    one.registerResource('secret', SECRET, {}, () => {
      reads++
      return { contents: [] }
    })
    return one
  })
  const others = compileCondition(`mcp.resource != "${SECRET}"`, 'request')
  const uris = [
    ...[SECRET, 'NOTE://team/secret', 'note://team/public/../secret', 'note://team/./secret'],
    ...[`${SECRET} `, 'note://team/sec\tret', 'note://team/x/%2e%2E/secret', ` ${SECRET}\n`],
  ]
  for (const [i, uri] of uris.entries()) {
    const params = { uri, _meta: envelope() }
    const headers = {
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      ...{ 'mcp-protocol-version': VERSION, 'mcp-method': 'resources/read' },
      'mcp-name': encoded(uri),
    }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/read', params })
    await fetch(new Request('http://notes.test/mcp', { method: 'POST', headers, body }))
    t.equal(reads, i + 1, `the server reads ${JSON.stringify(uri)}`)
    const mcp = readMcp('POST', headers)
    t.match(mcp, { method: 'resources/read', name: uri })
    t.notOk(others.holds({ claims: {}, mcp }), 'and the condition does not hold')
  }
})

import { parseHost } from '@gatehouse/net'
import type { McpCall } from '@gatehouse/profile'
import t from 'tap'
import type { RuleConfig } from '../src/options.ts'
import { readPath } from '../src/paths.ts'
import { createPolicy } from '../src/policy.ts'
import { admissionFor, createRules, shadowedRules, toolRulesFor } from '../src/rules.ts'

const policies = new Map(
  ['staff', 'admin', 'ops'].map((name) => [name, createPolicy(name, `Group("${name}")`)]),
)

interface Sent {
  readonly host?: string
  readonly target?: string
  readonly method?: string
  readonly from?: string | undefined
  readonly overrides?: boolean
  readonly mcp?: McpCall
}

function requestOf(sent: Sent) {
  const { host = 'app.example.com', target = '/', method = 'GET', overrides = false } = sent
  const from = 'from' in sent ? sent.from : '192.0.2.7'
  return {
    host: parseHost(host)!,
    path: readPath(target),
    method: overrides ? undefined : method,
    mcp: () => sent.mcp,
    clientIp: () => from,
  }
}

function admissionOf(rules: readonly RuleConfig[], sent: Sent) {
  return admissionFor(createRules(rules, policies), requestOf(sent))
}

/** What the rules demand of a request, in words. */
function demandOf(rules: readonly RuleConfig[], sent: Sent): string {
  const { demanded, purpose } = admissionOf(rules, sent)
  return purpose === 'anyone' ? 'anyone' : demanded.map(({ name }) => name).join('+') || 'signedIn'
}

/** What a request is known to be for, in words. */
function purposeOf(rules: readonly RuleConfig[], sent: Sent): string {
  const { purpose = 'unknown' } = admissionOf(rules, sent)
  if (typeof purpose === 'string') return purpose
  return purpose.map(({ name }) => name).join('+') || 'signedIn'
}

t.test('the first rule that fits decides', async (t) => {
  const rules: RuleConfig[] = [
    { paths: ['/healthz', '/hooks/*'], methods: ['GET', 'POST'], require: 'anyone' },
    { hosts: ['admin.example.com'], require: ['staff', 'admin'] },
    { hosts: ['*.internal.example.com'], from: ['10.0.0.0/8', 'fd00::/8'], require: 'anyone' },
    { paths: ['/admin/*'], require: 'admin' },
    { paths: ['/projects/*/secrets'], methods: ['GET', 'PUT'], require: 'ops' },
    { methods: ['DELETE'], require: 'ops' },
    { paths: ['/'], require: 'signedIn' },
  ]
  const rows: [demand: string, sent: Sent][] = [
    ['anyone', { target: '/healthz' }],
    ['anyone', { target: '/healthz/' }],
    ['anyone', { target: '/healthz?verbose=1' }],
    ['anyone', { target: '/healthz', host: 'admin.example.com' }],
    ['anyone', { target: '/healthz', method: 'HEAD' }],
    ['anyone', { target: '/hooks/github/7', method: 'POST' }],
    ['anyone', { target: '/hooks' }],
    ['ops', { target: '/hooks/github', method: 'DELETE' }],
    ['signedIn', { target: '/healthz/more' }],
    ['signedIn', { target: '/hooksx' }],
    ['staff+admin', { host: 'admin.example.com' }],
    ['staff+admin', { host: 'admin.example.com', target: '/admin/x' }],
    ['signedIn', { host: 'x.admin.example.com' }],
    ['anyone', { host: 'a.internal.example.com', from: '10.1.2.3' }],
    ['anyone', { host: 'a.b.internal.example.com', from: 'fd00::1' }],
    ['signedIn', { host: 'a.internal.example.com', from: '11.1.2.3' }],
    ['signedIn', { host: 'internal.example.com', from: '10.1.2.3' }],
    ['signedIn', { host: 'a.internal.example.com', from: undefined }],
    ['admin', { target: '/admin' }],
    ['admin', { target: '/admin/' }],
    ['admin', { target: '/admin/users' }],
    ['admin', { target: '/%61dmin/users' }],
    ['ops', { target: '/projects/x/secrets' }],
    ['signedIn', { target: '/projects/x/y/secrets' }],
    ['signedIn', { target: '/projects/secrets' }],
    ['ops', { target: '/x', method: 'DELETE' }],
    ['signedIn', { target: '/' }],
    ['signedIn', { target: '/else' }],
  ]
  for (const [demand, sent] of rows) t.equal(demandOf(rules, sent), demand, JSON.stringify(sent))
  t.equal(demandOf([], {}), 'signedIn', 'without rules')
})

t.test('what may fit opens nothing, and demands all that it may demand', async (t) => {
  const rules: RuleConfig[] = [
    { paths: ['/public/*'], require: 'anyone' },
    { paths: ['/admin/*'], require: 'admin' },
    { paths: ['/ops/*'], methods: ['POST', 'DELETE'], require: 'ops' },
    { from: ['10.0.0.0/8'], paths: ['/lan/*'], require: 'staff' },
    { require: 'anyone' },
  ]
  const rows: [demand: string, sent: Sent, why: string][] = [
    ['anyone', { target: '/public/x' }, 'a normal path'],
    ['admin+staff', { target: '/public/..%2fadmin' }, 'an encoded slash behind dots'],
    ['admin+staff', { target: '/public/%2e%2e/admin' }, 'dot segments'],
    ['anyone', { target: '/public//x' }, 'an empty segment below'],
    ['anyone', { target: '/public/a%2Fb' }, 'an encoded slash below'],
    ['admin+staff', { target: '//public/x' }, 'an empty segment above'],
    ['admin', { target: '/admin%2fx' }, 'what stands before an encoded slash'],
    ['admin', { target: '/ADMIN/x' }, 'another case'],
    ['admin', { target: '/admin./x' }, 'a dot at the end'],
    ['anyone', { target: '/PUBLIC/x' }, 'another case of an open path, which the last rule opens'],
    ['admin+ops+staff', { target: '//x', method: 'POST' }, 'several rules'],
    ['ops', { target: '/ops/x', method: 'POST' }, 'a listed method'],
    ['anyone', { target: '/ops/x' }, 'another method'],
    ['ops', { target: '/ops/x', overrides: true }, 'a method that a header overrides'],
    ['ops', { target: '/ops/x', method: 'post' }, 'a method in lower case'],
    ['staff', { target: '/lan/x', from: undefined }, 'an address that is not known'],
    ['staff', { target: '/lan//x', from: undefined }, 'neither'],
    ['anyone', { target: '/lan/x', from: '192.0.2.7' }, 'an address elsewhere'],
  ]
  const fromLan = (sent: Sent) => ({ from: '10.1.2.3', ...sent })
  for (const [demand, sent, why] of rows) t.equal(demandOf(rules, fromLan(sent)), demand, why)
  const behind: RuleConfig[] = [
    { paths: ['/private/*'], require: 'signedIn' },
    { require: 'anyone' },
  ]
  t.equal(demandOf(behind, { target: '/PRIVATE/x' }), 'signedIn', 'a session is a demand too')
})

t.test('the purpose is known only if no earlier rule may be for something else', async (t) => {
  const rules: RuleConfig[] = [
    { paths: ['/metrics'], require: 'ops' },
    { hosts: ['a.example.com'], methods: ['POST'], require: ['staff', 'ops'] },
    { paths: ['/status'], require: ['ops', 'staff'] },
    { hosts: ['a.example.com', 'deploy.example.com'], require: ['ops', 'staff'] },
    { hosts: ['b.example.com'], require: 'anyone' },
  ]
  const rows: [purpose: string, sent: Sent][] = [
    ['ops', { target: '/metrics' }],
    ['signedIn', { target: '/other' }],
    ['unknown', { target: '/METRICS' }],
    ['unknown', { target: '//metrics' }],
    ['ops', { target: '/metrics', overrides: true }],
    ['ops+staff', { host: 'deploy.example.com' }],
    ['unknown', { host: 'deploy.example.com', target: '/METRICS' }],
    ['ops+staff', { host: 'deploy.example.com', target: '/STATUS' }],
    ['ops+staff', { host: 'a.example.com', overrides: true }],
    ['anyone', { host: 'b.example.com', target: '/admin//x' }],
    ['unknown', { host: 'b.example.com', target: '/;x' }],
  ]
  for (const [purpose, sent] of rows) t.equal(purposeOf(rules, sent), purpose, JSON.stringify(sent))
})

t.test('a rule that is never reached, with the one before it', async (t) => {
  const shadowed: [later: RuleConfig, earlier: RuleConfig][] = [
    [{ paths: ['/a'], require: 'staff' }, { require: 'anyone' }],
    [
      { paths: ['/a/b'], require: 'staff' },
      { paths: ['/a/*'], require: 'anyone' },
    ],
    [
      { paths: ['/a/*'], require: 'staff' },
      { paths: ['/*'], require: 'anyone' },
    ],
    [
      { paths: ['/a/b/c'], require: 'staff' },
      { paths: ['/a/*/c'], require: 'anyone' },
    ],
    [
      { hosts: ['a.example.com'], require: 'staff' },
      { hosts: ['*.example.com'], require: 'ops' },
    ],
    [
      { hosts: ['*.a.example.com'], require: 'staff' },
      { hosts: ['*.example.com'], require: 'ops' },
    ],
    [
      { methods: ['HEAD'], require: 'staff' },
      { methods: ['GET'], require: 'ops' },
    ],
    [
      { from: ['10.1.0.0/16'], require: 'staff' },
      { from: ['10.0.0.0/8'], require: 'ops' },
    ],
  ]
  for (const [later, earlier] of shadowed) {
    t.strictSame(shadowedRules([earlier, later]), [{ index: 1, winner: 0 }], JSON.stringify(later))
    t.strictSame(shadowedRules([later, earlier]), [], 'and not the other way round')
  }
  const reached: [later: RuleConfig, earlier: RuleConfig][] = [
    [{ require: 'staff' }, { paths: ['/a'], require: 'anyone' }],
    [
      { paths: ['/a/*'], require: 'staff' },
      { paths: ['/a'], require: 'anyone' },
    ],
    [
      { hosts: ['example.com'], require: 'staff' },
      { hosts: ['*.example.com'], require: 'ops' },
    ],
    [
      { from: ['10.0.0.0/8'], require: 'staff' },
      { from: ['10.0.0.0/16'], require: 'ops' },
    ],
    [
      { paths: ['/a'], require: 'staff' },
      { paths: ['/a'], methods: ['GET'], require: 'ops' },
    ],
  ]
  for (const [later, earlier] of reached)
    t.strictSame(shadowedRules([earlier, later]), [], JSON.stringify([earlier, later]))
})

t.test('rules for tools close their place', async (t) => {
  const rules: readonly RuleConfig[] = [
    { paths: ['/healthz'], require: 'anyone' },
    { hosts: ['mcp.example.com'], tools: ['read_*'], require: 'staff' },
    { hosts: ['mcp.example.com'], tools: ['delete', 'notes/*'], require: 'admin' },
    { hosts: ['mcp.example.com'], mcpMethods: ['resources/*'], require: 'ops' },
    { hosts: ['mcp.example.com'], require: 'anyone' },
  ]
  const open: readonly RuleConfig[] = [
    { hosts: ['mcp.example.com'], tools: ['delete'], require: 'admin' },
    { hosts: ['mcp.example.com'], tools: ['*'], require: 'staff' },
  ]
  const from: readonly RuleConfig[] = [
    { hosts: ['mcp.example.com'], from: ['10.0.0.0/8'], tools: ['delete'], require: 'staff' },
    { hosts: ['mcp.example.com'], tools: ['delete'], require: 'admin' },
  ]
  const path: readonly RuleConfig[] = [
    { hosts: ['mcp.example.com'], paths: ['/mcp/*'], tools: ['read'], require: 'staff' },
  ]
  const methods: readonly RuleConfig[] = [
    { hosts: ['mcp.example.com'], tools: ['delete'], require: 'admin' },
    { hosts: ['mcp.example.com'], mcpMethods: ['*'], require: 'staff' },
    { hosts: ['mcp.example.com'], tools: ['*'], require: 'ops' },
  ]
  const late: readonly RuleConfig[] = [
    { hosts: ['mcp.example.com'], tools: ['read'], require: 'staff' },
    { from: ['10.0.0.0/8'], require: 'ops' },
    { hosts: ['mcp.example.com'], tools: ['delete'], require: 'admin' },
  ]
  const call = (name: string) => ({ method: 'tools/call', name })
  const at = { host: 'mcp.example.com', method: 'POST' }
  type Row = [title: string, rules: readonly RuleConfig[], sent: Sent, answer: string]
  const table: readonly Row[] = [
    ['a tool of the first rule', rules, { ...at, mcp: call('read_note') }, 'staff'],
    ['a tool of the second rule', rules, { ...at, mcp: call('delete') }, 'admin'],
    ['a tool by a pattern', rules, { ...at, mcp: call('notes/a/b') }, 'admin'],
    ['another tool', rules, { ...at, mcp: call('write') }, 'closed'],
    ['another case', rules, { ...at, mcp: call('READ_note') }, 'closed'],
    ['a method', rules, { ...at, mcp: { method: 'resources/read', name: 'a' } }, 'ops'],
    ['another method', rules, { ...at, mcp: { method: 'prompts/list' } }, 'closed'],
    ['not known', rules, at, 'closed: staff+admin+ops'],
    ['an earlier rule', rules, { ...at, target: '/healthz' }, 'anyone'],
    [
      'a path that may be of an earlier rule',
      rules,
      { ...at, target: '/healthz%2f', mcp: call('read_a') },
      'staff',
    ],
    [
      'a place that may be of an earlier rule',
      rules,
      { ...at, target: '/healthz%2f' },
      'closed: staff+admin+ops',
    ],
    ['another host', rules, { ...at, host: 'app.example.com' }, 'signedIn'],
    ['tools are listed', rules, { ...at, mcp: { method: 'tools/list' } }, 'staff or admin'],
    ['discovery', rules, { ...at, mcp: { method: 'server/discover' } }, 'staff or admin'],
    ['open: another tool', open, { ...at, mcp: call('write') }, 'staff'],
    ['open: the named tool', open, { ...at, mcp: call('delete') }, 'admin'],
    ['open: another method', open, { ...at, mcp: { method: 'prompts/list' } }, 'staff'],
    ['open: not known', open, at, 'admin+staff'],
    ['open: tools are listed', open, { ...at, mcp: { method: 'tools/list' } }, 'admin or staff'],
    ['from elsewhere', from, { ...at, mcp: call('delete') }, 'admin'],
    ['from there', from, { ...at, mcp: call('delete'), from: '10.1.2.3' }, 'staff'],
    ['from nobody knows', from, { ...at, mcp: call('delete'), from: undefined }, 'staff+admin'],
    ['from elsewhere, another tool', from, { ...at, mcp: call('write') }, 'closed'],
    ['below the path', path, { ...at, target: '/mcp/a', mcp: call('write') }, 'closed'],
    [
      'tools are listed beside the path',
      path,
      { ...at, target: '/web', mcp: { method: 'tools/list' } },
      'signedIn',
    ],
    [
      'tools are listed at a path that is not known',
      path,
      { ...at, target: '/mcp%2fa', mcp: { method: 'tools/list' } },
      'closed: staff',
    ],
    [
      'tools are listed, and a later rule names that method',
      methods,
      { ...at, mcp: { method: 'tools/list' } },
      'admin or staff',
    ],
    [
      'tools are listed, and a rule between may fit',
      late,
      { ...at, mcp: { method: 'tools/list' }, from: undefined },
      'staff or ops+admin',
    ],
    ['beside the path', path, { ...at, target: '/web', mcp: call('write') }, 'signedIn'],
    [
      'at a path that is not known',
      path,
      { ...at, target: '/mcp%2fa', mcp: call('read') },
      'closed: staff',
    ],
  ]
  for (const [title, some, sent, answer] of table) t.equal(toolsOf(some, sent), answer, title)
})

/** What the rules demand, or whether they are closed, in words. */
function toolsOf(rules: readonly RuleConfig[], sent: Sent): string {
  const { demanded, isClosed, anyOf } = admissionOf(rules, sent)
  const names = demanded.map(({ name }) => name).join('+')
  if (isClosed) return ['closed', ...(names ? [names] : [])].join(': ')
  if (anyOf) return anyOf.map((one) => one.demanded.map(({ name }) => name).join('+')).join(' or ')
  return demandOf(rules, sent)
}

t.test('rules and tools that never decide', async (t) => {
  const at = { hosts: ['mcp.example.com'] }
  const table: readonly [title: string, rules: readonly RuleConfig[], shadowed: unknown][] = [
    [
      'different tools',
      [
        { ...at, tools: ['a'], require: 'staff' },
        { ...at, tools: ['b'], require: 'ops' },
      ],
      [],
    ],
    [
      'a rule without tools behind one with them',
      [
        { ...at, tools: ['a'], require: 'staff' },
        { ...at, require: 'ops' },
      ],
      [{ index: 1, winner: 0 }],
    ],
    [
      'the same at a path of the place',
      [
        { ...at, tools: ['a'], require: 'staff' },
        { ...at, paths: ['/x'], require: 'ops' },
      ],
      [{ index: 1, winner: 0 }],
    ],
    [
      'a rule without tools before one with them',
      [
        { ...at, paths: ['/x'], require: 'ops' },
        { ...at, tools: ['a'], require: 'staff' },
      ],
      [],
    ],
    [
      'tools behind a pattern',
      [
        { ...at, tools: ['read_*'], require: 'staff' },
        { ...at, tools: ['read_a', 'write'], require: 'ops' },
      ],
      [{ index: 1, entry: 'tools/0', winner: 0 }],
    ],
    [
      'all tools of a rule',
      [
        { ...at, tools: ['read_*'], require: 'staff' },
        { ...at, tools: ['read_a'], require: 'ops' },
      ],
      [{ index: 1, winner: 0 }],
    ],
    [
      'everything behind *',
      [
        { ...at, tools: ['*'], require: 'staff' },
        { ...at, mcpMethods: ['prompts/*'], require: 'ops' },
      ],
      [{ index: 1, winner: 0 }],
    ],
    [
      'a tool twice',
      [{ ...at, tools: ['a', 'a'], require: 'staff' }],
      [{ index: 0, entry: 'tools/1', winner: 0, winnerEntry: 'tools/0' }],
    ],
    [
      'a tool beside *',
      [{ ...at, tools: ['a', '*'], require: 'staff' }],
      [{ index: 0, entry: 'tools/0', winner: 0, winnerEntry: 'tools/1' }],
    ],
    [
      'tools behind all methods',
      [
        { ...at, mcpMethods: ['*'], require: 'staff' },
        { ...at, tools: ['a'], require: 'ops' },
        { ...at, tools: ['*'], require: 'ops' },
      ],
      [{ index: 1, winner: 0 }],
    ],
    [
      'tools behind those methods of which they are one',
      [
        { ...at, mcpMethods: ['tools/*'], require: 'staff' },
        { ...at, tools: ['a'], require: 'ops' },
        { ...at, mcpMethods: ['tools/call', 'prompts/*'], require: 'ops' },
      ],
      [{ index: 1, winner: 0 }],
    ],
    [
      'methods behind tools',
      [
        { ...at, tools: ['a*'], require: 'ops' },
        { ...at, mcpMethods: ['tools/call'], require: 'staff' },
      ],
      [],
    ],
    [
      'tools and methods behind POST',
      [
        { ...at, methods: ['GET', 'POST'], require: 'ops' },
        { ...at, tools: ['a'], require: 'staff' },
        { ...at, mcpMethods: ['prompts/*'], require: 'staff' },
        { ...at, tools: ['*'], require: 'staff' },
      ],
      [
        { index: 1, winner: 0 },
        { index: 2, winner: 0 },
      ],
    ],
    [
      'tools behind some that are never called',
      [
        { ...at, methods: ['GET'], tools: ['a'], require: 'ops' },
        { ...at, tools: ['a'], require: 'staff' },
      ],
      [],
    ],
    [
      'tools at some hosts and paths',
      [
        { ...at, require: 'ops' },
        { paths: ['/open/*'], require: 'ops' },
        { ...at, hosts: ['a.example.com', ...at.hosts], tools: ['a'], require: 'staff' },
        { paths: ['/mcp', '/open/mcp'], mcpMethods: ['prompts/*'], require: 'staff' },
        { hosts: ['b.example.com', ...at.hosts], require: 'staff' },
      ],
      [
        { index: 2, entry: 'hosts/1', winner: 0 },
        { index: 3, entry: 'paths/1', winner: 1 },
      ],
    ],
    [
      'a rule for tools behind one for all',
      [
        { ...at, require: 'ops' },
        { ...at, tools: ['a'], require: 'staff' },
      ],
      [{ index: 1, winner: 0 }],
    ],
  ]
  for (const [title, rules, shadowed] of table) t.same(shadowedRules(rules), shadowed, title)
})

t.test(
  'a server is told of the tools of the rules that fit, up to the first rule without tools',
  async (t) => {
    const read: RuleConfig = { tools: ['read'], require: 'staff' }
    const write: RuleConfig = { tools: ['write'], require: 'admin' }
    const table: readonly [title: string, rules: readonly RuleConfig[], tools: object[]][] = [
      ['no tools', [{ require: 'staff' }], []],
      ['tools behind a rule without tools', [{ require: 'staff' }, read], []],
      ['tools around one', [read, { require: 'staff' }, write], [{ tools: ['read'] }]],
      [
        'behind one that may fit',
        [{ from: ['10.0.0.0/8'], require: 'staff' }, read],
        [{ isCertain: true }],
      ],
      [
        'a path that may fit',
        [{ ...read, paths: ['/mcp'] }],
        [{ tools: ['read'], isCertain: false }],
      ],
      ['another host', [{ ...read, hosts: ['b.example.com'] }, write], [{ tools: ['write'] }]],
      ['methods of MCP', [{ mcpMethods: ['tools/*'], require: 'staff' }], [{ tools: ['*'] }]],
    ]
    for (const [title, rules, tools] of table) {
      const target = title === 'a path that may fit' ? '/MCP' : '/mcp'
      const found = toolRulesFor(
        createRules(rules, policies),
        requestOf({ target, from: undefined }),
      )
      t.match(found, tools, title)
      t.equal(found.length, tools.length, title)
    }
  },
)

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { type ExplainOptions, explain } from '../../src/cli/explain.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { startToolServer } from '../helpers/tool-servers.ts'

// What is refused in these tests, and said.
expectWarnings(t, 'check refused')

const NOW = Date.UTC(2030, 0, 1)
const PORTAL = portalOf(
  'main',
  `allow: { groups: [staff] }, policies: {
    admin: 'Group("staff") && Group("admin")', strong: { acr: [mfa] }, write: 'Scope("write")' }, rules: [
    { paths: [/healthz], require: anyone },
    { hosts: [admin.example.com], require: admin },
    { from: [10.0.0.0/8], paths: [/lan/*], require: anyone },
    { paths: [/vault/*], require: strong },
    { hosts: [mcp.example.com], paths: [/tools], tools: ["read_*"], require: signedIn },
    { hosts: [mcp.example.com], paths: [/tools], tools: [delete], require: admin }],
    headers: [default, { name: X-Team, claim: team }],
    callers: { keys: [{ name: ci, key: correct-horse-battery-staple, hosts: [app.example.com] },
      { name: admins, key: correct-horse-battery-stapler, policies: [admin] }] },
    resources: [{ url: "https://app.example.com/mcp", authorizationServers: ["https://id.example.com"] }]`.replace(
    /\s+/g,
    ' ',
  ),
)
const CLAIMS = {
  ada: { sub: 'ada', groups: ['staff', 'admin'], acr: 'pwd' },
  bob: { sub: 'bob', groups: ['staff'] },
  eve: { sub: 'eve' },
  odd: { sub: 'odd', groups: ['staff'], team: 'x'.repeat(20_000) },
}

type Row = [
  who: keyof typeof CLAIMS | undefined,
  asked: Partial<ExplainOptions>,
  ...lines: string[],
]

/** What a check refuses without a decision, and what keys get. */
const REFUSED: Row[] = [
  [
    'ada',
    { host: 'auth.example.com' },
    'decision: 403 FWA_HOST_RESERVED: auth.example.com is the host of the sign-in pages, and no app is on it',
  ],
  [
    'ada',
    { host: 'app.example.org' },
    'decision: 403 FWA_HOST_UNKNOWN: "app.example.org" is on none of the configured domains',
  ],
  [
    undefined,
    { host: 'a b' },
    'decision: 403 FWA_HOST_UNKNOWN: "a b" is on none of the configured domains',
  ],
  [
    undefined,
    { host: 'http://app.example.com' },
    'GET http://app.example.com/ at the portal main',
    'decision: 403 FWA_APP_INSECURE: http://app.example.com is not https; a program gets 401 FWA_NO_SESSION',
  ],
  [
    undefined,
    { host: 'http://app.example.com', path: '/healthz' },
    'decision: 200, passes, without an identity',
  ],
  [
    'ada',
    { path: '/x#y' },
    'decision: 400 FWA_HEADER_INVALID: X-Forwarded-* holds no valid path: "https://app.example.com/x?…"',
  ],
  [
    'ada',
    { path: '/a\\b' },
    'decision: 400 FWA_HEADER_INVALID: X-Forwarded-* holds no valid path: "https://app.example.com/a%5Cb"',
  ],
  ['odd', {}, 'decision: 403 FWA_IDENTITY_UNSENDABLE: the header x-team has no known value'],
  [undefined, { method: 'OPTIONS' }, 'decision: 401 FWA_NO_SESSION'],
  [undefined, { as: 'psk:ci' }, 'who: psk:ci', 'decision: 200, passes, with an identity'],
  [
    undefined,
    { as: 'psk:ci', host: 'x.example.com' },
    'decision: 403 FWA_FORBIDDEN, refused by hosts',
  ],
  [
    undefined,
    { as: 'psk:ci', policy: 'write' },
    'decision: 403 AUTH_SCOPE_MISSING, refused by policy write, because this is not true: Scope("write")',
  ],
  [
    undefined,
    { as: 'psk:ci', host: 'x.example.com', path: '/healthz' },
    'decision: 200, passes, without an identity',
  ],
  [
    undefined,
    { as: 'psk:admins', host: 'admin.example.com' },
    'decision: 403 FWA_FORBIDDEN, refused by policy admin, because this is not true: Group("staff")',
  ],
]

async function ask(
  t: Test,
  who: keyof typeof CLAIMS | undefined,
  asked: Partial<ExplainOptions>,
  portal = PORTAL,
) {
  const folder = testFolder(t, {
    'config.yaml': yamlOf(portal),
    'claims.json': JSON.stringify(who && CLAIMS[who]) ?? '',
  })
  const { value } = await loadForwardAuthConfig(`${folder}/config.yaml`, {})
  const person = who && { as: `${folder}/claims.json` }
  const text = await explain(value, { host: 'app.example.com', ...person, ...asked }, NOW)
  return text.split('\n')
}

t.test('which rule, policy and clause decides, and why', async (t) => {
  const table: Row[] = [
    [
      undefined,
      {},
      'rules: none fits',
      'demanded: a session or a program',
      'purpose: signedIn',
      'admitted: people whom the portal allows; programs: ci',
      'who: nobody is signed in',
      'decision: 302, a browser is sent to sign in; a program gets 401 FWA_NO_SESSION',
    ],
    [
      undefined,
      { method: 'POST' },
      'decision: 403, a browser gets a page with a link to sign in; a program gets 401 FWA_NO_SESSION',
    ],
    [
      undefined,
      { path: '/healthz?x=1' },
      'rules[0]: fits: anyone',
      'demanded: nothing',
      'purpose: anyone',
      'admitted: anyone',
      'decision: 200, passes, without an identity',
    ],
    [
      'bob',
      { host: 'admin.example.com', path: '/x' },
      'rules[0]: does not fit (paths)',
      'rules[1]: fits: admin',
      'demanded: a session or a program, admin',
      'who: corp:bob, groups: staff, roles: none',
      'decision: 403 FWA_FORBIDDEN, refused by policy admin, because this is not true: Group("admin")',
    ],
    ['ada', { host: 'admin.example.com' }, 'decision: 200, passes, with an identity'],
    [
      'eve',
      {},
      'decision: 403 FWA_FORBIDDEN, refused by allow, because this is not true: groups: staff (no groups came)',
    ],
    [
      'ada',
      { path: '/vault/x' },
      'rules[3]: fits: strong',
      'decision: 302, a browser is sent to sign in, for strong: acr or maxAge is not met; a program gets 401 FWA_STEP_UP_REQUIRED',
    ],
    [
      'ada',
      { path: '/vault/x', method: 'DELETE' },
      'decision: 403, a browser gets a page with a link to sign in, for strong: acr or maxAge is not met; a program gets 401 FWA_STEP_UP_REQUIRED',
    ],
    [
      'ada',
      { path: '/vault/x', tool: 'read_note' },
      'decision: 401 FWA_STEP_UP_REQUIRED, for strong: acr or maxAge is not met',
    ],
    [
      undefined,
      { path: '/lan/x', from: '10.1.2.3' },
      'rules[2]: fits: anyone',
      'decision: 200, passes, without an identity',
    ],
    [
      undefined,
      { path: '/lan/x' },
      'rules[2]: may fit (from): anyone',
      'purpose: not known, since an earlier rule may fit',
    ],
    [
      undefined,
      { path: '/healthz%2Fx' },
      'path: known up to /healthz, as apps do not agree about the rest',
      'rules[0]: may fit (paths): anyone',
      'rules[3]: does not fit (paths)',
    ],
    [
      undefined,
      { path: '/healthz/../x' },
      'path: known up to /, as apps do not agree about the rest',
      'demanded: a session or a program, strong',
    ],
    [
      undefined,
      { path: '/mcp/x', policy: 'admin' },
      'purpose: admin',
      'admitted: people whom the portal allows; programs: ci, admins; tokens for https://app.example.com/mcp',
    ],
    ['bob', { policy: 'admin' }, 'demanded: a session or a program, admin'],
    [
      undefined,
      { path: '/healthz', policy: 'any' },
      'demanded: nothing',
      'purpose: anyone',
      'admitted: anyone',
      'decision: 200, passes, without an identity',
    ],
    [
      'bob',
      { if: 'Group("ops")' },
      'demanded: a session or a program, ?if=Group("ops")',
      'decision: 403 FWA_FORBIDDEN, refused by policy ?if=, because this is not true: Group("ops")',
    ],
    [
      'bob',
      { host: 'mcp.example.com', path: '/tools', tool: 'read_note' },
      'POST https://mcp.example.com/tools, tools/call read_note, at the portal main',
      'rules[4]: fits: signedIn',
      'decision: 200, passes, with an identity',
    ],
    [
      'bob',
      { host: 'mcp.example.com', path: '/tools', tool: 'delete' },
      'rules[4]: does not fit (tools)',
      'rules[5]: fits: admin',
      'decision: 403 FWA_FORBIDDEN, refused by policy admin, because this is not true: Group("admin")',
    ],
    [
      'ada',
      { host: 'mcp.example.com', path: '/tools', tool: 'write' },
      'rules: none fits',
      'demanded: a rule for this call, since rules name tools here',
      'admitted: nobody',
      'decision: 403 FWA_TOOL_REFUSED, refused by tools',
    ],
    [
      'bob',
      { host: 'mcp.example.com', path: '/tools', tool: 'read_note', method: 'GET' },
      'rules[4]: may fit (tools): signedIn',
      'decision: 403 FWA_TOOL_REFUSED, refused by tools',
    ],
    [
      'ada',
      { host: 'mcp.example.com', path: '/tools' },
      'rules[4]: may fit (tools): signedIn',
      'decision: 403 FWA_TOOL_REFUSED, refused by tools',
    ],
  ]
  for (const [who, asked, ...lines] of [...table, ...REFUSED]) {
    const answer = await ask(t, who, asked)
    for (const line of lines) t.ok(answer.includes(line), `${line}\n${answer.join('\n')}`)
  }
})

const BEHIND = portalOf(
  'main',
  `allow: { groups: [staff] }, policies: { drafts: 'mcp.arguments.folder == "drafts"', admin: 'Group("admin")' },
    rules: [
    { hosts: [app.example.com], paths: [/mcp], tools: ["delete_*"], require: [drafts], approve: { approver: admin }, limit: 60/m },
    { hosts: [app.example.com], paths: [/mcp], tools: ["send_*"], require: signedIn, approve: {} },
    { hosts: [app.example.com], paths: [/mcp], tools: ["*"], require: signedIn }],
    resources: [{ url: "https://app.example.com/mcp", authorizationServers: ["https://id.example.com"],
      upstream: { url: "http://notes.example.com/mcp" } }]`.replace(/\s+/g, ' '),
)

t.test('a call that goes through the MCP proxy', async (t) => {
  const call = { path: '/mcp', tool: 'delete_note' }
  const table: Row[] = [
    [
      'bob',
      { ...call, arguments: '{"folder":"drafts"}' },
      'rules[0]: fits: drafts, approval by admin, at most 60/m',
      'decision: 200, passes, with an identity',
    ],
    [
      'bob',
      { ...call, arguments: '{"folder":"inbox"}' },
      'decision: 403 FWA_FORBIDDEN, refused by policy drafts, because this is not true: mcp.arguments.folder == "drafts"',
    ],
    [
      'bob',
      call,
      'decision: 403 FWA_FORBIDDEN, refused by policy drafts, because this is not true: mcp.arguments.folder == "drafts"',
    ],
    [
      'bob',
      { path: '/mcp', tool: 'send_note' },
      'rules[1]: fits: signedIn, approval by the person',
      'decision: 200, passes, with an identity',
    ],
    ['bob', { path: '/mcp', tool: 'Delete_Note' }, 'rules[2]: fits any tool: signedIn'],
    [
      'bob',
      { ...call, arguments: '{"folder":"drafts","folder":"inbox"}' },
      'decision: 400 FWA_CALL_UNREADABLE: Not a message that all servers read alike: a name for the second time, perhaps in another case at "/params/arguments/folder"',
    ],
    [undefined, { ...call, arguments: '{}' }, 'decision: 401 FWA_NO_SESSION'],
  ]
  for (const [who, asked, ...lines] of table) {
    const answer = await ask(t, who, asked, BEHIND)
    for (const line of lines) t.ok(answer.includes(line), `${line}\n${answer.join('\n')}`)
  }
  const message = /^--arguments needs --tool, and the URL of a resource with an `upstream`$/
  const refused: Partial<ExplainOptions>[] = [
    { path: '/mcp' },
    { ...call, path: '/mcp/x' },
    { ...call, host: 'mcp.example.com' },
  ]
  for (const asked of refused)
    await t.rejects(ask(t, 'bob', { ...asked, arguments: '{}' }, BEHIND), { message })
  await t.rejects(ask(t, 'bob', { ...call, arguments: '{}' }), { message }, 'no upstream')
})

t.test('all tools of an MCP server, with the rules that decide about them', async (t) => {
  const tools = {
    delete_note: 'rules[0]: fits: drafts, approval by admin, at most 60/m',
    read_note: 'rules[2]: fits any tool: signedIn',
    whoami: 'rules[2]: fits any tool: signedIn',
  }
  for (const sdk of [1, 1.12, 2] as const) {
    const { port, ran } = await startToolServer(t, sdk)
    const server = `http://127.0.0.1:${port}/mcp`
    const lines = await ask(t, undefined, { path: '/mcp', server }, BEHIND)
    for (const [tool, rule] of Object.entries(tools))
      t.equal(lines[lines.indexOf(tool) + 1], `  ${rule}`, `${tool} of SDK ${sdk}`)
    t.equal(lines.length, 7)
    t.strictSame(ran, [])
  }

  const { port } = await startToolServer(t, 2)
  const forBob = await ask(
    t,
    'bob',
    { path: '/mcp', server: `http://127.0.0.1:${port}/mcp` },
    BEHIND,
  )
  t.match(forBob[forBob.indexOf('delete_note') + 2], /^ {2}decision: 403 FWA_FORBIDDEN, refused by/)
  t.equal(forBob[forBob.indexOf('read_note') + 2], '  decision: 200, passes, with an identity')

  const elsewhere = await ask(t, undefined, { server: `http://127.0.0.1:${port}/mcp` })
  t.equal(elsewhere[elsewhere.indexOf('whoami') + 1], '  rules: none fits')
})

t.test('an MCP server that lists its tools in pages, with odd names, or not at all', async (t) => {
  const table: [name: string, answer: (cursor: unknown) => object, lines: string[] | RegExp][] = [
    [
      'pages',
      (cursor) => ({
        tools: [{ name: `a${cursor ?? ''}` }],
        ...(cursor ? {} : { nextCursor: 'b' }),
      }),
      ['a', 'ab'],
    ],
    ['pages without end', () => ({ tools: [], nextCursor: 'x' }), []],
    ['a name that a terminal obeys', () => ({ tools: [{ name: '\x1b[2Jx\n' }] }), ['\\u001b[2Jx ']],
    ['no list', () => ({}), /^the MCP server does not list its tools \(200\)$/],
  ]
  for (const [name, result, expected] of table) {
    const server = await startServer(t, ({ params }) => result(params?.cursor))
    const answer = ask(t, undefined, { path: '/mcp', server }, BEHIND)
    if (expected instanceof RegExp) await t.rejects(answer, { message: expected }, name)
    else
      t.strictSame(
        (await answer).filter((line) => line !== '' && !line.startsWith(' ')),
        expected,
        name,
      )
  }
  for (const server of ['notes', 'ftp://notes.example.com/'])
    await t.rejects(ask(t, undefined, { server }), { message: /must be the URL of an MCP/ })
  const closed = { server: 'http://127.0.0.1:1/mcp' }
  await t.rejects(ask(t, undefined, closed), { message: /mcp cannot be asked: connect ECONNREF/ })
  const both = { tool: 'x', server: 'http://127.0.0.1:1/' }
  await t.rejects(ask(t, undefined, both), { message: /takes --tool or --server/ })
})

/** An MCP server that answers each request with this result. Returns its URL. */
async function startServer(
  t: Test,
  resultOf: (message: { readonly params?: { readonly cursor?: unknown } }) => object,
): Promise<string> {
  const server = createServer(async (request, response) => {
    const result = resultOf((await json(request)) as object)
    response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result }))
  }).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
}

t.test('what cannot be asked', async (t) => {
  const table: [asked: Partial<ExplainOptions>, message: RegExp][] = [
    [{ path: 'x' }, /--path must begin with/],
    [{ method: 'FOO BAR' }, /^--method is no method: FOO BAR$/],
    [{ from: '10.0.0.0/8' }, /--from is no IP address/],
    [{ portal: 'nope' }, /--portal must be one of main$/],
    [{ policy: 'a', if: 'true' }, /give --policy or --if/],
    [{ as: 'psk:nope' }, /the portal main has no key nope/],
    [{ as: '/dev/null' }, /holds no JSON object of claims/],
  ]
  for (const [asked, message] of table)
    await t.rejects(ask(t, undefined, asked), { message }, JSON.stringify(asked))
  await t.rejects(ask(t, undefined, { policy: 'nope' }), { code: 'FWA_POLICY_UNKNOWN' })
})

t.test('claims are read as the row of the provider says', async (t) => {
  const row = `{ type: openIDConnect, name: corp, issuerUrl: "http://localhost:1", clientId: a, clientSecret: b,
    groupsClaim: realm.roles, trustEmail: true }`
  const portal = `  - { name: main, allow: { groups: [staff], emailDomains: [example.com] },
    providers: [${row}, ${row.replace('corp', 'second').replace('realm.roles', 'teams')}] }`
  const claims = { sub: 'ada', email: 'ada@example.com', realm: { roles: ['staff'] } }
  const folder = testFolder(t, {
    'config.yaml': yamlOf(portal.replace(/\s+/g, ' ').replace(/^ /, '  ')),
    'claims.json': JSON.stringify(claims),
  })
  const { value } = await loadForwardAuthConfig(`${folder}/config.yaml`, {})
  const asked = { host: 'app.example.com', as: `${folder}/claims.json` }
  const second = await explain(value, { ...asked, as: `second:${asked.as}` }, NOW)
  t.match(second, 'who: second:ada, groups: none')
  const text = await explain(value, asked, NOW)
  t.match(text, 'who: corp:ada, groups: staff')
  t.match(text, 'decision: 200, passes, with an identity')
})

interface Asked {
  readonly scheme: string
  readonly host: string
  readonly segments: readonly string[]
  readonly method: string
  readonly from: string
  readonly who: string | undefined
  readonly policy: string | undefined
  readonly tool: string | undefined
}

t.test('whatever is asked, explain says what the check answers', async (t) => {
  const yaml = yamlOf(PORTAL)
  const test = await startApp(t, yaml, (app) => {
    app.addHook('onResponse', async (request, reply) => {
      code = request.problem?.code ?? ''
      const isDecision = reply.statusCode < 400 || OF_DECISIONS.includes(code)
      outcome = isDecision ? (request.check?.decision.outcome ?? '') : code
    })
  })
  let code = ''
  let outcome = ''
  const folder = testFolder(t, {
    'config.yaml': yaml,
    ...Object.fromEntries(
      Object.entries(CLAIMS).map(([name, claims]) => [name, JSON.stringify(claims)]),
    ),
  })
  const { value } = await loadForwardAuthConfig(`${folder}/config.yaml`, {})
  const segment = fc.constantFrom(
    'healthz',
    'lan',
    'vault',
    'mcp',
    'tools',
    '..',
    'a%2fb',
    'é',
    '',
    'x#',
    'a\\b',
    'y?z',
  )
  const asked: fc.Arbitrary<Asked> = fc.record({
    scheme: fc.constantFrom('', 'http://', 'https://'),
    host: fc
      .constantFrom('app', 'admin', 'mcp', 'auth', 'x', 'bad_')
      .map((name) => `${name}.example.com`),
    segments: fc.oneof(
      fc.array(segment, { maxLength: 3 }),
      fc.constantFrom(['healthz'], ['lan', 'x']),
    ),
    method: fc.constantFrom('GET', 'HEAD', 'POST', 'OPTIONS', 'DELETE'),
    from: fc.constantFrom('10.1.2.3', '192.0.2.1'),
    who: fc.constantFrom(undefined, undefined, 'ada', 'bob', 'odd', 'psk:ci', 'psk:admins'),
    policy: fc.constantFrom(undefined, 'admin', 'any', 'write'),
    tool: fc.constantFrom(undefined, undefined, 'read_note', 'delete', 'write'),
  })
  const page = {
    scheme: '',
    host: 'app.example.com',
    segments: [],
    method: 'GET',
    from: '192.0.2.1',
  } as const
  const nobody = { ...page, who: undefined, policy: undefined, tool: undefined }
  const vault = { ...nobody, segments: ['vault'], who: 'ada' } as const
  const examples = [
    nobody,
    vault,
    { ...vault, scheme: 'http://' },
    { ...vault, scheme: 'http://', tool: 'write' },
    { ...nobody, who: 'ada' },
    { ...nobody, who: 'odd' },
    { ...nobody, who: 'bob', policy: 'admin' },
    { ...nobody, who: 'psk:ci', policy: 'write' },
    { ...nobody, method: 'POST' },
    { ...vault, method: 'POST' },
    { ...vault, method: 'HEAD' },
    { ...nobody, segments: ['healthz'] },
    { ...nobody, segments: ['x#'] },
    { ...nobody, method: 'OPTIONS' },
    { ...nobody, scheme: 'http://' },
    ...['auth.example.com', 'bad_.example.com'].map((host) => ({ ...nobody, host })),
  ].map((one) => [one] as [Asked])
  const seen = new Set<string>()
  await fc.assert(
    fc.asyncProperty(
      asked,
      async ({ scheme, host, segments, method: sent, from, who, policy, tool }) => {
        const path = `/${segments.join('/')}`
        const method = tool === undefined ? sent : 'POST'
        const as = who?.startsWith('psk:') ? who : who && `${folder}/${who}`
        const text = await explain(
          value,
          { host: `${scheme}${host}`, path, method, from, ...{ policy, tool, as } },
          test.clock.now(),
        )
        const authorization = KEYS_OF[who ?? '']
        const site = host.startsWith('bad_') || host.startsWith('auth') ? 'app.example.com' : host
        const isPerson = who !== undefined && !authorization
        const cookie = isPerson
          ? await test.signIn('main', CLAIMS[who as 'ada'], { host: site })
          : undefined
        const ask = async (ofSender: Record<string, string>) => {
          const { statusCode } = await test.app.inject({
            method: 'GET',
            url: `/portals/main${policy ? `?policy=${policy}` : ''}`,
            headers: {
              'x-forwarded-method': method,
              'x-forwarded-proto': scheme.split(':')[0] || 'https',
              'x-forwarded-host': host,
              'x-forwarded-uri': path.replaceAll('é', '%C3%A9'),
              'x-forwarded-for': from,
              ...(authorization && { authorization }),
              ...(cookie && { cookie }),
              ...(tool && {
                'mcp-protocol-version': '2026-07-28',
                'mcp-method': 'tools/call',
                'mcp-name': tool,
              }),
              ...(method === 'OPTIONS' && {
                origin: 'https://x.example.com',
                'access-control-request-method': 'GET',
              }),
              ...ofSender,
            },
          })
          return { status: String(statusCode), code, outcome }
        }
        const program = await ask({})
        const browser = tool ? program : await ask({ 'sec-fetch-mode': 'navigate' })
        seen.add(browser.outcome)

        const [, said = '', status, named = '', ofProgram = `${status} ${named}`] =
          DECISION.exec(text) ?? []
        const what = JSON.stringify([scheme, host, path, method, who, policy, tool, said])
        t.match(said, SAID[browser.outcome] ?? `${browser.code}: `, what)
        t.equal(status, browser.status, what)
        t.equal(ofProgram.trim(), `${program.status} ${program.code}`.trim(), what)
        // Pages and redirects have none.
        if (browser.code !== '') t.equal(named, browser.code, what)
      },
    ),
    { numRuns: 150, examples },
  )
  const kinds = [
    ...['allow', 'anonymous', 'sign-in', 'no-session', 'forbidden', 'step-up', 'FWA_HOST_RESERVED'],
    ...['FWA_HOST_UNKNOWN', 'FWA_APP_INSECURE', 'FWA_HEADER_INVALID', 'FWA_IDENTITY_UNSENDABLE'],
  ]
  t.strictSame(
    kinds.filter((kind) => !seen.has(kind)),
    [],
  )
})

/** What programs are answered for a decision. */
const OF_DECISIONS = [
  '',
  'FWA_NO_SESSION',
  'FWA_FORBIDDEN',
  'FWA_TOOL_REFUSED',
  'FWA_STEP_UP_REQUIRED',
  'AUTH_SCOPE_MISSING',
]

/** What is said: status and code, and those of a program if they differ. */
const DECISION = /^decision: ((\d{3})(?: ([A-Z_]+))?.*?(?:; a program gets (.*))?)$/m

const KEYS_OF: Readonly<Record<string, string>> = {
  'psk:ci': 'APIKey correct-horse-battery-staple',
  'psk:admins': 'APIKey correct-horse-battery-stapler',
}

/** What explain says of a decision beside status and code; of an error, it says the message. */
const SAID: Readonly<Record<string, RegExp>> = {
  allow: /, passes, with an identity$/,
  anonymous: /, passes, without an identity$/,
  'sign-in': /, a browser .* sign in; a program gets/,
  'no-session': /^401 FWA_NO_SESSION$/,
  forbidden: /, refused by /,
  'step-up': /, for strong: acr or maxAge is not met/,
}

import { mkdtempSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import t from 'tap'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { CORP, portalOf, yamlOf } from '../app.ts'

const FOLDER = mkdtempSync(join(tmpdir(), 'forward-auth-'))
const FILE = join(FOLDER, 'config.yaml')
t.teardown(() => rmSync(FOLDER, { recursive: true }))

async function load(options: string, more = '') {
  await writeFile(FILE, yamlOf(portalOf('main', options) + more))
  return loadForwardAuthConfig(FILE, {})
}

async function faultsOf(options: string, more?: string): Promise<string[]> {
  try {
    await load(options, more)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(({ path, message }) => `${path.replace('/portals/0', '')} ${message}`)
  }
}

const KEY = 'key: correct-horse-battery-staple'
const OTHER = 'key: another-horse-battery-staple'
const keys = (...rows: string[]) => `callers: { keys: [${rows.join(', ')}] }`
const issuer = (rest: string, url = 'https://ci.example.com') =>
  `callers: { issuers: [{ name: ci, issuerUrl: "${url}", audience: api${rest && `, ${rest}`} }] }`
const resource = (url: string, rest = 'authorizationServers: ["https://id.example.com"]') =>
  `resources: [{ url: "${url}", ${rest} }]`
const rule = (rest: string) => `rules: [{ ${rest} }]`
const COMMON = 'https://login.microsoftonline.com/common'
const REACH = 'hosts: [app.example.com]'
const ADMIN = `policies: { admin: 'Group("admin")' }`

t.test('faults of rules, programs and resources', async (t) => {
  const table: [why: string, options: string, ...faults: string[]][] = [
    ['a rule', rule('paths: [/healthz, "/a/*", "/a/*/b"], methods: [GET], require: anyone')],
    [
      'all members',
      `${ADMIN}, ${rule('hosts: ["*.example.com"], from: [10.0.0.0/8], require: [admin]')}`,
    ],
    ['no requirement', rule('paths: [/]'), '/rules/0/require is missing'],
    [
      'unknown member',
      rule('path: [/x], require: anyone'),
      '/rules/0/path is not a known key, did you mean paths?',
    ],
    [
      'unknown policy',
      rule('require: staff'),
      '/rules/0/require is neither `anyone`, `signedIn` nor a policy: staff',
    ],
    [
      'policies that are none',
      `${ADMIN}, ${rule('require: [admin, anyone]')}`,
      '/rules/0/require/1 is no policy: anyone',
    ],
    ['built-in name', `policies: { anyone: 'true' }`, '/policies/anyone is built in'],
    ['relative path', rule('paths: [x], require: anyone'), '/rules/0/paths/0 must begin with `/`'],
    [
      'encoded path',
      rule('paths: ["/a%20b"], require: anyone'),
      '/rules/0/paths/0 must be written decoded',
    ],
    ['decoded path', rule('paths: ["/a b/ä"], require: anyone')],
    [
      'half a wildcard',
      rule('paths: ["/a*"], require: anyone'),
      '/rules/0/paths/0 has a `*` that is not a whole segment',
    ],
    ...['/a//b', '/../a', '/a;b', '/a?b', '/a#b'].map((path): [string, string, string] => [
      `not normal: ${path}`,
      rule(`paths: ["${path}"], require: anyone`),
      '/rules/0/paths/0 is not a normal path',
    ]),
    [
      'method in lower case',
      rule('methods: [get], require: anyone'),
      '/rules/0/methods/0 must match',
    ],
    [
      'no network',
      rule('from: [10.0.0], require: anyone'),
      '/rules/0/from/0 is not an IP address or network',
    ],
    [
      'bits behind the prefix',
      rule('from: [10.0.0.1/8], require: anyone'),
      '/rules/0/from/0 is not a network: the bits behind the prefix must be zero',
    ],
    [
      'a prefix that is too long',
      rule('from: [10.0.0.0/33], require: anyone'),
      '/rules/0/from/0 is not a network: the prefix is from 0 to 32',
    ],
    [
      'host elsewhere',
      rule('hosts: [app.example.org], require: anyone'),
      '/rules/0/hosts/0 is on none of the domains: example.com',
    ],
    [
      'host with a port',
      rule('hosts: ["app.example.com:443"], require: anyone'),
      '/rules/0/hosts/0 is not a host',
    ],
    [
      'host in capitals',
      rule('hosts: [App.example.com], require: anyone'),
      '/rules/0/hosts/0 is not a host',
    ],

    ['a key', keys(`{ name: ci, ${KEY}, ${REACH} }`)],
    ['a key without reach', keys(`{ name: ci, ${KEY} }`), '/callers/keys/0 may reach nothing'],
    [
      'two of one name',
      keys(`{ name: ci, ${KEY}, ${REACH} }`, `{ name: ci, ${OTHER}, ${REACH} }`),
      '/callers/keys/1/name is taken',
    ],
    [
      'one key twice',
      keys(`{ name: a, ${KEY}, ${REACH} }`, `{ name: b, ${KEY}, ${REACH} }`),
      '/callers/keys/1 repeats a key',
    ],
    [
      'no key',
      keys(`{ name: ci, ${REACH} }`),
      '/callers/keys/0 needs key or keyFile or keyFiles or keySha256',
    ],
    ['a short key', keys(`{ name: ci, key: short, ${REACH} }`), '/callers/keys/0/key '],
    [
      'an unknown policy',
      keys(`{ name: ci, ${KEY}, policies: [nope] }`),
      '/callers/keys/0/policies/0 is no policy: nope',
    ],
    [
      'a host elsewhere',
      keys(`{ name: ci, ${KEY}, hosts: ["*.example.org"] }`),
      '/callers/keys/0/hosts/0 is on none of the domains',
    ],
    ['nobody', 'callers: {}', '/callers names no program'],
    ['an issuer', issuer(REACH)],
    ['an issuer without reach', issuer(''), '/callers/issuers/0 may reach nothing'],
    [
      'named as a provider',
      issuer(REACH).replace('name: ci', 'name: corp'),
      '/callers/issuers/0/name is also a provider: corp',
    ],
    [
      'plain http',
      issuer(REACH, 'http://ci.example.com'),
      '/callers/issuers/0/issuerUrl is no usable URL',
    ],
    [
      'the URL of a document',
      issuer(REACH, 'https://id.example.com/.well-known/openid-configuration'),
      '/callers/issuers/0/issuerUrl must end before /.well-known',
    ],
    [
      'the folder of a document',
      issuer(REACH, 'https://id.example.com/.well-known'),
      '/callers/issuers/0/issuerUrl must end before /.well-known',
    ],
    ['a folder with a longer name', issuer(REACH, 'https://id.example.com/.well-known-issuer')],
    [
      'a broken condition',
      issuer(`${REACH}, allow: 'Grup("x")'`),
      '/callers/issuers/0/allow the function Grup is not offered',
    ],
    [
      'a public issuer',
      issuer(REACH, 'https://token.actions.githubusercontent.com'),
      '/callers/issuers/0/issuerUrl gives anyone a token',
    ],
    [
      'a public issuer with a condition',
      issuer(
        `${REACH}, allow: 'caller.claims.owner == "acme"'`,
        'https://token.actions.githubusercontent.com',
      ),
    ],
    [
      'a lifetime',
      issuer(`${REACH}, maxTokenLifetime: 1s`),
      '/callers/issuers/0/maxTokenLifetime must be at least 1m',
    ],

    [
      'an issuer with the name of keys',
      `callers: { issuers: [{ name: psk, issuerUrl: "https://id.example.com", audience: x, ${REACH} }] }`,
      '/callers/issuers/0/name is what the names of API keys begin with: psk',
    ],

    ['a resource', resource('https://mcp.example.com/mcp')],
    ['a resource that is a host', resource('https://mcp.example.com')],
    ['no https', resource('http://mcp.example.com/mcp'), '/resources/0/url is no usable URL'],
    ['no URL', resource('mcp.example.com/mcp'), '/resources/0/url is no usable URL'],
    [
      'a query',
      resource('https://mcp.example.com/mcp?x=1'),
      '/resources/0/url must not hold a query',
    ],
    ['a fragment', resource('https://mcp.example.com/mcp#x'), '/resources/0/url is no usable URL'],
    [
      'another domain',
      resource('https://mcp.example.org/mcp'),
      '/resources/0/url is on none of the domains: example.com',
    ],
    [
      'not normal',
      resource('https://mcp.example.com/a//b'),
      '/resources/0/url has a path that is not normal',
    ],
    [
      'dot segments',
      resource('https://mcp.example.com/a/../b'),
      '/resources/0/url has a path that is not normal',
    ],
    [
      'no issuer',
      resource('https://mcp.example.com/mcp', 'authorizationServers: []'),
      '/resources/0/authorizationServers ',
    ],
    [
      'an issuer over http',
      resource('https://mcp.example.com/mcp', 'authorizationServers: ["http://id.example.com"]'),
      '/resources/0/authorizationServers/0 is no usable URL',
    ],
    [
      'a public issuer',
      resource('https://mcp.example.com/mcp', 'authorizationServers: ["https://gitlab.com"]'),
      '/resources/0/authorizationServers/0 gives anyone a token: set `allow`',
    ],
    [
      'a public issuer without a condition',
      `${resource('https://mcp.example.com/mcp', `authorizationServers: ["${COMMON}"]`)}, ${issuer(REACH, COMMON)}`,
      '/resources/0/authorizationServers/0 gives anyone a token',
      '/callers/issuers/0/issuerUrl gives anyone a token',
    ],
    [
      'a public issuer with a condition',
      `${resource('https://mcp.example.com/mcp', `authorizationServers: ["${COMMON}"]`)}, ${issuer(`${REACH}, allow: 'caller.claims.tid == "x"'`, COMMON)}`,
    ],
    [
      'two for one URL',
      'resources: [{ url: "https://mcp.example.com/mcp", authorizationServers: ["https://id.example.com"] }, { url: "https://MCP.example.com/mcp", authorizationServers: ["https://id.example.com"] }]',
      '/resources/1/url is already a resource',
    ],
    [
      'tokens of its own',
      resource(
        'https://mcp.example.com/mcp',
        `scopes: [{ name: "a:read", text: Read }, { name: "a:write", text: { en: Write, de: Schreiben }, onDemand: true }]`,
      ),
    ],
    ['tokens of its own without scopes', resource('https://mcp.example.com/mcp', 'scopes: []')],
    [
      'a scope without words',
      resource('https://mcp.example.com/mcp', 'scopes: ["a:read"]'),
      '/resources/0/scopes/0 has no words for the person who is asked for it',
    ],
    [
      'a scope with no words',
      resource('https://mcp.example.com/mcp', 'scopes: [{ name: "a:read", text: "" }]'),
      '/resources/0/scopes/0',
    ],
    [
      'a scope twice',
      resource(
        'https://mcp.example.com/mcp',
        'scopes: [{ name: a, text: A }, { name: a, text: B }]',
      ),
      '/resources/0/scopes/1 is listed twice',
    ],
    [
      'a network that is none',
      'authorizationServer: { privateNetworks: [10.0.0.0/8, home] }',
      '/authorizationServer/privateNetworks/1 is not a network',
    ],
    [
      'tools',
      rule('hosts: [mcp.example.com], tools: ["read_*", "notes/*", delete.all], require: signedIn'),
    ],
    [
      'a tool that is none',
      rule('tools: ["read note", "a,b", "ä"], require: signedIn'),
      '/rules/0/tools/0 ',
      '/rules/0/tools/1 ',
      '/rules/0/tools/2 ',
    ],
    ['no tool', rule('tools: [], require: signedIn'), '/rules/0/tools '],
    [
      'tools and methods',
      rule('tools: [a], mcpMethods: [prompts/get], require: signedIn'),
      '/rules/0 names `tools` and `mcpMethods`: make two rules',
    ],
    ['a method of HTTP', rule('mcpMethods: [GET], require: signedIn'), '/rules/0/mcpMethods/0 '],
    ['a condition of a call', `policies: { small: 'mcp.tool == "a"' }`],
    [
      'a condition of a call about a person',
      `allow: 'mcp.tool == "a"'`,
      '/allow mcp is known in policies and conditions of a route only',
    ],

    ['step-up', 'policies: { strong: { acr: [mfa], maxAge: 15m } }'],
    ['a policy that demands nothing', 'policies: { strong: {} }', '/policies/strong '],
    [
      'a condition in a policy',
      `policies: { strong: { condition: 'Grup("x")', acr: [mfa] } }`,
      '/policies/strong/condition the function Grup',
    ],
    [
      'claims of it',
      'assertion: { hosts: [app.example.com], claims: [sub, department] }',
      '/assertion/claims/0 is part of it: sub',
    ],
    [
      'an assertion for nobody',
      'assertion: { claims: [department] }',
      '/assertion/hosts is missing: write `assertion: { hosts: [app.example.com] }`',
    ],
    [
      'an assertion for every app or none, as before',
      'assertion: off',
      '/assertion must be a mapping of keys to values: write `assertion: { hosts: [app.example.com] }`',
    ],
    [
      'an assertion elsewhere',
      'assertion: { hosts: ["*.example.com", app.elsewhere.com, "a.*.example.com"] }',
      '/assertion/hosts/1 is on none of the domains',
      '/assertion/hosts/2 is not a host',
    ],
  ]
  for (const [why, options, ...expected] of table) {
    const faults = await faultsOf(options)
    t.equal(faults.length, expected.length, `${why}: ${faults.join('; ')}`)
    for (const [i, fault] of expected.entries())
      t.ok(faults[i]?.startsWith(fault), `${why}: ${faults[i]}`)
  }
})

t.test('conditions read arguments where a resource has an upstream', async (t) => {
  const reading = `policies: { few: 'mcp.arguments.count <= 10', staff: 'Group("staff")', small: { condition: 'mcp.arguments.size == 1', acr: [mfa] } }`
  const at = (url: string, upstream = 'upstream: { url: "http://notes:8000/mcp" }') =>
    `{ url: "${url}", ${upstream} }`
  const header = at('https://a.example.com/mcp', 'scopes: []')
  const body = at('https://mcp.example.com/mcp')
  const other = at('https://b.example.com/')
  const fault = 'requires few, which reads arguments of tools: name only hosts and paths of'
  const url = 'https://mcp.example.com/mcp'
  type Row = [resources: string[], rules: string[], ...faults: string[]]
  const table: Row[] = [
    [
      [],
      [],
      '/policies/few reads arguments of tools: give the resource of these tools an `upstream`',
      '/policies/small reads arguments of tools: give the resource',
    ],
    [
      [header],
      ['hosts: [a.example.com], require: few'],
      '/policies/few reads',
      '/policies/small reads',
    ],
    [[body], []],
    [[body], ['require: signedIn', 'hosts: [a.example.com], require: [staff]']],
    [[body], ['hosts: [mcp.example.com], paths: [/mcp, "/mcp/x/*"], require: [staff, few]']],
    [[body], ['hosts: [mcp.example.com], tools: [a], require: few']],
    [[body, other], ['hosts: [mcp.example.com, b.example.com], tools: [a], require: few']],
    [[body, other], ['hosts: [b.example.com], require: few']],
    [[header, body], ['hosts: [mcp.example.com], paths: [/mcp], tools: [a], require: few']],
    [
      [body],
      ['hosts: [mcp.example.com], require: signedIn', 'hosts: [mcp.example.com], require: small'],
      `/rules/1 ${fault.replace('few', 'small')} ${url}`,
    ],
    [
      [body],
      ['hosts: [mcp.example.com], paths: [/mcp, /sse], tools: [a], require: [staff, few]'],
      `/rules/0 ${fault} ${url}`,
    ],
    [
      [body],
      ['hosts: [mcp.example.com], paths: ["/*"], tools: [a], require: few'],
      `/rules/0 ${fault} ${url}`,
    ],
    [[body], ['paths: [/mcp], tools: [a], require: few'], `/rules/0 ${fault} ${url}`],
    [[body], ['hosts: ["*.example.com"], paths: [/mcp], require: few'], `/rules/0 ${fault} ${url}`],
    [
      [header, body],
      ['hosts: [mcp.example.com, a.example.com], paths: [/mcp], require: few'],
      `/rules/0 ${fault} ${url}`,
    ],
    [
      [header, body, other],
      ['hosts: [a.example.com], tools: [a], require: few'],
      `/rules/0 ${fault} ${url}, https://b.example.com/`,
    ],
    [
      [at('https://mcp.example.com/a%ff')],
      ['hosts: [mcp.example.com], require: few'],
      '/resources/0/url has a path that is not normal',
    ],
  ]
  for (const [resources, rules, ...expected] of table) {
    const rows = rules.map((text) => `{ ${text} }`).join(', ')
    const faults = await faultsOf(
      `${reading}, resources: [${resources.join(', ')}], rules: [${rows}]`,
    )
    const why = `${resources} ${rows}: ${faults.join('; ')}`
    t.equal(faults.length, expected.length, why)
    for (const [i, message] of expected.entries()) t.ok(faults[i]?.startsWith(message), why)
  }
})

t.test('a resource belongs to one portal', async (t) => {
  const other = portalOf('other', resource('https://mcp.example.com/mcp/'))
  t.strictSame(await faultsOf(resource('https://mcp.example.com/mcp'), other), [
    '/portals/1/resources/0/url is already a resource',
  ])
  t.strictSame(await faultsOf(resource('https://mcp.example.com/other'), other), [])
})

t.test('a rule that is never reached is a warning with both lines', async (t) => {
  const rows =
    '[\n    { paths: [/a/*], require: anyone },\n    { paths: [/a/b], require: signedIn } ]'
  const { warnings } = await load(`rules: ${rows}`)
  const [warning = '', ...others] = warnings
  t.strictSame(others, [])
  t.match(
    warning,
    /config\.yaml:7:\d+ \/portals\/0\/rules\/1 never decides: .* \(line 6, column \d+\)$/,
  )
})

t.test('paths of older servers that rules for tools leave open are a warning', async (t) => {
  const calls = (place: string, tool = 'a') => `{ ${place}, tools: [${tool}], require: signedIn }`
  const plain = (place: string) => `{ ${place}require: signedIn }`
  const host = 'hosts: [mcp.example.com]'
  const open = /rules\/0\/paths leave `\/sse` and `\/messages` of mcp\.example\.com to other rules/
  const older = `${host}, paths: [/sse, "/messages/*"]`
  const table: [rows: string[], ...warnings: RegExp[]][] = [
    [[calls(`${host}, paths: [/mcp]`)], open],
    [[calls(`${host}, paths: ["/mcp/*"]`)], open],
    [[`{ ${host}, paths: [/mcp], mcpMethods: [prompts/*], require: signedIn }`], open],
    [[calls(`${host}, paths: [/mcp]`), calls(`${host}, paths: [/mcp]`, 'b')], open],
    [[calls(`${host}, paths: [/mcp]`), plain('')], open],
    [[calls(`${host}, paths: [/mcp]`), plain(`${host}, paths: ["/*"], `)], open],
    [[calls(`${host}, paths: [/mcp]`), plain(`${host}, paths: [/sse], `)], open],
    [[calls(`${host}, paths: [/mcp, /sse]`)], open],
    [[calls(`${host}, paths: [/mcp]`), calls(`hosts: [b.example.com]`)], open],
    [
      [
        calls(`${host}, paths: [/mcp]`),
        plain(`hosts: [b.example.com], paths: [/sse, /messages], `),
      ],
      open,
    ],
    [
      [
        calls('hosts: [mcp.example.com, "*.b.example.com"], paths: [/mcp]'),
        calls('hosts: ["*.b.example.com"], paths: [/mcp]', 'b'),
        calls('hosts: [c.example.com, d.example.com], paths: [/x]'),
        calls('hosts: [c.example.com]', 'b'),
      ],
      open,
      /rules\/2\/paths leave .* of d\.example\.com/,
    ],
    [[calls(host)]],
    [[calls(`${host}, paths: ["/*"]`)]],
    [[calls(`${host}, paths: [/mcp, /sse, /messages]`)]],
    [[calls(`${host}, paths: [/mcp]`), calls(host, 'b')]],
    [[calls(`${host}, paths: [/mcp]`), calls('hosts: ["*.example.com"]', 'b')]],
    [[calls(`${host}, paths: [/mcp]`), calls(older, '"*"')]],
    [[calls(`${host}, paths: [/mcp]`), plain(`${older}, `)]],
    [[calls(`${host}, paths: [/mcp]`), plain('paths: [/sse], '), calls('paths: [/messages]')]],
    [[calls('paths: [/mcp]')]],
    [[plain(`${host}, paths: [/mcp], `)]],
  ]
  for (const [rows, ...expected] of table) {
    const { warnings } = await load(`rules: [\n    ${rows.join(',\n    ')} ]`)
    t.equal(warnings.length, expected.length, `${rows}: ${warnings.join('; ')}`)
    for (const [i, warning] of expected.entries()) t.match(warnings[i], warning, `${rows}`)
  }
})

t.test('tools that never decide are a warning with both lines', async (t) => {
  const at = 'hosts: [mcp.example.com]'
  const table: [why: string, rows: string[], ...warnings: RegExp[]][] = [
    [
      'others',
      [`{ ${at}, tools: [a], require: signedIn }`, `{ ${at}, tools: [b], require: signedIn }`],
    ],
    [
      'a tool behind a pattern',
      [
        `{ ${at}, tools: ["a*"], require: signedIn }`,
        `{ ${at}, tools: [b, ab], require: signedIn }`,
      ],
      /rules\/1\/tools\/1 never decides: whatever it fits, another pattern fits first \(line 6, /,
    ],
    [
      'a rule in a place that is closed',
      [`{ ${at}, tools: [a], require: signedIn }`, `{ ${at}, require: anyone }`],
      /rules\/1 never decides: .* closes to what its tools do not name \(line 6, /,
    ],
    [
      'more than a server is told of',
      [
        `{ ${at}, tools: [${Array.from({ length: 150 }, (_, i) => `tool_${i}`)}], require: signedIn }`,
        `{ ${at}, tools: [${Array.from({ length: 150 }, (_, i) => `other_${i}`)}], require: signedIn }`,
        `{ hosts: [b.example.com], tools: [c], require: signedIn }`,
      ],
      /rules\/1\/tools have more than 2048 characters with those before, so that the server is told of no tools: use patterns/,
    ],
    [
      'a tool by GET',
      [`{ ${at}, tools: [a], methods: [GET], require: signedIn }`],
      /rules\/0\/tools can never fit: MCP calls by POST, which `methods` leaves out \(line 6, /,
    ],
  ]
  for (const [why, rows, ...expected] of table) {
    const { warnings } = await load(`rules: [\n    ${rows.join(',\n    ')} ]`)
    t.equal(warnings.length, expected.length, `${why}: ${warnings.join('; ')}`)
    for (const [i, warning] of expected.entries()) t.match(warnings[i], warning, why)
  }
})

t.test(
  'nobody could let a program act for people whose sessions are good at one address',
  async (t) => {
    const yaml = `server: { trustedProxies: [10.0.0.1] }\ndomains: [{ domain: example.com }]\nportals: [{ name: main, providers: [{ type: tailscaleWhois, name: tailnet }], resources: [{ url: "https://example.com/mcp" }] }]`
    await writeFile(FILE, yaml)
    const { faults } = await loadForwardAuthConfig(FILE, {}).catch((error) => error)
    t.match(faults, [
      {
        path: '/portals/0/resources/0',
        message: /sessions of `tailscaleWhois` are good at one address/,
      },
    ])
  },
)

t.test(
  'a session of more than a day is a warning where the provider is not asked again',
  async (t) => {
    const rows: [options: string, rest: string, isWarned: boolean][] = [
      ['session: { lifetime: 24h, refresh: off }', '', false],
      ['session: { lifetime: 25h, refresh: off }', '', true],
      ['session: { lifetime: 25h }', '', false],
      ['session: { refresh: off }', 'session: { lifetime: 30d }', true],
      ['session: { lifetime: 8h, refresh: off }', 'session: { lifetime: 30d }', false],
    ]
    for (const [options, rest, isWarned] of rows) {
      const common = yamlOf(portalOf('main', options))
      await writeFile(FILE, rest ? common.replace(/^session: .*$/m, rest) : common)
      const { warnings } = await loadForwardAuthConfig(FILE, {})
      const expected = /config\.yaml:\d+:\d+ \/portals\/0\/session\S* is more than a day/
      t.match(warnings, isWarned ? [expected] : { length: 0 }, options)
      t.equal(warnings.length, isWarned ? 1 : 0)
    }
  },
)

t.test('scopes without offline_access are a warning where only that brings a token', async (t) => {
  const entra = 'type: microsoftEntraID, tenantId: 11111111-2222-3333-4444-555555555555'
  const oidc = 'type: openIDConnect, issuerUrl: https://idp.example.com'
  const rows: [provider: string, options: string, isWarned: boolean][] = [
    [entra, '', false],
    [`${entra}, scopes: [openid, email]`, '', true],
    [`${entra}, scopes: [openid, email]`, 'session: { refresh: off }', false],
    [`${entra}, scopes: [openid, email, offline_access]`, '', false],
    [`${oidc}, scopes: [openid, email]`, '', false],
    ['type: google, scopes: [openid, email]', '', false],
    ['type: gitlab, scopes: [openid, email]', '', false],
  ]
  for (const [provider, options, isWarned] of rows) {
    const row = `{ name: p, clientId: a, clientSecret: b, allow: anyone, ${provider} }`
    await writeFile(FILE, yamlOf(portalOf('main', options).replace(CORP, row)))
    const { warnings } = await loadForwardAuthConfig(FILE, {})
    const found = warnings.filter((each) => each.includes('offline_access'))
    t.match(
      found,
      isWarned ? [/\/providers\/0\/scopes lacks/] : { length: 0 },
      `${provider} ${options}`,
    )
    t.equal(found.length, isWarned ? 1 : 0, `${provider} ${options}`)
  }
})

t.test('a policy that nobody can meet is a fault', async (t) => {
  await writeFile(
    FILE,
    `domains: [{ domain: example.com }]
portals:
  - name: main
    providers: [{ type: github, name: gh, clientId: a, clientSecret: b, allow: anyone }]
    policies: { strong: { acr: [mfa] }, staff: 'Group("staff")' }
`,
  )
  await t.rejects(loadForwardAuthConfig(FILE, {}), {
    message: /\/portals\/0\/policies\/strong\/acr can be met by nobody/,
  })
})

t.test('who approves calls, and where calls are limited', async (t) => {
  const upstream = 'upstream: { url: "http://notes:8000/mcp" }'
  const resource = (more = upstream) => `{ url: "https://mcp.example.com/mcp", ${more} }`
  const rule = (more: string, hosts = 'mcp.example.com') =>
    `{ hosts: [${hosts}], tools: [a], require: signedIn, ${more} }`
  const policies = `policies: { staff: 'Group("staff")', lately: { maxAge: 5m } }`
  type Row = [resource: string, rule: string, ...faults: string[]]
  const table: Row[] = [
    [resource(), rule('approve: {}')],
    [resource(), rule('limit: 60/m')],
    [resource(), rule('approve: { approver: staff, stepUp: lately, remember: 15m, wait: 0s }')],
    [
      resource(),
      rule('approve: {}', 'a.example.com'),
      '/rules/0 has a person approve calls: name only',
    ],
    [
      resource(),
      rule('limit: 9/s', 'a.example.com'),
      '/rules/0 limits calls: name only hosts and paths of',
    ],
    [
      resource('scopes: []'),
      rule('approve: {}'),
      '/rules/0 has a person approve calls: give the resource',
    ],
    [
      resource(),
      rule('approve: { approver: nobody }'),
      '/rules/0/approve/approver is no policy: nobody',
    ],
    [
      resource(),
      rule('approve: { stepUp: nobody }'),
      '/rules/0/approve/stepUp is no policy: nobody',
    ],
    [
      resource(),
      rule('approve: { stepUp: staff }'),
      '/rules/0/approve/stepUp demands no new sign-in',
    ],
    [resource(), rule('limit: 0/m'), '/rules/0/limit must'],
    [resource(), rule('approve: { wait: 6m }'), '/rules/0/approve/wait must'],
    [
      resource('upstream: { url: "ftp://notes/mcp" }'),
      rule('limit: 9/s'),
      '/resources/0/upstream/url the URL must',
    ],
    [
      resource('upstream: { url: "http://a:b@notes/mcp" }'),
      rule('limit: 9/s'),
      '/resources/0/upstream/url the URL must not',
    ],
    [
      resource('upstream: { url: "http://notes/mcp?a=b" }'),
      rule('limit: 9/s'),
      '/resources/0/upstream/url must not hold a query',
    ],
    [
      resource('upstream: { url: "http://notes/mcp", caFile: /ca.pem }'),
      rule('limit: 9/s'),
      '/resources/0/upstream/caFile is for an https URL',
    ],
  ]
  for (const [row, ruleRow, ...expected] of table) {
    const faults = await faultsOf(`${policies}, resources: [${row}], rules: [${ruleRow}]`)
    const why = `${row} ${ruleRow}: ${faults.join('; ')}`
    t.equal(faults.length, expected.length, why)
    for (const [i, message] of expected.entries()) t.ok(faults[i]?.startsWith(message), why)
  }
})

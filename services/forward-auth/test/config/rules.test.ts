import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { loadForwardAuthConfig } from '../../src/config/load.ts'

const LEAST = `
domains:
  - domain: example.com
    authHost: auth.example.com
portals:
  - name: main
    providers:
      - type: openIDConnect
        name: corp
        issuerUrl: https://idp.example.com
        clientId: gatehouse
        clientSecret: not-so-secret
`
const FOLDER = testFolder(t)

async function load(yaml: string, env: Record<string, string> = {}) {
  const file = join(FOLDER, 'config.yaml')
  await writeFile(file, yaml)
  return (await loadForwardAuthConfig(file, env)).value
}

/** The faults as `line:column path message`. */
async function faultsOf(yaml: string): Promise<string[]> {
  try {
    await load(yaml)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.faults.map(
      ({ line, column, path, message }) => `${line}:${column} ${path} ${message}`,
    )
  }
}

t.test('a minimal configuration and its defaults', async (t) => {
  const config = await load(LEAST)
  t.match(config, {
    server: { host: '127.0.0.1', port: 4181, basePath: '' },
    metrics: { enabled: true, host: '127.0.0.1', port: 9465 },
    session: { lifetime: 8 * 3_600_000 },
    storage: { path: join(FOLDER, 'data') },
    portals: [{ headers: 'default', preflight: false, policies: {} }],
  })
  t.equal(config.server.trustedProxies, undefined, 'loopback only')
})

t.test('reads a secret from a file and drops the final newline', async (t) => {
  const secret = 'a'.repeat(40)
  await writeFile(join(FOLDER, 'key'), `${secret}\n`)
  const { session } = await load(`${LEAST}session: { keys: [{ secretFile: key }] }\n`)
  t.same(session.keys, [{ secret }])
})

t.test('reports faults of every section', async (t) => {
  const table: [why: string, yaml: string, fault: string][] = [
    ['unknown key', 'sesion: {}', '/sesion is not a known key, did you mean session?'],
    [
      'client certificates without a server certificate',
      'server: { tls: { clientCaFile: ca.pem } }',
      '/server/tls/certFile is missing',
    ],
    [
      'a socket as host',
      'server: { host: /run/x.sock }',
      '/server/host is not an IP address or host name to listen on',
    ],
    ['a URL as host', 'metrics: { host: "http://x" }', '/metrics/host is not an IP address'],
    [
      'one port twice',
      'metrics: { port: 4181 }',
      '/metrics/port is taken by server, which has port 4181 too',
    ],
    ['base path', 'server: { basePath: gate/ }', '/server/basePath must match'],
    [
      'no network',
      'server: { trustedProxies: [traefik, traefik:8080] }',
      '/server/trustedProxies/1 is not an IP address, a network',
    ],
    [
      'host bits',
      'server: { trustedProxies: [10.1.2.3/8] }',
      '/server/trustedProxies/0 is not a network: the bits behind the prefix must be zero',
    ],
    [
      'a network of everybody',
      'server: { trustedProxies: [10.0.0.0/8, 0.0.0.0/0] }',
      '/server/trustedProxies/1 trusts far more than proxies',
    ],
    [
      'names of other programs',
      'cookieDomain: example.org',
      '/cookieDomain is not a known key, did you mean domains?',
    ],
    ['short key', 'session: { keys: [{ secret: short }] }', '/session/keys/0/secret'],
    ['no key', 'session: { keys: [] }', '/session/keys'],
    [
      'a prefix that is too long',
      'server: { trustedProxies: [10.1.2.0/33] }',
      '/server/trustedProxies/0 is not a network: the prefix is from 0 to 32',
    ],
    [
      'a prefix that is no number',
      'server: { trustedProxies: ["fd00::/x"] }',
      '/server/trustedProxies/0 is not a network: the prefix is from 0 to 128',
    ],
    ['too short', 'session: { lifetime: 10s }', '/session/lifetime must be from 1m to 90d'],
    ['too long', 'session: { lifetime: 91d }', '/session/lifetime must be from 1m to 90d'],
  ]
  for (const [why, yaml, fault] of table) {
    const [first = '', ...others] = await faultsOf(`${yaml}\n${LEAST}`)
    t.match(first, fault, why)
    t.match(first, /^1:\d+ /, `${why}: located`)
    t.same(
      others.filter((other) => !other.includes('/server/tls')),
      [],
      `${why}: alone`,
    )
  }
})

t.test('suggests log.checks for the key that it replaces', async (t) => {
  const faults = await faultsOf(`log: { allowedChecks: true }\n${LEAST}`)
  t.strictSame(faults, [
    '1:8 /log/allowedChecks is not a known key, did you mean checks?',
    '1:23 /log/checks must be "refused" or "all"',
  ])
})

t.test('reports faults of domains', async (t) => {
  const table: [rows: string, fault: string | undefined][] = [
    ['[{ domain: example.com }]', undefined],
    ['[{ domain: localhost, authHost: "http://auth.localhost:8080" }]', undefined],
    ['[{ domain: example.com }, { domain: example.org }]', undefined],
    ['[{ domain: example.com }, { domain: badexample.com }]', undefined],
    ['[{ domain: example.com, authHost: auth.example.org }]', undefined],
    ['[{ domain: example.com, session: { scope: domain } }]', undefined],
    [
      '[{ domain: example.com, authHost: a.io }, { domain: example.org, authHost: a.io }]',
      undefined,
    ],
    ['[{ domain: 10.0.0.1, authHost: "10.0.0.1:8443" }]', '/domains/0/domain is an IP address'],
    ['[{ domain: "::1" }]', '/domains/0/domain is an IP address'],
    ['[]', '/domains '],
    ['[{ domain: "*.example.com" }]', '/domains/0/domain is not a host name'],
    ['[{ domain: "https://example.com" }]', '/domains/0/domain is not a host name'],
    [
      '[{ domain: example.com, authHost: auth.example.org, session: { scope: domain } }]',
      '/domains/0/authHost is not on or below example.com, which session.scope: domain needs',
    ],
    [
      '[{ domain: example.com, authHost: badexample.com, session: { scope: domain } }]',
      '/domains/0/authHost is not on or below example.com',
    ],
    [
      '[{ domain: example.com, session: { scope: all } }]',
      '/domains/0/session/scope must be "host" or "domain"',
    ],
    [
      '[{ domain: example.com, authHost: "auth.example.com/x" }]',
      '/domains/0/authHost is not a host',
    ],
    [
      '[{ domain: example.com, authHost: "a@auth.example.com" }]',
      '/domains/0/authHost is not a host',
    ],
    [
      '[{ domain: example.com, authHost: "http://auth.example.com" }]',
      '/domains/0/authHost is plain http, which only loopback names may be',
    ],
    [
      '[{ domain: example.com, authHost: "ftp://auth.example.com" }]',
      '/domains/0/authHost is not a host',
    ],
    [
      '[{ domain: example.com }, { domain: app.EXAMPLE.com. }]',
      '/domains/1/domain is covered by example.com',
    ],
    [
      '[{ domain: example.com }, { domain: Example.com }]',
      '/domains/0/domain is covered by Example.com',
    ],
  ]
  const rest = LEAST.slice(LEAST.indexOf('portals:'))
  for (const [rows, fault] of table) {
    const [first] = await faultsOf(`domains: ${rows}\n${rest}`)
    if (fault === undefined) t.equal(first, undefined, rows)
    else t.match(first, fault, rows)
  }
})

const corp =
  '{ type: openIDConnect, name: corp, issuerUrl: "https://idp.example.com", clientId: a, clientSecret: b }'
const google = '{ type: google, name: google, clientId: a, clientSecret: b }'

t.test('reports faults of portals', async (t) => {
  const portal = (rest: string, providers = `[${corp}]`) =>
    `portals: [{ name: main, providers: ${providers}, ${rest} }]`
  const code = '{ type: github, name: code, clientId: a, clientSecret: b, allow: anyone }'
  const demands = "{ condition: 'true', acr: [mfa], maxAge: 15m }"
  const unmeetable =
    'can be met by nobody: the portal has no provider of OpenID Connect, and no issuer of tokens'
  const table: [why: string, yaml: string, ...faults: string[]][] = [
    ['fine', portal('title: Apps')],
    [
      'name grammar',
      `portals: [{ name: Main_1, providers: [${corp}] }]`,
      '/portals/0/name must match',
    ],
    [
      'name twice',
      `portals: [{ name: a, providers: [${corp}] }, { name: a, providers: [${corp}] }]`,
      '/portals/1/name is already in use: a',
    ],
    ['no provider', portal('', '[]'), '/portals/0/providers '],
    [
      'provider twice',
      portal('', `[${corp}, ${corp}]`),
      '/portals/0/providers/1/name is already in use: corp',
    ],
    [
      'public provider without allow',
      portal('', `[${google}]`),
      '/portals/0/providers/0 lets anybody create an account',
    ],
    ['public provider, anyone', portal('allow: anyone', `[${google}]`)],
    [
      'public provider with a rule of its own',
      portal('', `[${google.replace(' }', ', allow: { emailDomains: [example.com] } }')}]`),
    ],
    [
      'tailscale without a list of proxies',
      portal('', '[{ type: tailscaleWhois, name: ts }]'),
      '/portals/0/providers/0/type requires server.trustedProxies',
    ],
    [
      'a rule that does not compile',
      portal('allow: \'Group("a") &&\''),
      '/portals/0/allow unexpected end, at column 14',
    ],
    [
      'a policy that does not compile',
      portal('policies: { admin: \'Grup("a")\' }'),
      '/portals/0/policies/admin the function Grup is not offered here, at column 1',
    ],
    [
      'a policy that is built in',
      portal("policies: { any: 'true' }"),
      '/portals/0/policies/any is built in',
    ],
    [
      'policies of a sign-in, with one provider that can be asked',
      portal(`policies: { admin: ${demands} }`, `[${code}, ${corp}]`),
    ],
    [
      'policies of a sign-in that no provider can be asked for',
      portal(`policies: { staff: 'true', admin: ${demands} }`, `[${code}]`),
      `/portals/0/policies/admin/acr ${unmeetable}`,
      `/portals/0/policies/admin/maxAge ${unmeetable}`,
    ],
    [
      'policies of a sign-in that programs can meet',
      portal(
        `policies: { admin: ${demands} }, callers: { issuers: [{ name: ci, issuerUrl: "https://ci.example.com", audience: a, policies: [admin] }] }`,
        `[${code}]`,
      ),
    ],
    [
      'a policy with a bad name',
      portal("policies: { A_B: 'true' }"),
      '/portals/0/policies/A_B is not a known key',
    ],
    ['preset', portal('headers: remote-*')],
    [
      'presets and headers',
      portal('headers: [default, x-auth-request-*, { name: X-Mail, claim: email }]'),
    ],
    ['no headers', portal('headers: []')],
    ['no preset', portal('headers: remote'), '/portals/0/headers must be'],
    [
      'header name',
      portal('headers: [{ name: "X Mail", claim: email }]'),
      '/portals/0/headers/0/name must be a header name of letters, digits and hyphens',
    ],
    [
      'header with an underscore',
      portal('headers: [{ name: X_Mail, claim: email }]'),
      '/portals/0/headers/0/name must be a header name',
    ],
    [
      'a header in place of that of a preset',
      portal('headers: [default, { name: x-forwarded-USER, property: id }]'),
    ],
    [
      'header twice',
      portal('headers: [{ name: X-It, property: id }, remote-*, { name: x-IT, claim: a }]'),
      '/portals/0/headers/2/name duplicates the header x-it',
    ],
    [
      'preset twice',
      portal('headers: [tailscale-*, tailscale-*]'),
      '/portals/0/headers/1 duplicates the header tailscale-user-login',
      '/portals/0/headers/1 duplicates the header tailscale-user-name',
      '/portals/0/headers/1 duplicates the header tailscale-user-profile-pic',
    ],
    ['encoding', portal('headerEncoding: utf-8, userHeader: username')],
    [
      'no encoding',
      portal('headerEncoding: latin1'),
      '/portals/0/headerEncoding must be "percent" or "utf-8" or "rfc8187"',
    ],
    [
      'token in a header that is used',
      portal('assertion: { hosts: [app.example.com], header: X-Forwarded-User }'),
      '/portals/0/assertion/header duplicates the header x-forwarded-user',
    ],
    [
      'hop by hop',
      portal('headers: [{ name: Connection, property: id }, { name: TE, property: id }]'),
      '/portals/0/headers/0/name is reserved: connection',
      '/portals/0/headers/1/name is reserved: te',
    ],
    [
      'a header that the check reads',
      portal('assertion: { hosts: [app.example.com], header: X-Forwarded-Host }'),
      '/portals/0/assertion/header is reserved: x-forwarded-host',
    ],
    [
      'headers of calls by MCP',
      portal(
        'headers: [{ name: Mcp-Name, property: id }], providerToken: { hosts: [app.example.com], header: X-Gatehouse-Tools }',
      ),
      '/portals/0/headers/0/name is reserved: mcp-name',
      '/portals/0/providerToken/header is reserved: x-gatehouse-tools',
    ],
    [
      'lifetimes',
      portal('session: { lifetime: 1s, idle: 1m, refresh: 1s, grace: 25h }, loginLifetime: 2h'),
      '/portals/0/session/lifetime must be from 1m to 90d',
      '/portals/0/session/idle must be from 5m to 90d',
      '/portals/0/session/refresh must be "off" or a duration such as 24h, from 1m to 24h',
      '/portals/0/session/grace must be from 0s to 24h',
      '/portals/0/loginLifetime must be from 30s to 1h',
    ],
    ['sessions', portal('session: { lifetime: 12h, idle: 1h, refresh: off, grace: 0s }')],
    [
      'administrators',
      portal(`policies: { admin: 'Group("admin")' }, sessions: { admins: admin }`),
    ],
    [
      'administrators by a policy that is not there',
      portal(`policies: { admin: 'Group("admin")' }, sessions: { admins: staff }`),
      '/portals/0/sessions/admins is no policy of this portal',
    ],
    [
      'administrators by a name that objects have',
      portal('sessions: { admins: constructor }'),
      '/portals/0/sessions/admins is no policy of this portal',
    ],
    ['colour', portal('accent: "red;}"'), '/portals/0/accent must match'],
  ]
  for (const [why, yaml, ...expected] of table) {
    const faults = await faultsOf(`domains: [{ domain: example.com }]\n${yaml}\n`)
    t.match(faults, expected, why)
    t.equal(faults.length, expected.length, `${why}: nothing else`)
  }
})

t.test('shows no secret in a fault', async (t) => {
  const secret = 'canary-7f3a'
  const faults = await faultsOf(
    `session: { keys: [{ secret: ${secret} }] }\nx: ${secret}\n${LEAST}`,
  )
  t.equal(faults.length, 2)
  t.notMatch(faults.join(), secret)
  t.match(await readFile(join(FOLDER, 'config.yaml'), 'utf8'), secret)
})

import { fromClaims } from '@gatehouse/profile'
import { forwardDialect } from '@gatehouse/service-kit/proxies'
import fc from 'fast-check'
import t from 'tap'
import { createAdmission } from '../../../services/forward-auth/src/portal/portals.ts'
import { startApp } from '../../../services/forward-auth/test/app.ts'
import { withTrust } from '../../identity-providers/src/oidc.ts'
import { PROGRAMS } from '../src/programs.ts'
import { rowOf } from '../src/table.ts'
import { areMarked, migration } from './kit.ts'
import { OAUTH2_PROXY_FLAGS } from './reference.ts'

const BASE = `provider = "oidc"
oidc_issuer_url = "https://id.example.com"
client_id = "proxy"
client_secret_file = "/run/secrets/client"
cookie_domains = [".example.com"]
redirect_url = "https://auth.example.com/oauth2/callback"
`
const OPEN = `${BASE}email_domains = ["*"]\n`

t.test('the table has every setting of their reference, and no other', async (t) => {
  const table = PROGRAMS['oauth2-proxy'].tables['oauth2-proxy 7.15']
  for (const flag of OAUTH2_PROXY_FLAGS) t.ok(rowOf(table, flag), flag)
  for (const { names, becomes, note } of table) {
    t.ok(becomes ?? note, names.join(', '))
    for (const name of names)
      t.ok(
        OAUTH2_PROXY_FLAGS.some((flag) => rowOf([{ names: [name] }], flag)),
        name,
      )
  }
})

t.test('what the settings become', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const portal = (more: object) => ({ portals: [more] })
  const provider = (more: object) => portal({ providers: [more] })
  // biome-ignore format: a table
  const table: [settings: string, printed: object][] = [
    [OPEN, { domains: [{ domain: 'example.com', authHost: 'auth.example.com' }] }],
    [OPEN, { server: { host: '127.0.0.1', port: 4180 }, session: { lifetime: '7d' } }],
    [OPEN, provider({ type: 'openIDConnect', name: 'oidc', clientSecretFile: '/run/secrets/client' })],
    [OPEN, portal({ name: 'main', allow: 'EmailVerified()' })],
    [OPEN.replace(/cookie_domains.*\n/, 'whitelist_domains = [".other.example", "*.example.com:*"]\n'), { domains: [{ domain: 'example.com', authHost: 'auth.example.com' }] }],
    [OPEN.replace('.example.com"]', 'example.com", "b.example", "app.example.com"]'), { domains: [{ domain: 'example.com', authHost: 'auth.example.com' }, { domain: 'b.example', authHost: 'auth.example.com' }] }],
    [`${OPEN}cookie_expire = "36h"\n`, { session: { lifetime: '36h' } }],
    [`${OPEN}cookie_expire = "90m30s"\n`, { session: { lifetime: '5430s' } }],
    [`${OPEN}cookie_expire = "9999h"\n`, { session: { lifetime: '90d' } }],
    [`${OPEN}cookie_expire = "10s"\n`, { session: { lifetime: '1m' } }],
    [`${OPEN}http_address = ":8080"\n`, { server: { host: '0.0.0.0', port: 8080 } }],
    [`${OPEN}http_address = "http://[::1]:8080"\n`, { server: { host: '::1', port: 8080 } }],
    [`${OPEN}https_address = ":8443"\ntls_cert_file = "c"\ntls_key_file = "k"\n`, { server: { port: 8443, tls: { certFile: 'c', keyFile: 'k' } } }],
    [`${OPEN}trusted_proxy_ips = ["10.0.0.2", "0.0.0.0/0", "64.0.0.0/6"]\n`, { server: { trustedProxies: ['10.0.0.2'] } }],
    [`${OPEN}metrics_address = "127.0.0.1:9100"\n`, { metrics: { host: '127.0.0.1', port: 9100 } }],
    [`${OPEN}set_xauthrequest = true\nprefer_email_to_user = true\n`, portal({ headers: 'x-auth-request-*', userHeader: 'email' })],
    [`${OPEN}skip_auth_preflight = true\n`, portal({ preflight: true })],
    [`${OPEN}scope = "openid email"\nprompt = "login"\nacr_values = "mfa"\n`, provider({ scopes: ['openid', 'email'], authorizationParameters: { prompt: 'login', acr_values: 'mfa' } })],
    [`${OPEN}scope = "openid a$b"\n`, provider({ scopes: ['openid', 'a$$b'] })],
    [`${OPEN}oidc_groups_claim = "memberOf"\nprovider_ca_files = ["ca.pem"]\n`, provider({ groupsClaim: 'memberOf', caFile: 'ca.pem' })],
    [`${OPEN}provider_display_name = "Corp $\{X}"\n`, provider({ title: 'Corp $$' + '{X}' })],
    [`${BASE}email_domains = ["example.com"]\n`, portal({ allow: { emailDomains: ['example.com'] } })],
    [`${BASE}email_domains = ["example.com", ".corp.example"]\n`, portal({ allow: 'EmailVerified() && (claims.email.endsWith("@example.com") || claims.email.endsWith(".corp.example"))' })],
    [`${BASE}email_domains = ["example.com"]\nallowed_groups = ["ops"]\n`, portal({ allow: { emailDomains: ['example.com'], groups: ['ops'] } })],
    [`${BASE}authenticated_emails_file = "emails"\n`, portal({ allow: 'EmailVerified() && claims.email in ["ada@other.example"]' })],
    [`${BASE}email_domains = ["corp.example"]\noidc_email_claim = "upn"\n`, portal({ allow: 'claims["upn"].endsWith("@corp.example")' })],
    [`${OPEN}insecure_oidc_allow_unverified_email = true\n`, provider({ trustEmail: true })],
    [`${OPEN.replace('"oidc"', '"keycloak-oidc"')}allowed_roles = ["admin"]\n`, portal({ providers: [{ rolesClaim: 'realm_access.roles' }], allow: 'EmailVerified() && Role("admin")' })],
    [`${OPEN.replace('"oidc"', '"keycloak-oidc"')}allowed_roles = ["app:admin"]\nallowed_groups = ["/ops"]\n`, portal({ providers: [{ rolesClaim: 'resource_access.app.roles' }], allow: 'EmailVerified() && (Group("/ops") || Role("admin"))' })],
    [`${OPEN.replace('"oidc"', '"github"')}github_org = "acme"\n`, portal({ providers: [{ type: 'github', organizations: ['acme'] }], allow: { condition: 'EmailVerified()', groups: ['acme'] }, userHeader: 'username' })],
    [`${OPEN.replace('"oidc"', '"github"')}github_org = "acme"\ngithub_team = "ops,dev"\ngithub_users = ["ada"]\n`, portal({ allow: 'EmailVerified() && (Group("acme/ops") || Group("acme/dev") || claims.preferred_username in ["ada"])' })],
    [`${OPEN.replace('"oidc"', '"gitlab"')}gitlab_groups = ["acme", "acme/ops"]\n`, portal({ providers: [{ type: 'gitlab', url: 'https://id.example.com', groups: ['acme'] }], allow: { groups: ['acme', 'acme/ops'] } })],
    [`${OPEN.replace('"oidc"', '"gitlab"')}gitlab_groups = ["acme", "acme-corp"]\n`, portal({ providers: [{ groups: ['acme', 'acme-corp'] }] })],
    [OPEN, provider({ trustEmail: 'unlessFalse' })],
    [OPEN.replace('"oidc"', '"keycloak"'), provider({ trustEmail: true })],
    [OPEN.replace('"oidc"', '"azure"').replace(/oidc_issuer.*\n/, 'azure_tenant = "6F0C2C1E-1111-4222-8333-444455556666"\n'), provider({ type: 'microsoftEntraID', trustEmail: 'unlessFalse' })],
    [OPEN.replace('"oidc"', '"entra-id"').replace('https://id.example.com', 'https://login.microsoftonline.com/6f0c2c1e-1111-4222-8333-444455556666/v2.0'), provider({ type: 'microsoftEntraID', tenantId: '6f0c2c1e-1111-4222-8333-444455556666' })],
    [`${OPEN}trusted_ips = ["192.168.1.0/24", "10.0.0.300"]\n`, portal({ rules: [{ from: ['192.168.1.0/24'], require: 'anyone' }] })],
    [`${OPEN}skip_auth_routes = ["GET=^/healthz$", "^/public/", "^/a/.*$"]\n`, portal({ rules: [{ paths: ['/healthz'], methods: ['GET'] }, { paths: ['/public/*/*'] }, { paths: ['/a/*/*'] }] })],
    [`${OPEN}skip_auth_routes = ["GET=^/users/.+$"]\n`, portal({ rules: [{ paths: ['/users/*/*'], methods: ['GET'], require: 'anyone' }] })],
    [`${OPEN}skip_auth_regex = ["^/well-known\\\\.txt$"]\n`, portal({ rules: [{ paths: ['/well-known.txt'] }] })],
  ]
  for (const [settings, printed] of table) {
    const emails = '# not bob@other.example\nada@other.example\n'
    const outcome = await migrated(settings, { emails })
    t.match(outcome.printed, printed, settings.slice(-120))
    t.strictSame([outcome.todos, outcome.refused], [0, []], settings.slice(-120))
  }
})

t.test('the host of an app does not become that of the sign-in pages', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const table: [settings: string, authHost: string][] = [
    [OPEN, 'auth.example.com'],
    [`${OPEN}upstreams = ["static://202"]\n`, 'auth.example.com'],
    [`${OPEN}upstreams = ["file:///dev/null"]\n`, 'auth.example.com'],
    // It is in front of the app at its own host.
    [`${OPEN}upstreams = ["http://127.0.0.1:8080"]\n`, ''],
    [`${OPEN}upstreams = ["static://202", "file:///srv/www"]\n`, ''],
    // Its cookie is for the host of the app alone.
    [OPEN.replace(/cookie_domains.*\n/, ''), ''],
    [OPEN.replace('".example.com"', '"auth.example.com"'), ''],
    [OPEN.replace('//auth.', '//'), ''],
    [OPEN.replace(/redirect_url.*\n/, ''), ''],
  ]
  for (const [settings, authHost] of table) {
    const { printed, refused, todos, yaml } = await migrated(settings)
    t.equal(printed.domains[0].authHost, authHost, settings.slice(-120))
    t.strictSame(refused, authHost === '' ? ['/domains/0/authHost'] : [])
    t.equal(todos, authHost === '' ? 1 : 0)
    const says = /TODO: name a host for the sign-in pages that has no app/
    t.equal(says.test(yaml), authHost === '')
  }
})

t.test('flags are read as a shell reads them', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const rest = `--provider=oidc
--oidc-issuer-url='https://id.example.com'
--cookie-domain ".example.com" \\
--redirect-url "https://auth.example.com/oauth2/callback"
--email-domain=\\*
--client-secret-file=/run/s
`
  const table: [flags: string, clientId: string, title?: string][] = [
    ['--client-id="abc"', 'abc'],
    ["--client-id='abc' \\", 'abc'],
    ['"--client-id=abc"', 'abc'],
    ['--client-id "a b"', 'a b'],
    ['--client-id=a\\ b', 'a b'],
    ['--client-id="a\\$b\\c"', 'a$$b\\c'],
    ["--client-id='a\\b'", 'a\\b'],
    ['--client-id=a"b"\'c\'d', 'abcd'],
    ['  - --client-id="abc"', 'abc'],
    ['  - "--client-id=abc"', 'abc'],
    [
      '  - --client-id=abc\n  - --provider-display-name=Corp of the Hill',
      'abc',
      'Corp of the Hill',
    ],
    ['--client-id="abc', '"abc'],
  ]
  for (const [flags, clientId, title] of table) {
    const { printed } = await migrated(`# how it starts\n${flags}\n${rest}`)
    t.match(printed, {
      domains: [{ domain: 'example.com', authHost: 'auth.example.com' }],
      portals: [{ allow: 'EmailVerified()', providers: [{ clientId, ...(title && { title }) }] }],
    })
  }
})

t.test('a variable that another program replaces is pointed out', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const host = '$' + '{HOST}'
  const table: [settings: string, says: RegExp][] = [
    [OPEN.replace('auth.example.com', host), /redirect_url: holds a variable/],
    [OPEN.replace('auth.example.com', host), /redirect_url: names no host/],
    [OPEN.replace('https://auth.example.com', 'auth.example.com'), /redirect_url: names no host/],
    [OPEN.replace('"proxy"', '"$(CLIENT_ID)"'), /client_id: holds a variable/],
    [`${OPEN}allowed_groups = ["ops", "$\{GROUP}"]\n`, /allowed_groups: holds a variable/],
    [`${OPEN}client_secret = "$\{CANARY}"\n`, /client_secret: holds a variable/],
  ]
  for (const [settings, says] of table) {
    const { yaml } = await migrated(settings)
    t.match(yaml, says, settings)
    t.notMatch(yaml, /CANARY|https:\/\/\$/)
  }
  const { yaml } = await migrated(OPEN.replace('https://auth.example.com', ''))
  t.notMatch(yaml, 'names no host', 'a path is completed by the request')
})

t.test('whom they knew by another claim than email is pointed out', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  for (const [type, isByUpn] of Object.entries({ adfs: true, azure: true, oidc: false })) {
    const { yaml } = await migrated(OPEN.replace('"oidc"', `"${type}"`))
    t.equal(yaml.includes('without a claim email, upn counted before'), isByUpn, type)
  }
})

t.test('other routes keep asking for a session', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  for (const route of [
    '!=^/private',
    '^/x',
    'x$',
    '^/(a|b)$',
    '^/a/../b$',
    '^/a/\\\\.\\\\./b$',
    '^/a/\\\\./b$',
    '^/a.b$',
    'POST!=^/x$',
  ]) {
    const { printed, todos, yaml } = await migrated(`${OPEN}skip_auth_routes = ["${route}"]\n`)
    t.equal(printed.portals[0].rules, undefined, route)
    t.match(yaml, /line 8, skip_auth_routes: .* is no rule here/)
    t.equal(todos, 0)
  }
})

t.test('a restriction that cannot be translated lets nobody in', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const table: [settings: string, says: RegExp][] = [
    [BASE, /neither email_domains nor/],
    [`${BASE}authenticated_emails_file = "absent"\n`, /cannot be read here/],
    [`${OPEN}google_groups = ["ops@example.com"]\n`, /google_groups \(line 8\)/],
    [`${OPEN}github_repo = "acme/app"\n`, /github_repo \(line 8\)/],
    [`${OPEN}gitlab_projects = ["acme/app"]\n`, /gitlab_projects/],
    [`${OPEN}entra_id_allowed_tenants = ["a"]\n`, /entra_id_allowed_tenants/],
    [`${OPEN}allowed_gruops = ["ops"]\n`, /did you mean allowed-group\?/],
    [`${OPEN.replace('"oidc"', '"google"')}allowed_groups = ["ops"]\n`, /Google sends no groups/],
    [`${OPEN}allowed_roles = ["a", "app:b"]\n`, /roles of the realm and of clients/],
    [`${BASE}authenticated_emails_file = "many"\n`, /give these people a group/],
  ]
  const many = Array.from({ length: 200 }, (_, n) => `person-${n}@example.com\n`).join('')
  for (const [settings, says] of table) {
    const { printed, refused, todos, yaml } = await migrated(settings, { many })
    t.strictSame(printed.portals[0].allow, {}, settings.slice(-60))
    t.match(refused, ['/portals/0/allow'])
    t.equal(todos, 1)
    t.match(yaml.replaceAll(/\n *# +/g, ' '), says)
  }
})

t.test('a provider without a counterpart is a marked place', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  for (const type of ['bitbucket', 'login.gov', 'facebook', 'sourcehut']) {
    const text = OPEN.replace('"oidc"', `"${type}"`).replace(/oidc_issuer_url.*\n/, '')
    const { refused, yaml } = await migrated(text)
    t.strictSame(refused, ['/portals/0/providers/0/issuerUrl'], type)
    t.match(yaml, 'TODO: issuerUrl is missing')
  }
})

t.test('environment variables, flags and the structured form say the same', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const expected = (await migrated(`${BASE}email_domains = ["example.com", "a.example"]\n`)).printed
  const variables = `TZ=UTC
OAUTH2_PROXY_PROVIDER=oidc
OAUTH2_PROXY_OIDC_ISSUER_URL=https://id.example.com
export OAUTH2_PROXY_CLIENT_ID="proxy"
OAUTH2_PROXY_CLIENT_SECRET_FILE=/run/secrets/client
OAUTH2_PROXY_COOKIE_DOMAINS=.example.com
OAUTH2_PROXY_REDIRECT_URL=https://auth.example.com/oauth2/callback
OAUTH2_PROXY_EMAIL_DOMAINS=example.com,a.example
`
  const flags = `  - --provider=oidc
  - "--oidc-issuer-url=https://id.example.com"
  - --client-id=proxy
  - --client-secret-file=/run/secrets/client
  - --cookie-domain=.example.com
  - --redirect-url=https://auth.example.com/oauth2/callback
  - --email-domain=example.com,a.example
`
  const mapping = variables.replace('export ', '').replaceAll(/^(\w+)=/gm, '  $1: ')
  for (const text of [variables, mapping, flags])
    t.strictSame((await migrated(text)).printed, expected)
  const several = flags.replace(',a.example', '\n  - --email-domain=a.example')
  t.strictSame((await migrated(several)).printed, expected, 'a flag that is given twice')
  const alpha = `providers:
  - id: corp
    provider: oidc
    clientID: proxy
    clientSecret: CANARY
    oidcConfig: { issuerURL: "https://id.example.com", groupsClaim: roles }
    allowedGroups: [ops]
server: { bindAddress: "0.0.0.0:4180" }
upstreamConfig: { upstreams: [{ id: app, path: /, uri: "http://app" }] }
`
  const { printed, yaml, refused } = await migrated(alpha)
  t.match(printed, {
    server: { host: '0.0.0.0', port: 4180 },
    portals: [
      {
        providers: [
          { issuerUrl: 'https://id.example.com', clientId: 'proxy', groupsClaim: 'roles' },
        ],
      },
    ],
  })
  t.notMatch(yaml, 'CANARY')
  t.strictSame(
    [...new Set(refused)],
    ['/domains', '/portals/0/allow'],
    'they are in the other file',
  )
})

t.test('a file of something else is refused, and not quoted', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  for (const text of ['', 'a = CANARY', 'x: CANARY', '[[', 'key = "CANARY'])
    await t.rejects(migrated(text), { code: 'CONFIG_NOT_THEIRS', message: /^(?!.*CANARY)/ }, text)
})

const SECRETS = [
  ...['client-secret', 'cookie-secret', 'redis-password', 'redis-sentinel-password', 'jwt-key'],
  ...['basic-auth-password', 'signature-key', 'github-token', 'redis-connection-url'],
]
// biome-ignore format: a table
const VALUES: Readonly<Record<string, fc.Arbitrary<string>>> = {
  provider: fc.constantFrom('oidc', 'google', 'github', 'gitlab', 'azure', 'entra-id', 'keycloak-oidc', 'adfs', 'linkedin'),
  'oidc-issuer-url': fc.constantFrom('https://id.example.com', 'http://id', 'https://u:CANARY@id.example.com', 'x'),
  'redirect-url': fc.constantFrom('https://auth.example.com/oauth2/callback', '/oauth2/callback'),
  'cookie-domain': fc.constantFrom('.example.com', 'example.com,app.example.com', 'co.uk', '*'),
  'email-domain': fc.constantFrom('*', 'example.com', '.example.com,b.example', 'not a domain'),
  'cookie-expire': fc.constantFrom('168h', '0', '30s', '1h30m', 'x', '99999h'),
  'http-address': fc.constantFrom(':4180', '127.0.0.1:80', 'unix:///x', 'fd:3', '[::1]:1'),
  'trusted-ip': fc.constantFrom('10.0.0.1', '10.0.0.1/8', 'x'),
  'trusted-proxy-ip': fc.constantFrom('10.0.0.1', '0.0.0.0/0', '::/0', 'x'),
  'azure-tenant': fc.constantFrom('common', '6F0C2C1E-1111-4222-8333-444455556666'),
  'skip-auth-route': fc.constantFrom('^/x$', 'GET=^/x/', 'x', '!=^/y'),
}

t.test('any settings give a valid file, or one that is refused at marked places', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const lines = fc
    .uniqueArray(fc.constantFrom(...OAUTH2_PROXY_FLAGS), { minLength: 1, maxLength: 40 })
    .chain((flags) =>
      fc.tuple(
        ...flags.map((flag) => {
          const secret = SECRETS.includes(flag) ? fc.constant('redis://u:CANARY@x') : undefined
          const any = fc.constantFrom('true', 'x', '$' + '{HOME}', 'a,b', '"#: {')
          return (secret ?? VALUES[flag] ?? any).map((value) => `--${flag}=${value}`)
        }),
      ),
    )
  await fc.assert(
    fc.asyncProperty(lines, async (given) => {
      const outcome = await migrated(`${given.join('\n')}\n`)
      t.ok(areMarked(outcome), `${given.join('\n')}\n${outcome.yaml}\n${outcome.refused}`)
      t.notMatch(outcome.yaml, 'CANARY')
      for (const line of given) {
        const flag = line.slice(2).split('=', 1)[0] ?? ''
        t.ok(outcome.yaml.includes(`--${flag}`) || SILENT.has(flag), `${flag} is not mentioned`)
      }
    }),
    { numRuns: 150 },
  )
})

/** Settings that shape what others become, and are not named themselves. */
const SILENT: ReadonlySet<string> = new Set([
  ...['cookie-domain', 'whitelist-domain', 'redirect-url', 'tls-key-file', 'email-domain'],
  ...['authenticated-emails-file', 'oidc-issuer-url', 'login-url', 'azure-tenant'],
  ...['http-address', 'https-address', 'metrics-address', 'oidc-email-claim', 'user-id-claim'],
  ...['allowed-group', 'keycloak-group', 'gitlab-group', 'allowed-role', 'client-secret-file'],
  ...['github-org', 'github-team', 'github-user', 'set-xauthrequest', 'prefer-email-to-user'],
  ...['skip-auth-preflight', 'insecure-oidc-allow-unverified-email', 'oidc-groups-claim'],
  ...['entra-id-federated-token-auth', 'trusted-ip', 'trusted-proxy-ip', 'skip-auth-route'],
])

t.test('whom they refuse, Gatehouse refuses; whom they let in, it lets in', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const domains = fc.subarray(['example.com', '.corp.example', 'b.example'])
  const addresses = fc.subarray(['ada@example.com', 'eve@other.example'])
  const groups = fc.subarray(['ops', 'staff', '/deep'])
  const person = fc.record({
    email: fc.constantFrom(
      'ada@example.com',
      'eve@other.example',
      'x@a.corp.example',
      'x@corp.example',
      'y@b.example',
      'z@xb.example',
    ),
    email_verified: fc.constantFrom(true, false, undefined),
    groups,
  })
  await fc.assert(
    fc.asyncProperty(domains, addresses, groups, fc.array(person), async (d, a, g, people) => {
      const list = (texts: string[]) => JSON.stringify(texts)
      const text = `${BASE}email_domains = ${list(d)}\nauthenticated_emails_file = "some"\nallowed_groups = ${list(g)}\n`
      const { config } = await migrated(text, { some: a.join('\n') })
      const portal = config?.portals[0]
      const [provider] = portal?.providers ?? []
      if (!portal || provider?.type !== 'openIDConnect')
        return t.equal(d.length + a.length, 0, 'nobody is listed')
      const { admits } = createAdmission(portal)
      for (const { email, email_verified, groups } of people) {
        const isListed =
          a.includes(email) ||
          d.some((one) => (one.startsWith('.') ? email.endsWith(one) : email.endsWith(`@${one}`)))
        const isMember = g.length === 0 || g.some((one) => groups.includes(one))
        const claims = { sub: 'a', email, email_verified, groups }
        const profile = fromClaims('oidc', withTrust(claims, provider.trustEmail))
        // Only an explicit `false` is refused there.
        t.equal(admits(profile), email_verified !== false && isListed && isMember, text)
      }
    }),
    { numRuns: 60 },
  )
})

t.test('what their routes do not open, Gatehouse does not open', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const segment = fc.constantFrom('a', 'b', 'a-b', 'a\\.b', '.', '..', 'x*', '[ab]')
  const end = fc.constantFrom('', '$', '/', '/$', '/.*', '/.+', '/.*$', '/.+$', '.*', '/?$')
  const route = fc
    .tuple(fc.constantFrom('', 'GET=', 'POST='), fc.array(segment, { maxLength: 2 }), end)
    .map(([method, segments, rest]) => `${method}^/${segments.join('/')}${rest}`)
  const paths = [
    '/',
    '/a',
    '/a/',
    '/b',
    '/a-b',
    '/a.b',
    '/a/b',
    '/a/b/',
    '/a/b/c',
    '/ab',
    '/x',
    '/a/a.b',
  ]
  let opened = 0
  await fc.assert(
    fc.asyncProperty(fc.array(route, { minLength: 1, maxLength: 3 }), async (routes) => {
      const flags = OPEN.replaceAll(/^(\w+) = "(.*)"$/gm, '--$1=$2')
        .split('\n')
        .slice(0, 4)
      const own = [
        '--cookie-domain=example.com',
        '--redirect-url=https://auth.example.com/oauth2/callback',
        '--email-domain=*',
      ]
      const given = [...flags, ...own, ...routes.map((one) => `--skip-auth-route=${one}`)].join(
        '\n',
      )
      const { yaml, todos } = await migrated(
        given.replaceAll(/--\w+/g, (flag) => flag.replaceAll('_', '-')),
      )
      t.equal(todos, 0)
      const { app, check } = await startApp(
        t,
        yaml.replace(/clientSecretFile: .*/, 'clientSecret: a'),
      )
      for (const path of paths) {
        const opens = (one: string, of = routes) =>
          of.some((text) => {
            const [, method, regex = ''] = /^(?:(\w+)=)?(\^.*)$/.exec(text) ?? []
            return (method === undefined || method === 'GET') && new RegExp(regex).test(one)
          })
        const headers = {
          ...{ Host: 'example.com', 'X-Forwarded-Method': 'GET', 'X-Forwarded-Proto': 'https' },
          ...{ 'X-Forwarded-Host': 'app.example.com', 'X-Forwarded-Uri': path },
          'X-Forwarded-For': '203.0.113.7',
        }
        const shape = {
          proxy: '',
          dialect: forwardDialect,
          method: 'GET',
          path: '',
          headers,
          needs: [],
        }
        const { statusCode } = await check(shape)
        const twin = path.endsWith('/') ? path.slice(0, -1) : `${path}/`
        if (statusCode !== 200) continue
        opened += 1
        // Of a single path, a slash at its end makes no difference here.
        const single = routes.filter((one) => /[^*+]\$$/.test(one))
        t.ok(opens(path) || opens(twin, single), `${path}: ${routes}\n${yaml}`)
      }
      await app.close()
    }),
    { numRuns: 30, examples: [[['GET=^/a$']], [['^/a/.*$']], [['^/a/.+$']]] },
  )
  t.ok(opened >= 10, `${opened} checks were open`)
})

t.test('values of the Helm chart that cannot be read let nobody in', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const flags = `extraArgs:
  provider: oidc
  oidc-issuer-url: https://id.example.com
  redirect-url: https://auth.example.com/oauth2/callback
  cookie-domain: .example.com
  email-domain: "*"
  client-id: proxy
extraEnv:
  - name: OAUTH2_PROXY_CLIENT_SECRET
    valueFrom: { secretKeyRef: { name: proxy, key: secret } }
`
  const table: [values: string, isOpen: boolean][] = [
    ['', true],
    ['config: { clientSecret: CANARY, cookieName: _proxy }\n', true],
    ['resources: {}\nsessionStorage: { type: redis }\n', true],
    ['config: { existingConfig: theirs }\n', false],
    ['config: { google: { groups: [ops@example.com] } }\n', false],
    ['alphaConfig: { enabled: true, configData: { a: b } }\n', false],
    ['authenticatedEmailsFile: { enabled: true, restricted_access: ada@example.com }\n', false],
    ['envFrom: [{ configMapRef: { name: theirs } }]\n', false],
    [
      '  - { name: OAUTH2_PROXY_ALLOWED_GROUPS, valueFrom: { configMapKeyRef: { name: a } } }\n',
      false,
    ],
    ['  - { name: TZ, valueFrom: { fieldRef: { fieldPath: a } } }\n', true],
  ]
  for (const [values, isOpen] of table) {
    const translated = await migrated(`${flags}${values}`)
    t.equal(translated.todos === 0, isOpen, `${values}\n${translated.yaml}`)
    t.ok(areMarked(translated), values)
    t.notMatch(translated.yaml, 'CANARY')
  }
})

t.test('a flag of the Helm chart wins over a variable, and that over its file', async (t) => {
  const migrated = migration(t, 'oauth2-proxy')
  const { printed } = await migrated(`config: { clientID: proxy, emailDomains: [file.example] }
extraArgs: [--provider=oidc, --oidc-issuer-url=https://flag.example.com]
extraEnv:
  - { name: OAUTH2_PROXY_OIDC_ISSUER_URL, value: https://variable.example.com }
  - { name: OAUTH2_PROXY_EMAIL_DOMAINS, value: variable.example }
`)
  const [portal] = printed.portals
  t.match(portal, {
    providers: [{ issuerUrl: 'https://flag.example.com', clientId: 'proxy' }],
    allow: { emailDomains: ['variable.example'] },
  })
})

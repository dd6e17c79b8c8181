import { fromClaims } from '@gatehouse/profile'
import fc from 'fast-check'
import t from 'tap'
import { stringify } from 'yaml'
import { createAdmission } from '../../../services/forward-auth/src/portal/portals.ts'
import { startApp } from '../../../services/forward-auth/test/app.ts'
import { recognise } from '../src/migrate.ts'
import { PROGRAMS } from '../src/programs.ts'
import { rowOf, type SettingTable } from '../src/table.ts'
import { areMarked, migration } from './kit.ts'
import { VERSION_2_FLAGS, VERSION_3_KEYS, VERSION_4_KEYS } from './reference.ts'

const TABLES = PROGRAMS['traefik-forward-auth'].tables

const NEW = {
  server: { domains: [{ domain: 'example.com', authHost: 'auth.example.com' }] },
  portals: [
    {
      name: 'main',
      providers: [
        {
          openIDConnect: {
            clientID: 'gate',
            clientSecret: 'CANARY',
            tokenIssuer: 'https://id.example.com',
          },
        },
      ],
    },
  ],
}
const withPortal = (more: object) => ({ ...NEW, portals: [{ ...NEW.portals[0], ...more }] })
const withProvider = (provider: object) => withPortal({ providers: [provider] })
const withOidc = (more: object) =>
  withProvider({ openIDConnect: { ...NEW.portals[0]?.providers[0]?.openIDConnect, ...more } })
const withServer = (more: object) => ({ ...NEW, server: { ...NEW.server, ...more } })

const OLD = `default-provider = oidc
providers.oidc.issuer-url = https://id.example.com
providers.oidc.client-id = gate
providers.oidc.client-secret = CANARY
secret = CANARY
auth-host = auth.example.com
cookie-domain = example.com
`

t.test('the tables have every setting of their references, and no other', async (t) => {
  const references: [table: SettingTable, names: string[]][] = [
    [TABLES['traefik-forward-auth 4'], VERSION_4_KEYS],
    [TABLES['traefik-forward-auth 3'], VERSION_3_KEYS],
    [TABLES['thomseddon/traefik-forward-auth 2'], VERSION_2_FLAGS],
  ]
  for (const [table, reference] of references) {
    const concrete = reference.map((name) => name.replaceAll('$', '0'))
    for (const name of concrete) t.ok(rowOf(table, name), name)
    for (const { names, becomes, note } of table) {
      t.ok(becomes ?? note, names.join(', '))
      for (const name of names)
        t.ok(
          concrete.some((one) => rowOf([{ names: [name] }], one)),
          name,
        )
    }
  }
})

t.test('what the settings of version 4 become', async (t) => {
  const migrated = migration(t, 'traefik-forward-auth')
  const portal = (more: object) => ({ portals: [more] })
  const provider = (more: object) => portal({ providers: [more] })
  // biome-ignore format: a table
  const table: [settings: object, printed: object][] = [
    [NEW, { domains: NEW.server.domains, server: { host: '0.0.0.0', port: 4181 }, session: { lifetime: '2h' } }],
    [NEW, portal({ name: 'main', loginLifetime: '5m', sharedCallback: true })],
    [withPortal({ providers: [...(NEW.portals[0]?.providers ?? []), { pocketID: { clientID: 'b', clientSecret: 'CANARY', endpoint: 'https://pocket.example.com' } }] }), portal({ providers: [{}, { type: 'pocketID' }], sharedCallback: undefined })],
    [NEW, provider({ type: 'openIDConnect', name: 'openidconnect', clientId: 'gate', clientSecretFile: 'client-secret', issuerUrl: 'https://id.example.com' })],
    [withServer({ bind: '127.0.0.1', port: 80, basePath: 'gate/' }), { server: { host: '127.0.0.1', port: 80, basePath: '/gate' } }],
    [withServer({ tlsPath: '/tls', tlsClientAuth: true }), { server: { tls: { certFile: '/tls/tls-cert.pem', keyFile: '/tls/tls-key.pem', clientCaFile: '/tls/tls-ca.pem' }, trustedProxies: [] } }],
    [withServer({ tlsCertPEM: 'CANARY', tlsKeyPEM: 'CANARY' }), { server: { tls: { certFile: 'tls-cert.pem', keyFile: 'tls-key.pem' } } }],
    [{ ...NEW, server: { hostname: 'auth.example.com:8443' }, cookies: { domain: 'example.com' } }, { domains: [{ domain: 'example.com', authHost: 'auth.example.com:8443' }] }],
    [{ ...NEW, tokens: { sessionLifetime: '12h', signingKey: 'CANARY' }, logs: { level: 'warn', json: true } }, { session: { lifetime: '12h' }, log: { level: 'warn', format: 'json' } }],
    [withPortal({ name: 'My_Portal', displayName: 'Mine', authenticationTimeout: '90s', sessionLifetime: '1h', alwaysShowProvidersPage: true }), portal({ name: 'my-portal', title: 'Mine', loginLifetime: '90s', session: { lifetime: '1h' }, alwaysShowProviders: true })],
    [withPortal({ headers: [] }), portal({ headers: [] })],
    [withPortal({ headers: [{ name: 'X-Mail', claim: 'email' }, { name: 'X-P', property: 'provider.name' }] }), portal({ headers: [{ name: 'X-Mail', claim: 'email' }, { name: 'X-P', property: 'provider' }] })],
    [withOidc({ name: 'Corp.1', displayName: 'Corp', scopes: 'openid email', requestTimeout: '5s', icon: 'pocketid', color: '#123456', tlsCACertificatePath: 'ca.pem' }), provider({ name: 'corp-1', title: 'Corp', scopes: ['openid', 'email'], timeout: '5s', icon: 'pocket-id', color: '#123456', caFile: 'ca.pem' })],
    [withOidc({ clientSecret: '', clientAssertion: 'AzureManagedIdentity=abc' }), provider({ clientAssertion: { type: 'azureManagedIdentity', clientId: 'abc' } })],
    [withOidc({ clientSecret: '', clientAssertion: 'KubernetesServiceAccountToken=/token' }), provider({ clientAssertion: { type: 'kubernetesServiceAccount', file: '/token' } })],
    [withProvider({ microsoftEntraID: { tenantID: '6F0C2C1E-1111-4222-8333-444455556666', clientID: 'a', azureFederatedIdentity: 'WorkloadIdentity' } }), provider({ type: 'microsoftEntraID', tenantId: '6f0c2c1e-1111-4222-8333-444455556666', clientAssertion: { type: 'azureWorkloadIdentity' } })],
    [withProvider({ pocketID: { endpoint: 'https://id.example.com', clientID: 'a', clientSecretFile: '/s' } }), provider({ type: 'pocketID', url: 'https://id.example.com', clientSecretFile: '/s' })],
  ]
  for (const [settings, printed] of table) {
    const outcome = await migrated(stringify(settings))
    t.match(outcome.printed, printed, JSON.stringify(settings))
    t.strictSame([outcome.todos, outcome.refused], [0, []], JSON.stringify(settings))
    t.notMatch(outcome.yaml, 'CANARY')
  }
})

const VERSION_3 = {
  ...{ hostname: 'auth.example.com', cookieDomain: 'example.com', tokenSigningKey: 'CANARY' },
  ...{ authProvider: 'openidconnect', authOpenIDConnect_clientID: 'gate' },
  authOpenIDConnect_clientSecret: 'CANARY',
  authOpenIDConnect_tokenIssuer: 'https://id.example.com',
}
const GOOGLE_3 = {
  ...{ ...VERSION_3, authProvider: 'google', authGoogle_clientID: 'gate' },
  authGoogle_clientSecret: 'CANARY',
}
const GITHUB_3 = {
  ...{ ...VERSION_3, authProvider: 'github', authGitHub_clientID: 'gate' },
  authGitHub_clientSecret: 'CANARY',
}
const ENTRA_3 = {
  ...{ ...VERSION_3, authProvider: 'microsoft-entra-id', authMicrosoftEntraID_clientID: 'gate' },
  authMicrosoftEntraID_tenantID: '6f0c2c1e-1111-4222-8333-444455556666',
  authMicrosoftEntraID_azureFederatedIdentity: 'ManagedIdentity',
}
/** The same settings as environment variables. */
const variablesOf = (settings: object) =>
  Object.entries(settings)
    .map(([key, setting]) => `TFA_${key.toUpperCase()}=${setting}\n`)
    .join('')

t.test('what the settings of version 3 become, in YAML and as variables', async (t) => {
  const migrated = migration(t, 'traefik-forward-auth')
  const portal = (more: object) => ({ portals: [more] })
  // biome-ignore format: a table
  const table: [settings: object, printed: object][] = [
    [VERSION_3, { domains: [{ domain: 'example.com', authHost: 'auth.example.com' }], server: { host: '0.0.0.0', port: 4181 }, session: { lifetime: '2h' } }],
    // The redirect URI was at the root, and cannot be kept.
    [VERSION_3, portal({ name: 'main', loginLifetime: '5m', sharedCallback: undefined, allow: undefined })],
    [VERSION_3, portal({ providers: [{ type: 'openIDConnect', name: 'openidconnect', clientId: 'gate', clientSecretFile: 'client-secret', issuerUrl: 'https://id.example.com', trustEmail: undefined }] })],
    [{ ...VERSION_3, port: 80, basePath: 'gate', sessionLifetime: '12h', logAsJson: true, authenticationTimeout: '90s', metricsServerEnabled: true }, { server: { port: 80, basePath: '/gate' }, session: { lifetime: '12h' }, log: { format: 'json' }, portals: [{ loginLifetime: '90s' }] }],
    [{ ...VERSION_3, authOpenIDConnect_requestTimeout: '5s', authOpenIDConnect_tlsCACertificatePath: 'ca.pem', authOpenIDConnect_enablePKCE: true }, portal({ providers: [{ timeout: '5s', caFile: 'ca.pem' }] })],
    [{ ...VERSION_3, authGitHub_allowedUsers: ['ada'] }, portal({ allow: undefined })],
    [{ ...VERSION_3, authOpenIDConnect_allowedUsers: ['1', '2'] }, portal({ allow: 'claims.sub in ["1", "2"]' })],
    [{ ...VERSION_3, authOpenIDConnect_allowedUsers: ['1'], authOpenIDConnect_allowedEmails: ['ada@example.com'] }, portal({ providers: [{ trustEmail: 'unlessFalse' }], allow: 'claims.sub in ["1"] && EmailVerified() && claims.email in ["ada@example.com"]' })],
    [{ ...GOOGLE_3, authGoogle_allowedDomains: ['example.com'] }, portal({ providers: [{ type: 'google', trustEmail: undefined }], allow: { emailDomains: ['example.com'] } })],
    [{ ...GOOGLE_3, authGoogle_allowedDomains: ['example.com'], authGoogle_allowedEmails: ['ada@example.com'] }, portal({ allow: { condition: 'EmailVerified() && claims.email in ["ada@example.com"]', emailDomains: ['example.com'] } })],
    [{ ...GITHUB_3, authGitHub_allowedUsers: ['ada', 'bob'] }, portal({ providers: [{ type: 'github' }], allow: 'claims.preferred_username in ["ada", "bob"]' })],
    [{ ...ENTRA_3, authMicrosoftEntraID_allowedEmails: ['ada@example.com'] }, portal({ providers: [{ type: 'microsoftEntraID', trustEmail: 'unlessFalse', clientAssertion: { type: 'azureManagedIdentity' } }], allow: 'EmailVerified() && claims.email in ["ada@example.com"]' })],
  ]
  for (const [settings, printed] of table)
    for (const text of [stringify(settings), `TZ=UTC\n${variablesOf(settings)}`]) {
      const outcome = await migrated(text)
      t.match(outcome.printed, printed, text)
      t.strictSame([outcome.todos, outcome.refused], [0, []], `${text}\n${outcome.yaml}`)
      t.notMatch(outcome.yaml, 'CANARY')
      t.equal(await recognise('forward-auth', text, 'f'), 'traefik-forward-auth')
    }
})

t.test('what version 3 says and cannot be translated lets nobody in', async (t) => {
  const migrated = migration(t, 'traefik-forward-auth')
  const tailscale = { ...VERSION_3, authProvider: 'tailscalewhois' }
  const table: [settings: object, refused: string, says: RegExp][] = [
    [GOOGLE_3, '/portals/0/providers/0', /lets anybody create an account/],
    [{ ...GOOGLE_3, authGoogle_allowedDomains: ['*'] }, '/portals/0/allow/emailDomains', /TODO/],
    [
      { ...ENTRA_3, authMicrosoftEntraID_allowedUsers: ['ada'] },
      '/portals/0/allow',
      /may keep people out/,
    ],
    [
      { ...tailscale, authTailscaleWhois_allowedUsers: ['ada'] },
      '/portals/0/allow',
      /may keep people out/,
    ],
    [{ ...VERSION_3, authOpenIDConnect_allowedGroups: ['a'] }, '/portals/0/allow', /not a known/],
    [{ ...VERSION_3, alowedUsers: ['a'] }, '/portals/0/allow', /not a known/],
    [{ ...VERSION_3, authProvider: 'other' }, '/portals', /there is no portal/],
  ]
  for (const [settings, refused, says] of table)
    for (const text of [stringify(settings), variablesOf(settings)]) {
      const outcome = await migrated(text)
      t.ok(outcome.refused.includes(refused), `${text}\n${outcome.yaml}\n${outcome.refused}`)
      t.ok(areMarked(outcome), outcome.yaml)
      t.match(outcome.yaml.replaceAll(/\n *# +/g, ' '), says)
      t.notMatch(outcome.yaml, 'CANARY')
    }
})

t.test('the tailnet of version 3 is kept', async (t) => {
  const settings = { ...VERSION_3, authProvider: 'tailscalewhois' }
  const text = stringify({ ...settings, authTailscaleWhois_allowedTailnet: 'example.ts.net' })
  const { printed } = await migration(t, 'traefik-forward-auth')(text)
  t.match(printed.portals[0].providers, [{ type: 'tailscaleWhois', tailnet: 'example.ts.net' }])
})

t.test('what a person has to decide about is marked', async (t) => {
  const migrated = migration(t, 'traefik-forward-auth')
  const google = { google: { clientID: 'a', clientSecret: 'b' } }
  const table: [settings: object, refused: string, says: RegExp][] = [
    [withProvider(google), '/portals/0/providers/0', /TODO: item 1 lets anybody create an account/],
    [
      withProvider({ tailscaleWhois: { name: 'tail' } }),
      '/portals/0/providers/0/type',
      /TODO: type requires server.trustedProxies/,
    ],
    [{ ...NEW, server: {} }, '/domains', /TODO: name the domain of your apps/],
    [
      withOidc({ clientAssertion: 'tsiam=https://x', clientSecret: '' }),
      '/portals/0/providers/0',
      /tsiam has no counterpart/,
    ],
    [
      withOidc({ tokenIssuer: 'https://u:CANARY@id.example.com' }),
      '/portals/0/providers/0/issuerUrl',
      /TODO: issuerUrl is missing/,
    ],
    [
      withOidc({ tokenIssuer: 'https://:CANARY@id.example.com' }),
      '/portals/0/providers/0/issuerUrl',
      /TODO: issuerUrl is missing/,
    ],
    [
      withOidc({ tokenIssuer: 'https://id.example.com?key=CANARY' }),
      '/portals/0/providers/0/issuerUrl',
      /TODO: issuerUrl is missing/,
    ],
    [
      withOidc({ allowedEmails: ['ada@example.com'] }),
      '/portals/0/allow',
      /allowedEmails \(line 12\) may keep people out/,
    ],
    [
      withProvider({ other: { clientID: 'a' } }),
      '/portals/0/providers/0/type',
      /TODO: type must be/,
    ],
  ]
  for (const [settings, refused, says] of table) {
    const outcome = await migrated(stringify(settings))
    t.ok(outcome.refused.includes(refused), `${refused}: ${outcome.refused}`)
    t.ok(areMarked(outcome), outcome.yaml)
    t.match(outcome.yaml.replaceAll(/\n *# +/g, ' '), says)
    t.notMatch(outcome.yaml, 'CANARY')
  }
})

t.test('a restriction that is not known lets nobody into any portal', async (t) => {
  const [portal] = NEW.portals
  const portals = [
    { ...portal, allowedPeople: ['ada'] },
    { ...portal, name: 'other' },
  ]
  const { printed, refused } = await migration(
    t,
    'traefik-forward-auth',
  )(stringify({ ...NEW, portals }))
  t.match(printed.portals, [{ allow: {} }, { allow: {} }])
  t.ok(refused.length > 0)
})

t.test('what the settings of version 2 become', async (t) => {
  const migrated = migration(t, 'traefik-forward-auth')
  const portal = (more: object) => ({ portals: [more] })
  const google = OLD.replace(/.*issuer-url.*\n/, '')
    .replace('= oidc', '= google')
    .replaceAll('providers.oidc', 'providers.google')
  // biome-ignore format: a table
  const table: [settings: string, printed: object][] = [
    [OLD, { domains: [{ domain: 'example.com', authHost: 'auth.example.com' }], session: { lifetime: '12h' }, log: { level: 'warn' } }],
    [OLD, portal({ name: 'main', userHeader: 'email', providers: [{ type: 'openIDConnect', name: 'oidc', clientId: 'gate', clientSecretFile: 'client-secret' }] })],
    [`[Application Options]\n${OLD}lifetime = 3600\nport = 80\nlog-level = panic\nlog-format = json\n`, { session: { lifetime: '1h' }, server: { port: 80 }, log: { level: 'fatal', format: 'json' } }],
    [OLD, portal({ providers: [{ trustEmail: 'unlessFalse' }] })],
    [`${OLD}rule.a.action = allow\nrule.a.rule = PathPrefix(\`/x/\`)\n`, portal({ rules: [{ paths: ['/x/*/*'], require: 'anyone' }] })],
    [`${OLD}domain = example.com,b.example\n`, portal({ allow: { emailDomains: ['example.com', 'b.example'] } })],
    [`${OLD}domain = example.com\nwhitelist = ada@x.example\n`, portal({ allow: 'EmailVerified() && claims.email in ["ada@x.example"]' })],
    [`${OLD}domain = example.com\nwhitelist = ada@x.example\nmatch-whitelist-or-domain = true\n`, portal({ allow: 'EmailVerified() && (claims.email.endsWith("@example.com") || claims.email in ["ada@x.example"])' })],
    [`${google}domain = example.com\nproviders.google.prompt = select_account\n`, portal({ providers: [{ type: 'google', authorizationParameters: { prompt: 'select_account' } }] })],
    [`${google.replaceAll('providers.google.', '')}domain = example.com\n`, portal({ providers: [{ type: 'google', clientId: 'gate', clientSecretFile: 'client-secret' }] })],
    [`${OLD}rule.a.action = allow\nrule.a.rule = Host(\`a.example.com\`) && PathPrefix(\`/x\`) || Path(\`/y/\`, "/z")\n`, portal({ rules: [{ hosts: ['a.example.com'], paths: ['/x/*'], require: 'anyone' }, { paths: ['/y', '/z'], require: 'anyone' }] })],
    [`${OLD}default-action = allow\nrule.a.rule = Host(\`a.example.com\`)\n`, portal({ rules: [{ hosts: ['a.example.com'], require: 'signedIn' }, { require: 'anyone' }] })],
    [`${OLD}domain = example.com\nrule.a.rule = Host(\`a.example.com\`)\nrule.a.domains = b.example\n`, portal({ allow: '(EmailVerified() && (claims.email.endsWith("@example.com"))) || (EmailVerified() && (claims.email.endsWith("@b.example")))'.replace(/^\((.*)\) \|\| \((.*)\)$/, '($1) || ($2)'), rules: [{ hosts: ['a.example.com'], require: 'rule-a' }, { require: 'others' }] })],
  ]
  for (const [settings, printed] of table) {
    const outcome = await migrated(settings)
    t.match(outcome.printed, printed, settings.slice(-90))
    t.strictSame([outcome.todos, outcome.refused], [0, []], outcome.yaml)
    t.notMatch(outcome.yaml, 'CANARY')
  }
})

t.test('rules of version 2 that cannot be translated', async (t) => {
  const migrated = migration(t, 'traefik-forward-auth')
  const opens = [
    'PathPrefix(`/a/../b`)',
    'Headers(`X`, `y`)',
    'HostRegexp(`{a:.*}`)',
    'Path(`/a{x}`)',
    'Path(`/a`) || Headers(`X`, `y`)',
  ]
  const ORs = ['(Path(`/a`) || Path(`/b`)) && Host(`a.example.com`)', 'Host(`a`) && Host(`b`)', '']
  for (const rule of [...opens, ...ORs].filter(Boolean)) {
    const { printed, todos, yaml } = await migrated(
      `${OLD}rule.a.action = allow\nrule.a.rule = ${rule}\n`,
    )
    t.strictSame([printed.portals[0].rules, todos], [undefined, 0], rule)
    t.match(yaml, /rule\.a\.rule: is no rule here/)
    const closed = await migrated(`${OLD}default-action = allow\nrule.a.rule = ${rule}\n`)
    t.strictSame(closed.printed.portals[0].allow, {}, 'what needed a session is not opened')
  }
  const prefix = await migrated(`${OLD}default-action = allow\nrule.a.rule = PathPrefix(\`/a\`)\n`)
  t.strictSame(prefix.printed.portals[0].allow, {}, '/a-other would be open')
  const other = await migrated(`${OLD}rule.a.provider = google\nrule.a.rule = Path(\`/a\`)\n`)
  t.strictSame(other.printed.portals[0].allow, {}, 'people of the other provider would come in')
  const open = await migrated(OLD.replace('oidc\n', 'generic-oauth\n'))
  t.match(open.yaml, 'TODO: issuerUrl is missing')
})

t.test('variables, flags and the older form of lines say the same', async (t) => {
  const migrated = migration(t, 'traefik-forward-auth')
  const text = `${OLD}whitelist = ada@x.example\nwhitelist = bob@x.example\n`
  const { printed } = await migrated(text)
  const lines = text
    .trim()
    .split('\n')
    .map((line) => line.split(' = '))
  const lists = lines.filter(([name]) => name !== 'whitelist')
  const forms = [
    lines.map(([name, value]) => `--${name}=${value}`),
    lines.map(([name, value]) => `  - "--${name}=${value}"`),
    lines.map(([name, value]) => `${name} ${value}`),
    [
      ...lists.map(
        ([name = '', value]) => `${name.toUpperCase().replaceAll(/[.-]/g, '_')}=${value}`,
      ),
      'WHITELIST=ada@x.example,bob@x.example',
      'TZ=UTC',
    ],
  ]
  for (const form of forms)
    t.strictSame((await migrated(form.join('\n'))).printed, printed, form.join('\n'))
})

t.test('any settings give a valid file, or one that is refused at marked places', async (t) => {
  const migrated = migration(t, 'traefik-forward-auth')
  const value = fc.constantFrom(
    'true',
    'x',
    'example.com',
    '$' + '{HOME}',
    '5m',
    '#',
    'a,b',
    'Path(`/x`)',
    'allow',
    'oidc',
  )
  const secret = /secret|key/i
  const url = /issuer|endpoint/i
  const textFor = (name: string) => {
    if (secret.test(name) && !name.endsWith('File')) return fc.constant('CANARY')
    return url.test(name) ? fc.constantFrom('https://id.example.com', 'https://u:CANARY@x') : value
  }
  const flags = fc
    .uniqueArray(fc.constantFrom(...VERSION_2_FLAGS), { minLength: 2 })
    .chain((names) =>
      fc.tuple(...names.map((name) => textFor(name).map((text) => `${name} = ${text}`))),
    )
    .map((lines) => lines.join('\n'))
  const keys = fc
    .uniqueArray(fc.constantFrom(...VERSION_4_KEYS), { minLength: 2 })
    .chain((names) =>
      fc.tuple(...names.map((name) => textFor(name).map((text) => [name, text] as const))),
    )
    .map((entries) => stringify(nested(entries)))
  const older = fc
    .uniqueArray(fc.constantFrom(...VERSION_3_KEYS), { minLength: 2 })
    .chain((names) =>
      fc.tuple(...names.map((name) => textFor(name).map((text) => [name, text] as const))),
    )
    .chain((entries) =>
      fc
        .constantFrom(
          'github',
          'google',
          'microsoftentraid',
          'openidconnect',
          'tailscalewhois',
          'x',
        )
        .map((authProvider) => ({ ...Object.fromEntries(entries), authProvider })),
    )
    .map((settings) => stringify(settings))
  await fc.assert(
    fc.asyncProperty(fc.oneof(flags, keys, older), async (text) => {
      const outcome = await migrated(text)
      t.ok(areMarked(outcome), `${text}\n${outcome.yaml}\n${outcome.refused}`)
      t.notMatch(outcome.yaml, 'CANARY')
    }),
    { numRuns: Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 200 },
  )
})

/** The mapping of keys such as `portals.$.name`, with one item in each list. */
function nested(entries: readonly (readonly [string, string])[]): object {
  const root: Record<string, unknown> = {}
  for (const [name, value] of entries) {
    let at = root as Record<string, unknown>
    const parts = name.split('.')
    for (const [index, part] of parts.entries()) {
      if (part === '$') continue
      const isList = parts[index + 1] === '$'
      if (index === parts.length - 1) at[part] ??= name.endsWith('headers') ? [] : value
      else if (isList) {
        const list =
          Array.isArray(at[part]) && (at[part] as unknown[]).length > 0
            ? (at[part] as object[])
            : [{}]
        at[part] = list
        at = list[0] as Record<string, unknown>
      } else {
        at[part] = typeof at[part] === 'object' ? at[part] : {}
        at = at[part] as Record<string, unknown>
      }
    }
  }
  return root
}

t.test('whom version 2 lets in at a host, Gatehouse lets in there, and nobody else', async (t) => {
  const migrated = migration(t, 'traefik-forward-auth')
  const lists = fc.record({
    whitelist: fc.subarray(['ada@a.example', 'eve@b.example']),
    domain: fc.subarray(['a.example', 'b.example']),
  })
  const people = ['ada@a.example', 'bob@a.example', 'eve@b.example', 'joe@c.example']
  let service: Awaited<ReturnType<typeof startApp>> | undefined
  await fc.assert(
    fc.asyncProperty(lists, lists, fc.boolean(), async (all, own, isEither) => {
      const text = `${OLD}${all.whitelist.map((one) => `whitelist = ${one}\n`).join('')}${all.domain.map((one) => `domain = ${one}\n`).join('')}match-whitelist-or-domain = ${isEither}
rule.a.rule = Host(\`own.example.com\`)
${own.whitelist.length > 0 ? `rule.a.whitelist = ${own.whitelist}\n` : ''}${own.domain.length > 0 ? `rule.a.domains = ${own.domain}\n` : ''}`
      const { yaml } = await migrated(text)
      const config = yaml.replace('clientSecretFile: client-secret', 'clientSecret: a')
      service ??= await startApp(t, config)
      const { app, check, signIn, reload } = service
      await reload(config)
      t.ok(app.portals.get('main'))
      for (const host of ['app.example.com', 'own.example.com'])
        for (const email of people) {
          const { whitelist, domain } =
            host.startsWith('own') && own.whitelist.length + own.domain.length > 0 ? own : all
          const isListed = whitelist.includes(email)
          const isOf = domain.some((one) => email.endsWith(`@${one}`))
          const isIn =
            whitelist.length > 0 ? isListed || (isEither && isOf) : domain.length === 0 || isOf
          const cookie = await signIn(
            'main',
            { email, email_verified: true },
            { provider: 'oidc', host },
          )
          const headers = {
            Host: 'auth.example.com',
            'X-Forwarded-Method': 'GET',
            'X-Forwarded-Proto': 'https',
            'X-Forwarded-Host': host,
            'X-Forwarded-Uri': '/',
            'X-Forwarded-For': '203.0.113.7',
            cookie,
          }
          const { statusCode } = await check({
            proxy: '',
            method: 'GET',
            path: '',
            headers,
          } as unknown as Parameters<typeof check>[0])
          t.equal(statusCode === 200, isIn, `${host} ${email} ${statusCode}\n${text}\n${yaml}`)
        }
    }),
    { numRuns: 25 },
  )
})

t.test('whose file it is', async (t) => {
  const ours = `server: { port: 4181, basePath: /x }
domains: [{ domain: example.com, authHost: auth.example.com }]
portals: [{ name: main, sessionLifetime: 2h, headers: [{ name: X, claim: a }], providers: [{ type: google, name: g }] }]
`
  const table: [text: string, name: string | undefined][] = [
    [stringify(NEW), 'traefik-forward-auth'],
    [OLD, 'traefik-forward-auth'],
    ['--provider=oidc\n--client-id=a\n', 'oauth2-proxy'],
    ['OAUTH2_PROXY_CLIENT_ID=a\nOAUTH2_PROXY_PROVIDER=oidc\n', 'oauth2-proxy'],
    ['provider = "oidc"\nclient_id = "a"\n', 'oauth2-proxy'],
    [ours, undefined],
    [ours.replace('portals', 'portal'), undefined],
    ['', undefined],
    ['[[[', undefined],
    ['a: b: c', undefined],
    ['key = "x"\nother = 1\n', undefined],
    ['provider = "oidc"\nclient_id = "a"\nx = 1\ny = 2\n', 'oauth2-proxy'],
    ['provider = "oidc"\nclient_id = "a"\nx = 1\ny = 2\nz = 3\n', undefined],
    ['client_id = "a"\n', undefined],
  ]
  for (const [text, name] of table) t.equal(await recognise('forward-auth', text, 'f'), name, text)
})

t.test('a person of version 4 comes in as before', async (t) => {
  const { config } = await migration(t, 'traefik-forward-auth')(stringify(NEW))
  const portal = config?.portals[0]
  t.ok(portal && createAdmission(portal).admits(fromClaims('openidconnect', { sub: 'ada' })))
})

// Configurations of the shapes that people publish, each migrated and run: whom the old program let in gets in.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { forwardDialect } from '@gatehouse/service-kit/proxies'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { parse } from 'yaml'
import { PROGRAM } from '../../../services/cert-service/src/cli/program.ts'
import { start } from '../../../services/cert-service/test/helpers/app.ts'
import { startApp } from '../../../services/forward-auth/test/app.ts'
import { migrate } from '../src/migrate.ts'
import { migration } from './kit.ts'

const person = (name: string, email: string, groups: readonly string[], method = 'pwd') => ({
  ...{ sub: name, preferred_username: name, email, email_verified: true, groups, amr: [method] },
})
const PEOPLE = {
  ada: person('ada', 'ada@example.com', ['admins', 'family'], 'mfa'),
  bob: person('bob', 'bob@example.com', ['family']),
  eve: person('eve', 'eve@other.example', ['guests']),
}
type Who = keyof typeof PEOPLE | 'nobody'

interface Configuration {
  readonly shape: string
  readonly program: 'authelia' | 'oauth2-proxy' | 'traefik-forward-auth'
  readonly text: string
  /** What a person writes in place of what is marked. Default: nothing is. */
  readonly fill?: readonly (readonly [marked: string | RegExp, written: string])[]
  readonly requests: readonly (readonly [url: string, passing: readonly Who[], method?: string])[]
}

const PROVIDER = [
  'type: openIDConnect',
  'type: openIDConnect\n        issuerUrl: https://id.example.com',
] as const
const SECOND_FACTOR = ['second-factor: {}', `second-factor: 'ClaimContains("amr", "mfa")'`] as const
const EVERYBODY = ['ada', 'bob', 'eve'] as const
const ANYBODY = [...EVERYBODY, 'nobody'] as const

const CONFIGURATIONS: readonly Configuration[] = [
  {
    shape: 'a file of oauth2-proxy behind nginx',
    program: 'oauth2-proxy',
    text: `http_address = "0.0.0.0:4180"
reverse_proxy = true
provider = "keycloak-oidc"
oidc_issuer_url = "https://id.example.com/realms/home"
client_id = "oauth2-proxy"
client_secret = "CANARY"
cookie_secret = "CANARY"
cookie_domains = [ ".example.com" ]
whitelist_domains = [ ".example.com" ]
redirect_url = "https://login.example.com/oauth2/callback"
email_domains = [ "*" ]
allowed_groups = [ "family" ]
upstreams = [ "file:///dev/null" ]
skip_auth_routes = [ "GET=^/public/" ]
set_xauthrequest = true
`,
    requests: [
      ['https://app.example.com/', ['ada', 'bob']],
      ['https://app.example.com/public/x', ANYBODY],
      ['https://app.example.com/public/x', ['ada', 'bob'], 'POST'],
    ],
  },
  {
    shape: 'flags of oauth2-proxy in front of one app, as in a list of a compose file',
    program: 'oauth2-proxy',
    text: `      - --http-address=0.0.0.0:4180
      - --provider=oidc
      - --oidc-issuer-url="https://id.example.com"
      - --client-id="dashboard"
      - --client-secret=CANARY
      - --cookie-secret=CANARY
      - --upstream=http://dashboard:3000
      - --redirect-url=https://dashboard.example.com/oauth2/callback
      - --email-domain=example.com
`,
    fill: [['authHost: ""', 'authHost: auth.example.net']],
    requests: [
      ['https://dashboard.example.com/', ['ada', 'bob']],
      ['https://dashboard.example.com/api', ['ada', 'bob'], 'POST'],
    ],
  },
  {
    shape: 'values of the Helm chart of oauth2-proxy',
    program: 'oauth2-proxy',
    text: `replicaCount: 2
image: { tag: v7.15.0 }
config:
  clientID: cluster
  existingSecret: oauth2-proxy
  configFile: |-
    email_domains = [ "*" ]
    upstreams = [ "file:///dev/null" ]
extraArgs:
  provider: oidc
  oidc-issuer-url: https://id.example.com
  redirect-url: https://login.example.com/oauth2/callback
  cookie-domain: .example.com
  whitelist-domain: .example.com
  email-domain: example.com
  skip-auth-route: GET=^/public/
extraEnv:
  - name: OAUTH2_PROXY_COOKIE_SECRET
    valueFrom: { secretKeyRef: { name: cookie, key: secret } }
  - name: OAUTH2_PROXY_ALLOWED_GROUPS
    value: family
ingress:
  enabled: true
  hosts: [login.example.com]
authenticatedEmailsFile: { enabled: false }
`,
    requests: [
      ['https://app.example.com/', ['ada', 'bob']],
      ['https://app.example.com/public/x', ANYBODY],
      ['https://app.example.com/public/x', ['ada', 'bob'], 'POST'],
    ],
  },
  {
    shape: 'a structured configuration of oauth2-proxy',
    program: 'oauth2-proxy',
    text: `server:
  bindAddress: 0.0.0.0:4180
upstreamConfig:
  upstreams: [{ id: none, path: /, static: true, staticCode: 202 }]
providers:
  - id: corp
    provider: oidc
    clientID: gate
    clientSecret: CANARY
    allowedGroups: [admins]
    oidcConfig:
      issuerURL: https://id.example.com
      groupsClaim: groups
      emailClaim: email
`,
    fill: [
      ['domains: []', 'domains: [{ domain: example.com, authHost: auth.example.com }]'],
      ['allow: {}', 'allow: { groups: [admins] }'],
    ],
    requests: [['https://app.example.com/', ['ada']]],
  },
  {
    shape: 'variables of traefik-forward-auth by thomseddon, with Google',
    program: 'traefik-forward-auth',
    text: `PROVIDERS_GOOGLE_CLIENT_ID=gate
PROVIDERS_GOOGLE_CLIENT_SECRET=CANARY
SECRET=CANARY
COOKIE_DOMAIN=example.com
AUTH_HOST=auth.example.com
WHITELIST=ada@example.com,eve@other.example
`,
    requests: [['https://app.example.com/', ['ada', 'eve']]],
  },
  {
    shape: 'a file of traefik-forward-auth by thomseddon, with rules',
    program: 'traefik-forward-auth',
    text: `default-provider=oidc
providers.oidc.issuer-url=https://id.example.com
providers.oidc.client-id=gate
providers.oidc.client-secret=CANARY
secret=CANARY
cookie-domain=example.com
auth-host=auth.example.com
domain=example.com
rule.hooks.action=allow
rule.hooks.rule=Host(\`git.example.com\`) && PathPrefix(\`/hooks/\`)
rule.router.rule=Host(\`router.example.com\`)
rule.router.whitelist=ada@example.com
`,
    requests: [
      ['https://app.example.com/', ['ada', 'bob']],
      ['https://git.example.com/hooks/push', ANYBODY],
      ['https://router.example.com/', ['ada']],
    ],
  },
  {
    shape: 'a file of traefik-forward-auth 4',
    program: 'traefik-forward-auth',
    text: `server:
  domains: [{ domain: example.com, authHost: auth.example.com }]
tokens: { signingKey: CANARY }
portals:
  - name: main
    providers:
      - pocketID: { endpoint: https://id.example.com, clientID: gate, clientSecret: CANARY }
`,
    requests: [['https://app.example.com/', EVERYBODY]],
  },
  {
    shape: 'variables of traefik-forward-auth 3, with Google, in a compose file',
    program: 'traefik-forward-auth',
    text: `      - TFA_HOSTNAME=auth.example.com
      - TFA_COOKIEDOMAIN=example.com
      - TFA_AUTHPROVIDER=google
      - TFA_AUTHGOOGLE_CLIENTID=gate
      - TFA_AUTHGOOGLE_CLIENTSECRET=CANARY
      - TFA_AUTHGOOGLE_ALLOWEDEMAILS=ada@example.com,eve@other.example
      - TFA_TOKENSIGNINGKEY=CANARY
`,
    requests: [['https://app.example.com/', ['ada', 'eve']]],
  },
  {
    shape:
      'Authelia with APIs that are open, and everything else for those who have signed in twice',
    program: 'authelia',
    text: `server: { address: 'tcp://:9091' }
authentication_backend: { file: { path: /config/users_database.yml } }
access_control:
  default_policy: deny
  rules:
    - domain: auth.example.com
      policy: bypass
    - domain: [sonarr.example.com, radarr.example.com]
      policy: bypass
      resources:
        - '^/api/.*$'
        - '^/api$'
    - domain: '*.example.com'
      policy: two_factor
session:
  expiration: 1h
  inactivity: 5m
  remember_me_duration: 1M
  domain: example.com
  secret: CANARY
notifier: { filesystem: { filename: /config/notification.txt } }
`,
    fill: [
      PROVIDER,
      SECOND_FACTOR,
      ['authHost: ""', 'authHost: auth.example.com'],
      // As the text says: with the path, and what it names.
      ['require: undecided', 'paths: [/api]\n        require: anyone'],
    ],
    requests: [
      ['https://sonarr.example.com/api/v3/queue', ANYBODY],
      ['https://radarr.example.com/api', ANYBODY],
      ['https://sonarr.example.com/', ['ada']],
      ['https://other.example.com/api/v3', ['ada']],
    ],
  },
  {
    shape: 'Authelia with groups: some for everything, others for some apps',
    program: 'authelia',
    text: `authentication_backend: { ldap: { address: 'ldap://lldap:3890', password: CANARY } }
access_control:
  default_policy: deny
  rules:
    - domain: vault.example.com
      resources: '^/admin([/?].*)?$'
      subject: group:admins
      policy: two_factor
    - domain: vault.example.com
      resources: '^/admin([/?].*)?$'
      policy: deny
    - domain: vault.example.com
      policy: bypass
    - domain: [photos.example.com, films.example.com]
      subject: ['group:family', 'user:eve']
      policy: one_factor
    - domain: ['example.com', '*.example.com']
      subject: group:admins
      policy: two_factor
session:
  secret: CANARY
  cookies:
    - domain: example.com
      authelia_url: https://auth.example.com
      default_redirection_url: https://www.example.com
identity_providers: { oidc: { clients: [{ client_id: nextcloud, client_secret: CANARY }] } }
`,
    fill: [
      PROVIDER,
      SECOND_FACTOR,
      // One factor was enough for the family, as the text of second-factor says.
      [
        /(hosts: \[photos\.example\.com, films\.example\.com\]\n +require: )\[(people-\d), second-factor\]/,
        '$1$2',
      ],
    ],
    requests: [
      ['https://vault.example.com/', ANYBODY],
      ['https://vault.example.com/admin/users', ['ada']],
      ['https://photos.example.com/', ['ada', 'bob', 'eve']],
      ['https://router.example.com/', ['ada']],
      ['https://example.com/', ['ada']],
    ],
  },
  {
    shape: 'Authelia with a network at home, methods and a query',
    program: 'authelia',
    text: `access_control:
  default_policy: one_factor
  networks: [{ name: internal, networks: ['192.168.0.0/16', '203.0.113.0/24'] }]
  rules:
    - domain: home.example.com
      networks: [internal]
      policy: bypass
    - domain: dav.example.com
      methods: [OPTIONS, PROPFIND]
      policy: bypass
    - domain: files.example.com
      query: [[{ operator: present, key: token }]]
      policy: bypass
    - domain: work.example.com
      networks: ['10.0.0.0/8']
      policy: one_factor
    - domain: work.example.com
      policy: deny
session:
  cookies: [{ domain: example.com, authelia_url: 'https://auth.example.com' }]
`,
    // The rule with the query goes, as the guide says.
    fill: [PROVIDER, [/ {6}- # rule 3\n(?: {8}.*\n)+/, '']],
    requests: [
      ['https://home.example.com/', ANYBODY],
      ['https://dav.example.com/x', ANYBODY, 'PROPFIND'],
      ['https://dav.example.com/x', EVERYBODY, 'PUT'],
      ['https://files.example.com/x?token=1', EVERYBODY],
      ['https://work.example.com/', []],
    ],
  },
]

for (const { shape, program, text, fill = [], requests } of CONFIGURATIONS)
  t.test(shape, async (t) => {
    const { yaml, todos, config } = await migration(t, program)(text)
    t.equal(todos > 0, fill.length > 0)
    t.equal(config === undefined, fill.length > 0, 'it is refused until a person has decided')
    t.notMatch(yaml, 'CANARY')
    const filled = fill.reduce((printed, [marked, written]) => {
      t.match(printed, marked)
      return printed.replace(marked, written)
    }, yaml)
    const gate = await startApp(t, filled.replace(/clientSecretFile: .*/, 'clientSecret: a'))
    const provider = parse(filled).portals[0].providers[0].name
    const { domain } = gate.app.sites.list[0] ?? {}
    for (const [url, passing, method = 'GET'] of requests)
      for (const who of ANYBODY) {
        const { host, pathname, search } = new URL(url)
        const options = { provider, host, ...(domain && { domain }) }
        const cookie = who === 'nobody' ? '' : await gate.signIn('main', PEOPLE[who], options)
        const headers = {
          'X-Forwarded-Method': method,
          'X-Forwarded-Proto': 'https',
          'X-Forwarded-Host': host,
          'X-Forwarded-Uri': `${pathname}${search}`,
          'X-Forwarded-For': '203.0.113.7',
          ...(cookie !== '' && { cookie }),
        }
        const sent = {
          proxy: '',
          dialect: forwardDialect,
          method: 'GET',
          path: '',
          headers,
          needs: [],
        }
        const { statusCode } = await gate.check(sent)
        const passes = passing.some((name) => name === who)
        t.equal(statusCode === 200, passes, `${who}: ${method} ${url} (${statusCode})`)
      }
  })

t.test('a file of le-cert-server', async (t) => {
  const key = 'the-key-of-the-clients-0123456789'
  const folder = testFolder(t)
  const file = join(folder, 'le-cert-server.yaml')
  const text = `server: { bind: 127.0.0.1, port: 7401 }
letsEncrypt:
  email: admin@example.com
  dnsProvider: cloudflare
  dnsCredentials: { CF_DNS_API_TOKEN: CANARY }
database: { path: /data/certs.db }
auth: { psk: { key: ${key} } }
`
  writeFileSync(file, text)
  const { yaml, todos } = await migrate('le-cert-server', file, PROGRAM.load)
  t.equal(todos, 0)
  t.notMatch(yaml, /CANARY|the-key-of/)
  writeFileSync(join(folder, 'dns-apitoken'), 'CANARY')
  const { call } = await start(t, parse(yaml), { folder })
  const ask = async (secret: string) =>
    (await call('GET', '/api/certificates', undefined, { authorization: `APIKey ${secret}` }))
      .status
  t.equal(await ask(key), 200, 'clients keep their key')
  t.equal(await ask('another-key-of-a-client-012345'), 401)
})

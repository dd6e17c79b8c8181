import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { createTestCa } from '../../../../scripts/test/certificates.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { doctor } from '../../src/cli/doctor.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { SESSION_KEY } from '../app.ts'
import { issueCertificate } from '../helpers/certificates.ts'
import { startEcho } from '../helpers/echo.ts'
import { startGatehouse } from '../helpers/gatehouse.ts'
import { freePort } from '../helpers/process.ts'
import {
  missingProgram,
  PROXIES,
  type ProxyName,
  readExample,
  type Surroundings,
} from '../helpers/proxies.ts'

// The provider is not there.
expectWarnings(t, 'check refused', 'login could not be started')

const CONFIG = `${readExample('forward-auth.yaml', [
  ['clientSecretFile: /etc/gatehouse/forward-auth/client-secret', 'clientSecret: not-used-here'],
])}\n${SESSION_KEY}\n`
const HOSTS = ['app.example.com', 'admin.example.com', 'auth.example.com']
const CLAIMS = { name: 'Doctor', email: 'doctor@example.com', email_verified: true }

const LOST = /With 302, no client receives the cookie __Host-gatehouse-hop\.main\.[0-9a-f]+\./
const AUTH_LOST = /No client receives the cookies of the sign-in pages at auth\.example\.com/
const AUTH_UNSEEN = /The sign-in pages at auth\.example\.com receive no Cookie/
const UNSEEN = /receives no sec-fetch-dest.*which tell a page from a call/

type Seed = readonly [mistake: string, changes: NonNullable<Surroundings['changes']>, said: RegExp]

/** A line more for nginx at the host of the sign-in pages. */
const atSignIn = (line: string) => {
  const start = 'server_name auth.example.com;\n\n    location / {'
  return [start, `${start} ${line}`] as const
}

/** One line of an example changed, and what the doctor has to say. */
const SEEDS: Readonly<Record<string, readonly Seed[]>> = {
  nginx: (
    [
      ['no cookie of the sign-in pages', [atSignIn('proxy_hide_header Set-Cookie;')], AUTH_LOST],
      ['no Cookie to the sign-in pages', [atSignIn('proxy_set_header Cookie "";')], AUTH_UNSEEN],
      [
        'no cookie of the check',
        [['location @refused {', 'location @refused { proxy_hide_header Set-Cookie;']],
        LOST,
      ],
      [
        'no Sec-Fetch-Dest',
        [
          [
            'proxy_set_header X-Original-Method',
            'proxy_set_header Sec-Fetch-Dest ""; proxy_set_header X-Original-Method',
          ],
        ],
        UNSEEN,
      ],
      ['no check', [['auth_request /_gatehouse;', '']], /answers 200 without a check/],
      [
        'an identity header that is not set',
        [['proxy_set_header X-Forwarded-User $user;', '']],
        /forge x-forwarded-user for the app/,
      ],
      [
        'an identity header that is not copied',
        [
          [
            'auth_request_set $displayname $upstream_http_x_forwarded_displayname;',
            'set $displayname "";',
          ],
        ],
        /does not receive x-forwarded-displayname/,
      ],
      [
        'no Cookie',
        [
          [
            'proxy_set_header X-Original-Method',
            'proxy_set_header Cookie ""; proxy_set_header X-Original-Method',
          ],
        ],
        /receives no Cookie/,
      ],
      [
        'the host of the upstream',
        [['$scheme://$host$request_uri', '$scheme://$proxy_host$request_uri']],
        /told the host .*gatehouse/,
      ],
      [
        'the wrong scheme',
        [['X-Original-URL $scheme', 'X-Original-URL http']],
        /told the scheme http, not https/,
      ],
      [
        'the path without its query',
        [['$scheme://$host$request_uri', '$scheme://$host$uri']],
        /told the path/,
      ],
      [
        'the method of the subrequest',
        [
          [
            'proxy_set_header X-Original-Method $request_method;',
            'proxy_set_header X-Original-Method GET;',
          ],
        ],
        /told the method GET, not POST/,
      ],
      [
        'the address of the client as it likes',
        [['X-Forwarded-For $remote_addr', 'X-Forwarded-For $http_x_forwarded_for']],
        /can forge X-Forwarded-For/,
      ],
      [
        'small buffers for requests',
        [['large_client_header_buffers 4 32k;', '']],
        /With 12 kB of cookies/,
      ],
      [
        'small buffers for answers',
        [
          ['proxy_buffer_size 32k;', ''],
          ['proxy_buffers 8 32k;', ''],
        ],
        /header of several kB, the proxy answers 50/,
      ],
      [
        'the host of the upstream at the app',
        [['proxy_send_timeout 1h;\n      proxy_set_header Host $host;', '']],
        /told the host app, not app\.example\.com/,
      ],
      [
        'every upgrade',
        [
          ['proxy_set_header Upgrade $upgrade;', 'proxy_set_header Upgrade $http_upgrade;'],
          [
            'map $upgrade $upgrade_connection {',
            'map $http_upgrade $upgrade_connection { default upgrade;',
          ],
        ],
        /leave every check behind/,
      ],
      ['a forged address', [['proxy_set_header X-Real-IP "";', '']], /forge x-real-ip for the app/],
      [
        'another path at the app',
        [['proxy_set_header X-Original-URL "";', '']],
        /app receives x-original-url, which the check does not/,
      ],
      ['no redirect', [['error_page 403 = @refused;', '']], /receives 403 without Location/],
      [
        'another host for the sign-in pages',
        [
          [
            'proxy_set_header Host $host;\n      proxy_set_header Connection "";\n      proxy_set_header X-Forwarded-Host $host;',
            '',
          ],
        ],
        /sign-in pages at auth.example.com are told another host/,
      ],
      [
        'a check before the sign-in pages',
        [
          [
            'server_name auth.example.com;',
            'server_name auth.example.com; auth_request /_check; location = /_check { internal; proxy_pass http://gatehouse/portals/main/authz/nginx?policy=any; proxy_set_header X-Gatehouse-Answer sealed; proxy_set_header X-Original-Method GET; proxy_set_header X-Original-URL $scheme://$host$request_uri; }',
          ],
        ],
        /auth.example.com is protected itself/,
      ],
    ] as const
  ).map(([mistake, changes, said]) => [mistake, { 'nginx.conf': changes }, said]),
  caddy: (
    [
      [
        'no cookie of the sign-in pages',
        [['auth.example.com {', 'auth.example.com {\n\theader -Set-Cookie']],
        AUTH_LOST,
      ],
      [
        'no Cookie to the sign-in pages',
        [['auth.example.com {', 'auth.example.com {\n\trequest_header -Cookie']],
        AUTH_UNSEEN,
      ],
      [
        'no cookie of the check',
        [['copy_headers', 'header_down -Set-Cookie\n\t\tcopy_headers']],
        LOST,
      ],
      [
        'no Sec-Fetch-Dest',
        [['copy_headers', 'header_up -Sec-Fetch-Dest\n\t\tcopy_headers']],
        UNSEEN,
      ],
      [
        'no check',
        [['forward_auth', '@never path /never\n\tforward_auth @never']],
        /answers 200 without a check/,
      ],
      [
        'an identity header that is not copied',
        [['copy_headers X-Forwarded-User', 'copy_headers']],
        /forge x-forwarded-user for the app/,
      ],
      [
        'no Cookie',
        [['copy_headers', 'header_up -Cookie\n\t\tcopy_headers']],
        /receives no Cookie/,
      ],
      [
        'another host',
        [['copy_headers', 'header_up X-Forwarded-Host {upstream_hostport}\n\t\tcopy_headers']],
        /told the host/,
      ],
      [
        'the wrong scheme',
        [['copy_headers', 'header_up X-Forwarded-Proto http\n\t\tcopy_headers']],
        /told the scheme http, not https/,
      ],
      [
        'the path without its query',
        [['X-Forwarded-Uri {http.request.orig_uri}', 'X-Forwarded-Uri {path}']],
        /told the path/,
      ],
      [
        'always one method',
        [['copy_headers', 'header_up X-Forwarded-Method GET\n\t\tcopy_headers']],
        /told the method GET, not POST/,
      ],
      [
        'no address of the client',
        [['copy_headers', 'header_up -X-Forwarded-For\n\t\tcopy_headers']],
        /receives no X-Forwarded-For/,
      ],
      [
        'the address of the client as it likes',
        [['copy_headers', 'header_up X-Forwarded-For {header.X-Forwarded-For}\n\t\tcopy_headers']],
        /can forge X-Forwarded-For/,
      ],
      [
        'no Accept',
        [['copy_headers', 'header_up -Accept\n\t\theader_up -Sec-Fetch-Mode\n\t\tcopy_headers']],
        /neither Accept nor Sec-Fetch-Mode/,
      ],
      ['a portal that is not there', [['/portals/main?', '/portals/nope?']], /FWA_NOT_FOUND/],
      [
        'no query',
        [['uri /portals/main?policy={policy}', 'uri /portals/main']],
        /query of the client/,
      ],
      ['no guard', [['\timport guard\n', '']], /leave every check behind/],
      ['Connection', [['request_header @other -Connection', '']], /take x-forwarded-user away/],
      ['a forged address', [['request_header -X-Real-IP', '']], /forge x-real-ip for the app/],
      [
        'another host for the sign-in pages',
        [
          [
            '# The sign-in pages.\nauth.example.com {',
            'auth.example.com {\n\trequest_header Host other.test',
          ],
        ],
        /sign-in pages at auth.example.com are told another host/,
      ],
    ] as const
  ).map(([mistake, changes, said]) => [mistake, { Caddyfile: changes }, said]),
  haproxy: (
    [
      ['no cookie of the check', 'lua', [['FRAMING = { ', "FRAMING = { 'set-cookie', "]], LOST],
      ['no Sec-Fetch-Dest', 'lua', [["'sec-fetch-dest', ", '']], UNSEEN],
      [
        'no check',
        'cfg',
        [
          ['http-request lua.gatehouse', '# http-request lua.gatehouse'],
          ['http-request deny deny_status 503 unless', '# http-request deny unless'],
        ],
        /answers 200 without a check/,
      ],
      [
        'an identity header that is not set',
        'lua',
        [["  'x-forwarded-user', ", '  ']],
        /does not receive x-forwarded-user/,
      ],
      ['no Cookie', 'lua', [["'cookie', ", '']], /receives no Cookie/],
      [
        'another host',
        'cfg',
        [['X-Forwarded-Host %[req.hdr(host)]', 'X-Forwarded-Host wiki.example.com']],
        /told the host wiki.example.com, not app.example.com/,
      ],
      [
        'the wrong scheme',
        'cfg',
        [['X-Forwarded-Proto https', 'X-Forwarded-Proto http']],
        /told the scheme http, not https/,
      ],
      ['the path without its query', 'lua', [['txn.sf:pathq()', 'txn.sf:path()']], /told the path/],
      ['always one method', 'lua', [['txn.sf:method()', "'GET'"]], /told the method GET, not POST/],
      [
        'no address of the client',
        'lua',
        [["'x-forwarded-for', ", '']],
        /receives no X-Forwarded-For/,
      ],
      [
        'the address of the client as it likes',
        'cfg',
        [
          ['http-request set-header X-Forwarded-For %[src]', ''],
          ['|x-forward.*|', '|'],
        ],
        /can forge X-Forwarded-For/,
      ],
      [
        'no Accept',
        'lua',
        [
          ["'accept', ", ''],
          ["'sec-fetch-mode', ", ''],
        ],
        /neither Accept nor Sec-Fetch-Mode/,
      ],
      [
        'small buffers',
        'cfg',
        [['tune.bufsize 65536', 'tune.bufsize 8192']],
        /With 12 kB of cookies/,
      ],
      [
        'Connection',
        'cfg',
        [['http-request del-header Connection', '']],
        /take x-forwarded-user away/,
      ],
      [
        'Connection but for some names',
        'cfg',
        [
          [
            'http-request del-header Connection',
            'http-request deny if { req.hdr(connection) -i -m beg x-f }',
          ],
        ],
        /take x-authenticated-user away/,
      ],
      [
        'every upgrade',
        'cfg',
        [
          [
            'http-request deny deny_status 400 if { req.hdr(upgrade) -m found } !for-websocket or { req.hdr_cnt(upgrade) gt 1 }',
            '',
          ],
        ],
        /leave every check behind/,
      ],
      [
        'no overrides',
        'lua',
        [["  'x-http-method', 'x-http-method-override', 'x-method-override',\n", '']],
        /app receives x-http-method/,
      ],
      [
        'headers with tildes',
        'cfg',
        [['del-header [^a-zA-Z0-9-] -m reg', 'del-header [_.] -m reg']],
        /other spellings/,
      ],
      [
        'headers with underscores',
        'cfg',
        [['http-request del-header [^a-zA-Z0-9-] -m reg', '']],
        /other spellings/,
      ],
      [
        'no Location',
        'lua',
        [['FRAMING = { ', "FRAMING = { 'location', "]],
        /receives 302 without Location/,
      ],
      [
        'no WWW-Authenticate',
        'lua',
        [['FRAMING = { ', "FRAMING = { 'www-authenticate', "]],
        /401 without WWW-Authenticate/,
      ],
      [
        'a check before the sign-in pages',
        'cfg',
        [['if for-auth or for-metadata', 'if for-metadata']],
        /auth.example.com is protected itself/,
      ],
    ] as const
  ).map(([mistake, file, changes, said]) => [mistake, { [`haproxy.${file}`]: changes }, said]),
  envoy: (
    [
      ['no cookie of the check', [['- { exact: set-cookie, ignore_case: true }', '']], LOST],
      ['no Sec-Fetch-Dest', [['- { exact: sec-fetch-dest, ignore_case: true }', '']], UNSEEN],
      [
        'no check',
        [
          [
            'gatehouse-admins: *off\n                    - name: admin',
            'gatehouse-admins: *off\n                        gatehouse-any: *off\n                    - name: admin',
          ],
        ],
        /answers 200 without a check/,
      ],
      [
        'an identity header that is not copied',
        [['- { exact: x-forwarded-user, ignore_case: true }', '']],
        /forge x-forwarded-user for the app/,
      ],
      ['no Cookie', [['- { exact: cookie, ignore_case: true }', '']], /receives no Cookie/],
      ['the wrong scheme', [['"%REQ(:SCHEME)%"', 'http']], /told the scheme http, not https/],
      [
        'another path',
        [
          [
            'path_prefix: /portals/main/authz/envoy/policy/any',
            'path_prefix: /portals/main/authz/envoy/policy/any/app',
          ],
        ],
        /told the path/,
      ],
      [
        'no Accept',
        [
          ['- { exact: accept, ignore_case: true }', ''],
          ['- { exact: sec-fetch-mode, ignore_case: true }', ''],
        ],
        /neither Accept nor Sec-Fetch-Mode/,
      ],
      [
        'the check of another service',
        [['cluster: gatehouse, timeout: 2s', 'cluster: app, timeout: 2s']],
        /answers 200 without a check/,
      ],
      [
        'no address of the client',
        [
          [
            '{ key: x-forwarded-proto, value: "%REQ(:SCHEME)%" }',
            '{ key: x-forwarded-proto, value: "%REQ(:SCHEME)%" }',
          ],
          ['key: x-forwarded-for,', 'key: x-client,'],
        ],
        /receives no X-Forwarded-For/,
      ],
      [
        'no overrides',
        [['- { exact: x-rewrite-url, ignore_case: true }', '']],
        /app receives x-rewrite-url/,
      ],
      [
        'the host of the upstream at the app',
        [
          [
            'route: { cluster: app, timeout: 0s }',
            'route: { cluster: app, timeout: 0s, host_rewrite_literal: upstream }',
          ],
        ],
        /told the host upstream/,
      ],
      [
        'small buffers',
        [['stat_prefix: https', 'stat_prefix: https\n                max_request_headers_kb: 8']],
        /With 12 kB of cookies/,
      ],
      [
        'headers with underscores',
        [
          ['REJECT_REQUEST', 'ALLOW'],
          ['[^:].*[^a-zA-Z0-9-].*', 'none'],
        ],
        /other spellings/,
      ],
      [
        'a portal that is not there',
        [['path_prefix: /portals/main/', 'path_prefix: /portals/nope/']],
        /FWA_NOT_FOUND/,
      ],
      [
        'a check before the sign-in pages',
        [
          [
            'gatehouse-any: *off\n                        gatehouse-admins: *off',
            'gatehouse-admins: *off',
          ],
        ],
        /auth.example.com is protected itself/,
      ],
    ] as const
  ).map(([mistake, changes, said]) => [mistake, { 'envoy.yaml': changes }, said]),
  traefik: (
    [
      ['no cookie of the check', changed('customResponseHeaders: { Set-Cookie: "" }'), LOST],
      [
        'no Sec-Fetch-Dest',
        [
          [
            'trustForwardHeader: true',
            'authRequestHeaders: [Accept, Cookie, Sec-Fetch-Mode, Sec-Fetch-Site, Referer]',
          ],
        ],
        UNSEEN,
      ],
      [
        'no check',
        [['middlewares: [without-forged, gatehouse]', 'middlewares: [without-forged]']],
        /answers 200 without a check/,
      ],
      [
        'an identity header that is not copied',
        [['            X-Forwarded-User,\n', '']],
        /forge x-forwarded-user for the app/,
      ],
      [
        'no Cookie',
        [['trustForwardHeader: true', 'authRequestHeaders: [Accept, Sec-Fetch-Mode]']],
        /receives no Cookie/,
      ],
      [
        'no Accept',
        [['trustForwardHeader: true', 'authRequestHeaders: [Cookie]']],
        /neither Accept nor Sec-Fetch-Mode/,
      ],
      [
        'another host',
        changed('customRequestHeaders: { X-Forwarded-Host: wiki.example.com }'),
        /told the host wiki.example.com, not app.example.com/,
      ],
      [
        'the wrong scheme',
        changed('customRequestHeaders: { X-Forwarded-Proto: http }'),
        /told the scheme http, not https/,
      ],
      [
        'always one method',
        changed('customRequestHeaders: { X-Forwarded-Method: GET }'),
        /told the method GET, not POST/,
      ],
      [
        'always one path',
        changed('customRequestHeaders: { X-Forwarded-Uri: /app }'),
        /told the path \/app/,
      ],
      [
        'no Location',
        changed('customResponseHeaders: { Location: "" }'),
        /receives 302 without Location/,
      ],
      [
        'no WWW-Authenticate',
        changed('customResponseHeaders: { WWW-Authenticate: "" }'),
        /401 without WWW-Authenticate/,
      ],
      ['every upgrade', [['priority: 1000000', 'priority: 1']], /leave every check behind/],
      [
        'the host of the upstream at the app',
        [
          [
            'loadBalancer:\n        servers: [{ url: http://127.0.0.1:8080',
            'loadBalancer:\n        passHostHeader: false\n        servers: [{ url: http://127.0.0.1:8080',
          ],
        ],
        /told the host 127\.0\.0\.1/,
      ],
      ['a policy that is not there', [['policy=any', 'policy=nobody']], /FWA_POLICY_UNKNOWN/],
      [
        'a check before the sign-in pages',
        [
          [
            '      service: gatehouse\n',
            '      service: gatehouse\n      middlewares: [gatehouse]\n',
          ],
        ],
        /auth.example.com is protected itself/,
      ],
    ] as const
  ).map(([mistake, changes, said]) => [mistake, { 'traefik.yaml': changes }, said]),
}

/** A middleware that changes headers before the check. */
function changed(headers: string): readonly (readonly [string, string])[] {
  return [
    ['middlewares: [without-forged, gatehouse]', 'middlewares: [wrong, gatehouse]'],
    [
      '    gatehouse:\n      forwardAuth',
      `    wrong: { headers: { ${headers} } }\n    gatehouse:\n      forwardAuth`,
    ],
  ]
}

interface Examined {
  readonly changes?: Surroundings['changes']
  readonly url?: string
  /** Default: the CA that issued the certificate. */
  readonly ca?: string
}

async function startWorld(t: Test, config = CONFIG) {
  const folder = testFolder(t)
  // The doctor and the service have one store.
  const yaml = `${config}\nstorage: { path: "${folder}/data" }\n`
  const [gatehouse, echo] = [await startGatehouse(t, yaml), await startEcho(t)]
  const certificate = await issueCertificate(folder, HOSTS)
  const [caFile, claimsFile, file] = ['ca.pem', 'claims.json', 'config.yaml'].map((name) =>
    join(folder, name),
  ) as [string, string, string]
  writeFileSync(claimsFile, JSON.stringify(CLAIMS))
  writeFileSync(file, `server: { port: ${gatehouse.port} }\n${yaml}`)
  const { value } = await loadForwardAuthConfig(file, {})
  const { clock } = gatehouse

  /** What the doctor says of a proxy with these changes. */
  async function examine(
    t: Test,
    proxy: ProxyName,
    { changes = {}, url = 'https://app.example.com', ca }: Examined = {},
  ) {
    const port = await freePort()
    const around = { folder: testFolder(t), certificate, changes, port }
    await PROXIES[proxy](t, { ...around, gatehousePort: gatehouse.port, appPort: echo.port })
    writeFileSync(caFile, ca ?? certificate.rootPem)
    const options = { url, resolve: `127.0.0.1:${port}`, caFile, claimsFile }
    return doctor(value, options, { clock }).catch(({ message }: Error) => message)
  }
  return { gatehouse, examine, yaml }
}

for (const [proxy, seeds] of Object.entries(SEEDS)) {
  const name = proxy as ProxyName
  const skip = missingProgram(name)
  t.test(proxy, { skip }, async (t) => {
    const { gatehouse, examine, yaml } = await startWorld(t)
    const behind = `https://app.example.com behind ${proxy}`
    await t.test('as in the guide', async (t) => {
      t.equal(await examine(t, name), `${behind}: no mistake found\n`)
    })
    for (const [mistake, changes, said] of seeds)
      await t.test(mistake, async (t) => {
        const told = await examine(t, name, { changes })
        t.match(told, said)
        t.match(told, /Look at: |FWA_|--proxy/, 'the line to change')
      })
    await t.test('a proxy that is not trusted', async (t) => {
      await gatehouse.reload(`${yaml}server: { trustedProxies: [192.0.2.1] }`)
      t.match(
        await examine(t, name),
        /does not trust the proxy at 127\.0\.0\.1\.\n.*server\.trustedProxies/,
      )
    })
  })
}

/** One cookie for all hosts, which each example passes on to the app. */
const SHARED = CONFIG.replace(
  'authHost: auth.example.com',
  'authHost: auth.example.com\n    session: { scope: domain }',
)

t.test('the session of a domain at the app', async (t) => {
  const { examine } = await startWorld(t, SHARED)
  for (const proxy of Object.keys(SEEDS) as ProxyName[])
    await t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
      // Traefik can do nothing about it.
      const said = proxy === 'traefik' ? /no mistake found/ : /app receives the session cookie/
      t.match(await examine(t, proxy), said)
    })
})

const NO_CALLS = [
  "  'last-event-id', 'mcp-method', 'mcp-name', 'mcp-protocol-version', 'mcp-session-id',\n",
  '',
] as const
/** A rule that names tools, at a path of its own. */
const WITH_TOOLS = CONFIG.replace(
  '    policies:\n',
  '    rules: [{ paths: [/mcp], tools: [read], require: signedIn }]\n    policies:\n',
)

t.test('a call by MCP that the check does not see', async (t) => {
  const { examine } = await startWorld(t, WITH_TOOLS)
  const lines = (file: string, ...changes: readonly (readonly [string, string])[]) => ({
    [file]: changes,
  })
  const rows: readonly [ProxyName, Surroundings['changes'], RegExp][] = [
    [
      'nginx',
      lines('nginx.conf', [
        'proxy_set_header X-Original-Method $',
        'proxy_set_header Mcp-Name ""; proxy_set_header X-Original-Method $',
      ]),
      /no mcp-name:/,
    ],
    [
      'caddy',
      lines('Caddyfile', [
        'request_header -Forwarded',
        'request_header -Mcp-*\n\trequest_header -Forwarded',
      ]),
      /no mcp-protocol-version, mcp-method, mcp-name, mcp-session-id:/,
    ],
    [
      'traefik',
      lines('traefik.yaml', [
        'trustForwardHeader: true',
        'trustForwardHeader: true\n        authRequestHeaders: [Accept, Cookie, User-Agent, Sec-Fetch-Mode, Mcp-Name]',
      ]),
      /no mcp-protocol-version, mcp-method, mcp-session-id, last-event-id:/,
    ],
    [
      'haproxy',
      lines('haproxy.lua', NO_CALLS),
      /no mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id:/,
    ],
    [
      'envoy',
      lines('envoy.yaml', ['- { exact: mcp-session-id, ignore_case: true }\n', '\n']),
      /no mcp-session-id:/,
    ],
  ]
  for (const [proxy, changes, said] of rows)
    await t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
      t.match(await examine(t, proxy), /no mistake found/)
      const told = await examine(t, proxy, { changes })
      t.match(told, said)
      t.match(told, /Look at: .*mcp|--proxy/i)
    })
})

for (const [what, options] of [
  [
    'a rule for methods',
    'rules: [{ paths: [/x], mcpMethods: [ping], require: signedIn }]\n    policies:',
  ],
  ['a policy', `policies:\n      pings: 'mcp.method == "ping"'`],
] as const)
  t.test(`a call by MCP that the check does not see, for ${what}`, async (t) => {
    const { examine } = await startWorld(t, CONFIG.replace('policies:', options))
    await t.test('haproxy', { skip: missingProgram('haproxy') }, async (t) => {
      const told = await examine(t, 'haproxy', { changes: { 'haproxy.lua': [NO_CALLS] } })
      t.match(told, /no mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id:/)
    })
  })

t.test('a prefix that the proxy strips', async (t) => {
  const { examine } = await startWorld(t)
  const url = 'https://app.example.com/grafana'
  const byTraefik = (middlewares: string) => ({
    'traefik.yaml': [
      [
        '  routers:\n',
        `    strip: { stripPrefix: { prefixes: [/grafana] } }
  routers:
    grafana:
      rule: Host(\`app.example.com\`) && PathPrefix(\`/grafana\`)
      middlewares: [without-forged, ${middlewares}]
      service: app
      tls: {}\n`,
      ],
    ] as const,
  })
  const below = ['\thandle {\n', '\thandle_path /grafana* {\n'] as const
  const ownPath = ['header_up X-Forwarded-Uri {http.request.orig_uri}', ''] as const
  const rows: readonly [ProxyName, Surroundings['changes'], RegExp][] = [
    ['traefik', byTraefik('gatehouse, strip'), /no mistake found/],
    [
      'traefik',
      byTraefik('strip, gatehouse'),
      /: 1 mistake\n\n1\. The proxy strips \/grafana before it asks\.\n.*the check before stripPrefix/,
    ],
    ['caddy', { Caddyfile: [below] }, /no mistake found/],
    [
      'caddy',
      { Caddyfile: [below, ownPath] },
      /strips \/grafana before it asks\.\n.*\{http\.request\.orig_uri\}/,
    ],
  ]
  for (const [proxy, changes, said] of rows)
    await t.test(String(said), { skip: missingProgram(proxy) }, async (t) => {
      t.match(await examine(t, proxy, { url, changes }), said)
    })
})

t.test('a certificate of an unknown CA', async (t) => {
  const { examine } = await startWorld(t)
  await t.test('is said, and what to do', async (t) => {
    const { root } = await createTestCa()
    const told = await examine(t, 'nginx', { ca: root })
    t.match(told, /unknown CA .*: name the CA with --ca ca\.pem/)
  })
})

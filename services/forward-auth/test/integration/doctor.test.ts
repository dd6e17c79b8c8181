import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
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

const CONFIG = `${readExample('forward-auth.yaml', [
  ['clientSecretFile: /etc/gatehouse/forward-auth/client-secret', 'clientSecret: not-used-here'],
])}\n${SESSION_KEY}\n`
const HOSTS = ['app.example.com', 'admin.example.com', 'auth.example.com']
const CLAIMS = { name: 'Doctor', email: 'doctor@example.com', email_verified: true }

type Seed = readonly [mistake: string, changes: NonNullable<Surroundings['changes']>, said: RegExp]

/** One line of an example changed, and what the doctor has to say. */
const SEEDS: Readonly<Record<string, readonly Seed[]>> = {
  nginx: (
    [
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
      ['no redirect', [['error_page 401 403 = @refused;', '']], /receives 401 without Location/],
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
            'server_name auth.example.com; auth_request /_check; location = /_check { internal; proxy_pass http://gatehouse/portals/main/authz/nginx?policy=any; proxy_set_header X-Original-Method GET; proxy_set_header X-Original-URL $scheme://$host$request_uri; }',
          ],
        ],
        /auth.example.com is protected itself/,
      ],
      [
        'the session at the app',
        [['Cookie $own_cookies', 'Cookie $http_cookie']],
        /app receives the session cookie/,
      ],
    ] as const
  ).map(([mistake, changes, said]) => [mistake, { 'nginx.conf': changes }, said]),
  caddy: (
    [
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
        [['copy_headers', 'header_up X-Forwarded-Uri {path}\n\t\tcopy_headers']],
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
      ['a portal that is not there', [['/portals/main?', '/portals/nope?']], /FWA_PORTAL_UNKNOWN/],
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
      [
        'the session at the app',
        [['header_up Cookie "__Secure-gatehouse\\.[^;]*;? ?()" "$1"', '']],
        /app receives the session cookie/,
      ],
    ] as const
  ).map(([mistake, changes, said]) => [mistake, { Caddyfile: changes }, said]),
  haproxy: (
    [
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
        'headers with underscores',
        'cfg',
        [['http-request del-header [^a-zA-Z0-9-] -m reg', '']],
        /with underscores/,
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
      [
        'the session at the app',
        'cfg',
        [['http-request set-header Cookie', '# http-request set-header Cookie']],
        /app receives the session cookie/,
      ],
    ] as const
  ).map(([mistake, file, changes, said]) => [mistake, { [`haproxy.${file}`]: changes }, said]),
  envoy: (
    [
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
        /with underscores/,
      ],
      [
        'a portal that is not there',
        [['path_prefix: /portals/main/', 'path_prefix: /portals/nope/']],
        /FWA_PORTAL_UNKNOWN/,
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
      [
        'the session at the app',
        [['if not cookie:find("__Secure-gatehouse.", 1, true) then', 'if true then']],
        /app receives the session cookie/,
      ],
    ] as const
  ).map(([mistake, changes, said]) => [mistake, { 'envoy.yaml': changes }, said]),
  traefik: (
    [
      [
        'no check',
        [['middlewares: [without-forged, gatehouse]', 'middlewares: [without-forged]']],
        /answers 200 without a check/,
      ],
      [
        'an identity header that is not copied',
        [['[X-Forwarded-User, ', '[']],
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

async function startWorld(t: Test) {
  const folder = testFolder(t)
  const [gatehouse, echo] = [await startGatehouse(t, CONFIG), await startEcho(t)]
  const certificate = await issueCertificate(folder, HOSTS)
  const [caFile, claimsFile, file] = ['ca.pem', 'claims.json', 'config.yaml'].map((name) =>
    join(folder, name),
  ) as [string, string, string]
  writeFileSync(caFile, certificate.rootPem)
  writeFileSync(claimsFile, JSON.stringify(CLAIMS))
  writeFileSync(
    file,
    `server: { port: ${gatehouse.port} }\nstorage: { path: "${folder}/data" }\n${CONFIG}`,
  )
  const { value: config } = await loadForwardAuthConfig(file, {})
  const { clock } = gatehouse

  /** What the doctor says of a proxy with these changes. */
  async function examine(t: Test, proxy: ProxyName, changes: Surroundings['changes'] = {}) {
    const port = await freePort()
    const around = { folder: testFolder(t), certificate, changes, port }
    await PROXIES[proxy](t, { ...around, gatehousePort: gatehouse.port, appPort: echo.port })
    const options = {
      url: 'https://app.example.com',
      resolve: `127.0.0.1:${port}`,
      caFile,
      claimsFile,
    }
    return doctor(config, options, { clock }).catch(({ message }: Error) => message)
  }
  return { gatehouse, examine }
}

for (const [proxy, seeds] of Object.entries(SEEDS)) {
  const name = proxy as ProxyName
  const skip = missingProgram(name)
  t.test(proxy, { skip }, async (t) => {
    const { gatehouse, examine } = await startWorld(t)
    const behind = `https://app.example.com behind ${proxy}`
    await t.test('as in the guide', async (t) => {
      t.equal(await examine(t, name), `${behind}: no mistake found\n`)
    })
    for (const [mistake, changes, said] of seeds)
      await t.test(mistake, async (t) => {
        const told = await examine(t, name, changes)
        t.match(told, said)
        t.match(told, /Look at: |FWA_|--proxy/, 'the line to change')
      })
    await t.test('a proxy that is not trusted', async (t) => {
      await gatehouse.reload(`${CONFIG}\nserver: { trustedProxies: [192.0.2.1] }`)
      t.match(
        await examine(t, name),
        /does not trust the proxy at 127\.0\.0\.1\.\n.*server\.trustedProxies/,
      )
    })
  })
}

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PROXIES as LISTED, PROXY_NAMES } from '@gatehouse/service-kit/proxies'
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
import { startToolServer } from '../helpers/tool-servers.ts'
import {
  missingProgram,
  PROXIES,
  type ProxyName,
  readExample,
  type Surroundings,
  TESTED,
} from '../proxies/index.ts'

// The provider is not there.
expectWarnings(t, 'check refused', 'login could not be started')

const CONFIG = `${readExample('forward-auth.yaml', [
  ['clientSecretFile: /etc/gatehouse/forward-auth/client-secret', 'clientSecret: not-used-here'],
])}\n${SESSION_KEY}\n`
const HOSTS = ['app.example.com', 'admin.example.com', 'auth.example.com']
const CLAIMS = { name: 'Doctor', email: 'doctor@example.com', email_verified: true }

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
    await PROXIES[proxy].start(t, { ...around, gatehousePort: gatehouse.port, appPort: echo.port })
    writeFileSync(caFile, ca ?? certificate.rootPem)
    const options = { url, resolve: `127.0.0.1:${port}`, ca: caFile, as: claimsFile }
    return doctor(value, options, { clock }).catch(({ message }: Error) => message)
  }
  return { gatehouse, examine, yaml }
}

for (const name of PROXY_NAMES) {
  const skip = missingProgram(name)
  t.test(name, { skip }, async (t) => {
    const { gatehouse, examine, yaml } = await startWorld(t)
    const behind = `https://app.example.com behind ${name}`
    await t.test('as in the guide', async (t) => {
      t.equal(await examine(t, name), `${behind}: no mistake found\n`)
    })
    for (const [title, changes, finding] of TESTED[name].mistakes)
      await t.test(title, async (t) => {
        const report = await examine(t, name, { changes })
        t.match(report, finding)
        t.match(report, /Look at: |FWA_|--proxy/, 'the line to change')
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
  for (const proxy of PROXY_NAMES)
    await t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
      const isCurable = 'session-shown' in LISTED[proxy].remedies
      t.match(
        await examine(t, proxy),
        isCurable ? /app receives the session cookie/ : /no mistake found/,
      )
    })
})

/** A rule that names tools, at a path of its own. */
const WITH_TOOLS = CONFIG.replace(
  '    policies:\n',
  '    rules: [{ paths: [/notes], tools: [read], require: signedIn }]\n    policies:\n',
)

t.test('a call by MCP that the check does not see', async (t) => {
  const { examine } = await startWorld(t, WITH_TOOLS)
  for (const proxy of PROXY_NAMES)
    await t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
      const [changes, finding] = TESTED[proxy].hidesCalls
      t.match(await examine(t, proxy), /no mistake found/)
      const report = await examine(t, proxy, { changes })
      t.match(report, finding)
      t.match(report, /Look at: .*mcp|--proxy/i)
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
      const [changes, finding] = TESTED.haproxy.hidesCalls
      t.match(await examine(t, 'haproxy', { changes }), finding)
    })
  })

t.test('a resource behind nginx', { skip: missingProgram('nginx') }, async (t) => {
  const { port } = await startToolServer(t, 2)
  const resource = `{ url: "https://app.example.com/mcp", authorizationServers: ["https://id.example.com"],
      upstream: { url: "http://127.0.0.1:${port}/mcp" } }`
  const { examine } = await startWorld(
    t,
    CONFIG.replace('    policies:\n', `    resources: [${resource}]\n    policies:\n`),
  )
  const before = '    location / {\n      auth_request'
  const withLocations = (...locations: readonly string[]) => ({
    'nginx.conf': [[before, `${locations.join('')}${before}`]] as const,
  })
  const { withoutMcpProxy } = TESTED.nginx
  const open = (path: string) => `    location = ${path} { proxy_pass http://127.0.0.1:${port}; }\n`
  const table: [changes: Surroundings['changes'], said: RegExp][] = [
    [{}, /: no mistake found/],
    [
      withoutMcpProxy,
      /: 1 mistake\n\n1\. https:.*\/mcp leads to a check, not to \/portals\/main\/mcp-proxy\/mcp\.$/,
    ],
    [
      withLocations(open('/sse'), open('/mcp/x')),
      /: 2 mistakes\n\n1\. https:.*\.com\/sse leads to an MCP server without a check\.\n2\. .*\/mcp\/x leads/,
    ],
    [
      {
        'nginx.conf': [
          ...(withoutMcpProxy['nginx.conf'] ?? []),
          ...withLocations(open('/mcp'))['nginx.conf'],
        ],
      },
      /: 2 mistakes\n\n1\. .* answers 200 without resource_metadata[\s\S]*2\. .*\/\/mcp leads/,
    ],
  ]
  for (const [changes, said] of table)
    await t.test(String(said), async (t) => {
      t.match(await examine(t, 'nginx', { changes }), said)
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
    t.match(told, /not trusted here .*--ca FILE/)
  })
})

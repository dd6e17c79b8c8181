import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { describeConfig } from '../../src/cli/describe.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'

const CORP =
  '{ type: openIDConnect, name: corp, issuerUrl: "https://id.example.com", clientId: a, clientSecret: b }'
const GITHUB = '{ type: github, name: github, clientId: a, clientSecret: b }'
const TAILNET = '{ type: tailscaleWhois, name: tailnet }'

async function load(yaml: string) {
  const file = join(t.testdirName, 'config.yaml')
  await writeFile(file, yaml)
  return (await loadForwardAuthConfig(file, {})).value
}
testFolder(t)

t.test('lists one redirect URI per provider and site', async (t) => {
  const config = await load(`
server: { basePath: /gate, trustedProxies: [10.0.0.2] }
domains: [{ domain: example.com, authHost: auth.example.com }, { domain: example.org }]
portals:
  - { name: main, allow: anyone, providers: [${CORP}, ${GITHUB}, ${TAILNET}] }
  - { name: old, sharedCallback: true, providers: [${CORP}, ${TAILNET}] }
`)
  const [redirects] = describeConfig(config).split('If the provider')
  const lines = [
    ...['https://auth.example.com', 'https://example.org'].map(
      (origin) => `  main/corp: ${origin}/gate/portals/main/providers/corp/callback`,
    ),
    ...['https://auth.example.com', 'https://example.org'].map(
      (origin) => `  main/github: ${origin}/gate/portals/main/providers/github/callback`,
    ),
    ...['https://auth.example.com', 'https://example.org'].map(
      (origin) => `  old/corp: ${origin}/gate/portals/old/oauth2/callback`,
    ),
  ]
  t.equal(redirects, `Redirect URI to register at each provider:\n${lines.join('\n')}\n`)
})

t.test('lists none for a provider without a sign-in page', async (t) => {
  const config = await load(`
server: { trustedProxies: [10.0.0.2] }
domains: [{ domain: example.com }]
portals: [{ name: main, providers: [${TAILNET}] }]
`)
  t.equal(describeConfig(config), '')
})

t.test('reminds of what the proxy does with keys', async (t) => {
  const withCallers = (callers: string) =>
    load(`
server: { trustedProxies: [10.0.0.2] }
domains: [{ domain: example.com }]
portals:
  - name: main
    providers: [${TAILNET}]
${callers}
`)
  const row = 'name: reader, key: correct-horse-battery, hosts: [a.example.com]'
  t.equal(
    describeConfig(await withCallers(`    callers: { keys: [{ ${row} }] }`)),
    'API keys: the proxy has to give apps the `Authorization` of the check, or they get the keys.\n',
  )
  t.equal(describeConfig(await withCallers('')), '')
})

t.test('refuses a shared redirect URI for several providers', async (t) => {
  const portal = `{ name: main, allow: anyone, sharedCallback: true, providers: [${CORP}, ${GITHUB}] }`
  const loading = load(`domains: [{ domain: example.com }]\nportals: [${portal}]\n`)
  t.match(await loading.catch((error) => error.faults), [
    { path: '/portals/0/sharedCallback', message: /^requires a single provider/ },
  ])
})

t.test('names the places where only what rules name is allowed', async (t) => {
  const config = await load(`
server: { trustedProxies: [10.0.0.2] }
domains: [{ domain: example.com }]
portals:
  - name: main
    providers: [${TAILNET}]
    rules:
      - { hosts: [mcp.example.com], paths: [/mcp/*], tools: [read], require: signedIn }
      - { hosts: [mcp.example.com], paths: [/mcp/*], tools: [write], require: signedIn }
      - { mcpMethods: [prompts/get], require: signedIn }
      - { paths: [/healthz], require: anyone }
`)
  t.equal(
    describeConfig(config),
    'Only calls that a rule with `tools` or `mcpMethods` fits for certain pass here, and what an earlier rule fits:\n' +
      '  main: mcp.example.com/mcp/*\n  main: */*\n',
  )
})

t.test('names where the proxy has to send resources', async (t) => {
  const config = await load(`
server: { basePath: /gate, trustedProxies: [10.0.0.2] }
domains: [{ domain: example.com }]
portals:
  - name: main
    providers: [${TAILNET}]
    resources:
      - { url: "https://a.example.com/mcp", authorizationServers: ["https://id.example.com"], upstream: { url: "http://a/mcp" } }
      - { url: "https://b.example.com/mcp", authorizationServers: ["https://id.example.com"] }
`)
  t.equal(
    describeConfig(config),
    'Resources that the proxy sends to Gatehouse:\n' +
      '  https://a.example.com/mcp to /gate/portals/main/mcp-proxy/mcp\n',
  )
})

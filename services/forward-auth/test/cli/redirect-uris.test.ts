import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { describeRedirectUris, redirectUris } from '../../src/cli/redirect-uris.ts'
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
  t.strictSame(
    redirectUris(config).map(({ portal, provider, uri }) => [portal, provider, uri]),
    [
      ...['https://auth.example.com', 'https://example.org'].map((origin) => [
        'main',
        'corp',
        `${origin}/gate/portals/main/providers/corp/callback`,
      ]),
      ...['https://auth.example.com', 'https://example.org'].map((origin) => [
        'main',
        'github',
        `${origin}/gate/portals/main/providers/github/callback`,
      ]),
      ...['https://auth.example.com', 'https://example.org'].map((origin) => [
        'old',
        'corp',
        `${origin}/gate/portals/old/oauth2/callback`,
      ]),
    ],
  )
  t.match(
    describeRedirectUris(config),
    '\n  main/github: https://example.org/gate/portals/main/providers/github/callback\n',
  )
})

t.test('lists none for a provider without a sign-in page', async (t) => {
  const config = await load(`
server: { trustedProxies: [10.0.0.2] }
domains: [{ domain: example.com }]
portals: [{ name: main, providers: [${TAILNET}] }]
`)
  t.equal(describeRedirectUris(config), '')
})

t.test('refuses a shared redirect URI for several providers', async (t) => {
  const portal = `{ name: main, allow: anyone, sharedCallback: true, providers: [${CORP}, ${GITHUB}] }`
  const loading = load(`domains: [{ domain: example.com }]\nportals: [${portal}]\n`)
  t.match(await loading.catch((error) => error.faults), [
    { path: '/portals/0/sharedCallback', message: /^requires a single provider/ },
  ])
})

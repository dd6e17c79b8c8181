import { createFetch } from '@gatehouse/net'
import { parseName } from '@gatehouse/pki'
import { loadConfig } from '@gatehouse/service-kit/config'
import t, { type Test } from 'tap'
import { Type } from 'typebox'
import {
  createDnsProviders,
  DNS_PROVIDER_RULES,
  type DnsProviderConfig,
  DnsProviderSchema,
  PropagationSchema,
} from '../../../src/index.ts'
import { instantClock, recordAt, signal, standIn } from './stand-in.ts'

const httpreq = (endpoint: string, names?: string[]): DnsProviderConfig => ({
  type: 'httpreq',
  endpoint,
  mode: 'default',
  ...(names && { names }),
})

const CHOICES: [name: string, chosen: string | undefined][] = [
  ['example.test', '/inner'],
  ['a.example.test', '/inner'],
  ['A.B.Example.TEST.', '/inner'],
  ['notexample.test', '/outer'],
  ['other.test', '/outer'],
  ['elsewhere.org', undefined],
]

t.test('chooses the first provider whose names match', async (t) => {
  const { url, deps, requests } = await standIn(t, () => ({}))
  const choose = createDnsProviders(
    [
      httpreq(`${url}/inner`, ['example.test', '*.example.test']),
      httpreq(`${url}/outer`, ['*.test']),
    ],
    deps,
  )
  for (const [name, chosen] of CHOICES) {
    if (chosen === undefined) {
      t.throws(() => choose(parseName(name)), {
        code: 'ACME_DNS_NO_PROVIDER',
        message: /elsewhere/,
      })
      continue
    }
    await choose(parseName(name)).present(recordAt('_acme-challenge.x'), signal)
    t.equal(requests.at(-1)?.url.pathname, `${chosen}/present`, name)
  }
})

t.test('uses a provider without names for all, and refuses an invalid rule', async (t) => {
  const fetch = createFetch()
  const deps = { fetch, clock: instantClock }
  t.ok(createDnsProviders([httpreq('https://a.test')], deps)(parseName('any.test')))
  t.throws(() => createDnsProviders([httpreq('https://a.test', ['a..b'])], deps), {
    code: 'PKI_RULE_INVALID',
  })
})

const azure = {
  type: 'azure',
  subscriptionId: 's',
  resourceGroup: 'g',
  endpoint: 'https://a.test',
  authority: 'https://a.test',
  metadataEndpoint: 'http://169.254.169.254',
} as const
const rfc2136 = {
  type: 'rfc2136',
  keyName: 'k',
  keySecret: 'A'.repeat(44),
  algorithm: 'hmac-sha256',
} as const

const FAULTS: [title: string, config: DnsProviderConfig, paths: string[]][] = [
  ['none', httpreq('https://a.test', ['*.a.test']), []],
  ['a name rule', httpreq('https://a.test', ['ok.test', 'a..b']), ['/names/1']],
  ['plain http', httpreq('http://a.test'), ['/endpoint']],
  ['http on loopback is none', httpreq('http://127.0.0.1:1'), []],
  ['a managed identity is none', azure, []],
  ['plain http for tokens', { ...azure, authority: 'http://a.test' }, ['/authority']],
  ['a server', { ...rfc2136, server: 'ns 1' }, ['/server']],
  ...['ns1.test', '192.0.2.1:5353', '2001:db8::1', '[2001:db8::1]:53'].map(
    (server): [string, DnsProviderConfig, string[]] => [
      `${server} is none`,
      { ...rfc2136, server },
      [],
    ],
  ),
]

t.test('reports errors that a schema cannot express', async (t) => {
  for (const [title, config, paths] of FAULTS)
    t.strictSame(
      DNS_PROVIDER_RULES.flatMap((rule) => rule(config)).map(({ path }) => path),
      paths,
      title,
    )
})

/** As a service loads its configuration. */
async function load(t: Test, lines: string[], files: Record<string, string> = {}) {
  const folder = t.testdir({ 'config.yaml': lines.join('\n'), ...files })
  const schema = Type.Object({
    dns: Type.Array(DnsProviderSchema),
    propagation: PropagationSchema,
  })
  return await loadConfig({ file: `${folder}/config.yaml`, schema, env: {} })
}

const CONFIG = [
  'propagation: { check: resolvers, resolvers: [1.1.1.1], timeout: 5m }',
  'dns:',
  '  - { type: cloudflare, apiTokenFile: token, names: [a.test] }',
  '  - { type: exec, command: [/bin/true], env: [{ name: KEY, valueFile: token }] }',
  '  - { type: acmesh, path: acme.sh, script: dns_hetzner, credentials: [{ name: HETZNER_Token, value: v }] }',
  '  - { type: google, project: p-1, serviceAccountFile: token }',
]

t.test('a service loads the options: secrets from files, durations, defaults', async (t) => {
  const { value } = await load(t, CONFIG, { token: 'from-a-file\n' })
  t.match(value.propagation, { check: 'resolvers', timeout: 300_000, wait: 0 })
  t.match(value.dns, [
    { apiToken: 'from-a-file', endpoint: 'https://api.cloudflare.com/client/v4' },
    { env: [{ value: 'from-a-file' }], timeout: 120_000, mode: 'default' },
    { path: /^\/.*\/acme\.sh$/, credentials: [{ name: 'HETZNER_Token', value: 'v' }] },
    { serviceAccount: 'from-a-file' },
  ])
})

/** All types, in the order of the union. */
const TYPES = [
  'cloudflare',
  'route53',
  'azure',
  'google',
  'rfc2136',
  'acme-dns',
  'httpreq',
  'exec',
  'acmesh',
]

const BAD: [title: string, line: string, fault: object][] = [
  [
    'an unknown key',
    '{ type: cloudflare, apiToken: canary, apiTokn: canary }',
    { path: '/dns/0/apiTokn', message: /did you mean apiToken/ },
  ],
  [
    'an unknown type',
    '{ type: bind }',
    {
      path: '/dns/0/type',
      message: new RegExp(TYPES.map((type) => `"${type}"`).join(' or ')),
    },
  ],
  [
    'two proofs',
    '{ type: azure, subscriptionId: s, resourceGroup: g, tenantId: t, clientId: c, clientSecret: s, tokenPath: t }',
    { path: '/dns/0/tokenPath', message: /is given together with clientSecret/ },
  ],
  [
    'a proof without tenant',
    '{ type: azure, subscriptionId: s, resourceGroup: g, clientId: c, tokenPath: t }',
    { path: '/dns/0/tokenPath', message: 'needs tenantId' },
  ],
  [
    'a script that is a path',
    '{ type: acmesh, path: a, script: dns_../../x }',
    { path: '/dns/0/script' },
  ],
  [
    'root for a program',
    '{ type: exec, command: [a], user: { uid: 0, gid: 1 } }',
    { path: '/dns/0/user/uid' },
  ],
  [
    'a variable that is none',
    '{ type: exec, command: [a], env: [{ name: "A=B", value: canary }] }',
    { path: '/dns/0/env/0/name' },
  ],
  [
    'a secret that is not base64',
    '{ type: rfc2136, server: a, keyName: k, keySecret: canary }',
    { path: '/dns/0/keySecret' },
  ],
]

t.test('and refuses others, without their values', async (t) => {
  for (const [title, line, fault] of BAD) {
    const error = await load(t, ['propagation: {}', 'dns:', `  - ${line}`]).catch((error) => error)
    t.match(error.faults?.[0], fault, title)
    t.notMatch(JSON.stringify(error.faults), 'canary', title)
  }
})

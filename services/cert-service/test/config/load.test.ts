import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { AuthOptions } from '@gatehouse/auth-core'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { pluginOptionsOf } from '../../src/config/auth.ts'
import { loadCertConfig } from '../../src/config/load.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples/acme')
const psk = { auth: { psk: { key: 'a-key-of-sixteen-or-more' } } }
const withPeople = {
  auth: { ...psk.auth, assertion: { issuerUrl: 'https://a.test/p', audience: 'https://c.test' } },
}
const issuer = (issuerUrl: string) => ({ issuerUrl, audience: 'certs' })

async function load(t: Test, config: object) {
  const file = join(testFolder(t), 'config.yaml')
  await writeFile(file, stringify(config))
  return loadCertConfig(file, {})
}

t.test('a key is all that has to be written', async (t) => {
  const { value, file } = await load(t, psk)
  t.match(value, {
    server: { host: '127.0.0.1', port: 7401, tls: 'own', names: { length: 0 } },
    metrics: { enabled: true, host: '127.0.0.1', port: 9464 },
    storage: { path: join(file, '../data'), masterKeyFile: join(file, '../master.key') },
    ca: { leafLifetime: 7 * 86_400_000, permitted: { length: 0 } },
    issuance: { wait: 20_000 },
    audit: {},
    rules: { length: 0 },
    certificates: { length: 0 },
  })
})

t.test('a denial by e-mail domain is a warning', async (t) => {
  const rule = (effect: string, people: object) => ({ names: ['a.test'], effect, people })
  const emailDomains = ['b.test']
  const rules = [
    rule('allow', { emailDomains }),
    rule('deny', { groups: ['x'] }),
    rule('deny', { emailDomains }),
  ]
  const { warnings } = await load(t, { ...withPeople, rules })
  t.match(warnings, [
    /rules\/2\/people\/emailDomains also denies people without a verified address/,
  ])
  t.equal(warnings.length, 1)
})

t.test('a lifetime of tokens is a duration', async (t) => {
  const one = { ...issuer('https://a.test'), maxTokenLifetime: '2h' }
  const layouts: [layout: string, auth: object, of: (auth: AuthOptions) => unknown][] = [
    ['flat', one, (auth) => auth.maxTokenLifetime],
    ['nested', { jwt: one }, (auth) => auth.jwt?.maxTokenLifetime],
    [
      'one of several',
      { jwt: { issuers: [one] } },
      (auth) => auth.jwt?.issuers?.[0]?.maxTokenLifetime,
    ],
  ]
  for (const [layout, auth, of] of layouts) {
    const { value } = await load(t, { auth })
    t.equal(of(pluginOptionsOf(value.auth)), 2 * 3_600_000, layout)
  }
})

const FAULTS: readonly [why: string, config: object, path: string][] = [
  ['no way to call', {}, '/auth'],
  [
    'a lifetime of tokens that is none',
    { auth: { ...issuer('https://a.test'), maxTokenLifetime: '0s' } },
    '/auth/maxTokenLifetime',
  ],
  ['unknown key', { ...psk, sever: {} }, '/sever'],
  [
    'domainsClaim twice',
    { auth: { domainsClaim: 'd', jwt: { ...issuer('https://a.test'), domainsClaim: 'd' } } },
    '/auth/domainsClaim',
  ],
  [
    'faulty domains of a key',
    {
      auth: {
        psk: { keys: [{ name: 'a', key: 'a-key-of-sixteen-or-more', domains: ['a.test', '*x'] }] },
      },
    },
    '/auth/psk/keys/0/domains/1',
  ],
  ['faulty rule', { ...psk, rules: [{ names: ['a_'], issuer: 'x' }] }, '/rules/0/names/0'],
  [
    'people without assertions',
    { ...psk, rules: [{ names: ['a.test'], people: 'anyone' }] },
    '/rules/0/people',
  ],
  [
    'people of an issuer',
    {
      ...withPeople,
      rules: [{ names: ['a.test'], people: 'anyone', issuer: 'https://a.test' }],
    },
    '/rules/0/issuer',
  ],
  [
    'devices with a scope',
    { ...psk, rules: [{ names: ['a.test'], acme: 'open', scope: 'a' }] },
    '/rules/0/scope',
  ],
  [
    'two forms of a key',
    {
      auth: { psk: { keys: [{ name: 'a', key: 'a-key-of-sixteen', keySha256: '0'.repeat(64) }] } },
    },
    '/auth/psk/keys/0/keySha256',
  ],
  ['an issuer without audience', { auth: { issuerUrl: 'https://a.test' } }, '/auth/issuerUrl'],
  [
    'a short form beside the long one',
    { auth: { requiredScopes: ['a'], jwt: issuer('https://a.test') } },
    '/auth/requiredScopes',
  ],
  [
    'what is said of one issuer beside several',
    { auth: { jwt: { allowHttp: true, issuers: [issuer('https://a.test')] } } },
    '/auth/jwt/allowHttp',
  ],
  [
    'restrictions that are none',
    { ...withPeople, rules: [{ names: ['a.test'], people: {} }] },
    '/rules/0/people',
  ],
  [
    'people of a domain that is none',
    { ...withPeople, rules: [{ names: ['a.test'], people: { emailDomains: ['@a.test'] } }] },
    '/rules/0/people',
  ],
  [
    'assertions for no origin',
    {
      auth: { ...psk.auth, assertion: { issuerUrl: 'https://a.test/p', audience: 'c.test' } },
    },
    '/auth/assertion/audience',
  ],
  [
    'what no device proves',
    { ...psk, rules: [{ names: ['*.a.test', '=*.a.test'], acme: 'open' }] },
    '/rules/0/names/1',
  ],
  [
    'what no device proves',
    { ...psk, rules: [{ names: ['*.a.test', '*@a.test'], acme: 'open' }] },
    '/rules/0/names/1',
  ],
  [
    'what no device proves',
    { ...psk, rules: [{ names: ['*.a.test', 'spiffe://a.test/*'], acme: 'open' }] },
    '/rules/0/names/1',
  ],
  ...Object.entries({
    '/probe/networks': { networks: [] },
    '/probe/networks/0': { networks: ['10.0.0.1/8'] },
    '/probe/networks/1': { networks: ['10.0.0.0/8', 'app.test'] },
    '/probe/interval': { networks: ['10.0.0.0/8'], interval: '9m' },
  }).map(([path, probe]): [string, object, string] => [
    'a look at nothing',
    { ...psk, probe },
    path,
  ]),
  ...Object.entries({
    '/names': { names: [] },
    '/names/0': { names: ['a b'] },
    '/names/1': { names: ['a.test', '*@a.test'] },
    '/names/2': { names: ['a.test', '*.a.test', '=*.a.test'] },
    '/ports/1': { names: ['a.test'], ports: [':443', '443'] },
    '/ports/0': { names: ['a.test'], ports: [':25 gopher'] },
    '/hosts/0': { names: ['=*.a.test'], hosts: ['a b'] },
    '/hosts': { names: ['a.test'], hosts: [] },
  }).map(([path, target]): [string, object, string] => {
    const targets = [{ names: ['=*.b.test'], ports: [] }, target]
    const probe = { networks: ['10.0.0.0/8'], interval: '1d', targets }
    return ['where to look', { ...psk, probe }, `/probe/targets/1${path}`]
  }),
  ['allow without condition', { ...psk, rules: [{ names: ['a.test'] }] }, '/rules/0'],
  [
    'no issuer where there are several',
    {
      auth: { jwt: { issuers: [issuer('https://a.test'), issuer('https://b.test')] } },
      rules: [{ names: ['a.test'], subject: 'x' }],
    },
    '/rules/0',
  ],
  [
    'unknown right',
    { ...psk, rules: [{ names: ['a.test'], issuer: 'x', rights: ['write'] }] },
    '/rules/0/rights/0',
  ],
  ['faulty name of the server', { ...psk, server: { names: ['a b'] } }, '/server/names/0'],
  [
    'faulty configured name',
    { ...psk, certificates: [{ names: ['a.test', 'a b'] }] },
    '/certificates/0/names/1',
  ],
  [
    'configured name outside of ca.permitted',
    {
      ...psk,
      server: { tls: 'off' },
      ca: { permitted: ['b.test'] },
      certificates: [{ names: ['a.test'] }],
    },
    '/certificates/0/names/0',
  ],
  [
    'own certificate outside of ca.permitted',
    { ...psk, ca: { permitted: ['b.test'] } },
    '/server/tls',
  ],
  [
    'faulty ca.permitted',
    { ...psk, server: { tls: 'off' }, ca: { permitted: ['*.b.test', 'x*'] } },
    '/ca/permitted/1',
  ],
  ['https crlUrl', { ...psk, ca: { crlUrl: 'https://a.test/' } }, '/ca/crlUrl'],
  ['crlUrl that is none', { ...psk, ca: { crlUrl: 'a.test' } }, '/ca/crlUrl'],
  ['lifetime too short', { ...psk, ca: { leafLifetime: '59m' } }, '/ca/leafLifetime'],
  ['lifetime too long', { ...psk, ca: { leafLifetime: '181d' } }, '/ca/leafLifetime'],
  [
    'longest lifetime that is not the longest',
    { ...psk, ca: { leafLifetime: '2d', maxLifetime: '1d' } },
    '/ca/maxLifetime',
  ],
  [
    'rule with a lifetime that no certificate has',
    { ...psk, rules: [{ names: ['a.test'], subject: 'ci', lifetime: '8d' }] },
    '/rules/0/lifetime',
  ],
  [
    'deny rule with a lifetime',
    { ...psk, rules: [{ effect: 'deny', names: ['a.test'], lifetime: '1d' }] },
    '/rules/0/lifetime',
  ],
  [
    'key with a lifetime that no certificate has',
    { auth: { psk: { keys: [{ name: 'a', key: 'a-key-of-sixteen', lifetime: '8d' }] } } },
    '/auth/psk/keys/0/lifetime',
  ],
  [
    'profile with a lifetime that no certificate has',
    { ...psk, acme: { profiles: { long: { lifetime: '8d' } } } },
    '/acme/profiles/long/lifetime',
  ],
  [
    'profile that is there already',
    { ...psk, acme: { profiles: { client: { lifetime: '1d' } } } },
    '/acme/profiles/client',
  ],
  [
    'profile whose name is none',
    { ...psk, acme: { profiles: { 'No name': { lifetime: '1d' } } } },
    '/acme/profiles/No name',
  ],
  ['several processes on one port', { ...psk, server: { workers: 2 } }, '/server/workers'],
  [
    'master key in the data folder',
    { ...psk, storage: { path: 'd', masterKeyFile: 'd/x/key' } },
    '/storage/masterKeyFile',
  ],
  [
    'plain HTTP on an address that others reach',
    { ...psk, server: { host: '0.0.0.0', tls: 'off' } },
    '/server/tls',
  ],
  ['a socket as host', { ...psk, server: { host: '/run/x.sock' } }, '/server/host'],
  ['a URL as host', { ...psk, metrics: { host: 'http://x' } }, '/metrics/host'],
  ['one port twice', { ...psk, metrics: { port: 7401 } }, '/metrics/port'],
  [
    'one port for plain HTTP and a challenge',
    {
      ...psk,
      server: { plainHttp: { host: '0.0.0.0', port: 8080 } },
      issuers: [
        {
          name: 'a',
          type: 'acme',
          directory: 'letsencrypt',
          challenges: [{ type: 'http-01', listen: { port: 8080 } }],
        },
      ],
    },
    '/issuers/0/challenges/0/listen/port',
  ],
  [
    'audit rows that are kept for no time',
    { ...psk, audit: { retention: '0s' } },
    '/audit/retention',
  ],
  ['a wait of an hour', { ...psk, issuance: { wait: '1h' } }, '/issuance/wait'],
  [
    'certificates that are kept for no time',
    { ...psk, storage: { retention: '0s' } },
    '/storage/retention',
  ],
  [
    'a folder for a copy, which is no more',
    { ...psk, storage: { cachePath: 'cache' } },
    '/storage/cachePath',
  ],
  ['certificate without key', { ...psk, server: { tls: { certFile: 'x' } } }, '/server/tls'],
]

t.test('faults are told with their place, and never the value of a secret', async (t) => {
  for (const [why, config, path] of FAULTS) {
    const error = await load(t, config).then(
      () => undefined,
      (error) => error,
    )
    t.ok(error instanceof ConfigError, why)
    t.ok(
      error?.faults.some((fault: { path: string }) => fault.path.startsWith(path)),
      `${why}: ${error?.message}`,
    )
    t.notOk(error?.message.includes('a-key-of-sixteen'))
  }
})

t.test('plain HTTP is for loopback, or has to be called insecure', async (t) => {
  for (const server of [
    { tls: 'off' },
    { host: '::1', tls: 'off' },
    { host: 'localhost', tls: 'off' },
    { host: '0.0.0.0', tls: 'insecure' },
  ])
    t.match((await load(t, { ...psk, server })).value.server, server)
})

t.test('the examples are whole, but for their secrets', async (t) => {
  for (const name of await readdir(EXAMPLES)) {
    const folder = testFolder(t, { secret: 's'.repeat(64) })
    const text = await readFile(join(EXAMPLES, name), 'utf8')
    const file = join(folder, name)
    await writeFile(file, text.replace(/(?<!masterKeyFile: )\/etc\S+$/gm, join(folder, 'secret')))
    const { value, secretFiles } = await loadCertConfig(file, {})
    t.equal(value.issuers[0]?.directory, 'letsencrypt-staging', name)
    t.equal(secretFiles.length, 1, 'those of callers and of DNS')
  }
})

t.test('a lifetime that is too long is told the longest', async (t) => {
  const rules = [{ names: ['a.test'], subject: 'ci', lifetime: '8d' }]
  for (const [ca, longest] of [
    [{}, '168h'],
    [{ leafLifetime: '90m' }, '1.5h'],
    [{ maxLifetime: '169h' }, '169h'],
  ] as const) {
    const { faults } = await load(t, { ...psk, ca, rules }).catch((error) => error)
    t.match(faults, [{ path: '/rules/0/lifetime', message: `which is ${longest} ` }])
  }
})

t.test('names that only client certificates have need their profile', async (t) => {
  const ids = ['spiffe://a.test/web', 'spiffe://a.test/*', 'ops@a.test', '*@a.test']
  const key = { name: 'web', key: 'a-key-of-sixteen-or-more' }
  const places: [path: string, of: (id: string, more?: object) => object][] = [
    [
      '/auth/psk/keys/0/domains/0',
      (id, more) => ({ auth: { psk: { keys: [{ ...key, domains: [id], ...more }] } } }),
    ],
    [
      '/rules/0/names/0',
      (id, more) => ({ ...withPeople, rules: [{ names: [id], people: 'anyone', ...more }] }),
    ],
  ]
  for (const [path, of] of places)
    for (const id of ids) {
      const error = await load(t, of(id)).catch((error) => error)
      t.match(error.faults, [{ path, message: /set `profile: client`/ }])
      t.match(error.message, /config\.yaml:\d+:\d+ /)
      await t.resolves(load(t, of(id, { profile: 'client' })), id)
    }
  const deny = { names: ids, effect: 'deny', people: 'anyone' }
  await t.resolves(load(t, { ...withPeople, rules: [deny] }), 'a denial is about both')
})

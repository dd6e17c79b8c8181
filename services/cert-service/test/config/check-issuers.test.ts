import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { loadCertConfig } from '../../src/config/load.ts'

const dns = { type: 'dns-01', providers: [{ type: 'httpreq', endpoint: 'https://dns.test' }] }
const http = { type: 'http-01', listen: { port: 80 } }
const directory = { directory: 'letsencrypt', agreeToTerms: true }
const plain = { server: { tls: 'off' } }
const le = { name: 'le', type: 'acme', ...directory, challenges: [dns] }

async function load(t: Test, config: object) {
  const file = join(testFolder(t), 'config.yaml')
  await writeFile(
    file,
    stringify({ auth: { psk: { key: 'a-key-of-sixteen-or-more' } }, ...config }),
  )
  return loadCertConfig(file, {})
}

t.test('a name of a CA, its terms and a provider are all that has to be written', async (t) => {
  const { value } = await load(t, { issuers: [le] })
  t.match(value.issuers, [
    {
      names: ['*'],
      agreeToTerms: true,
      challenges: [{ propagation: { check: 'authoritative', timeout: 120_000, wait: 0 } }],
    },
  ])
})

t.test('a fault is told where it stands', async (t) => {
  const rows: [why: string, config: object, path: string][] = [
    ['the name of the embedded CA', { issuers: [{ ...le, name: 'ca' }] }, '/issuers/0/name'],
    ...['letsencrypt', 'https://acme-v02.api.letsencrypt.org/directory', 'google'].map(
      (directory): [string, object, string] => [
        `the terms of ${directory}`,
        { issuers: [{ ...le, directory, agreeToTerms: false }] },
        '/issuers/0/agreeToTerms',
      ],
    ),
    ['a name twice', { issuers: [le, le] }, '/issuers/1/name'],
    ['no directory', { issuers: [{ ...le, directory: 'lets' }] }, '/issuers/0/directory'],
    [
      'a directory without TLS',
      { issuers: [{ ...le, directory: 'http://ca.example/directory' }] },
      '/issuers/0/directory',
    ],
    [
      'one directory, two accounts',
      { issuers: [le, { ...le, name: 'b', email: 'a@b.test' }] },
      '/issuers/1/directory',
    ],
    ['an unknown fallback', { issuers: [{ ...le, fallback: 'x' }] }, '/issuers/0/fallback'],
    ['itself as fallback', { issuers: [{ ...le, fallback: 'le' }] }, '/issuers/0/fallback'],
    [
      'fallbacks in a circle',
      {
        issuers: [
          { ...le, fallback: 'b' },
          { ...le, name: 'b', fallback: 'le' },
        ],
      },
      '/issuers/0/fallback',
    ],
    ...(
      [
        [['*.a.test'], ['*.lan']],
        [['=*.a.test'], ['a.test', 'x.y.a.test']],
        [['*.lan', 'a.test'], ['*.lan']],
        [['*.a.test'], ['spiffe://a.test/*']],
      ] as const
    ).map(([names, permitted]): [string, object, string] => [
      `the embedded CA as fallback for ${names}, with only ${permitted}`,
      { ...plain, ca: { permitted }, issuers: [{ ...le, names, fallback: 'ca' }] },
      '/issuers/0/fallback',
    ]),
    [
      'the embedded CA behind a fallback',
      {
        ...plain,
        ca: { permitted: ['*.lan'] },
        issuers: [
          { ...le, names: ['a.test'], fallback: 'b' },
          { ...le, name: 'b', names: ['*'], fallback: 'ca' },
        ],
      },
      '/issuers/0/fallback',
    ],
    ['a faulty rule', { issuers: [{ ...le, names: ['a b'] }] }, '/issuers/0/names/0'],
    [
      'a wildcard without dns-01',
      { issuers: [{ ...le, names: ['=*.a.test'], challenges: [http] }] },
      '/issuers/0/names/0',
    ],
    [
      'addresses with dns-01 alone',
      { issuers: [{ ...le, names: ['192.0.2.0/24'] }] },
      '/issuers/0/names/0',
    ],
    [
      'http-01 without a listener',
      { issuers: [{ ...le, challenges: [{ type: 'http-01' }] }] },
      '/issuers/0/challenges/0',
    ],
    [
      'tls-alpn-01 without a listener',
      { issuers: [{ ...le, challenges: [{ type: 'tls-alpn-01' }] }] },
      '/issuers/0/challenges/0/listen',
    ],
    [
      'a challenge twice',
      { issuers: [{ ...le, challenges: [dns, dns] }] },
      '/issuers/0/challenges/1',
    ],
    [
      'an unknown challenge',
      { issuers: [{ ...le, challenges: [{ type: 'dns-02' }] }] },
      '/issuers/0/challenges/0/type',
    ],
    [
      'an unknown key of a provider',
      {
        issuers: [{ ...le, challenges: [{ ...dns, providers: [{ ...dns.providers[0], x: 1 }] }] }],
      },
      '/issuers/0/challenges/0/providers/0/x',
    ],
    [
      'a faulty endpoint of a provider',
      {
        issuers: [
          {
            ...le,
            challenges: [{ ...dns, providers: [{ type: 'httpreq', endpoint: 'ftp://x' }] }],
          },
        ],
      },
      '/issuers/0/challenges/0/providers/0/endpoint',
    ],
    [
      'a resolver that is a name',
      { issuers: [{ ...le, challenges: [{ ...dns, propagation: { resolvers: ['dns.test'] } }] }] },
      '/issuers/0/challenges/0/propagation/resolvers/0',
    ],
    [
      'a resolver with a port that cannot be',
      {
        issuers: [
          { ...le, challenges: [{ ...dns, propagation: { resolvers: ['1.1.1.1:99999'] } }] },
        ],
      },
      '/issuers/0/challenges/0/propagation/resolvers/0',
    ],
    [
      'a configured wildcard that cannot be proven',
      {
        issuers: [{ ...le, challenges: [http], names: ['*'] }],
        certificates: [{ names: ['a.test', '*.a.test'] }],
      },
      '/certificates/0/names/1',
    ],
    [
      'a kind of key that public CAs do not certify',
      { issuers: [{ ...le, keyType: 'ed25519' }] },
      '/issuers/0/keyType',
    ],
    [
      'a certificate with such a key',
      { issuers: [le], certificates: [{ names: ['a.example.com'], keyType: 'ed25519' }] },
      '/certificates/0/keyType',
    ],
    [
      'a key that is no base64url',
      { issuers: [{ ...le, externalAccount: { kid: 'x', hmacKey: 'not so secret' } }] },
      '/issuers/0/externalAccount/hmacKey',
    ],
  ]
  for (const [why, config, path] of rows) {
    const error = await load(t, config).catch((error) => error)
    t.ok(error instanceof ConfigError, why)
    t.match(error.faults[0], { path }, why)
    t.notMatch(error.message, /not so secret/, `${why}: the value is not told`)
  }
})

t.test('who mistypes a directory is told which there are', async (t) => {
  const error = await load(t, { issuers: [{ ...le, directory: 'letsencript' }] }).catch((e) => e)
  t.match(error.faults[0].message, 'must be a URL or one of letsencrypt, letsencrypt-staging,')
})

t.test('who names a CA that issues no more is told so, and what to do', async (t) => {
  for (const directory of ['buypass', 'https://api.buypass.com/acme/directory']) {
    const error = await load(t, { issuers: [{ ...le, directory }] }).catch((e) => e)
    t.match(error.faults, [
      { path: '/issuers/0/directory', message: /no certificate since October 2025: use another/ },
    ])
  }
})

t.test('the embedded CA certifies ed25519 beside an ACME issuer', async (t) => {
  const { value } = await load(t, {
    issuers: [{ ...le, names: ['*.example.com'] }],
    certificates: [{ names: ['app.lan'], keyType: 'ed25519' }],
  })
  t.equal(value.certificates[0]?.keyType, 'ed25519')
})

t.test('the embedded CA is the fallback where it signs a name of each rule', async (t) => {
  const both = [dns, http]
  for (const [names, permitted] of [
    [['*'], ['*.lan']],
    [['*.lan'], ['*']],
    [['*.a.lan', 'b.lan'], ['*.lan']],
    [['*.lan'], ['a.b.lan']],
    [['=*.a.lan'], ['=**.lan']],
    [['10.0.0.0/8'], ['10.1.0.0/16']],
    [['10.1.2.3'], ['10.1.0.0/16']],
    [['*.lan'], []],
  ])
    await t.resolves(
      load(t, {
        ...plain,
        ca: { permitted },
        issuers: [{ ...le, challenges: both, names, fallback: 'ca' }],
      }),
      `${names} with ${permitted}`,
    )
})

t.test('configured names of an ACME issuer need not be those of the embedded CA', async (t) => {
  const { value } = await load(t, {
    issuers: [{ ...le, names: ['*.example.com'] }],
    ca: { permitted: ['*.corp.test', 'localhost'] },
    certificates: [{ names: ['www.example.com', 'app.example.com'] }],
  })
  t.equal(value.certificates[0]?.keyType, undefined, 'and have the keys that the issuer says')
})

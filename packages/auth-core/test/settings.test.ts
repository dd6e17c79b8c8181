import { hash } from 'node:crypto'
import t from 'tap'
import type { AuthOptions } from '../src/options.ts'
import { checkAuthOptions, readSettings } from '../src/settings.ts'

const key = 'correct-horse-battery-staple'
const sha256 = hash('sha256', key, 'hex')
const issuerUrl = 'https://issuer.example'
const one = { issuerUrl, audience: 'api' }
/** As a pattern, `[]` matches every list. */
const NONE = { length: 0 }
const issuer = {
  connection: { issuerUrl, ca: undefined },
  demands: {
    audience: ['api'],
    requiredScopes: NONE,
    requireAccessTokenType: false,
    maxTokenLifetime: undefined,
  },
}
const files = t.testdir({
  key: `${key}\n`,
  crlf: `${key}\r\n`,
  next: 'another-horse-battery-staple\n',
  other: 'yet-another-horse-battery\n',
  short: `${'x'.repeat(15)}\n`,
  shortest: `${'x'.repeat(16)}\n`,
  space: `${key} \n`,
  folder: {},
  'ca.pem': 'not a certificate',
})

const meanings: [what: string, options: AuthOptions, expected: object][] = [
  ['a key', { psk: { key } }, { keys: [{ name: 'default', digests: [sha256] }], issuers: NONE }],
  [
    'a key in a file',
    { psk: { keyFile: `${files}/key` } },
    { keys: [{ name: 'default', digests: [sha256] }] },
  ],
  [
    'a key in a file of another system',
    { psk: { keyFile: `${files}/crlf` } },
    { keys: [{ digests: [sha256] }] },
  ],
  ['the shortest key', { psk: { keyFile: `${files}/shortest` } }, { keys: [{ name: 'default' }] }],
  [
    'several keys',
    {
      psk: {
        keys: [
          { name: 'a', key, scopes: ['x'], domains: ['*.example'] },
          { name: 'b', keySha256: '0'.repeat(64) },
        ],
      },
    },
    {
      keys: [
        { name: 'a', digests: [sha256], scopes: ['x'], domains: ['*.example'] },
        { name: 'b', digests: ['0'.repeat(64)] },
      ],
    },
  ],
  [
    'two keys of one caller, which had another name',
    {
      psk: {
        keys: [{ name: 'a', keyFiles: [`${files}/next`, `${files}/key`], formerNames: ['b'] }],
      },
    },
    {
      keys: [
        {
          name: 'a',
          formerNames: ['b'],
          digests: [hash('sha256', 'another-horse-battery-staple', 'hex'), sha256],
        },
      ],
    },
  ],
  ['an issuer, flat', one, { keys: NONE, issuers: [issuer] }],
  ['an issuer, nested', { jwt: one }, { keys: NONE, issuers: [issuer] }],
  ['an issuer, nested, with its method', { method: 'jwt', jwt: one }, { issuers: [issuer] }],
  ['an issuer, flat, with its method', { method: 'jwt', ...one }, { issuers: [issuer] }],
  ['both, flat', { psk: { key }, ...one }, { keys: [{ digests: [sha256] }], issuers: [issuer] }],
  [
    'both, limited to keys',
    { method: 'psk', psk: { key }, ...one },
    { keys: [{ digests: [sha256] }], issuers: NONE },
  ],
  [
    'both, limited to tokens',
    { method: 'jwt', psk: { key }, jwt: one },
    { keys: NONE, issuers: [issuer] },
  ],
  [
    'several issuers',
    {
      jwt: {
        issuers: [one, { issuerUrl: `${issuerUrl}/`, audience: ['a', 'b'], requiredScopes: ['x'] }],
      },
    },
    {
      issuers: [
        issuer,
        {
          connection: { issuerUrl: `${issuerUrl}/` },
          demands: { audience: ['a', 'b'], requiredScopes: ['x'] },
        },
      ],
    },
  ],
  [
    'options that code writes as undefined',
    { psk: undefined, method: undefined, jwt: { ...one, caFile: undefined, issuers: undefined } },
    { keys: NONE, issuers: [issuer] },
  ],
  [
    'the type of access tokens, flat',
    { ...one, requireAccessTokenType: true },
    { issuers: [{ demands: { requireAccessTokenType: true } }] },
  ],
  [
    'the type of access tokens, nested',
    { jwt: { ...one, requireAccessTokenType: true } },
    { issuers: [{ demands: { requireAccessTokenType: true } }] },
  ],
  [
    'the type of access tokens, of one of several issuers',
    {
      jwt: { issuers: [one, { ...one, issuerUrl: 'https://b.x', requireAccessTokenType: true }] },
    },
    {
      issuers: [
        { demands: { requireAccessTokenType: false } },
        { demands: { requireAccessTokenType: true } },
      ],
    },
  ],
  [
    'a lifetime of tokens, flat',
    { ...one, maxTokenLifetime: 60_000 },
    { issuers: [{ demands: { maxTokenLifetime: 60_000 } }] },
  ],
  [
    'a lifetime of tokens, nested',
    { jwt: { ...one, maxTokenLifetime: 60_000 } },
    { issuers: [{ demands: { maxTokenLifetime: 60_000 } }] },
  ],
  [
    'a lifetime of tokens, of one of several issuers',
    { jwt: { issuers: [one, { ...one, issuerUrl: 'https://b.x', maxTokenLifetime: 60_000 }] } },
    {
      issuers: [
        { demands: { maxTokenLifetime: undefined } },
        { demands: { maxTokenLifetime: 60_000 } },
      ],
    },
  ],
  [
    'assertions alone',
    { assertion: { issuerUrl: `${issuerUrl}/p`, audience: 'https://a.example', header: 'X-Who' } },
    {
      keys: NONE,
      issuers: NONE,
      assertion: {
        connection: { issuerUrl: `${issuerUrl}/p` },
        audience: ['https://a.example'],
        header: 'x-who',
      },
    },
  ],
  [
    'assertions of a portal on this machine',
    {
      assertion: {
        issuerUrl: 'http://localhost:4180/portals/main',
        audience: ['http://app.localhost:8080', 'https://[::1]'],
      },
    },
    { assertion: { header: 'x-gatehouse-assertion' } },
  ],
  [
    'assertions of a portal without a path',
    { assertion: { issuerUrl: 'https://auth.x', audience: 'https://a.x' } },
    { assertion: { connection: { issuerUrl: 'https://auth.x' } } },
  ],
  [
    'assertions, with the default port in the URLs',
    { assertion: { issuerUrl: 'https://auth.x:443/p', audience: 'https://A.x:443' } },
    { assertion: { connection: { issuerUrl: 'https://auth.x/p' }, audience: ['https://a.x'] } },
  ],
  [
    'plain http on loopback',
    { jwt: { ...one, issuerUrl: 'http://localhost:9' } },
    { issuers: [{}] },
  ],
  [
    'plain http, allowed',
    { jwt: { ...one, issuerUrl: 'http://i.lan', allowHttp: true } },
    { issuers: [{}] },
  ],
  [
    'what is undefined is not there',
    { psk: { key }, jwt: undefined, issuerUrl: undefined } as never,
    { issuers: NONE },
  ],
]
for (const [what, options, expected] of meanings)
  t.test(what, async (t) => t.match(readSettings(options), expected))

const faults: [what: string, options: unknown, paths: string[]][] = [
  ['nothing', {}, ['']],
  ['no object', 'psk', ['']],
  ['an unknown option', { psk: { key }, keys: [] }, ['/keys']],
  ['an unknown nested option', { psk: { key, Key: key } }, ['/psk/Key']],
  ['assertions without an audience', { assertion: { issuerUrl } }, ['/assertion']],
  [
    'assertions of no URL',
    { assertion: { issuerUrl: 'auth.example.com', audience: 'https://a.example' } },
    ['/assertion/issuerUrl'],
  ],
  [
    'assertions of a portal with a slash',
    { assertion: { issuerUrl: `${issuerUrl}/p/`, audience: 'https://a.example' } },
    ['/assertion/issuerUrl'],
  ],
  [
    'assertions over plain http',
    { assertion: { issuerUrl: 'http://i.lan/p', audience: 'https://a.example' } },
    ['/assertion/issuerUrl'],
  ],
  ...['a.example', 'https://a.example/', 'https://a.example/x', 'ftp://a.x'].map(
    (audience): [string, unknown, string[]] => [
      `assertions for ${audience}, which is no origin`,
      { assertion: { issuerUrl, audience: [audience] } },
      ['/assertion/audience'],
    ],
  ),
  [
    'a header that no proxy passes on',
    { assertion: { issuerUrl, audience: 'https://a.example', header: 'X_Who' } },
    ['/assertion/header'],
  ],
  [
    'an assertion with certificates that are none',
    { assertion: { issuerUrl, audience: 'https://a.example', caFile: `${files}/ca.pem` } },
    ['/assertion/caFile'],
  ],
  ['no lifetime', { ...one, maxTokenLifetime: 0 }, ['/maxTokenLifetime']],
  ['an unknown method', { method: 'tsnet', psk: { key } }, ['/method']],
  ['a method that is not configured', { method: 'jwt', psk: { key } }, ['/method']],
  ['a short key', { psk: { key: 'x'.repeat(15) } }, ['/psk/key']],
  ['a key with a space', { psk: { key: 'correct horse battery' } }, ['/psk/key']],
  ['a key that no header carries', { psk: { key: 'ключ-ключ-ключ-ключ' } }, ['/psk/key']],
  ['no key', { psk: {} }, ['/psk']],
  ['two ways to give a key', { psk: { key, keyFile: `${files}/key` } }, ['/psk']],
  ['a key and a list', { psk: { key, keys: [{ name: 'a', keySha256: sha256 }] } }, ['/psk']],
  ['an empty list of keys', { psk: { keys: [] } }, ['/psk/keys']],
  [
    'a former name that is the name of another, or was',
    {
      psk: {
        keys: [
          { name: 'a', key, formerNames: ['b', 'c', 'c'] },
          { name: 'b', keySha256: '0'.repeat(64), formerNames: ['a', 'c', 'd'] },
        ],
      },
    },
    [
      '/psk/keys/0/formerNames/2',
      '/psk/keys/1/name',
      '/psk/keys/1/formerNames/0',
      '/psk/keys/1/formerNames/1',
    ],
  ],
  [
    'a key that is one of two elsewhere, twice, or beside two',
    {
      psk: {
        keys: [
          { name: 'a', keyFiles: [`${files}/next`, `${files}/key`] },
          { name: 'b', key },
          { name: 'c', keyFiles: [`${files}/other`, `${files}/other`] },
          { name: 'd', keyFile: `${files}/key`, keyFiles: [`${files}/key`] },
        ],
      },
    },
    ['/psk/keys/3', '/psk/keys/1', '/psk/keys/2'],
  ],
  [
    'two keys, of which one is too short and one is absent',
    { psk: { keys: [{ name: 'a', keyFiles: [`${files}/short`, `${files}/absent`] }] } },
    ['/psk/keys/0/keyFiles/0', '/psk/keys/0/keyFiles/1'],
  ],
  [
    'three keys',
    {
      psk: {
        keys: [{ name: 'a', keyFiles: ['key', 'next', 'other'].map((f) => `${files}/${f}`) }],
      },
    },
    ['/psk/keys/0/keyFiles'],
  ],
  ['a key without a name', { psk: { keys: [{ key }] } }, ['/psk/keys/0']],
  ['a named key without a key', { psk: { keys: [{ name: 'a' }] } }, ['/psk/keys/0']],
  [
    'a name twice',
    {
      psk: {
        keys: [
          { name: 'a', key },
          { name: 'a', key: `${key}2` },
        ],
      },
    },
    ['/psk/keys/1/name'],
  ],
  [
    'a key twice',
    {
      psk: {
        keys: [
          { name: 'a', key },
          { name: 'b', keySha256: sha256 },
        ],
      },
    },
    ['/psk/keys/1'],
  ],
  [
    'a digest in upper case',
    { psk: { keys: [{ name: 'a', keySha256: 'A'.repeat(64) }] } },
    ['/psk/keys/0/keySha256'],
  ],
  ['a key file that is not there', { psk: { keyFile: `${files}/none` } }, ['/psk/keyFile']],
  ['a key file with a short key', { psk: { keyFile: `${files}/short` } }, ['/psk/keyFile']],
  ['a key file with a space after it', { psk: { keyFile: `${files}/space` } }, ['/psk/keyFile']],
  ['a scope with a quote', { ...one, requiredScopes: ['a"b'] }, ['/requiredScopes/0']],
  ['a scope with a space', { ...one, requiredScopes: ['a b'] }, ['/requiredScopes/0']],
  ['both layouts', { ...one, jwt: one }, ['/issuerUrl', '/audience']],
  ['no audience, flat', { issuerUrl }, ['/audience']],
  ['no audience, nested', { jwt: { issuerUrl } }, ['/jwt/audience']],
  ['an empty audience', { jwt: { issuerUrl, audience: '' } }, ['/jwt/audience']],
  ['an empty list of audiences', { jwt: { issuerUrl, audience: [] } }, ['/jwt/audience']],
  ['an audience and no issuer', { audience: 'api' }, ['/issuerUrl']],
  ['an empty section', { jwt: {} }, ['/jwt']],
  ['a scope and no issuer', { requiredScopes: ['a'], maxTokenLifetime: 1 }, ['/issuerUrl']],
  [
    'a scope beside a list',
    { jwt: { requiredScopes: ['a'], issuers: [one] } },
    ['/jwt/requiredScopes'],
  ],
  ['one issuer and a list', { jwt: { ...one, issuers: [one] } }, ['/jwt', '/jwt/audience']],
  ['an issuer twice', { jwt: { issuers: [one, one] } }, ['/jwt/issuers/1/issuerUrl']],
  ['an issuer that is no URL', { jwt: { ...one, issuerUrl: 'issuer' } }, ['/jwt/issuerUrl']],
  ['an issuer over plain http', { jwt: { ...one, issuerUrl: 'http://i.lan' } }, ['/jwt/issuerUrl']],
  ['an issuer with a query', { jwt: { ...one, issuerUrl: `${issuerUrl}/?a` } }, ['/jwt/issuerUrl']],
  [
    'the URL of the document of an issuer',
    { jwt: { ...one, issuerUrl: `${issuerUrl}/.well-known/openid-configuration` } },
    ['/jwt/issuerUrl'],
  ],
  [
    'the folder of the document of an issuer',
    { jwt: { ...one, issuerUrl: `${issuerUrl}/.well-known` } },
    ['/jwt/issuerUrl'],
  ],
  [
    'an issuer with a fragment',
    { jwt: { ...one, issuerUrl: `${issuerUrl}/#a` } },
    ['/jwt/issuerUrl'],
  ],
  ['keys over plain http', { jwt: { ...one, jwksUrl: 'http://i.lan/' } }, ['/jwt/jwksUrl']],
  ['a CA file that is not there', { jwt: { ...one, caFile: `${files}/none` } }, ['/jwt/caFile']],
  [
    'a CA file without a certificate',
    { jwt: { ...one, caFile: `${files}/ca.pem` } },
    ['/jwt/caFile'],
  ],
  ['many at once', { psk: { key: 1 }, jwt: { audience: 'x', nope: 1 } }, ['/psk/key', '/jwt/nope']],
]
for (const [what, options, paths] of faults)
  t.test(`refused: ${what}`, async (t) => {
    const found = checkAuthOptions(options as AuthOptions)
    t.strictSame(
      found.map(({ path }) => path),
      paths,
    )
    t.throws(() => readSettings(options as AuthOptions), { code: 'AUTH_OPTIONS_INVALID' })
    t.notMatch(JSON.stringify(found), /battery|x{15}/, 'no fault shows a key')
  })

t.test('only a file that is not there is told as absent', async (t) => {
  for (const [file, absent] of [
    ['none', true],
    ['folder', undefined],
    ['short', undefined],
  ] as const)
    t.match(checkAuthOptions({ psk: { keyFile: `${files}/${file}` } }), [{ absent }], file)
})

import fc from 'fast-check'
import t from 'tap'
import {
  fitsRedirect,
  isAllowedRedirect,
  isLoopbackRedirect,
  parseClientId,
} from '../src/client-metadata.ts'

const ID = 'https://app.example.com/client.json'

const ids: [text: string, isClientId: boolean][] = [
  [ID, true],
  ['https://claude.ai/oauth/claude-code-client-metadata', true],
  ['https://vscode.dev/oauth/client-metadata.json', true],
  ['https://app.example.com/a/', true],
  ['https://app.example.com//', true],
  ['https://app.example.com:8443/client', true],
  ['https://app.example.com/client?v=1', true],
  ['https://app.example.com/%7Eclient', true],
  ['https://xn--bcher-kva.example/client', true],
  ['https://192.0.2.1/client', true],
  ['https://[2001:db8::1]:8443/client', true],
  [`https://app.example.com/${'x'.repeat(1_000)}`, true],
  [`https://app.example.com/${'x'.repeat(1_001)}`, false],
  ['https://app.example.com/', false],
  ['https://app.example.com', false],
  ['https://app.example.com/?client', false],
  ['https://app.example.com?client', false],
  ['http://app.example.com/client', false],
  ['HTTPS://app.example.com/client', false],
  ['https://APP.example.com/client', false],
  ['https://app.example.com./client', false],
  ['https://app.example.com:443/client', false],
  ['https://app.example.com:/client', false],
  ['https://app.example.com:0/client', false],
  ['https://app.example.com:65536/client', false],
  ['https://app.example.com/client#', false],
  ['https://app.example.com/client#part', false],
  ['https://user@app.example.com/client', false],
  ['https://user:word@app.example.com/client', false],
  ['https://@app.example.com/client', false],
  ['https://app.example.com/a/../client', false],
  ['https://app.example.com/./client', false],
  ['https://app.example.com/..', false],
  ['https://app.example.com/%2e%2e/client', false],
  ['https://app.example.com/.%2E/client', false],
  ['https://app.example.com/%2e/client', false],
  ['https://app.example.com\\client', false],
  ['https://app.example.com/cli ent', false],
  ['https://app.example.com/cli\tent', false],
  ['https://app.example.com/client\n', false],
  [' https://app.example.com/client', false],
  ['https://app.example.com/bücher', false],
  ['https://bücher.example/client', false],
  ['https://xn--a.example/client', false],
  ['https://app.example.com/%zz', false],
  ['https://app.example.com/%', false],
  ['https://app.example.com/<script>', false],
  ['https://app.example.com/client?a=\\', false],
  ['https://intranet/client', false],
  ['https://localhost/client', false],
  ['https://a_b.example.com/client', false],
  ['https://0x7f.1/client', false],
  ['https://2130706433/client', false],
  ['https://0177.0.0.1/client', false],
  ['https://127.1/client', false],
  ['https://[::ffff:127.0.0.1]/client', false],
  ['https://[0:0:0:0:0:0:0:1]/client', false],
  ['https://[fe80::1%25lo]/client', false],
  ['https:app.example.com/client', false],
  ['https:///app.example.com/client', false],
  ['//app.example.com/client', false],
  ['javascript:alert(1)', false],
  ['data:application/json,{}', false],
  ['file:///etc/passwd', false],
  ['a-client-of-before', false],
  ['', false],
]

t.test('a client ID is an https URL with a path, in canonical spelling', async (t) => {
  for (const [text, isClientId] of ids)
    t.equal(parseClientId(text)?.href, isClientId ? text : undefined, JSON.stringify(text))
})

t.test(
  'no text makes the parser throw, and what it takes is what the URL parser writes',
  async () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.webUrl({ validSchemes: ['https'], withQueryParameters: true, withFragments: true }),
      fc.stringMatching(/^https:\/\/[a-z0-9.:@[\]\\-]{1,12}\/[a-z.%2eE/#?\\]{0,12}$/),
    )
    fc.assert(
      fc.property(text, (text) => {
        const url = parseClientId(text)
        if (!url) return true
        const segments = url.pathname.replaceAll(/%2e/gi, '.').split('/')
        return (
          url.href === text &&
          url.protocol === 'https:' &&
          url.username + url.password + url.hash === '' &&
          !text.includes('#') &&
          !segments.some((part) => part === '.' || part === '..')
        )
      }),
      { numRuns: 1_000 },
    )
  },
)

const uris: [uri: string, kind: 'remote' | 'loopback' | 'refused'][] = [
  ['https://app.example.com/callback', 'remote'],
  ['https://app.example.com/callback?state=a%20b', 'remote'],
  ['https://app.example.com', 'remote'],
  ['https://app.example.com:8443/', 'remote'],
  ['https://localhost:8443/', 'loopback'],
  ['http://localhost/callback', 'loopback'],
  ['http://localhost:8080/callback', 'loopback'],
  ['http://127.0.0.1:33418/', 'loopback'],
  ['http://127.0.0.1', 'loopback'],
  ['http://[::1]:1/?x', 'loopback'],
  ['cursor://anysphere.cursor-retrieval/oauth/callback', 'remote'],
  ['vscode://vscode.mcp/auth', 'remote'],
  ['com.example.app:/callback', 'remote'],
  [`https://app.example.com/${'x'.repeat(2_024)}`, 'remote'],
  [`https://app.example.com/${'x'.repeat(2_025)}`, 'refused'],
  ['http://app.example.com/callback', 'refused'],
  ['http://127.0.0.2/', 'refused'],
  ['http://127.1/', 'refused'],
  ['http://2130706433/', 'refused'],
  ['http://localhost./', 'refused'],
  ['http://LOCALHOST/', 'refused'],
  ['http://id.localhost/', 'refused'],
  ['http://localhost.example.com/', 'refused'],
  ['http://localhost@evil.example/', 'refused'],
  ['http://localhost:1@evil.example/', 'refused'],
  ['http://localhost:/', 'refused'],
  ['http://localhost:0/', 'refused'],
  ['http://localhost:99999/', 'refused'],
  ['http:/localhost/', 'refused'],
  ['http://[::ffff:127.0.0.1]/', 'refused'],
  ['https://0x7f.1/', 'refused'],
  ['https:/app.example.com/', 'refused'],
  ['https:///app.example.com/', 'refused'],
  ['https://', 'refused'],
  ['https://app.example.com:/', 'refused'],
  ['https://*.example.com/', 'refused'],
  ['https://user@app.example.com/', 'refused'],
  ['https://@app.example.com/', 'refused'],
  ['https://:@app.example.com/', 'refused'],
  ['https://app.example.com/#', 'refused'],
  ['https://app.example.com/#x', 'refused'],
  ['https://app.example.com\\@evil.example/', 'refused'],
  ['https://app.example.com/\r\nset-cookie: a=b', 'refused'],
  ['https://app.example.com/ ', 'refused'],
  ['https://app.example.com/ü', 'refused'],
  ['https://app.example.com/"onload=', 'refused'],
  ['https://app.example.com/<script>', 'refused'],
  ['https://app.example.com/%0', 'refused'],
  ['cursor:callback', 'refused'],
  ['cursor://user@host/', 'refused'],
  ['cursor://host/#x', 'refused'],
  ['urn:ietf:wg:oauth:2.0:oob', 'refused'],
  ['//app.example.com/', 'refused'],
  ['/callback', 'refused'],
  ['callback', 'refused'],
  ['', 'refused'],
  ...(
    'ftp file data javascript vbscript blob about ws wss view-source filesystem mailto tel chrome ' +
    'chrome-extension moz-extension ms-msdt search-ms intent itms-services jar smb ssh'
  )
    .split(' ')
    .map((scheme): [string, 'refused'] => [`${scheme}:/x`, 'refused']),
  ['JavaScript://x/%0aalert(1)', 'refused'],
  ['javascript://x/%0aalert(1)', 'refused'],
]

t.test('redirect URIs are https, http on loopback, or of a private-use scheme', async (t) => {
  for (const [uri, kind] of uris) {
    t.equal(isAllowedRedirect(uri), kind !== 'refused', JSON.stringify(uri))
    t.equal(isLoopbackRedirect(uri), kind === 'loopback', JSON.stringify(uri))
  }
})

t.test('no text makes a redirect URI that a browser would understand otherwise', async () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.stringMatching(/^(https?|[a-z.]{2,6}):\/{0,2}[a-z1:@.[\]\\]{0,12}[/?#\\@][a-z@%#]{0,8}$/),
  )
  fc.assert(
    fc.property(text, (uri) => {
      if (!isAllowedRedirect(uri)) return true
      const url = new URL(uri)
      const isHttp = url.protocol === 'http:'
      return (
        /^[!-~]+$/.test(uri) &&
        url.username + url.password + url.hash === '' &&
        (!isHttp || ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname)) &&
        !/^(javascript|data|file):/.test(url.protocol)
      )
    }),
    { numRuns: 1_000 },
  )
})

const fits: [registered: string, uri: string, isFit: boolean][] = [
  ['https://app.example.com/cb', 'https://app.example.com/cb', true],
  ['https://app.example.com/cb', 'https://app.example.com/cb/', false],
  ['https://app.example.com/cb', 'https://app.example.com/cb?x', false],
  ['https://app.example.com/cb', 'https://app.example.com/CB', false],
  ['https://app.example.com/cb', 'https://app.example.com:443/cb', false],
  ['https://app.example.com/cb', 'https://app.example.com:8443/cb', false],
  ['https://localhost/cb', 'https://localhost:8443/cb', false],
  ['https://localhost/cb', 'http://localhost/cb', false],
  ['cursor://host/cb', 'cursor://host:1/cb', false],
  ['http://localhost/cb', 'http://localhost/cb', true],
  ['http://localhost/cb', 'http://localhost:50000/cb', true],
  ['http://localhost:8080/cb', 'http://localhost:50000/cb', true],
  ['http://localhost:8080/cb', 'http://localhost/cb', true],
  ['http://127.0.0.1/cb', 'http://127.0.0.1:50000/cb', true],
  ['http://[::1]/cb', 'http://[::1]:50000/cb', true],
  ['http://localhost/cb', 'http://127.0.0.1:50000/cb', false],
  ['http://127.0.0.1/cb', 'http://[::1]:50000/cb', false],
  ['http://localhost/cb', 'http://localhost:50000/cb2', false],
  ['http://localhost/cb', 'http://localhost:50000/cb?x', false],
  ['http://localhost/cb', 'http://localhost:50000', false],
  ['http://localhost/cb', 'http://localhost:50000@evil.example/cb', false],
  ['http://localhost/cb', 'http://localhost:99999/cb', false],
  ['http://localhost/cb', 'http://localhost:0/cb', false],
  ['http://localhost/cb', 'http://localhost:/cb', false],
]

t.test('a redirect URI fits to the letter, but for the port of loopback', async (t) => {
  for (const [registered, uri, isFit] of fits) {
    t.equal(
      fitsRedirect(['https://other.example/', registered], uri),
      isFit,
      `${registered} ${uri}`,
    )
  }
})

t.test('a redirect URI that is not acceptable never fits', async () => {
  const registered = ['http://localhost/cb', 'cursor://a/b']
  const text = fc.oneof(
    fc.string(),
    fc.stringMatching(/^http:\/\/localhost(:[0-9@.a]{0,6})?\/cb[#?]?$/),
  )
  fc.assert(
    fc.property(text, (uri) => !fitsRedirect(registered, uri) || isAllowedRedirect(uri)),
    { numRuns: 1_000 },
  )
})

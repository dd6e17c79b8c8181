import { isUnder, parseHostPort } from '@gatehouse/net'
import t from 'tap'
import {
  createAliasGuard,
  type ProxyRequest,
  readForwarded,
  readOriginal,
  readRequestLine,
} from '../src/forwarded.ts'

const SITES = {
  find(hostHeader: string) {
    const parsed = parseHostPort(hostHeader)
    const site = parsed && DOMAINS.find(({ domain }) => isUnder(domain, parsed.host))
    if (!site) return undefined
    const { host, port } = parsed
    const name = host.ip?.version === 6 ? `[${host.name}]` : host.name
    return { site, host, authority: port ? `${name}:${port}` : name, isAuthHost: false }
  },
}
const DOMAINS = [
  { domain: 'example.com', authOrigin: 'https://auth.example.com' },
  { domain: 'localhost', authOrigin: 'http://auth.localhost:8080' },
  { domain: '10.1.2.3', authOrigin: 'https://10.1.2.3' },
  { domain: 'fd00::1', authOrigin: 'https://[fd00::1]' },
]
type RequestHeaders = Record<string, string>

function request(headers: RequestHeaders, method = 'GET', url = '/'): ProxyRequest {
  const entries = Object.entries(headers)
  return {
    method,
    url,
    headers: Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value])),
    rawHeaders: entries.flat(),
  }
}
const read = (reader: typeof readForwarded, check: ProxyRequest) => reader(check, SITES).url
const forwarded = (headers: RequestHeaders) =>
  request({
    'X-Forwarded-Method': 'GET',
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-Host': 'app.example.com',
    'X-Forwarded-Uri': '/',
    ...headers,
  })

t.test('reads hosts in canonical form', async (t) => {
  const table = {
    'app.example.com': 'https://app.example.com/',
    'APP.Example.COM.': 'https://app.example.com/',
    'example.com': 'https://example.com/',
    'app.example.com:443': 'https://app.example.com/',
    'app.example.com:8443': 'https://app.example.com:8443/',
    'bücher.example.com': 'https://xn--bcher-kva.example.com/',
    'xn--bcher-kva.example.com': 'https://xn--bcher-kva.example.com/',
    localhost: 'https://localhost/',
    '10.1.2.3': 'https://10.1.2.3/',
    '[fd00::1]:8443': 'https://[fd00::1]:8443/',
    '[FD00:0:0::1]': 'https://[fd00::1]/',
  }
  for (const [host, url] of Object.entries(table))
    t.equal(read(readForwarded, forwarded({ 'X-Forwarded-Host': host })), url, host)
})

t.test('refuses hosts outside the configured domains', async (t) => {
  const hosts = [
    'badexample.com',
    'example.com.evil.test',
    'example.comx',
    'evil.test',
    'app.example.com, evil.test',
    'app.example.com,evil.test',
    'app.example.com@evil.test',
    'evil.test#.example.com',
    'evil.test/.example.com',
    'evil.test\\.example.com',
    'app_x.example.com',
    '.example.com',
    'app..example.com',
    'app.example.com:0',
    'app.example.com:99999',
    'app.example.com:8443:1',
    'xn--a.example.com',
    '10.1.2.3.',
    '0x0a.1.2.3',
    '1.10.1.2.3',
    'fd00::1',
    ' app.example.com',
    `${'a.'.repeat(130)}example.com`,
  ]
  for (const host of hosts)
    t.throws(
      () => read(readForwarded, forwarded({ 'X-Forwarded-Host': host })),
      { code: 'FWA_HOST_UNKNOWN' },
      host,
    )
})

t.test('refuses a URI that is not in origin form', async (t) => {
  const uris = [
    'x:@evil.example',
    'https://evil.example/',
    '/\\evil.example',
    '\\evil.example',
    '/a\\b',
    '/a#b',
    '#',
    '?q=1',
    '*',
    'a',
    '/a b',
    '/a\tb',
    '/a\nb',
    '/a\r\nX: 1',
    '/a\0b',
    '/\x7f',
    '/\u0100',
    '/a, /b',
  ]
  for (const uri of uris) {
    const refused = { code: 'FWA_HEADER_INVALID' }
    const name = JSON.stringify(uri)
    const url = `https://app.example.com${uri}`
    const original = request({ 'X-Original-Method': 'GET', 'X-Original-URL': url })
    const line = request({ Host: 'app.example.com' }, 'GET', `/p/authz/envoy/policy/any${uri}`)
    t.throws(() => read(readForwarded, forwarded({ 'X-Forwarded-Uri': uri })), refused, name)
    // There, what stands before a slash would be the name of the policy.
    if (!uri.includes('://')) t.throws(() => read(readRequestLine, line), refused, `${name}, envoy`)
    // Without a slash these name another host, or a method of writing one.
    t.throws(() => read(readOriginal, original), { code: /^FWA_H/ }, `${name}, nginx`)
  }
})

t.test('URIs as browsers and programs send them', async (t) => {
  const uris = [
    '/',
    '/a//b',
    '/%2e%2e/%5c',
    '/?q=100%',
    '/a?u=https://x/#'.slice(0, -1),
    '/~[|]{}"',
  ]
  for (const uri of uris) {
    const check = forwarded({ 'X-Forwarded-Uri': uri })
    t.equal(readForwarded(check, SITES).target, uri)
  }
})

t.test('URIs that no browser sends follow the host as they are, in ASCII', async (t) => {
  const uris: Readonly<Record<string, string>> = {
    '//evil.example/a': '//evil.example/a',
    '///evil.example': '///evil.example',
    '//@evil.example': '//@evil.example',
    '/x?u=C:\\a\\b': '/x?u=C:%5Ca%5Cb',
    '/?\\\\evil.example': '/?%5C%5Cevil.example',
    '/\xc3\xa4?q=\xff': '/%C3%A4?q=%FF',
    '/\x85': '/%85',
  }
  for (const [uri, sent] of Object.entries(uris)) {
    const expected = `https://app.example.com${sent}`
    const url = `https://app.example.com${uri}`
    t.equal(read(readForwarded, forwarded({ 'X-Forwarded-Uri': uri })), expected, uri)
    const original = request({ 'X-Original-Method': 'GET', 'X-Original-URL': url })
    t.equal(read(readOriginal, original), expected, `${uri}, nginx`)
    const line = request({ Host: 'app.example.com' }, 'GET', `/p/authz/envoy/policy/any${uri}`)
    t.equal(read(readRequestLine, line), expected, `${uri}, envoy`)
  }
})

t.test('what is refused is named: in one line, of limited length', async (t) => {
  const message = (uri: string) => {
    try {
      return read(readForwarded, forwarded({ 'X-Forwarded-Uri': uri }))
    } catch (error) {
      return (error as Error).message
    }
  }
  const where = 'X-Forwarded-* holds no valid path: "https://app.example.com'
  t.equal(message('/a\nb\x85'), `${where}/a\\nb%85"`)
  t.ok(message(`/#${'x'.repeat(1_000)}`).length < 250)
})

t.test('methods and schemes', async (t) => {
  const refused = { code: 'FWA_HEADER_INVALID' }
  for (const method of ['GET, POST', 'G T', '', ' GET', 'GET\n', 'G'.repeat(33), 'GET/1'])
    t.throws(
      () => read(readForwarded, forwarded({ 'X-Forwarded-Method': method })),
      { code: /^FWA_HEADER_/ },
      JSON.stringify(method),
    )
  for (const scheme of ['ftp', 'https,http', 'HTTPS', 'https:', 'constructor', '__proto__'])
    t.throws(() => read(readForwarded, forwarded({ 'X-Forwarded-Proto': scheme })), refused, scheme)
  for (const [scheme, told] of Object.entries({ http: 'http', ws: 'http', wss: 'https' }))
    t.equal(
      readForwarded(forwarded({ 'X-Forwarded-Proto': scheme }), SITES).scheme,
      told,
      `${scheme} is ${told}`,
    )
})

t.test('ignores X-Forwarded-Port and X-Forwarded-Prefix', async (t) => {
  const headers = { 'X-Forwarded-Port': '8443', 'X-Forwarded-Prefix': '/evil' }
  t.equal(read(readForwarded, forwarded(headers)), 'https://app.example.com/')
})

t.test('envoy', async (t) => {
  const line = (url: string, headers: RequestHeaders) => request(headers, 'GET', url)
  const envoy = '/portals/main/authz/envoy/policy/any'
  t.equal(
    read(readRequestLine, line(`${envoy}/x`, { Host: 'app.localhost:8080' })),
    'http://app.localhost:8080/x',
    'the scheme is that of the sign-in pages where nothing else is told',
  )
  t.equal(
    readRequestLine(line(`${envoy}/policy/other/..`, { Host: 'example.com' }), SITES).target,
    '/policy/other/..',
    'a path that looks like a route is a path',
  )
  t.throws(
    () => read(readRequestLine, line(envoy, { Host: 'example.com' })),
    { code: 'FWA_HEADER_INVALID' },
    'no path',
  )
  const twice = { ...line(`${envoy}/`, { Host: 'example.com' }) }
  t.throws(
    () => readRequestLine({ ...twice, rawHeaders: ['Host', 'a', 'HOST', 'b'] }, SITES),
    { code: 'FWA_HEADER_INVALID', message: 'Host was sent more than once' },
    'two hosts',
  )
})

t.test('refuses aliases of the headers that are read or written', async (t) => {
  const refuse = createAliasGuard(['x-forwarded-user', 'x-forwarded-host', 'remote-user'])
  const aliases = [
    'X_Forwarded_User',
    'X.Forwarded.User',
    'x-forwarded_user',
    'X-Forwarded.Host',
    'REMOTE_USER',
    'remote.user',
    'X~Forwarded~User',
    "X!Forwarded'User",
    'X|Forwarded`Host',
  ]
  for (const alias of aliases)
    t.throws(() => refuse(['Accept', '*/*', alias, 'x']), { code: 'FWA_HEADER_ALIAS' }, alias)
  const plain = [
    'X-Forwarded-User',
    'a',
    'x_other_header__',
    'b',
    'My.Remote.User',
    'c',
    'a_b',
    'd',
  ]
  t.doesNotThrow(() => refuse(plain), 'the names themselves and unlike ones')
  t.doesNotThrow(() => refuse(['x_'.repeat(200), 'x']), 'a very long one')
})

t.test('path and method are known unless a header of the client replaces them', async (t) => {
  const uri = { 'X-Forwarded-Uri': '/a' }
  const original = request({
    'X-Original-Method': 'GET',
    'X-Original-URL': 'https://app.example.com/a',
  })
  const known = { path: { segments: ['a'] }, method: 'GET' }
  t.match(readForwarded(forwarded(uri), SITES).routing, known)
  t.match(readOriginal(original, SITES).routing, known, 'the URL of the proxy replaces nothing')
  for (const name of ['X-Original-URL', 'X-Rewrite-URL', 'Destination', 'X-Forwarded-Prefix']) {
    const { routing } = readForwarded(forwarded({ ...uri, [name]: '/b' }), SITES)
    t.match(routing, { path: { segments: { length: 0 }, next: '' }, method: 'GET' }, name)
  }
  const { routing } = readForwarded(forwarded({ ...uri, 'X-HTTP-Method': 'PUT' }), SITES)
  t.match(routing, { path: { segments: ['a'] }, method: undefined }, 'X-HTTP-Method')
})

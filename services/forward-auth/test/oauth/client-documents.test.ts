import { once } from 'node:events'
import type { RequestListener, ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer, isIPv4, type LookupFunction, type Server } from 'node:net'
import { gzipSync } from 'node:zlib'
import {
  type BoundedFetch,
  createFetch,
  type FetchAnswer,
  type FetchOptions,
  type IpAddress,
  NetError,
  parseIp,
} from '@gatehouse/net'
import { manualClock } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { createTestCa, type TestCa } from '../../../../scripts/test/certificates.ts'
import { ClientDocuments, publicFetch } from '../../src/oauth/client-documents.ts'

const HOST = 'client.gatehouse.localhost'
const LOOPBACK = ['127.0.0.0/8', '::1']
const MEGABYTE = 1_048_576

/** Answers the request for a document whose client ID is this. */
type Answer = (response: ServerResponse, id: string) => void
type Code = 'FWA_CLIENT_INVALID' | 'FWA_CLIENT_UNREACHABLE'

const documentOf = (id: string) => ({
  client_id: id as unknown,
  client_name: 'App' as unknown,
  redirect_uris: [`${new URL(id).origin}/callback`] as unknown,
})

const send =
  (body: string | Buffer, headers: Record<string, string | number> = {}, status = 200): Answer =>
  (response) =>
    void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)

/** A document that is good but for these members. */
const members =
  (change: (id: string) => object): Answer =>
  (response, id) =>
    send(JSON.stringify({ ...documentOf(id), ...change(id) }))(response, id)

/** A document that is good but for how it is sent. */
const sent =
  (as: (json: string, id: string) => Answer): Answer =>
  (response, id) =>
    as(JSON.stringify(documentOf(id)), id)(response, id)

const redirects = [300, 301, 302, 303, 304, 305, 306, 307, 308, 399].flatMap((status) =>
  ['https://127.0.0.1', 'https://[::1]', 'https://localhost', 'http://127.0.0.1'].map(
    (to): Hostile => [
      `a redirect with ${status} to ${to}`,
      'FWA_CLIENT_UNREACHABLE',
      sent((json, id) => {
        const location = `${to}:${new URL(id).searchParams.get('trap')}/`
        return send(json, { location, refresh: `0; url=${location}` }, status)
      }),
    ],
  ),
)

const statuses = [201, 203, 204, 206, 226, 400, 401, 403, 404, 410, 418, 429, 500, 502, 503].map(
  (status): Hostile => [
    `status ${status}`,
    'FWA_CLIENT_UNREACHABLE',
    sent((json) => send(json, {}, status)),
  ],
)

const types = ['text/html', 'text/plain', 'text/json', 'application/jsonx', 'application/xml', '']
  .concat('application/javascript', 'application/octet-stream', 'image/png', 'x; application/json')
  .map(
    (type): Hostile => [
      `the content type "${type}"`,
      'FWA_CLIENT_INVALID',
      sent((json) => send(json, { 'content-type': type })),
    ],
  )

const bodies: Hostile[] = [
  ...[
    ['5 MB with a content-length', sent((json) => send(json.padEnd(5 * MEGABYTE)))],
    [
      '5 MB in chunks',
      sent((json) => (response) => {
        response.writeHead(200, { 'content-type': 'application/json' }).write(json)
        for (let i = 0; i < 80; i++) response.write(Buffer.alloc(65_536, ' '))
        response.end()
      }),
    ],
    ['a byte too many', sent((json) => send(json.padEnd(5_121)))],
    ['a content-length of an exabyte', sent((json) => send(json, { 'content-length': 10 ** 15 }))],
    ['deep nesting beyond the limit', send('['.repeat(100_000))],
    ['deep nesting', send('['.repeat(5_000))],
    ['deep nesting that ends', send('['.repeat(2_500) + ']'.repeat(2_500))],
    ['deep objects', send(`${'{"a":'.repeat(850)}1${'}'.repeat(850)}`)],
    ['a bomb', sent((json) => send(gzipSync(json.padEnd(MEGABYTE)), GZIP))],
    ['a gzip body', sent((json) => send(gzipSync(json), GZIP))],
    ['a gzip body without its header', sent((json) => send(gzipSync(json)))],
    ['a byte order mark', sent((json) => send(`\ufeff${json}`))],
    ['UTF-16', sent((json) => send(Buffer.from(`\ufeff${json}`, 'utf16le')))],
    ['a byte that is not UTF-8', sent((json) => send(latin(json.replace('App', 'App\xff'))))],
    ['an overlong slash', sent((json) => send(latin(json.replace('App', '\xc0\xaf'))))],
    ['a surrogate in UTF-8', sent((json) => send(latin(json.replace('App', '\xed\xa0\x80'))))],
    ['a cut sequence', sent((json) => send(latin(`${json}\xe2\x82`)))],
    ['NaN', sent((json) => send(json.replace('"App"', 'NaN')))],
    ['Infinity', sent((json) => send(json.replace('"App"', 'Infinity')))],
    ['a comment', sent((json) => send(`/* */${json}`))],
    ['single quotes', sent((json) => send(json.replaceAll('"', "'")))],
    ['a trailing comma', sent((json) => send(json.replace(/}$/, ',}')))],
    ['two documents', sent((json) => send(json + json))],
    ['a callback', sent((json) => send(`callback(${json})`))],
    ['a prefix', sent((json) => send(`)]}'\n${json}`))],
    ['an array', sent((json) => send(`[${json}]`))],
    ['a text', sent((json) => send(JSON.stringify(json)))],
    ['a huge number', send('9'.repeat(5_000))],
    ['a control character', sent((json) => send(json.replace('App', 'A\u0000pp')))],
  ].map(([name, answer]): Hostile => [name as string, 'FWA_CLIENT_INVALID', answer as Answer]),
  ...['', ' ', 'null', 'true', '0', '""', '[]', '{}', '<html>', 'undefined'].map(
    (body): Hostile => [`the body ${quote(body)}`, 'FWA_CLIENT_INVALID', send(body)],
  ),
  [
    'a body that is cut off',
    'FWA_CLIENT_UNREACHABLE',
    sent((json) => (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 4_000 })
      response.write(json)
      setImmediate(() => response.destroy())
    }),
  ],
  ['no answer', 'FWA_CLIENT_UNREACHABLE', (response) => void response.destroy()],
]

const clientIds = [
  ...[undefined, null, true, 0, '', [], {}],
  ...[
    (id: string) => [id],
    (id: string) => [[id]],
    (id: string) => ({ href: id }),
    (id: string) => ({ toString: id }),
    (id: string) => id.toUpperCase(),
    (id: string) => id.replace('https', 'HTTPS'),
    (id: string) => id.replace('https', 'http'),
    (id: string) => id.replace(HOST, HOST.toUpperCase()),
    (id: string) => id.replace(HOST, `${HOST}.`),
    (id: string) => id.replace(HOST, `user@${HOST}`),
    (id: string) => id.replace(HOST, 'evil.example'),
    (id: string) => id.replace('client', 'cl\u0456ent'),
    (id: string) => id.replace(/:\d+/, ''),
    (id: string) => id.replace(/:\d+/, ':443'),
    (id: string) => id.replace('document', '%64ocument'),
    (id: string) => id.replace('document', 'DOCUMENT'),
    (id: string) => id.replace('document', './document'),
    (id: string) => id.replace('document', 'x/../document'),
    (id: string) => id.replace('/document', '//document'),
    (id: string) => id.replace(/\?.*/, ''),
    (id: string) => `${id}/`,
    (id: string) => `${id}&`,
    (id: string) => `${id}#`,
    (id: string) => ` ${id}`,
    (id: string) => `${id} `,
    (id: string) => `${id}\n`,
    (id: string) => `${id}\0`,
    (id: string) => `\ufeff${id}`,
    (id: string) => id.slice(0, -1),
  ],
].map((of, i): Hostile => {
  const change = (id: string) => ({ client_id: typeof of === 'function' ? of(id) : of })
  return [`client_id ${i}: ${quote(change('$id'))}`, 'FWA_CLIENT_INVALID', members(change)]
})

const names = [
  ...['<script>alert(1)</script>', '<b>Bank</b>', '"><img src=x onerror=alert(1)>', 'a > b'],
  ...['\u202eknaB', '\u202aBank', '\u2066Bank\u2069', '\u200fBank', '\u061cBank', 'Ba\u200bnk'],
  ...['Ba\u00adnk', 'Ba\ufeffnk', 'Ba\u2060nk', 'Bank\r\nHost: x', 'Bank\u0000', 'Bank\u001b[31m'],
  ...['Bank\u007f', 'Bank\u0085', 'Bank\u2028', 'Bank\u2029', '\u3164', '\u{e0041}\u{e0042}'],
  ...['\ud800', '\ue000', '\uffff', '', ' ', '\t', '\u00a0', 0, false, [], ['Bank'], {}],
].map(
  (name): Hostile => [
    `the name ${quote(name)}`,
    'FWA_CLIENT_INVALID',
    members(() => ({ client_name: name })),
  ],
)

const uris = [
  ...['http://evil.example/', 'http://10.0.0.1/', 'http://169.254.169.254/latest/meta-data/'],
  ...['http://127.0.0.2/', 'http://127.1/', 'http://2130706433/', 'http://0x7f000001/'],
  ...['http://localhost@evil.example/', 'http://localhost.evil.example/', 'http://localhost:0/'],
  ...['https://evil.example\\@good.example/', 'https://user@good.example/', 'https://@a.example/'],
  ...[
    'https://good.example/#',
    'https://good.example/#access_token',
    'https://good.example/\u0000',
  ],
  ...[
    'https://good.example/\r\nset-cookie:a=b',
    'https://good.example/\t',
    'https://*/',
    'https://*',
  ],
  ...['https://good.example/"><script>', 'https://good.example/ü', 'https://ex\u0430mple.com/'],
  ...['javascript:alert(1)', 'javascript:/*/alert(1)', 'javascript://x/%0aalert(1)'],
  ...['JavaScript:/x', 'data:text/html,<script>', 'data:/x', 'vbscript:/x', 'file:///etc/passwd'],
  ...['blob:https://good.example/x', 'about:blank', 'view-source:https://a.example/', 'ws://a/'],
  ...['filesystem:https://a.example/x', 'chrome://settings/', 'chrome-extension://x/', 'ftp://a/'],
  ...['mailto:a@b.example', 'tel:/1', 'intent://x/#Intent;end', 'ms-msdt:/id', 'search-ms:/x'],
  ...['urn:ietf:wg:oauth:2.0:oob', '//evil.example/', '/callback', 'callback', '', ' ', '*'],
  ...[`https://good.example/${'x'.repeat(2_048)}`, null, 1, {}, [], ['https://good.example/']],
].map(
  (uri): Hostile => [
    `the redirect URI ${quote(uri)}`,
    'FWA_CLIENT_INVALID',
    members(() => ({ redirect_uris: ['https://good.example/', uri] })),
  ],
)

const metadata = [
  ...[undefined, null, '', 'https://good.example/', {}, [], 1, true, [[]]].map((redirect_uris) => ({
    redirect_uris,
  })),
  { redirect_uris: Array(21).fill('https://a.example/') },
  { redirect_uris: Array(200).fill('https://a.example/') },
  { redirect_uris: { length: 1, 0: 'https://a.example/' } },
  { client_secret: 'hunter2' },
  { client_secret: '' },
  { client_secret_expires_at: 0 },
  ...(
    'client_secret_basic client_secret_post client_secret_jwt private_key_jwt tls_client_auth ' +
    'self_signed_tls_client_auth attest_jwt_client_auth NONE'
  )
    .split(' ')
    .map((token_endpoint_auth_method) => ({ token_endpoint_auth_method })),
  ...['', ['none'], {}, false].map((token_endpoint_auth_method) => ({
    token_endpoint_auth_method,
  })),
  ...[[], 'authorization_code', ['implicit'], ['client_credentials'], {}].map((grant_types) => ({
    grant_types,
  })),
  ...[[], 'code', ['token'], ['id_token token'], ['code token'], {}].map((response_types) => ({
    response_types,
  })),
].map((change): Hostile => [quote(change), 'FWA_CLIENT_INVALID', members(() => change)])

const prototypes = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty'].map(
  (member): Hostile => [
    `a document below ${member}`,
    'FWA_CLIENT_INVALID',
    sent((json) => send(`{"${member}":${json}}`)),
  ],
)
const inherited = ['client_id', 'redirect_uris'].map(
  (member): Hostile => [
    `${member} in __proto__`,
    'FWA_CLIENT_INVALID',
    sent((json) => {
      const { [member]: moved, ...others } = JSON.parse(json)
      const rest = JSON.stringify(others).slice(1)
      return send(`{"__proto__":${JSON.stringify({ [member]: moved })},${rest}`)
    }),
  ],
)

type Hostile = [name: string, code: Code, answer: Answer]

const GZIP = { 'content-encoding': 'gzip' }

/** Written in ASCII, since no name of a test may have a line break. */
function quote(value: unknown) {
  const text = JSON.stringify(value).slice(0, 80)
  return text.replaceAll(/[^ -~]/g, (of) => `\\u${of.charCodeAt(0).toString(16)}`)
}

function latin(text: string) {
  return Buffer.from(text, 'latin1')
}

const hostileDocuments: Hostile[] = [
  ...redirects,
  ...statuses,
  ...types,
  ...bodies,
  ...clientIds,
  ...names,
  ...uris,
  ...metadata,
  ...prototypes,
  ...inherited,
]

/** Hosts of a client ID, or the whole URL up to its path. */
const hostileHosts = [
  ...['127.0.0.1', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.0.0.1', '0177.0.0.1'],
  ...[
    '017700000001',
    '127.0.0.1.',
    '127.255.255.254',
    '①②⑦.⓪.⓪.①',
    '127。0。0。1',
    '%31%32%37.0.0.1',
  ],
  ...['0.0.0.0', '0', '0x0', '[::]', '[::1]', '[0:0:0:0:0:0:0:1]', '[::0001]', '[::1%25lo]'],
  ...['[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[0:0:0:0:0:ffff:127.0.0.1]', '[::127.0.0.1]'],
  ...['[64:ff9b::127.0.0.1]', '[64:ff9b::7f00:1]', '[64:ff9b:1::127.0.0.1]', '[2002:7f00:1::1]'],
  ...['[2001:0:7f00:1::]', '[::ffff:0:127.0.0.1]', '[fe80::1]', '[fec0::1]', '[fc00::1]'],
  ...['[fd00:ec2::254]', '[ff02::1]', '[2001:db8::1]', '[100::1]', '[3fff::1]', '[5f00::1]'],
  ...['10.0.0.1', '10.1', '167772161', '0xa.0.0.1', '012.0.0.1', '172.16.0.1', '172.31.255.255'],
  ...['192.168.0.1', '192.168.257', '3232235521', '0xc0a80001', '100.64.0.1', '100.100.100.200'],
  ...['169.254.169.254', '2852039166', '0xa9fea9fe', '0251.0376.0251.0376', '[::ffff:a9fe:a9fe]'],
  ...['[64:ff9b::a9fe:a9fe]', '168.63.129.16', '192.0.0.192', '192.0.2.1', '198.18.0.1'],
  ...['198.51.100.1', '203.0.113.1', '224.0.0.1', '240.0.0.1', '255.255.255.255', '192.88.99.1'],
  ...['localhost', 'LOCALHOST', 'localhost.', 'id.localhost', 'a.b.localhost', 'id.localhost.'],
  ...[
    'user@127.0.0.1',
    '127.0.0.1#@client.example',
    'client.example@127.0.0.1',
    '[::1]\\@a.example',
  ],
  ...['client.example\\@127.0.0.1', 'intranet', 'a_b.localhost', 'xn--a.localhost'],
]

/** What DNS answers for the name of a client ID, time after time. */
const hostileNames: string[][][] = [
  ...[['127.0.0.1'], ['127.0.0.2'], ['::1'], ['0.0.0.0'], ['::'], ['10.0.0.1'], ['172.16.0.1']],
  ...[['192.168.1.1'], ['169.254.169.254'], ['100.64.0.1'], ['168.63.129.16'], ['fd00:ec2::254']],
  ...[['fe80::1%lo'], ['fe80::1'], ['::ffff:127.0.0.1'], ['::ffff:7f00:1'], ['::127.0.0.1']],
  ...[['64:ff9b::7f00:1'], ['64:ff9b:1::7f00:1'], ['2002:7f00:1::1'], ['2001:0:7f00:1::']],
  ...[['fec0::1'], ['ff02::1'], ['224.0.0.1'], ['255.255.255.255'], ['198.18.0.1'], []],
  ...[
    ['1.1.1.1', '127.0.0.1'],
    ['127.0.0.1', '1.1.1.1'],
    ['2606:4700::1111', '::1'],
    ['2606:4700::1111', '127.0.0.1'],
    ['1.1.1.1', '8.8.8.8', '10.0.0.1'],
    ['1.1.1.1', '::ffff:127.0.0.1'],
    ['not an address'],
    ['1.1.1.1', ''],
  ],
].map((first) => [first, ['127.0.0.1'], ['127.0.0.1']])

t.test('a hostile document or host is refused, and nothing reaches loopback', async (t) => {
  const ca = await createTestCa()
  const trap = await startTrap(t)
  const site = await startSite(t, ca)
  const port = site.port
  let refused = 0
  const refuses = async (t: Test, clientId: string, fetch: BoundedFetch, code?: Code) => {
    const documents = documentsOf(fetch)
    const error = await documents.find(clientId, 'ada').catch((error) => error)
    refused += 1
    t.equal(error.name, 'FwaError', clientId)
    if (code) t.equal(error.code, code, error.message)
    else t.match(error.code, /^FWA_CLIENT_(INVALID|UNREACHABLE)$/, clientId)
    return error as Error
  }

  t.test('documents', async (t) => {
    const fetch = local(t, ca)
    const good = `https://${HOST}:${port}/document?n=-1`
    t.match(await documentsOf(fetch).find(good, 'ada'), { id: good, name: 'App' })
    for (const [n, [name, code]] of hostileDocuments.entries())
      await t.test(name, async (t) => {
        const id = `https://${HOST}:${port}/document?n=${n}&trap=${trap.port}`
        const { message } = await refuses(t, id, fetch, code)
        t.match(message, new RegExp(`^the document of ${HOST}:${port} [a-z]`))
        t.notMatch(message, /hunter2|127\.0\.0\.1:|Bank|evil|alert/)
      })
  })

  t.test('answers that do not end are refused in time', async (t) => {
    const fetch = local(t, ca, { timeoutMs: 150 })
    for (const path of ['hang', 'hang-midway', 'drip'])
      await refuses(t, `https://${HOST}:${port}/${path}`, fetch, 'FWA_CLIENT_UNREACHABLE')
  })

  t.test('hosts', async (t) => {
    const fetch = publicFetch((options) => createFetch({ ...options, ca: ca.root }), [])
    t.teardown(() => fetch.close())
    for (const host of hostileHosts) {
      const url = `https://${host}:${trap.port}/client.json`
      await refuses(t, url, fetch)
      // The fetch holds without what the client ID is checked for.
      const error = await fetch(url).catch((error) => error)
      const isUrl = URL.canParse(url) && !/intranet|_|example$|xn--/.test(new URL(url).hostname)
      t.equal(error.code, isUrl ? 'NET_ADDRESS_REFUSED' : error.code, url)
      t.ok(error instanceof NetError, url)
    }
  })

  t.test('names', async (t) => {
    const message = `the document of id.example:${trap.port} cannot be read`
    for (const answers of hostileNames) {
      const dns = await startDns(t, answers, ca)
      const fetch = publicFetch(dns.createFetch, [])
      const clientId = `https://id.example:${trap.port}/client.json`
      const error = await refuses(t, clientId, fetch, 'FWA_CLIENT_UNREACHABLE')
      t.equal(error.message, message, 'tells nobody which names there are')
      t.equal(dns.asked, 1)
      await fetch.close()
    }
    // A connection goes where the first answer was checked, and fails there: no certificate has the name.
    for (const later of ['::1', '10.0.0.1', '169.254.169.254', '::ffff:10.0.0.1', '0.0.0.0']) {
      const dns = await startDns(t, [['127.0.0.1'], [later], [later]], ca)
      const fetch = publicFetch(dns.createFetch, ['127.0.0.1'])
      const clientId = `https://id.example:${port}/client.json`
      const connection = once(site.server, 'connection')
      const error = await refuses(t, clientId, fetch, 'FWA_CLIENT_UNREACHABLE')
      await connection
      t.match(error.message, /cannot be read$/)
      t.equal(dns.asked, 1, later)
      const again = await documentsOf(fetch)
        .find(clientId, 'ada')
        .catch((error) => error)
      t.equal(again.cause.code, 'NET_ADDRESS_REFUSED', later)
      await fetch.close()
    }
  })

  t.test('all of them', async (t) => {
    t.comment(`${refused} were refused`)
    t.ok(refused >= 200, `${refused} were refused`)
    t.equal(trap.connections, 0)
    t.equal(site.redirected, 0)
  })
})

const networks: [address: string, privateNetworks: string[], isAllowed: boolean][] = [
  ['1.1.1.1', [], true],
  ['10.0.0.1', [], false],
  ['10.0.0.1', ['10.0.0.0/8'], true],
  ['10.0.0.1', ['0.0.0.0/0'], true],
  ['10.0.0.1', ['nonsense', '192.168.0.0/16'], false],
  ['fd00::1', ['fd00::/8'], true],
  ['127.0.0.1', ['0.0.0.0/0', '127.0.0.0/7'], false],
  ['127.0.0.1', ['126.0.0.0/7'], false],
  ['127.0.0.1', ['127.0.0.0/8'], true],
  ['127.0.0.1', ['127.0.0.1'], true],
  ['127.0.0.2', ['127.0.0.1'], false],
  ['::1', ['::/0', '::/127'], false],
  ['::1', ['::1'], true],
  ['::', ['::/0'], false],
  ['0.0.0.0', ['0.0.0.0/0'], false],
  ['169.254.169.254', ['0.0.0.0/0', '169.254.0.0/15'], false],
  ['169.254.169.254', ['169.254.0.0/16'], true],
  ['169.254.169.254', ['169.254.1.0/24'], false],
  ['fe80::1', ['::/0', 'fe80::/9'], false],
  ['fe80::1', ['fe80::/10'], true],
  ['64:ff9b::8.8.8.8', [], false],
  ['64:ff9b::8.8.8.8', ['64:ff9b::/96'], true],
  ['64:ff9b::127.0.0.1', ['64:ff9b::/96'], false],
  ['64:ff9b::169.254.169.254', ['64:ff9b::/96'], false],
  ['64:ff9b::10.0.0.1', ['64:ff9b::/96'], false],
  ['64:ff9b::10.0.0.1', ['64:ff9b::/96', '10.0.0.0/8'], true],
  ['64:ff9b:1::10.0.0.1', ['64:ff9b:1::/96'], false],
  ['2002:7f00:1::1', ['2000::/3', '0.0.0.0/0'], false],
]

t.test('a public fetch goes to public addresses and to the private networks', async (t) => {
  for (const [address, privateNetworks, isAllowed] of networks) {
    let allows: (address: IpAddress) => boolean = () => false
    publicFetch((options) => {
      t.equal(options.timeoutMs, 5_000)
      allows = options.allows ?? allows
      return fakeFetch().fetch
    }, privateNetworks)
    t.equal(allows(parseIp(address)!), isAllowed, `${address} by ${privateNetworks}`)
  }
})

const SECOND = 1_000
const ID = 'https://app.example.com/client.json'

const ages: [cacheControl: string, seconds: number][] = [
  ['', 300],
  ['public', 300],
  ['max-age=600', 600],
  ['Max-Age="600"', 600],
  ['public,max-age=600, immutable', 600],
  ['s-maxage=600', 300],
  ['max-age=0', 60],
  ['max-age=59', 60],
  ['max-age=999999999999999999999', 86_400],
  ['max-age=-1', 300],
  ['max-age=x', 300],
  ['no-store', 60],
  ['no-cache, max-age=600', 60],
]

t.test('a document is used as long as its answer says, within bounds', async (t) => {
  for (const [cacheControl, seconds] of ages) {
    const { documents, clock, requests } = start(
      cacheControl ? { 'cache-control': cacheControl } : {},
    )
    const client = await documents.find(ID, 'ada')
    await clock.advance(seconds * SECOND - 1)
    t.equal(await documents.find(ID, 'bob'), client, cacheControl)
    t.equal(requests.length, 1, cacheControl)
    await clock.advance(1)
    await documents.find(ID, 'bob')
    t.equal(requests.length, 2, cacheControl)
  }
})

t.test('a document is requested as JSON, within 5 kB', async (t) => {
  const { documents, requests } = start()
  await documents.find(ID, 'ada')
  const init = { headers: { accept: 'application/json' }, json: true, maxBytes: 5_120 }
  t.strictSame(requests, [[ID, init]])
})

t.test('a document that was read after now is read again', async (t) => {
  const times = { now: 2_000_000_000_000 }
  const { fetch, requests } = fakeFetch()
  const clock = { ...manualClock(), now: () => times.now }
  const documents = new ClientDocuments({ fetch, clock, isOwnHost: () => false })
  await documents.find(ID, 'ada')
  times.now -= SECOND
  await documents.find(ID, 'ada')
  t.equal(requests.length, 2)
})

t.test('all that ask for one document at a time share one request, and one refusal', async (t) => {
  const { documents, requests } = start()
  const people = Array.from({ length: 50 }, (_, i) => `person-${i}`)
  const clients = await Promise.all(people.map((person) => documents.find(ID, person)))
  t.equal(new Set(clients).size, 1)
  t.equal(requests.length, 1)
  const bad = 'https://app.example.com/bad'
  const errors = await Promise.allSettled(people.map((person) => documents.find(bad, person)))
  t.ok(errors.every(({ status }) => status === 'rejected'))
  t.equal(requests.length, 2)
})

t.test('a failure is told again for 10 seconds', async (t) => {
  const { documents, clock, requests } = start()
  const bad = 'https://app.example.com/bad'
  for (let i = 0; i < 100; i++)
    await t.rejects(documents.find(bad, 'ada'), {
      code: 'FWA_CLIENT_UNREACHABLE',
      retryAfter: 10,
      expose: true,
      message: 'the document of app.example.com must be answered with status 200, not a redirect',
    })
  t.equal(requests.length, 1)
  await clock.advance(10 * SECOND)
  await t.rejects(documents.find(bad, 'ada'))
  t.equal(requests.length, 2)
})

t.test('at most 1,000 documents and 1,000 failures are kept', async (t) => {
  const { documents, requests } = start()
  const find = (path: string, i: number) =>
    documents.find(`https://app.example.com/${path}${i}`, `person-${i}`).catch(() => undefined)
  for (const path of ['good', 'bad']) for (let i = 0; i < 1_001; i++) await find(path, i)
  t.equal(requests.length, 2_002)
  await find('good', 1_000)
  await find('bad', 1_000)
  t.equal(requests.length, 2_002)
  await find('good', 0)
  await find('bad', 0)
  t.equal(requests.length, 2_004)
})

t.test('a person may have 20 documents read at once, then one every 6 seconds', async (t) => {
  const { documents, clock, requests } = start()
  const find = (n: number, person = 'ada') => documents.find(`https://app.example.com/${n}`, person)
  for (let n = 0; n < 20; n++) await find(n)
  await t.rejects(find(20), {
    code: 'FWA_RATE_LIMITED',
    retryAfter: 6,
    message: 'too many clients were new',
  })
  t.ok(await find(19), 'what is known costs nothing')
  t.ok(await find(20, 'bob'), 'somebody else has their own')
  t.ok(await find(20))
  await clock.advance(6 * SECOND)
  t.ok(await find(21))
  await t.rejects(find(22), { code: 'FWA_RATE_LIMITED' })
  t.equal(requests.length, 22)
})

t.test(
  'nothing is requested for a client ID that is not acceptable, or of our hosts',
  async (t) => {
    const { documents, requests } = start()
    await t.rejects(documents.find('http://app.example.com/x', 'ada'), {
      code: 'FWA_CLIENT_INVALID',
      message: /^the client ID is not an https URL in canonical spelling, /,
    })
    for (const host of ['auth.example.com', 'auth.example.com:8443'])
      await t.rejects(documents.find(`https://${host}/client.json`, 'ada'), {
        code: 'FWA_CLIENT_INVALID',
        message: `${host} is a host of this service`,
      })
    await t.rejects(documents.find('https://[2001:db8::1]/x', 'ada'), {
      code: 'FWA_CLIENT_INVALID',
    })
    t.equal(requests.length, 0)
  },
)

t.test('an error tells what failed, and its cause only to the log', async (t) => {
  const failures: [cause: Error, code: Code, message: string][] = [
    [
      new NetError('NET_FETCH_TYPE', ''),
      'FWA_CLIENT_INVALID',
      'must have the content type `application/json`',
    ],
    [new NetError('NET_FETCH_TOO_LARGE', ''), 'FWA_CLIENT_INVALID', 'must have at most 5120 bytes'],
    [new NetError('NET_ADDRESS_REFUSED', ''), 'FWA_CLIENT_UNREACHABLE', 'cannot be read'],
    [new NetError('NET_FETCH_FAILED', ''), 'FWA_CLIENT_UNREACHABLE', 'cannot be read'],
    [new NetError('NET_FETCH_TIMEOUT', ''), 'FWA_CLIENT_UNREACHABLE', 'cannot be read'],
    [new TypeError('10.0.0.1'), 'FWA_CLIENT_UNREACHABLE', 'cannot be read'],
  ]
  for (const [cause, code, why] of failures) {
    const fetch = Object.assign(() => Promise.reject(cause), { close: async () => {} })
    const message = `the document of app.example.com ${why}`
    await t.rejects(documentsOf(fetch).find(ID, 'ada'), { code, message, cause })
  }
})

t.test('close() closes the fetch', async (t) => {
  let isClosed = false
  const close = async () => {
    isClosed = true
  }
  const { fetch } = fakeFetch()
  await documentsOf(Object.assign(fetch, { close })).close()
  t.equal(isClosed, true)
})

function documentsOf(fetch: BoundedFetch): ClientDocuments {
  return new ClientDocuments({ fetch, clock: manualClock(), isOwnHost: () => false })
}

/** Answers with a good document, but below `/bad`. */
function fakeFetch(headers: FetchAnswer['headers'] = {}) {
  const requests: [url: string, init: unknown][] = []
  const fetch = async (url: URL | string, init?: unknown) => {
    requests.push([String(url), init])
    if (String(url).includes('/bad')) throw new NetError('NET_FETCH_STATUS', 'was answered 404')
    const body = Buffer.from(JSON.stringify(documentOf(String(url))))
    return { status: 200, headers, body }
  }
  return { requests, fetch: Object.assign(fetch, { close: async () => {} }) }
}

function start(headers?: FetchAnswer['headers']) {
  const clock = manualClock()
  const { fetch, requests } = fakeFetch(headers)
  const isOwnHost = (host: string) => host === 'auth.example.com' || host === '2001:db8::1'
  return { clock, requests, documents: new ClientDocuments({ fetch, clock, isOwnHost }) }
}

/** A public fetch that trusts the CA and may reach loopback. */
function local(t: Test, ca: TestCa, more: FetchOptions = {}): BoundedFetch {
  const make = (options: FetchOptions) => createFetch({ ...options, ca: ca.root, ...more })
  const fetch = publicFetch(make, LOOPBACK)
  t.teardown(() => fetch.close())
  return fetch
}

/** Counts what connects to this machine. */
async function startTrap(t: Test) {
  const trap = { connections: 0, port: 0 }
  const listen = async (host: string) => {
    const server: Server = createServer((socket) => {
      trap.connections += 1
      socket.destroy()
    })
    server.listen(trap.port, host)
    await once(server, 'listening')
    trap.port = (server.address() as AddressInfo).port
    t.teardown(() => server.close())
  }
  await listen('127.0.0.1')
  await listen('::1').catch(() => t.comment('there is no IPv6'))
  return trap
}

/** Serves the documents over TLS. */
async function startSite(t: Test, ca: TestCa) {
  const slow: Record<string, RequestListener> = {
    '/hang': () => {},
    '/hang-midway': (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).write('{"client_id":')
    },
    '/drip': (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      const timer = setInterval(() => response.write(' '), 10)
      response.on('close', () => clearInterval(timer))
    },
  }
  const site = { port: 0, redirected: 0 }
  const server = createHttpsServer(ca.certificateFor(HOST), (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', `https://${request.headers.host}`)
    if (pathname in slow) return slow[pathname]?.(request, response)
    if (pathname !== '/document') site.redirected += 1
    const [, , answer] = hostileDocuments[Number(searchParams.get('n'))] ?? []
    const id = `https://${request.headers.host}${request.url}`
    ;(answer ?? members(() => ({})))(response, id)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  site.port = (server.address() as AddressInfo).port
  return Object.assign(site, { server })
}

/** A resolver that gives these answers one after the other. */
async function startDns(t: Test, answers: string[][], ca: TestCa) {
  const dns = { asked: 0, createFetch }
  const lookup: LookupFunction = (_name, _options, callback) => {
    const found = answers[dns.asked++] ?? []
    callback(
      null,
      found.map((address) => ({ address, family: isIPv4(address) ? 4 : 6 })),
    )
  }
  const mocked = await t.mockImport<{ createFetch: typeof createFetch }>(
    '../../../../packages/net/src/fetch.ts',
    { 'node:dns': { lookup } },
  )
  dns.createFetch = (options) => mocked.createFetch({ ...options, ca: ca.root })
  return dns
}

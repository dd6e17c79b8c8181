import { toPem } from '@gatehouse/pki'
import t from 'tap'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { KEY, start, written } from '../helpers/app.ts'
import { isDocumented } from '../helpers/documented.ts'

const JSON_TYPE = 'application/json'
const label63 = 'a'.repeat(63)
const long = `${`${label63}.`.repeat(4)}test`
const csr = makeCsr()

interface Bad {
  readonly why: string
  readonly status: number
  readonly code: string
  /** JSON pointer of the member at fault. */
  readonly pointer?: string
  readonly method?: string
  readonly url?: string
  readonly body?: unknown
  /** Sent as it is, instead of `body`. */
  readonly raw?: string
  readonly headers?: Record<string, string>
}

const name = (why: string, domain: string): Bad => ({
  why: `name: ${why}`,
  status: 400,
  code: 'PKI_NAME_INVALID',
  pointer: '/domain',
  body: { domain },
})

const member = (why: string, body: unknown, pointer: string): Bad => ({
  why: `body: ${why}`,
  status: 400,
  code: 'FST_ERR_VALIDATION',
  pointer,
  body,
})

const badCsr = (why: string, text: string, code = 'PKI_CSR_INVALID'): Bad => ({
  why: `csr: ${why}`,
  status: 400,
  code,
  pointer: '/csr',
  body: { domain: 'a.test', csr: text },
})

const parser = (why: string, raw: string, code = 'FST_ERR_CTP_INVALID_JSON_BODY'): Bad => ({
  why: `JSON: ${why}`,
  status: 400,
  code,
  raw,
})

const mediaType = (type: string): Bad => ({
  why: `content type ${type}`,
  status: 415,
  code: 'FST_ERR_CTP_INVALID_MEDIA_TYPE',
  raw: '{"domain":"a.test"}',
  headers: { 'content-type': type },
})

const method = (verb: string, url: string): Bad => ({
  why: `${verb} ${url}`,
  status: 405,
  code: 'METHOD_NOT_ALLOWED',
  method: verb,
  url,
})

const path = (url: string): Bad => ({
  why: `path ${url}`,
  status: 404,
  code: 'NOT_FOUND',
  method: 'GET',
  url,
})

const credentials = (why: string, authorization: string, code = 'AUTH_KEY_INVALID'): Bad => ({
  why: `credentials: ${why}`,
  status: 401,
  code,
  body: { domain: 'a.test' },
  headers: { authorization },
})

const BAD: readonly Bad[] = [
  name('no dot and nothing else', '.'),
  name('leading dot', '.a.test'),
  name('two dots', 'a..test'),
  name('two trailing dots', 'a.test..'),
  name('space inside', 'a b.test'),
  name('space around', ' a.test'),
  name('newline at the end', 'a.test\n'),
  name('NUL', 'a\u0000.test'),
  name('underscore', 'a_b.test'),
  name('leading hyphen', '-a.test'),
  name('trailing hyphen', 'a-.test'),
  name('reserved label', 'ab--cd.test'),
  name('broken punycode', 'xn--a.test'),
  name('label of 64', `${label63}a.test`),
  name('asterisk alone', '*'),
  name('asterisk within a label', 'a*.test'),
  name('asterisk in second place', 'a.*.test'),
  name('two asterisks', '*.*.test'),
  name('asterisk over an address', '*.192.0.2.1'),
  name('URL', 'https://a.test/'),
  name('path', 'a.test/x'),
  name('port', 'a.test:443'),
  name('user', 'user@a.test'),
  name('query', 'a.test?x'),
  name('percent sign', 'a%2etest'),
  name('backslash', 'a\\.test'),
  name('short IPv4', '127.1'),
  name('hexadecimal IPv4', '0x7f.0.0.1'),
  name('octal IPv4', '0127.0.0.1'),
  name('IPv4 out of range', '256.0.0.1'),
  name('decimal IPv4', '2130706433'),
  name('five numbers', '1.2.3.4.5'),
  name('IPv6 with a zone', 'fe80::1%eth0'),
  name('IPv6 in brackets', '[::1]'),
  name('IPv6 with two gaps', '1::2::3'),
  name('network', '10.0.0.0/8'),
  name('name rule', '=*.a.test'),
  name('PEM', '-----BEGIN CERTIFICATE-----'),
  name('two names', 'a.test,b.test'),
  name('unassigned code point', 'a\u{e0001}.test'),
  {
    ...name('bad further name', 'a.test'),
    pointer: '/names/2',
    body: { domain: 'a.test', names: ['b.test', 'c.test', 'd_d.test'] },
  },

  member('no domain', {}, '/domain'),
  member('empty domain', { domain: '' }, '/domain'),
  member('number for a domain', { domain: 7 }, '/domain'),
  member('null for a domain', { domain: null }, '/domain'),
  member('true for a domain', { domain: true }, '/domain'),
  member('list for a domain', { domain: ['a.test'] }, '/domain'),
  member('object for a domain', { domain: { a: 1 } }, '/domain'),
  name('domain of more than 253 characters', long),
  member('endless domain', { domain: 'a'.repeat(2_049) }, '/domain'),
  member('unknown member', { domain: 'a.test', force: true }, '/force'),
  member('member in another case', { domain: 'a.test', Names: [] }, '/Names'),
  member('snake case', { domain: 'a.test', key_type: 'p256' }, '/key_type'),
  member('string for names', { domain: 'a.test', names: 'b.test' }, '/names'),
  member('number in names', { domain: 'a.test', names: ['b.test', 1] }, '/names/1'),
  member('empty string in names', { domain: 'a.test', names: [''] }, '/names/0'),
  member('100 further names', { domain: 'a.test', names: Array(100).fill('b.test') }, '/names'),
  member('unknown key type', { domain: 'a.test', keyType: 'p521' }, '/keyType'),
  member('key type in capitals', { domain: 'a.test', keyType: 'P256' }, '/keyType'),
  member('number for a key type', { domain: 'a.test', keyType: 256 }, '/keyType'),
  member('list for a csr', { domain: 'a.test', csr: [csr] }, '/csr'),
  member('empty csr', { domain: 'a.test', csr: '' }, '/csr'),
  member('a list', [{ domain: 'a.test' }], ''),
  member('a string', 'a.test', ''),
  member('null', null, ''),
  { ...member('no domain to renew', {}, '/domain'), url: '/api/certificate/renew' },
  {
    ...member('renew with more', { domain: 'a.test', names: [] }, '/names'),
    url: '/api/certificate/renew',
  },
  { ...name('bad name to renew', 'a_.test'), url: '/api/certificate/renew' },
  { ...name('bad name to revoke', 'a_.test'), url: '/api/certificate/revoke' },
  {
    ...member('unknown reason', { domain: 'a.test', reason: 'bored' }, '/reason'),
    url: '/api/certificate/revoke',
  },
  {
    ...member('reason by number', { domain: 'a.test', reason: 1 }, '/reason'),
    url: '/api/certificate/revoke',
  },

  badCsr('not PEM', 'hello'),
  badCsr('another kind of PEM', csr.replaceAll('CERTIFICATE REQUEST', 'CERTIFICATE')),
  badCsr('cut off', `${csr.slice(0, 200)}\n-----END CERTIFICATE REQUEST-----\n`),
  badCsr('two of them', csr + csr),
  badCsr('other bytes', toPem('CERTIFICATE REQUEST', Buffer.from('hello'))),
  badCsr('signed by another key', makeCsr({ forged: true }), 'PKI_CSR_INVALID'),
  badCsr('1,024-bit RSA', makeCsr({ rsa: 1024 }), 'PKI_KEY_WEAK'),
  {
    ...badCsr('its key is of another type', csr, 'CERT_KEY_TYPE_CONFLICT'),
    pointer: '/keyType',
    body: { domain: 'a.test', csr, keyType: 'rsa2048' },
  },

  parser('empty', '', 'FST_ERR_CTP_EMPTY_JSON_BODY'),
  parser('cut off', '{"domain":"a.test"'),
  parser('two values', '{"domain":"a.test"}{}'),
  parser('single quotes', "{'domain':'a.test'}"),
  parser('__proto__', '{"domain":"a.test","__proto__":{}}'),
  parser('constructor', '{"domain":"a.test","constructor":{"prototype":{}}}'),
  parser('form', 'domain=a.test'),

  mediaType('text/plain'),
  mediaType('application/x-www-form-urlencoded'),
  mediaType('application/xml'),
  mediaType('multipart/form-data; boundary=x'),
  {
    why: 'a body of more than 64 kB',
    status: 413,
    code: 'FST_ERR_CTP_BODY_TOO_LARGE',
    body: { domain: 'a.test', csr: 'a'.repeat(64 * 1024) },
  },

  method('PUT', '/api/certificate'),
  method('GET', '/api/certificate'),
  method('PATCH', '/api/certificate/a.test'),
  method('POST', '/api/certificates'),
  method('DELETE', '/api/certificates'),
  method('POST', '/ca/root.pem'),
  method('POST', '/healthz'),
  { ...path('/api/orders/a%00'), status: 400, code: 'FST_ERR_VALIDATION', pointer: '/id' },
  path('/api'),
  path('/api/certificate/a.test/key'),
  { ...path('/api/certificate/'), status: 400, code: 'FST_ERR_VALIDATION', pointer: '/domain' },
  path('/ca/../etc/passwd'),
  path('/ca/root.key'),
  path('/API/certificates'),
  { ...path('/api/certificate/%'), status: 400, code: 'FST_ERR_BAD_URL' },
  {
    ...path('/api/certificate/a_.test'),
    status: 400,
    code: 'PKI_NAME_INVALID',
    pointer: '/domain',
  },
  {
    ...path(`/api/certificate/${'a'.repeat(6_145)}`),
    status: 414,
    code: 'FST_ERR_MAX_PARAM_LENGTH',
  },
  { ...path('/api/orders/1'), code: 'CERT_ORDER_NOT_FOUND' },
  { ...path('/api/orders?name=a_'), status: 400, code: 'PKI_NAME_INVALID', pointer: '/name' },
  ...['limit=0', 'after=_7', 'after=7_', 'state=done', 'page=2'].map((query) => ({
    ...path(`/api/orders?${query}`),
    status: 400,
    code: 'FST_ERR_VALIDATION',
    pointer: `/${query.split('=', 1)[0]}`,
  })),
  ...['orders', 'certificates'].map((list) => ({
    ...path(`/api/${list}?after=7`),
    code: 'CERT_NOT_FOUND',
  })),
  { ...path('/ca/crl.der?issuer=zz'), status: 400, code: 'FST_ERR_VALIDATION', pointer: '/issuer' },
  ...['limit=0', 'limit=101', 'limit=1e1', 'limit=', 'after=x_', 'after=a.b', 'page=2'].map(
    (query) => ({
      ...path(`/api/certificates?${query}`),
      status: 400,
      code: 'FST_ERR_VALIDATION',
      pointer: `/${query.split('=')[0]}`,
    }),
  ),

  credentials('none', '', 'AUTH_SCHEME_UNSUPPORTED'),
  credentials('another scheme', 'Basic YTpi', 'AUTH_SCHEME_UNSUPPORTED'),
  credentials('another key', 'APIKey another-key-of-the-service'),
  credentials('the key cut off', `APIKey ${KEY.slice(0, -1)}`),
  credentials('the key and more', `APIKey ${KEY}x`),
]

t.test('bad input is refused with its own answer, and nothing is written', async (t) => {
  const running = await start(t)
  const rows = (await running.app.inject('/errors')).body
  for (const {
    why,
    status,
    code,
    pointer,
    method = 'POST',
    url = '/api/certificate',
    ...sent
  } of BAD) {
    const hasBody = 'body' in sent || 'raw' in sent
    const response = await running.app.inject({
      method: method as 'POST',
      url,
      headers: {
        authorization: `APIKey ${KEY}`,
        ...(hasBody && { 'content-type': JSON_TYPE }),
        ...sent.headers,
      },
      ...(hasBody && { payload: sent.raw ?? JSON.stringify(sent.body) }),
    })
    const problem = response.json()
    t.equal(problem.type, `/errors#${code}`, `${why}: type`)
    t.ok(rows.includes(`id="${code}"`), `${why}: a row of the error page`)
    t.ok(await isDocumented(method, url, status), `${why}: ${status} is documented`)
    t.match(
      { status: response.statusCode, code: problem.code, type: response.headers['content-type'] },
      { status, code, type: /^application\/problem\+json/ },
      why,
    )
    if (pointer !== undefined) t.equal(problem.errors?.[0]?.pointer, pointer, `${why}: pointer`)
  }
  await running.service.audit.close()
  t.equal(await written(running), 0)
  t.equal(running.service.issuance.flights.size, 0)
  t.ok(BAD.length >= 80)
  t.comment(`${BAD.length} bad inputs`)
})

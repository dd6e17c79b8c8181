import { X509Certificate } from 'node:crypto'
import { buildCsr, generateP256, parseClientName, toPem } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, KEY, type Running, start } from '../helpers/app.ts'

const NAMES = {
  'a DNS name': 'a.test',
  'an e-mail address': 'ada@a.test',
  'a SPIFFE ID': `spiffe://a.test/${'b'.repeat(900)}/C`,
}
const CLIENT = '?profile=client'
const path = (domain: string, more = CLIENT) =>
  `/api/certificate/${encodeURIComponent(domain)}${more}`
const both = (t: Test) => {
  const keys = [
    { name: 'all', key: KEY },
    { name: 'web', key: 'a-key-of-a-server-000', domains: ['*.a.test', 'a.test'] },
    {
      ...{ name: 'app', key: 'a-key-of-a-client-000', profile: 'client' },
      ...{
        domains: ['a.test', '*@a.test', 'spiffe://a.test/*'],
        rights: ['issue', 'read', 'revoke', 'delete'],
      },
    },
  ]
  return start(t, { auth: { psk: { keys } } })
}
const apiKey = (key: string) => ({ authorization: `APIKey ${key}` })
const web = apiKey('a-key-of-a-server-000')
const app = apiKey('a-key-of-a-client-000')
const obtain = ({ call }: Running, domain: string, more: object = {}, headers: object = {}) =>
  call('POST', '/api/certificate', { domain, profile: 'client', ...more }, headers)

for (const [what, domain] of Object.entries(NAMES))
  t.test(`a client certificate for ${what}`, async (t) => {
    const running = await start(t)
    const dry = await running.call('POST', '/api/certificate?dryRun=true', {
      ...{ domain, profile: 'client' },
    })
    t.match([dry.status, dry.body.issuer, dry.body.proofs], [200, 'ca-client', { length: 0 }])
    const first = await obtain(running, domain)
    t.equal(first.status, 200)
    const again = await obtain(running, domain)
    t.same([again.body.cached, again.body.serialNumber], [true, first.body.serialNumber])
    const lived = (Date.parse(first.body.renewAt) - running.clock.now()) / (7 * DAY)
    t.ok(lived > 0.4 && lived < 0.6, 'it is renewed after half of its lifetime')
    const read = await running.call('GET', path(domain))
    t.same([read.status, read.body.serialNumber], [200, first.body.serialNumber])
    const server = await running.call('GET', path(domain, ''))
    t.equal(server.status, domain === 'a.test' ? 404 : 400, 'none is found as that of a server')

    await running.clock.advance(6 * DAY)
    const renewed = await running.call('POST', '/api/certificate/renew', {
      ...{ domain, profile: 'client' },
    })
    t.match([renewed.status, renewed.body.issuer], [200, 'ca-client'])
    t.not(renewed.body.serialNumber, first.body.serialNumber)
    const revoked = await running.call('POST', '/api/certificate/revoke', {
      ...{ domain, profile: 'client' },
    })
    t.ok(revoked.body.serialNumbers.includes(renewed.body.serialNumber))
    await obtain(running, domain)
    t.equal((await running.call('DELETE', path(domain))).status, 204)
    t.equal((await running.call('GET', path(domain))).status, 404)
  })

t.test('certificates of both profiles for one name never meet', async (t) => {
  const running = await start(t)
  const client = await obtain(running, 'a.test')
  const server = await running.call('POST', '/api/certificate', { domain: 'a.test' })
  t.match([client.body.cached, server.body.cached], [false, false])
  const usage = (pem: string) => new X509Certificate(pem).keyUsage
  t.same(usage(client.body.certificate), ['1.3.6.1.5.5.7.3.2'])
  t.same(usage(server.body.certificate), ['1.3.6.1.5.5.7.3.1'])
  for (const [more, { body }] of [
    ['', server],
    ['?profile=server', server],
    [CLIENT, client],
  ] as const)
    t.equal((await running.call('GET', path('a.test', more))).body.serialNumber, body.serialNumber)
  await running.call('POST', '/api/certificate/revoke', { domain: 'a.test' })
  t.equal((await running.call('GET', path('a.test'))).status, 200, 'only that of the server')
  await running.call('DELETE', path('a.test'))
  t.equal((await running.call('GET', path('a.test'))).status, 404)
})

t.test('a request by CSR', async (t) => {
  const running = await start(t)
  const names = ['ada@a.test', 'a.test', 'spiffe://a.test/b']
  const csr = toPem('CERTIFICATE REQUEST', buildCsr(generateP256(), names.map(parseClientName)))
  const { status, body } = await obtain(running, 'ada@a.test', { csr })
  t.same([status, body.names], [200, names])
  t.match(new X509Certificate(body.certificate).subjectAltName, 'email:ada@a.test')
  const asServer = await running.call('POST', '/api/certificate', { domain: 'a.test', csr })
  t.match([asServer.status, asServer.body.code], [400, 'PKI_CSR_INVALID'])
})

t.test('names that no client has', async (t) => {
  const running = await start(t)
  for (const domain of [
    '*.a.test',
    '10.0.0.1',
    'Ada@a.test',
    'https://a.test/',
    'spiffe://a.test',
  ]) {
    const { status, body } = await obtain(running, domain)
    t.match([status, body.code], [400, 'PKI_NAME_INVALID'], domain)
  }
  const unknown = await obtain(running, 'a.test', { profile: 'both' })
  t.equal(unknown.status, 400)
})

t.test('a key is for certificates of one profile', async (t) => {
  expectWarnings(t, 'CERT_NOTHING_HELD')
  const running = await both(t)
  await obtain(running, 'a.test')
  const as = (headers: object, profile: string) =>
    obtain(running, 'a.test', { profile }, headers).then(({ status }) => status)
  t.same([await as(web, 'server'), await as(web, 'client')], [200, 403])
  t.same([await as(app, 'server'), await as(app, 'client')], [403, 200])
  for (const [headers, more, status] of [
    [web, '', 200],
    [web, CLIENT, 403],
    [app, '', 403],
    [app, CLIENT, 200],
  ] as const)
    t.equal((await running.call('GET', path('a.test', more), undefined, headers)).status, status)
  const listed = async (headers: object) => {
    const { body } = await running.call('GET', '/api/certificates', undefined, headers)
    return body.certificates.map(({ issuer }: { issuer: string }) => issuer).sort()
  }
  t.same(await listed(web), ['ca'])
  t.same(await listed(app), ['ca-client'])
  t.same(await listed({}), ['ca', 'ca-client'])
})

t.test('no proxy is handed a client certificate', async (t) => {
  expectWarnings(t, 'CERT_NOTHING_HELD')
  const running = await both(t)
  await obtain(running, 'a.test')
  for (const headers of [web, app]) {
    const traefik = await running.call('GET', '/api/proxy/traefik', undefined, headers)
    t.equal(traefik.body.code, 'CERT_NOTHING_HELD')
    const caddy = await running.call(
      'GET',
      '/api/proxy/caddy?server_name=a.test',
      undefined,
      headers,
    )
    t.equal(caddy.status, 204)
  }
  const { body } = await running.call('POST', '/api/certificate', { domain: 'a.test' })
  const { body: document } = await running.call('GET', '/api/proxy/traefik', undefined, web)
  t.same(
    document.tls.certificates.map(({ certFile }: { certFile: string }) => certFile),
    [body.certificate],
  )
})

t.test('they are renewed by the issuer of clients, and resumed by it', async (t) => {
  const running = await start(t)
  const { body } = await obtain(running, 'ada@a.test')
  running.service.start()
  await running.clock.advance(6 * DAY)
  const renewed = await running.call('GET', path('ada@a.test'))
  t.not(renewed.body.serialNumber, body.serialNumber)
  t.equal(renewed.body.issuer, 'ca-client')
})

t.test('public issuers and their fallbacks sign none', async (t) => {
  const issuer = {
    type: 'acme',
    name: 'le',
    directory: 'https://ca.test/directory',
    names: ['*'],
    challenges: [{ type: 'http-01', listen: { host: '127.0.0.1', port: 18_089 } }],
  }
  const running = await start(t, { issuers: [issuer] })
  t.equal((await obtain(running, 'a.test')).body.issuer, 'ca-client')
  for (const change of [{ name: 'ca-client' }, { fallback: 'ca-client' }, { names: ['*@a.test'] }])
    await t.rejects(start(t, { issuers: [{ ...issuer, ...change }] }), { code: 'CONFIG_INVALID' })
})

t.test('a profile of a key needs domains', async (t) => {
  const keys = [{ name: 'a', key: KEY, profile: 'client' }]
  await t.rejects(start(t, { auth: { psk: { keys } } }), /profile needs domains/)
})

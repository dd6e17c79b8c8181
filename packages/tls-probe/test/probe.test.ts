import { createSecureContext, type TlsOptions } from 'node:tls'
import t from 'tap'
import { probe } from '../src/probe.ts'
import { chainOf, intermediate, issue, listen, other, root, serveTls } from './servers.ts'

const leaf = await issue(['a.test'])
const rsa = await issue(['a.test'], 'rsa2048')
const address = '127.0.0.1'
const secure = { key: leaf.key, cert: chainOf(leaf.der, intermediate) }
const CHAIN = { certificates: [leaf.der, intermediate] }

const look = (port: number, more: Partial<Parameters<typeof probe>[0]> = {}) =>
  probe({ address, port, protocol: 'tls', ...more })

t.test('the certificate of a server is seen, whatever TLS it speaks and demands', async (t) => {
  for (const version of ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'] as const)
    for (const requestCert of [false, true]) {
      const versions = { minVersion: version, maxVersion: version }
      const options = { ...secure, ...versions, ciphers: 'DEFAULT@SECLEVEL=0', requestCert }
      const port = await serveTls(t, { ...options, rejectUnauthorized: true })
      t.strictSame(await look(port), CHAIN, `${version}, demands one: ${requestCert}`)
    }
})

t.test(
  'what was sent is seen, as far as it leads on from the leaf, and nothing else',
  async (t) => {
    const table: readonly [
      what: string,
      sent: readonly Uint8Array[],
      seen: readonly Uint8Array[],
    ][] = [
      ['the leaf alone', [], []],
      ['an intermediate', [intermediate], [intermediate]],
      ['the root, too', [intermediate, root], [intermediate, root]],
      ['the wrong order', [root, intermediate], [intermediate]],
      ['what does not belong', [other, intermediate], [intermediate]],
      ['another chain', [other], []],
    ]
    for (const [what, sent, seen] of table) {
      const port = await serveTls(t, { key: leaf.key, cert: chainOf(leaf.der, ...sent) })
      const certificates = [leaf.der, ...seen.map((der) => Buffer.from(der))]
      t.strictSame(await look(port), { certificates }, what)
    }
  },
)

t.test('a certificate whose dates cannot be read counts for none', async (t) => {
  const unreadable = (der: Buffer) => {
    const start = der.toString('latin1').search(/\d{12}Z/)
    return Buffer.concat([
      der.subarray(0, start),
      Buffer.from('x'.repeat(12)),
      der.subarray(start + 12),
    ])
  }
  const first = await serveTls(t, {
    key: leaf.key,
    cert: chainOf(unreadable(leaf.der), intermediate),
  })
  t.match(await look(first), { failure: 'protocol', message: /cannot be read/ })
  const second = await serveTls(t, {
    key: leaf.key,
    cert: chainOf(leaf.der, unreadable(intermediate)),
  })
  t.strictSame(await look(second), { certificates: [leaf.der] })
})

t.test('of two certificates, the one with the kind of key that is asked for is seen', async (t) => {
  const both: TlsOptions = { key: [leaf.key, rsa.key], cert: [chainOf(leaf.der), chainOf(rsa.der)] }
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    const port = await serveTls(t, { ...both, maxVersion })
    t.strictSame(await look(port, { keyType: 'ec' }), { certificates: [leaf.der] }, maxVersion)
    t.strictSame(await look(port, { keyType: 'rsa' }), { certificates: [rsa.der] }, maxVersion)
    const single = await serveTls(t, { ...secure, maxVersion })
    t.match(await look(single, { keyType: 'rsa' }), { failure: 'refused' }, maxVersion)
  }
  const edwards = await issue(['a.test'], 'ed25519')
  const port = await serveTls(t, { key: edwards.key, cert: chainOf(edwards.der) })
  t.strictSame(await look(port, { keyType: 'ec' }), { certificates: [edwards.der] })
})

t.test('a server is asked for the name, and for none if it is an IP address', async (t) => {
  const names: string[] = []
  const port = await serveTls(t, {
    ...secure,
    SNICallback(name, callback) {
      names.push(name)
      if (name === 'a.test') callback(null, createSecureContext(secure))
      else callback(new Error('unknown'))
    },
  })
  t.strictSame(await look(port, { serverName: 'a.test' }), CHAIN)
  t.match(await look(port, { serverName: 'b.test' }), {
    failure: 'refused',
    message: /^127.0.0.1:\d+ ends/,
  })
  for (const serverName of ['192.0.2.1', '2001:db8::1', '', undefined])
    t.strictSame(await look(port, { serverName }), CHAIN, `${serverName}`)
  t.strictSame(names, ['a.test', 'b.test'])
})

t.test('without a certificate, it says why', async (t) => {
  const closed = await listen(t, (socket) => void socket.end())
  const http = await listen(t, (socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'))
  // A server behind the PROXY protocol, such as HAProxy with accept-proxy.
  const proxied = await listen(t, (socket) =>
    socket.once('data', (chunk) => {
      if (chunk.subarray(0, 5).toString() !== 'PROXY') socket.resetAndDestroy()
    }),
  )
  const none = await serveTls(t, {})
  const table: readonly [port: number, failure: string, message: RegExp][] = [
    [1, 'unreachable', /^127\.0\.0\.1:1 cannot be reached \(ECONNREFUSED\)$/],
    [closed, 'refused', /^127\.0\.0\.1:\d+ ends the connection \(ECONNRESET\)$/],
    [http, 'protocol', /does not speak TLS \(ERR_SSL_\w+\)$/],
    [proxied, 'refused', /ends the connection \(ECONNRESET\)$/],
    [none, 'refused', /ends the connection \(ERR_SSL_.*\)$/],
  ]
  for (const [port, failure, message] of table)
    t.match(await look(port), { failure, message }, failure)
  t.match(await look(1, { address: '::1' }), { message: /^\[::1\]:1 cannot/ })
})

t.test('it connects to addresses alone', async (t) => {
  await t.rejects(look(443, { address: 'localhost' }), RangeError)
})

t.test('its caller can end it', async (t) => {
  const reason = new Error('enough')
  await t.rejects(
    probe({ address, port: 1, protocol: 'tls' }, { signal: AbortSignal.abort(reason) }),
    reason,
  )
  const controller = new AbortController()
  const port = await listen(t, () => controller.abort(reason))
  await t.rejects(
    probe({ address, port, protocol: 'tls' }, { signal: controller.signal, timeoutMs: 60_000 }),
    reason,
  )
})

import { createHash, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import {
  ACME_TLS,
  type ChallengeStore,
  type ChallengeTask,
  createTlsAlpn01,
  createTlsAlpn01Server,
} from '../../src/index.ts'
import { createMemoryStore } from '../memory-store.ts'

const signal = new AbortController().signal
const NOW = Date.UTC(2030, 0, 1)
const task = (value: string, type: 'dns' | 'ip' = 'dns'): ChallengeTask => ({
  identifier: { type, value },
  wildcard: false,
  token: 'token',
  keyAuthorization: 'token.thumbprint',
})

async function listen(t: Test, store: ChallengeStore): Promise<number> {
  const server = createTlsAlpn01Server(store, { now: () => NOW }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as { port: number }).port
}

/** The certificate that a CA would be shown, and the protocol. */
async function shake(port: number, servername: string, ALPNProtocols: string[] = [ACME_TLS]) {
  const socket: TLSSocket = connect({
    port,
    host: '127.0.0.1',
    servername,
    ALPNProtocols,
    rejectUnauthorized: false,
  })
  await once(socket, 'secureConnect')
  const certificate = new X509Certificate(socket.getPeerCertificate().raw)
  const protocol = socket.alpnProtocol
  socket.destroy()
  return { certificate, protocol }
}

const NAMES: [value: string, type: 'dns' | 'ip', servername: string, san: string][] = [
  ['app.example.test', 'dns', 'app.example.test', 'DNS:app.example.test'],
  ['app.example.test', 'dns', 'APP.example.test', 'DNS:app.example.test'],
  ['192.0.2.7', 'ip', '7.2.0.192.in-addr.arpa', 'IP Address:192.0.2.7'],
  [
    '2001:db8::1',
    'ip',
    '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa',
    'IP Address:2001:DB8:0:0:0:0:0:1',
  ],
]

t.test('the certificate has the name, the critical digest and our own key', async (t) => {
  for (const [value, type, servername, san] of NAMES) {
    const store = createMemoryStore()
    const port = await listen(t, store)
    await createTlsAlpn01(store).present(task(value, type), signal)
    const { certificate, protocol } = await shake(port, servername)
    t.equal(protocol, 'acme-tls/1', servername)
    t.equal(certificate.subjectAltName, san)
    t.ok(certificate.verify(certificate.publicKey))
    t.ok(certificate.validFromDate.getTime() < NOW && NOW < certificate.validToDate.getTime())
    const digest = createHash('sha256').update('token.thumbprint').digest('hex')
    // id-pe-acmeIdentifier, critical, an OCTET STRING in the extension's.
    const extension = `3031 06082b0601050507011f 0101ff 0422 0420 ${digest}`.replaceAll(' ', '')
    t.ok(certificate.raw.toString('hex').includes(extension))
  }
})

t.test('answers no other handshake', async (t) => {
  const store = createMemoryStore()
  const port = await listen(t, store)
  const solver = createTlsAlpn01(store)
  await solver.present(task('app.example.test'), signal)
  await t.rejects(shake(port, 'other.example.test'), 'another name')
  await t.rejects(shake(port, 'app.example.test', ['h2', 'http/1.1']), 'another protocol')
  await t.rejects(shake(port, ''), 'no name')
  const garbage = connectTcp(port, '127.0.0.1').end('GET / HTTP/1.1\r\n\r\n')
  garbage.resume()
  await once(garbage, 'close')
  await solver.cleanUp(task('app.example.test'), signal)
  await t.rejects(shake(port, 'app.example.test'), 'after clean-up')
})

t.test('keeps the answer of another order for the name', async (t) => {
  const store = createMemoryStore()
  const port = await listen(t, store)
  const solver = createTlsAlpn01(store)
  const other = { ...task('app.example.test'), keyAuthorization: 'another.thumbprint' }
  await solver.present(task('app.example.test'), signal)
  await solver.present(other, signal)
  await solver.cleanUp(task('app.example.test'), signal)
  await t.resolves(shake(port, 'app.example.test'))
})

t.test('closes connections that clients leave open', async (t) => {
  const store = createMemoryStore()
  const port = await listen(t, store)
  await createTlsAlpn01(store).present(task('app.example.test'), signal)
  const tcp = connectTcp({ port, host: '127.0.0.1', allowHalfOpen: true })
  const given = { socket: tcp, servername: 'app.example.test', ALPNProtocols: [ACME_TLS] }
  const socket = connect({ ...given, rejectUnauthorized: false })
  socket.on('error', () => {}).resume()
  await once(socket, 'secureConnect')
  const trickle = setInterval(() => socket.write('x'), 5)
  t.teardown(() => {
    clearInterval(trickle)
    socket.destroy()
  })
  await t.resolves(new Promise((resolve) => socket.on('close', resolve)))
})

t.test('a store that fails ends the handshake, not the server', async (t) => {
  const store = { ...createMemoryStore(), get: () => Promise.reject(new Error('down')) }
  const port = await listen(t, store)
  await t.rejects(shake(port, 'app.example.test'))
  await t.rejects(shake(port, 'app.example.test'))
})

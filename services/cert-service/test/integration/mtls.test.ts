import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateP256, parseName, toPem } from '@gatehouse/pki'
import {
  PROXIES,
  PROXY_NAMES,
  type ProxyName,
  type ReverseProxy,
} from '@gatehouse/service-kit/proxies'
import t, { type Test } from 'tap'
import { until } from '../../../../scripts/test/until.ts'
import { freePort, startProcess } from '../../../forward-auth/test/helpers/process.ts'
import { missingProgram, TESTED } from '../../../forward-auth/test/proxies/index.ts'
import { leapClock, type Running, start } from '../helpers/app.ts'
import {
  askOverTls,
  type ClientPair,
  foreignCa,
  issueClient,
  selfSigned,
  signBy,
} from '../helpers/client-certificates.ts'
import { readExample } from '../helpers/proxies.ts'

const HOST = 'certs.example.com'

const escaped = (der: Buffer) => encodeURIComponent(toPem('CERTIFICATE', der))

/** What a proxy would write about a client, by its encoding. */
const WRITERS: Readonly<Record<Encoding, (der: Buffer) => string>> = {
  'byte-sequence': (der) => `:${der.toString('base64')}:`,
  'escaped-pem': escaped,
  chain: (der) => der.toString('base64'),
  elements: (der) => `Cert="${escaped(der)}"`,
}
type Encoding = ReverseProxy['clientCertificate']['encoding']

/** The header as a proxy would write it. */
function forge(proxy: ProxyName, { der }: ClientPair): Readonly<Record<string, string>> {
  const { header, encoding } = PROXIES[proxy].clientCertificate
  return { [header.toLowerCase()]: WRITERS[encoding](der) }
}

/** A service of two callers that a proxy tells certificates of. */
async function startGatehouse(t: Test, format: string): Promise<Running & { port: number }> {
  const callers = [
    { name: 'agent', dns: 'agent.test', domains: ['a.test'] },
    { name: 'other', uri: 'spiffe://a.test/other', domains: ['b.test'] },
  ]
  const running = await start(
    t,
    {
      auth: { psk: { key: 'a-key-that-may-do-everything' }, mtls: { callers, header: { format } } },
      server: { port: 0, trustedProxies: ['127.0.0.1'] },
    },
    // Proxies have the clock of the system.
    { clock: leapClock(Date.now()), tls: true },
  )
  await running.app.listen({ host: '127.0.0.1', port: 0 })
  return { ...running, port: (running.app.server.address() as AddressInfo).port }
}

function serverPair({ ca }: Running['service'], name: string): ClientPair {
  const { spki, pkcs8 } = generateP256()
  const { certificate, chain } = ca.issue({ names: [parseName(name)], keyType: 'p256', spki })
  const cert = [certificate, ...chain].map((der) => toPem('CERTIFICATE', der)).join('')
  return { der: Buffer.from(certificate), cert, key: toPem('PRIVATE KEY', pkcs8) }
}

async function startProxy(
  t: Test,
  name: ProxyName,
  { service, port: to }: Running & { port: number },
) {
  const { command, args, listen } = TESTED[name].mtls
  const { example } = PROXIES[name]
  const folder = mkdtempSync(join(tmpdir(), 'gh-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const { cert, key } = serverPair(service, HOST)
  const root = toPem('CERTIFICATE', service.ca.root() as Uint8Array)
  const files = { 'a.crt': cert, 'a.key': key, 'a.pem': cert + key, 'root.pem': root }
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
  const port = await freePort()
  const file = join(folder, example)
  const text = readExample(`mtls/${example}`, [listen(port)])
    .replaceAll('127.0.0.1:7401', `127.0.0.1:${to}`)
    .replaceAll('port_value: 7401', `port_value: ${to}`)
    .replaceAll('/etc/gatehouse/root.pem', join(folder, 'root.pem'))
    .replaceAll('/etc/ssl/example.com.', join(folder, 'a.'))
    .replace('\nhttp {', `\nhttp { include ${file}.http;`)
  writeFileSync(file, text)
  const provider = { file: { filename: file } }
  const entryPoints = { https: { address: `127.0.0.1:${port}` } }
  writeFileSync(`${file}.static.yaml`, JSON.stringify({ entryPoints, providers: provider }))
  await startProcess(t, { command, args: args(file), folder, port })
  const ask = (pair: Partial<ClientPair>, path: string, headers: object = {}) => {
    const { cert, key } = pair
    const own = cert && key ? { cert, key } : {}
    return askOverTls(port, path, { ...own, servername: HOST, headers: { host: HOST, ...headers } })
  }
  // Traefik listens before it has read its routes.
  await until(async () => (await ask({}, '/healthz').catch(() => undefined))?.status === 200)
  return ask
}

t.test('the certificate of a client is told by a proxy', async (t) => {
  for (const name of PROXY_NAMES) {
    const skip = missingProgram(name)
    t.test(name, { skip }, async (t) => {
      const gatehouse = await startGatehouse(t, name)
      const { service } = gatehouse
      const ask = await startProxy(t, name, gatehouse)
      const now = Date.now()
      const own = await issueClient(service, ['agent.test'])
      const other = await issueClient(service, ['spiffe://a.test/other'])
      const withChain = await issueClient(service, ['agent.test'], { withChain: true })
      /** Whose names the request may read: a certificate of a name that is not held is not found. */
      const whoIs = async (pair: Partial<ClientPair>, headers: object = {}) => {
        const ofA = await ask(pair, '/api/certificate/a.test', headers)
        const ofB = await ask(pair, '/api/certificate/b.test', headers)
        return `${ofA.status} ${ofB.status}`
      }
      const [AGENT, OTHER, NOBODY] = ['404 403', '403 404', '401 401']
      t.equal(await whoIs(own), AGENT)
      t.equal(await whoIs(withChain), AGENT, 'with its chain')
      t.equal(await whoIs(other), OTHER)
      t.equal(await whoIs({}), NOBODY, 'without a certificate')
      const strangers = [
        ['of a foreign CA', signBy(await foreignCa(now), ['agent.test'], now)],
        ['self-signed', await selfSigned(now)],
        ['of a server', serverPair(service, 'agent.test')],
      ] as const
      // nginx and Envoy refuse some of them themselves.
      for (const [why, pair] of strangers)
        t.match(await whoIs(pair).catch(() => 'no TLS'), /^(40[01] 40[01]|no TLS)$/, why)

      const forged = forge(name, other)
      t.equal(await whoIs({}, forged), NOBODY, 'a header of the client itself')
      t.equal(await whoIs(own, forged), AGENT, 'and beside its certificate')
      const twice = Object.fromEntries(
        Object.entries(forged).map(([name, value]) => [name, [value, value]]),
      )
      t.equal(await whoIs({}, twice), NOBODY, 'twice')
      const spelled = Object.fromEntries(
        Object.entries(forged).map(([name, value]) => [name.replaceAll('-', '_'), value]),
      )
      t.equal(await whoIs({}, spelled), NOBODY, 'spelled otherwise')
      t.match(await whoIs(own, spelled), /^(404 403|401 401)$/, 'never another caller')

      const entry = { at: now, action: 'revoke' as const, actor: 'system', names: ['agent.test'] }
      await service.store.revoke([own.id], now, 'unspecified', entry)
      service.holdings.forget(['any'])
      t.equal(await whoIs(own), NOBODY, 'revoked')
    })
  }
})

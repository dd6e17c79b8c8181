import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateP256, parseName, toPem } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { until } from '../../../../scripts/test/until.ts'
import { freePort, startProcess } from '../../../forward-auth/test/helpers/process.ts'
import { missingProgram, type ProxyName } from '../../../forward-auth/test/helpers/proxies.ts'
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
const TRAEFIK = process.env.TRAEFIK ?? 'traefik'
const ENVOY = process.env.ENVOY ?? 'envoy'

interface Proxy {
  readonly example: string
  readonly command: string
  readonly args: (file: string) => readonly string[]
  /** What its example has, and what the test puts there. */
  readonly listen: (port: number) => readonly [from: string, to: string]
  /** The header as it would write it. */
  readonly forge: (pair: ClientPair) => Readonly<Record<string, string>>
}

const byteSequence = ({ der }: ClientPair) => ({ 'client-cert': `:${der.toString('base64')}:` })
const escaped = (pair: ClientPair) => encodeURIComponent(toPem('CERTIFICATE', pair.der))

const PROXIES: Readonly<Record<string, Proxy>> = {
  nginx: {
    example: 'nginx.conf',
    command: 'nginx',
    args: (file) => {
      const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      const folder = join(file, '..')
      const paths = kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')
      writeFileSync(`${file}.http`, `access_log off; ${paths}`)
      return [
        '-e',
        'stderr',
        '-c',
        file,
        '-g',
        `daemon off; master_process off; pid ${folder}/pid;`,
      ]
    },
    listen: (port) => ['listen 443', `listen 127.0.0.1:${port}`],
    forge: (pair) => ({ 'x-ssl-client-cert': escaped(pair) }),
  },
  caddy: {
    example: 'Caddyfile',
    command: 'caddy',
    args: (file) => ['run', '--config', file, '--adapter', 'caddyfile'],
    listen: (port) => [
      `${HOST} {`,
      `{\n\tadmin off\n\tauto_https off\n}\nhttps://${HOST}:${port} {`,
    ],
    forge: byteSequence,
  },
  haproxy: {
    example: 'haproxy.cfg',
    command: 'haproxy',
    args: (file) => ['-db', '-f', file],
    listen: (port) => ['bind :443', `bind 127.0.0.1:${port}`],
    forge: byteSequence,
  },
  traefik: {
    example: 'traefik.yaml',
    command: TRAEFIK,
    args: (file) => [`--configFile=${file}.static.yaml`],
    listen: () => [HOST, HOST],
    forge: ({ der }) => ({ 'x-forwarded-tls-client-cert': der.toString('base64') }),
  },
  envoy: {
    example: 'envoy.yaml',
    command: ENVOY,
    args: (file) => ['-c', file, '--concurrency', '1', '--use-dynamic-base-id', '-l', 'warning'],
    listen: (port) => [
      'address: 0.0.0.0, port_value: 443',
      `address: 127.0.0.1, port_value: ${port}`,
    ],
    forge: (pair) => ({ 'x-forwarded-client-cert': `Cert="${escaped(pair)}"` }),
  },
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
  proxy: Proxy,
  { service, port: to }: Running & { port: number },
) {
  const folder = mkdtempSync(join(tmpdir(), 'gh-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const { cert, key } = serverPair(service, HOST)
  const root = toPem('CERTIFICATE', service.ca.root() as Uint8Array)
  const files = { 'a.crt': cert, 'a.key': key, 'a.pem': cert + key, 'root.pem': root }
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
  const port = await freePort()
  const file = join(folder, proxy.example)
  const text = readExample(`mtls/${proxy.example}`, [proxy.listen(port)])
    .replaceAll('127.0.0.1:7401', `127.0.0.1:${to}`)
    .replaceAll('port_value: 7401', `port_value: ${to}`)
    .replaceAll('/etc/gatehouse/root.pem', join(folder, 'root.pem'))
    .replaceAll('/etc/ssl/example.com.', join(folder, 'a.'))
    .replace('\nhttp {', `\nhttp { include ${file}.http;`)
  writeFileSync(file, text)
  const provider = { file: { filename: file } }
  const entryPoints = { https: { address: `127.0.0.1:${port}` } }
  writeFileSync(`${file}.static.yaml`, JSON.stringify({ entryPoints, providers: provider }))
  const args = proxy.args(file)
  await startProcess(t, { command: proxy.command, args, folder, port })
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
  for (const [name, proxy] of Object.entries(PROXIES)) {
    const skip = missingProgram(name as ProxyName)
    t.test(name, { skip }, async (t) => {
      const gatehouse = await startGatehouse(t, name)
      const { service } = gatehouse
      const ask = await startProxy(t, proxy, gatehouse)
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

      const forged = proxy.forge(other)
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

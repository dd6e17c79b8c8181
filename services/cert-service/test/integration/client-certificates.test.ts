import { execFile } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer, request } from 'node:https'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { ROOT } from '../../../../scripts/test/markdown.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { quietLog } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import { freePort, startProcess } from '../../../forward-auth/test/helpers/process.ts'
import { missingProgram } from '../../../forward-auth/test/proxies/index.ts'
import { buildApp } from '../../src/app.ts'
import { configure, KEY } from '../helpers/app.ts'

const run = promisify(execFile)
const SERVER = 'app.example.com'
/** The first DNS name becomes the common name, by which PostgreSQL knows its users. */
const NAMES = ['gatehouse', 'app@example.com', 'spiffe://example.com/app']
const ANYBODY = 0o755

interface Pair {
  readonly cert: string
  readonly key: string
}

/** Certificates of a CA of its own by the system's clock, and files for servers that verify clients. */
async function issueAll(t: Test) {
  const folder = mkdtempSync(join(tmpdir(), 'gh-'))
  chmodSync(folder, ANYBODY)
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }))
  const { log } = quietLog(t)
  const app = await buildApp(await configure(folder, { server: { tls: 'off' } }), { log })
  t.teardown(() => app.close())
  const post = async (path: string, payload: object) => {
    const headers = { authorization: `APIKey ${KEY}` }
    const answer = await app.inject({
      method: 'POST',
      url: `/api/certificate${path}`,
      headers,
      payload,
    })
    if (answer.statusCode !== 200) throw new Error(answer.body)
    return answer.json()
  }
  const obtain = async (profile: string, [domain, ...names]: readonly string[]): Promise<Pair> => {
    const { certificate: cert, privateKey: key } = await post('', { domain, names, profile })
    return { cert, key }
  }
  const revoked = await obtain('client', NAMES)
  await post('/revoke', { domain: NAMES[0], profile: 'client' })
  const client = await obtain('client', NAMES)
  const server = await obtain('server', [SERVER, 'gatehouse'])

  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const clients = (await app.inject('/ca/clients.pem')).body
  const root = (await app.inject('/ca/root.pem')).body
  return {
    folder,
    file,
    pairs: { client, revoked, server },
    root,
    leafOf: ({ cert, key }: Pair) => ({
      cert: cert.replace(/(END CERTIFICATE-----\n).*$/s, '$1'),
      key,
    }),
    files: {
      root: file('root.pem', root),
      clients: file('clients.pem', clients),
      crl: file('crl.pem', (await app.inject('/ca/clients.crl.pem')).body),
      cert: file('server.pem', server.cert),
      key: file('server.key', server.key),
    },
  }
}

type Issued = Awaited<ReturnType<typeof issueAll>>

/** Whether a server answers 200 to who shows this certificate. */
function asks(port: number, ca: string) {
  return (pair?: Pair): Promise<boolean> =>
    new Promise((resolve) => {
      const options = { host: '127.0.0.1', port, ca, servername: SERVER, agent: false, ...pair }
      request({ ...options, headers: { host: SERVER } }, (response) => {
        response.resume()
        resolve(response.statusCode === 200)
      })
        .on('error', () => resolve(false))
        .end()
    })
}

async function startApp(t: Test): Promise<number> {
  const app = createServer((_request, response) => void response.end('the app'))
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void app.close())
  return (app.address() as AddressInfo).port
}

async function startNginx(t: Test, { folder, file, files, root }: Issued) {
  const port = await freePort()
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const config = file(
    'nginx.conf',
    `events {}
http {
  access_log off;
  ${kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
  server {
    listen 127.0.0.1:${port} ssl;
    ssl_certificate ${files.cert};
    ssl_certificate_key ${files.key};
    ssl_verify_client on;
    ssl_verify_depth 2;
    ssl_client_certificate ${files.clients};
    ssl_crl ${files.crl};
    return 200;
  }
}
`,
  )
  const globals = `daemon off; pid ${folder}/nginx.pid;`
  const args = ['-e', 'stderr', '-c', config, '-g', globals]
  await startProcess(t, { command: 'nginx', args, folder, port })
  return asks(port, root)
}

async function startTraefik(t: Test, { folder, file, files, root, pairs }: Issued) {
  const port = await freePort()
  const routes = {
    http: {
      routers: { app: { rule: `Host(\`${SERVER}\`)`, service: 'app', tls: {} } },
      services: {
        app: { loadBalancer: { servers: [{ url: `http://127.0.0.1:${await startApp(t)}` }] } },
      },
    },
    tls: {
      certificates: [{ certFile: files.cert, keyFile: files.key }],
      options: {
        default: {
          clientAuth: { caFiles: [files.clients], clientAuthType: 'RequireAndVerifyClientCert' },
        },
      },
    },
  }
  const settings = {
    global: { checkNewVersion: false, sendAnonymousUsage: false },
    entryPoints: { https: { address: `127.0.0.1:${port}` } },
    providers: { file: { filename: file('traefik.json.yaml', JSON.stringify(routes)) } },
  }
  const args = [`--configFile=${file('static.yaml', JSON.stringify(settings))}`]
  await startProcess(t, { command: process.env.TRAEFIK ?? 'traefik', args, folder, port })
  const ask = asks(port, root)
  // It listens before it has read its routes.
  await until(() => ask(pairs.client))
  return ask
}

async function startEnvoy(t: Test, { folder, file, files, root }: Issued) {
  const port = await freePort()
  const named = (filename: string) => ({ filename })
  const type = (name: string) => ({ '@type': `type.googleapis.com/envoy.extensions.${name}` })
  const manager = {
    ...type('filters.network.http_connection_manager.v3.HttpConnectionManager'),
    stat_prefix: 'app',
    route_config: {
      virtual_hosts: [
        {
          ...{ name: 'app', domains: ['*'] },
          routes: [{ match: { prefix: '/' }, direct_response: { status: 200 } }],
        },
      ],
    },
    http_filters: [{ name: 'router', typed_config: type('filters.http.router.v3.Router') }],
  }
  const tls = {
    ...type('transport_sockets.tls.v3.DownstreamTlsContext'),
    require_client_certificate: true,
    common_tls_context: {
      tls_certificates: [{ certificate_chain: named(files.cert), private_key: named(files.key) }],
      validation_context: { trusted_ca: named(files.clients), crl: named(files.crl) },
    },
  }
  const listener = {
    address: { socket_address: { address: '127.0.0.1', port_value: port } },
    filter_chains: [
      {
        filters: [{ name: 'http', typed_config: manager }],
        transport_socket: { name: 'tls', typed_config: tls },
      },
    ],
  }
  const config = file('envoy.json', JSON.stringify({ static_resources: { listeners: [listener] } }))
  const args = ['-c', config, '--concurrency', '1', '--disable-hot-restart', '-l', 'warning']
  await startProcess(t, { command: process.env.ENVOY ?? 'envoy', args, folder, port })
  return asks(port, root)
}

async function startDatabase(t: Test, { file, files, root }: Issued) {
  // The helper asks as `postgres` whether the server is there.
  const lines = [
    'host all postgres 127.0.0.1/32 trust',
    'hostssl all all 127.0.0.1/32 trust clientcert=verify-full',
  ]
  const hba = file('pg_hba.conf', `${lines.join('\n')}\n`)
  // It takes no key that others may read.
  chmodSync(files.key, 0o600)
  if (process.getuid?.() === 0) chownSync(files.key, 65_534, 65_534)
  const settings = {
    ...{ ssl: 'on', ssl_cert_file: files.cert, ssl_key_file: files.key, hba_file: hba },
    ...{ ssl_ca_file: files.clients, ssl_crl_file: files.crl },
  }
  const server = await startPostgres(t, { settings })
  const { Client } = createRequire(join(ROOT, 'packages/store/package.json'))('pg')
  return async (pair?: Pair): Promise<boolean> => {
    const ssl = { ca: root, servername: SERVER, ...pair }
    const target = {
      host: '127.0.0.1',
      port: server.port,
      user: 'gatehouse',
      database: 'gatehouse',
    }
    const client = new Client({ ...target, ssl })
    client.on('error', () => {})
    try {
      await client.connect()
      await client.end()
      return true
    } catch {
      return false
    }
  }
}

const VERIFIERS = [
  { name: 'nginx', start: startNginx },
  { name: 'Traefik', start: startTraefik, hasNoLists: true, skip: missingProgram('traefik') },
  { name: 'Envoy', start: startEnvoy, skip: missingProgram('envoy') },
  { name: 'PostgreSQL', start: startDatabase },
]

for (const { name, start, skip = false, hasNoLists = false } of VERIFIERS)
  t.test(`${name} verifies clients`, { skip }, async (t) => {
    const issued = await issueAll(t)
    const { pairs, leafOf } = issued
    const accepts = await start(t, issued)
    for (const [what, pair, isAccepted] of [
      ['a client certificate', pairs.client, true],
      ['one without its chain', leafOf(pairs.client), true],
      ['a server certificate', pairs.server, false],
      ['a revoked one', pairs.revoked, hasNoLists],
      ['none', undefined, false],
    ] as const)
      t.equal(await accepts(pair), isAccepted, what)
  })

t.test('programs that verify servers take no client certificate for one', async (t) => {
  const { pairs, root, files, file } = await issueAll(t)
  for (const [pair, isAccepted] of [
    [pairs.server, true],
    [pairs.client, false],
  ] as const) {
    const server = createTlsServer(pair, (_request, response) => void response.end())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const ask = (host: string) =>
      new Promise<string>((resolve) => {
        request({ host: '127.0.0.1', port, ca: root, servername: host, agent: false }, () =>
          resolve('accepted'),
        )
          .on('error', ({ code }: NodeJS.ErrnoException) => resolve(code ?? ''))
          .end()
      })
    t.equal(await ask('gatehouse'), isAccepted ? 'accepted' : 'INVALID_PURPOSE', 'Node')
    const url = `https://gatehouse:${port}/`
    const resolved = `gatehouse:${port}:127.0.0.1`
    const curl = run('curl', ['-sS', '--cacert', files.root, '--resolve', resolved, url])
    await (isAccepted ? t.resolves(curl) : t.rejects(curl, { code: 60 }, 'curl'))
    server.closeAllConnections()
    server.close()
  }
  const chain = file('chain.pem', pairs.client.cert)
  const serverChain = file('server-chain.pem', pairs.server.cert)
  const verify = (purpose: string, pem: string, ...more: string[]) =>
    run('openssl', [
      'verify',
      '-purpose',
      purpose,
      '-CAfile',
      files.root,
      ...more,
      '-untrusted',
      pem,
      pem,
    ])
  await t.resolves(verify('sslclient', chain))
  await t.resolves(verify('sslserver', serverChain))
  await t.rejects(verify('sslserver', chain), /(unsuitable|unsupported) certificate purpose/)
  await t.rejects(verify('sslclient', serverChain), /(unsuitable|unsupported) certificate purpose/)
  const lists = ['-crl_check_all', '-CRLfile', files.crl]
  await t.resolves(verify('sslclient', chain, ...lists))
  const revoked = file('revoked.pem', pairs.revoked.cert)
  await t.rejects(verify('sslclient', revoked, ...lists), /certificate revoked/)
})

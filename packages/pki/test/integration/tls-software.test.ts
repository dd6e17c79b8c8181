import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer as createHttpsServer, get } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import t from 'tap'
import { freePort } from '../../../acme/test/integration/processes.ts'
import { buildChainPem, generateKeyPair, KEY_TYPES, toPem } from '../../src/index.ts'
import { issue, makeAuthorities } from '../helpers.ts'

const now = Date.now()
const run = promisify(execFile)
const folder = t.testdir({})
const file = (name: string, content: string) => {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}

const { root, intermediate } = await makeAuthorities({ now, permitted: ['gatehouse.test'] })
const rootPem = toPem('CERTIFICATE', root.certificate)
const rootFile = file('root.pem', rootPem)

// The intermediate may not sign `stranger`: whoever accepts it does not hold name constraints.
const sites: [site: string, host: string, type: (typeof KEY_TYPES)[number]][] = [
  ...KEY_TYPES.map((type): [string, string, typeof type] => [type, `${type}.gatehouse.test`, type]),
  ['stranger', 'app.other.test', 'p256'],
]
const credentials = new Map<string, { cert: string; key: string }>()
for (const [site, host, type] of sites) {
  const key = await generateKeyPair(type)
  const { der } = issue(intermediate, [host], { now, key })
  credentials.set(site, {
    cert: buildChainPem(der, intermediate.chain),
    key: toPem('PRIVATE KEY', key.pkcs8),
  })
}

const curl = async (host: string, port: number) => {
  const wait = [
    '--retry',
    '40',
    '--retry-connrefused',
    '--retry-delay',
    '0',
    '--retry-max-time',
    '20',
  ]
  const args = [
    '-sS',
    ...wait,
    '--cacert',
    rootFile,
    '--connect-to',
    '::127.0.0.1:',
    `https://${host}:${port}/`,
  ]
  return (await run('curl', args, { timeout: 30_000 })).stdout
}

const node = async (host: string, port: number) => {
  const [response] = await once(
    get({
      host: '127.0.0.1',
      port,
      servername: host,
      headers: { host },
      ca: rootPem,
      agent: false,
    }),
    'response',
  )
  return text(response)
}

/** A Chromium of its own, whose only addition to the trusted roots is ours. */
const chromium = async (host: string, port: number) => {
  const args = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    '--dump-dom',
  ]
  const own = [`--user-data-dir=${folder}/chromium`, '--host-resolver-rules=MAP * 127.0.0.1']
  const env = { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_CACHE_HOME: folder }
  return (
    await run('chromium', [...args, ...own, `https://${host}:${port}/`], { env, timeout: 60_000 })
  ).stdout
}

const port = await freePort()
const servers = sites.map(([site, host]) => {
  const { cert, key } = credentials.get(site) ?? { cert: '', key: '' }
  return `server {
    listen 127.0.0.1:${port} ssl;
    server_name ${host};
    ssl_certificate ${file(`${site}.crt`, cert)};
    ssl_certificate_key ${file(`${site}.key`, key)};
    location / { default_type text/plain; return 200 "hello from ${site}"; }
  }`
})
const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
  (kind) => `${kind}_temp_path ${folder}/${kind};`,
)
const configuration = file(
  'nginx.conf',
  `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr;
  events {}
  http { access_log off; server_names_hash_bucket_size 128; ${temporary.join(' ')} ${servers.join('\n')} }`,
)

t.test('nginx serves every key type, to curl and to Node', async (t) => {
  const nginx = spawn('nginx', ['-e', 'stderr', '-p', folder, '-c', configuration], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  await once(nginx, 'spawn')
  t.teardown(async () => {
    nginx.kill('SIGTERM')
    await once(nginx, 'exit')
  })
  for (const type of KEY_TYPES) {
    const host = `${type}.gatehouse.test`
    t.equal(await curl(host, port), `hello from ${type}`, `curl, ${type}`)
    t.equal(await node(host, port), `hello from ${type}`, `Node, ${type}`)
  }
  await t.rejects(
    curl('app.other.test', port),
    { message: /permitted subtree violation/ },
    'curl holds the name constraint',
  )
  await t.rejects(
    node('app.other.test', port),
    { message: /permitted subtree violation/ },
    'Node holds the name constraint',
  )

  const database = `sql:${folder}/.pki/nssdb`
  mkdirSync(join(folder, '.pki/nssdb'), { recursive: true })
  await run('certutil', ['-N', '--empty-password', '-d', database])
  const untrusted = await chromium('p256.gatehouse.test', port)
  t.notMatch(untrusted, /hello from/, 'Chromium does not know the root by itself')
  await run('certutil', ['-A', '-n', 'root', '-t', 'C,,', '-i', rootFile, '-d', database])
  // Browsers take no Ed25519 certificates.
  for (const type of ['p256', 'p384', 'rsa2048'])
    t.match(
      await chromium(`${type}.gatehouse.test`, port),
      `hello from ${type}`,
      `Chromium, ${type}`,
    )
  t.notMatch(
    await chromium('app.other.test', port),
    /hello from/,
    'Chromium holds the name constraint',
  )
})

t.test('Node serves every key type', async (t) => {
  for (const type of KEY_TYPES) {
    const server = createHttpsServer(credentials.get(type) ?? {}, (_request, response) =>
      response.end(`hello from ${type}`),
    )
    await once(server.listen(0, '127.0.0.1'), 'listening')
    t.equal(
      await curl(`${type}.gatehouse.test`, (server.address() as AddressInfo).port),
      `hello from ${type}`,
      type,
    )
    server.closeAllConnections()
    server.close()
  }
})

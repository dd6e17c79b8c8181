import { execFile } from 'node:child_process'
import { randomBytes, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startPebbleServer } from '../../../acme/test/integration/pebble.ts'
import {
  freePorts,
  makeFolder,
  run,
  untilAnswered,
} from '../../../acme/test/integration/processes.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples/acme-clients')
const DIRECTORY = 'https://certs.example.com:7401/acme/directory'
const ROOT = '/etc/gatehouse/root.pem'
const KEY = randomBytes(32).toString('base64url')
const NAMES = 'DNS:app.example.com, DNS:www.example.com'

/** A minute: some clients make keys of RSA 4096. */
const TRIES = 600

type Changes = readonly (readonly [from: string, to: string])[]

const read = (name: string) => readFileSync(join(EXAMPLES, name), 'utf8')

/** An example with everything replaced that depends on the machine; what is not there is a fault. */
function changed(name: string, changes: Changes): string {
  return changes.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`${name} has no ${from}`)
    return text.replaceAll(from, to)
  }, read(name))
}

/** A server that wants a key, and takes every proof, as one does that asks for none. */
async function stage(t: Test) {
  const pebble = await startPebbleServer(t, {
    dns: '127.0.0.1:1',
    env: { PEBBLE_VA_ALWAYS_VALID: '1', PEBBLE_WFE_NONCEREJECT: '0' },
    config: { externalAccountBindingRequired: true, externalAccountMACKeys: { 'web-1': KEY } },
  })
  const folder = makeFolder(t)
  const root = join(folder, 'root.pem')
  writeFileSync(root, pebble.ca)
  const common: Changes = [
    [DIRECTORY, pebble.directoryUrl.href],
    [ROOT, root],
  ]
  const ports = await freePorts(2)
  return {
    folder,
    common,
    ports: ports.map(String),
    keyed: [...common, ['the-hmac-key', KEY]] as const,
  }
}

const namesIn = (pem: string) => new X509Certificate(pem).subjectAltName

/** Runs a script of the examples to its end. */
async function runScript(folder: string, text: string): Promise<void> {
  const file = join(folder, 'script.sh')
  writeFileSync(file, text)
  const env = { PATH: `${process.env.PATH}:/usr/sbin`, HOME: folder }
  await promisify(execFile)('sh', ['-e', file], { env, timeout: 120_000 })
}

t.test('certbot', async (t) => {
  const { folder, keyed, ports } = await stage(t)
  const folders = ['config', 'work', 'logs'].map((name) => `--${name}-dir ${folder}/${name}`)
  const options = [...folders, '--http-01-port', ports[0]].join(' ')
  await runScript(
    folder,
    changed('certbot.sh', [...keyed, ['--standalone', `--standalone ${options}`]]),
  )
  t.equal(
    namesIn(readFileSync(join(folder, 'config/live/app.example.com/fullchain.pem'), 'utf8')),
    NAMES,
  )
})

t.test('lego', async (t) => {
  const { folder, keyed, ports } = await stage(t)
  const own: Changes = [
    ['/var/lib/lego', `${folder}/lego`],
    ['--http ', `--http --http.port 127.0.0.1:${ports[0]} `],
  ]
  const script = changed('lego.sh', [...keyed, ...own])
  await runScript(folder, script)
  const file = join(folder, 'lego/certificates/app.example.com.crt')
  const first = readFileSync(file, 'utf8')
  t.equal(namesIn(first), NAMES)
  await runScript(folder, script.replace(/run\n$/, 'renew --days 9999 --no-random-sleep\n'))
  t.not(readFileSync(file, 'utf8'), first, 'the same command renews')
})

t.test('Caddy', async (t) => {
  const { folder, common, ports } = await stage(t)
  const [http = '', https = ''] = ports
  const globals = `admin off\n\thttp_port ${http}\n\thttps_port ${https}\n\tdefault_bind 127.0.0.1\n`
  const text = changed('Caddyfile', [...common, ['\tacme_ca_root', `\t${globals}\tacme_ca_root`]])
  const file = join(folder, 'Caddyfile')
  writeFileSync(file, `${text}\n${read('Caddyfile.internal')}`)
  const env = { EAB_KEY: KEY, HOME: folder, XDG_DATA_HOME: join(folder, 'data') }
  run(t, 'caddy', ['run', '--config', file, '--adapter', 'caddyfile'], env)
  await untilServed(Number(https), 'DNS:app.example.com')
  await untilServed(Number(https), 'DNS:app.internal', 'app.internal')
})

const { TRAEFIK } = process.env

t.test('Traefik', { skip: !TRAEFIK && '$TRAEFIK names no Traefik' }, async (t) => {
  const { folder, keyed, ports } = await stage(t)
  const routes = join(folder, 'routes.yaml')
  const file = join(folder, 'traefik.yaml')
  const own: Changes = [
    ['":443"', `127.0.0.1:${ports[0]}`],
    ['/var/lib/traefik', folder],
    ['/etc/traefik/routes.yaml', routes],
  ]
  writeFileSync(file, changed('traefik.yaml', [...keyed, ...own]))
  const rule = 'Host(`app.example.com`) || Host(`www.example.com`)'
  const app = { rule, service: 'ping@internal' }
  writeFileSync(routes, JSON.stringify({ http: { routers: { app } } }))
  run(t, `${TRAEFIK}`, [`--configFile=${file}`])
  await untilServed(Number(ports[0]), NAMES)
})

t.test('Apache', async (t) => {
  const { folder, keyed, ports } = await stage(t)
  const [http = '', https = ''] = ports
  // Its children are somebody else.
  chmodSync(folder, 0o711)
  const modules = ['mpm_event', 'authz_core', 'socache_shmcb', 'ssl', 'md'].map(
    (name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`,
  )
  const around = [
    ...modules,
    `ServerRoot ${folder}\nPidFile ${folder}/pid\nErrorLog ${folder}/error.log\nServerName localhost`,
    `Listen 127.0.0.1:${http}\nListen 127.0.0.1:${https}\nMDPortMap http:${http} https:${https}`,
    `MDStoreDir ${folder}/md\nMutex file:${folder}\nUser nobody\nGroup nogroup`,
    changed('apache.conf', [...keyed, ['*:443', `*:${https}`]]),
  ]
  const file = join(folder, 'apache.conf')
  writeFileSync(file, around.join('\n'))
  run(t, 'apache2', ['-f', file, '-D', 'FOREGROUND'])
  const pem = join(folder, 'md/staging/app.example.com/pubcert.pem')
  await untilAnswered(async () => readFileSync(pem), TRIES)
  t.equal(namesIn(readFileSync(pem, 'utf8')), NAMES)
})

t.test('dehydrated', async (t) => {
  const { folder, keyed } = await stage(t)
  mkdirSync(join(folder, 'known'))
  const own = `BASEDIR=${folder}\nWELLKNOWN=${folder}/known\n`
  writeFileSync(join(folder, 'config'), changed('dehydrated.config', keyed) + own)
  const command = `dehydrated --config ${folder}/config`
  await runScript(
    folder,
    `${command} --register --accept-terms\n${command} -c -d "app.example.com www.example.com"\n`,
  )
  t.equal(namesIn(readFileSync(join(folder, 'certs/app.example.com/cert.pem'), 'utf8')), NAMES)
})

t.test('what clients say is what the guide quotes', async (t) => {
  const guide = readFileSync(join(EXAMPLES, '../../docs/acme-clients.md'), 'utf8')
  const { folder, keyed, ports } = await stage(t)
  const lego = changed('lego.sh', [...keyed, ['/var/lib/lego', `${folder}/lego`]])
  const rows: [what: string, script: string, says: string][] = [
    ['a key with a hyphen', 'certbot register --eab-hmac-key -abc', 'expected one argument'],
    ['no root', lego.replace(/export .*\n/, ''), 'certificate signed by unknown authority'],
    ['no key', lego.replace(/--eab .* --accept/, '--accept'), 'External Account Binding'],
    [
      'no root (certbot)',
      changed('certbot.sh', [
        ...keyed,
        [
          '--standalone',
          `--standalone --config-dir ${folder} --work-dir ${folder} --logs-dir ${folder} --http-01-port ${ports[0]}`,
        ],
      ]).replace(/export .*\n/, ''),
      'CERTIFICATE_VERIFY_FAILED',
    ],
  ]
  for (const [what, script, says] of rows) {
    await t.rejects(runScript(folder, script), { message: new RegExp(says) }, what)
    t.match(guide, says, what)
  }
})

t.test('each example names the same server, key and root', async (t) => {
  // A site takes them from the global options.
  const names = globSync('*', { cwd: EXAMPLES, exclude: ['*.internal'] })
  t.ok(names.length > 7)
  for (const name of names) {
    t.match(read(name), DIRECTORY, name)
    t.match(read(name), 'web-1', name)
  }
})

/** Waits until the certificate that a server has for the first name has these names. */
async function untilServed(
  port: number,
  names: string,
  servername = 'app.example.com',
): Promise<void> {
  const options = { host: '127.0.0.1', port, servername }
  await untilAnswered(async () => {
    const socket = connect({ ...options, rejectUnauthorized: false })
    try {
      await once(socket, 'secureConnect')
      const { subjectAltName: served, issuer = '' } = socket.getPeerX509Certificate() ?? {}
      if (served !== names || issuer.includes('Caddy'))
        throw new Error(`serves ${served} of ${issuer}`)
    } finally {
      socket.destroy()
    }
  }, TRIES)
}

// Follows docs/homelab-certificates.md with certbot, a cert-service of its own, and a folder for the router.
import { execFile, spawn } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { startPebbleServer } from '../../../packages/acme/test/integration/pebble.ts'
import {
  startDnsBridge,
  startPublicDns,
} from '../../../services/cert-service/test/helpers/public-dns.ts'
import { freePort } from '../../../services/forward-auth/test/helpers/process.ts'
import { ROOT, readDocument } from '../markdown.ts'

const EXAMPLE = join(ROOT, 'examples/homelab/certificates')
const MAIN = join(ROOT, 'services/cert-service/src/main.ts')
const DOMAIN = 'lab.home.arpa'

/** A command of the page, as a script in the folder of commands. */
const COMMANDS: Readonly<Record<string, string>> = {
  // The folder of the test belongs to the right user already.
  sudo: 'true',
  docker: `case "$*" in
  'compose up --detach') true ;;
  'compose exec -T cert-service node main.js '*) shift 6; exec '${process.execPath}' --conditions=@gatehouse/source '${MAIN}' "$@" ;;
  *) exit 1 ;;
esac`,
  // The router is the folder `router`.
  scp: 'cp "$2" "router/$(basename "$3")"',
  ssh: 'echo "$2 $3" >> router/ran',
}

const { blocks } = readDocument('docs/homelab-certificates.md')
const STEPS = blocks.filter(({ info }) => info === 'sh homelab').map(({ text }) => text)

/** What a person has after step 2: a folder with the example and keys, and the service. */
async function startHomelab(t: Test, domain: string, issuers: readonly object[] = []) {
  const folder = testFolder(t, { bin: {}, router: {} })
  const port = await freePort()
  for (const [name, script] of Object.entries(COMMANDS)) {
    writeFileSync(join(folder, 'bin', name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(folder, 'bin', name), 0o755)
  }
  cpSync(EXAMPLE, folder, { recursive: true })
  const here = (text: string) =>
    text
      .replaceAll(/\/etc\/gatehouse|\/var\/lib\/gatehouse/g, folder)
      .replaceAll(/(certs\.lab\.home\.arpa|localhost):7401/g, `localhost:${port}`)
      .replaceAll('lab.home.arpa', domain)
  const config = parse(here(readFileSync(join(EXAMPLE, 'cert-service.yaml'), 'utf8')))
  const { host: _, ...server } = config.server
  Object.assign(config, {
    server: { ...server, port },
    ca: { ...config.ca, permitted: ['localhost', ...config.ca.permitted] },
    metrics: { enabled: false },
    ...(issuers.length > 0 && { issuers }),
  })
  writeFileSync(join(folder, 'cert-service.yaml'), stringify(config))
  const env = {
    ...process.env,
    DOMAIN: domain,
    PATH: `${folder}/bin:${dirname(process.execPath)}:${process.env.PATH}`,
    GATEHOUSE_CONFIG: join(folder, 'cert-service.yaml'),
    GATEHOUSE_URL: `https://localhost:${port}`,
    GATEHOUSE_CA: join(folder, 'root.pem'),
    GATEHOUSE_KEY_FILE: join(folder, 'keys/operator.key'),
  }
  const run = async (script: string) => {
    const shell = ['-eu', '-c', here(script)]
    return (await promisify(execFile)('sh', shell, { cwd: folder, env })).stdout
  }
  const own = ['config', 'work', 'logs'].map((name) => `--${name}-dir ${folder}/certbot/${name}`)
  const [start = '', root = '', key = '', certbot = ''] = STEPS
  await run(start.replace('cd examples/homelab/certificates\n', ''))
  await serve(t, folder, env)
  const shownRoot = await run(root)
  return {
    folder,
    run,
    shownRoot,
    /** The answer to the question for the ACME key of a caller. */
    acmeKey: async (name: string) => JSON.parse(await run(key.replace('proxmox', name))),
    /** Runs certbot as the page does, for a name, with folders of its own. */
    runCertbot: (hmacKey: string, name: string) =>
      run(
        certbot
          .replace('router.lab.home.arpa', name)
          .replace('the-hmac-key', hmacKey)
          .replace('certonly', `$& ${own.join(' ')}`),
      ),
  }
}

const skip = existsSync('/usr/bin/certbot') ? false : 'certbot is not installed here'

t.test('from nothing to a router', { skip }, async (t) => {
  t.equal(STEPS.length, 4)
  const { folder, run, shownRoot, acmeKey, runCertbot } = await startHomelab(t, DOMAIN)
  t.equal(readFileSync(join(folder, '.env'), 'utf8'), `DOMAIN=${DOMAIN}\n`)
  t.match(shownRoot, /^subject=CN ?= ?Gatehouse Root CA\nsha256 Fingerprint=/)
  const shown = JSON.parse(blocks.find(({ info }) => info === 'json acme-key')?.text ?? '')
  const given = await acmeKey('proxmox')
  t.strictSame(Object.keys(given), Object.keys(shown))
  t.match(given, { kid: 'proxmox-1', algorithm: 'HS256' })

  const { hmacKey } = await acmeKey('certbot')
  await runCertbot(hmacKey, `router.${DOMAIN}`)
  const live = join(folder, 'certbot/config/live', `router.${DOMAIN}`)
  for (const [file, copy] of [
    ['fullchain.pem', 'uhttpd.crt'],
    ['privkey.pem', 'uhttpd.key'],
  ] as const)
    t.equal(
      readFileSync(join(folder, 'router', copy), 'utf8'),
      readFileSync(join(live, file), 'utf8'),
    )
  t.equal(readFileSync(join(folder, 'router/ran'), 'utf8'), '/etc/init.d/uhttpd restart\n')
  await run('openssl verify -CAfile root.pem -untrusted router/uhttpd.crt router/uhttpd.crt')
  await t.rejects(runCertbot(hmacKey, `pve1.${DOMAIN}`), 'the name of another key')
})

t.test('the same from a public CA, by DNS-01', { skip }, async (t) => {
  const dns = await startPublicDns(t)
  const bridge = await startDnsBridge(t, dns)
  const pebble = await startPebbleServer(t, { dns: dns.server })
  const folder = testFolder(t, {
    'directory-ca.pem': pebble.ca,
    token: 'a-token-that-nobody-checks',
  })
  const text = blocks.find(({ info }) => info === 'yaml cert-service')?.text ?? ''
  const [issuer] = parse(text).issuers
  const [challenge] = issuer.challenges
  const [provider] = challenge.providers
  const {
    acmeKey,
    runCertbot,
    folder: own,
  } = await startHomelab(t, 'home.example.com', [
    {
      ...issuer,
      directory: pebble.directoryUrl.href,
      caFile: join(folder, 'directory-ca.pem'),
      challenges: [
        {
          ...challenge,
          propagation: { ...challenge.propagation, resolvers: [dns.server] },
          providers: [{ ...provider, endpoint: bridge.url, apiTokenFile: join(folder, 'token') }],
        },
      ],
    },
  ])
  await runCertbot((await acmeKey('certbot')).hmacKey, 'router.home.example.com')
  const { issuer: signer } = new X509Certificate(readFileSync(join(own, 'router/uhttpd.crt')))
  t.match(signer, /Pebble/)
})

async function serve(t: Test, folder: string, env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(process.execPath, ['--conditions=@gatehouse/source', MAIN, 'serve'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  for await (const line of createInterface(child.stdout))
    if (JSON.parse(line).msg === 'ready') break
  child.stdout.resume()
}

t.test('the container has few rights, and its keys lie apart from its data', async (t) => {
  const { services } = parse(readFileSync(join(EXAMPLE, 'compose.yml'), 'utf8'))
  t.match(services['cert-service'], { read_only: true, cap_drop: ['ALL'] })
  const { storage, auth } = parse(readFileSync(join(EXAMPLE, 'cert-service.yaml'), 'utf8'))
  const folders = services['cert-service'].volumes.map((volume: string) => volume.split(':')[1])
  t.strictSame(folders, ['/etc/gatehouse', storage.path, dirname(storage.masterKeyFile)])
  for (const { keyFile } of auth.psk.keys) t.match(keyFile, /^\/etc\/gatehouse\/keys\//)
})

t.test('the Caddyfile is one', async (t) => {
  const args = ['adapt', '--adapter', 'caddyfile', '--config', join(EXAMPLE, 'Caddyfile')]
  const env = { ...process.env, EAB_KID: 'caddy-1', EAB_KEY: 'a2V5' }
  const { stdout } = await promisify(execFile)('caddy', args, { env })
  t.match(stdout, '"dial":"192.168.1.30:443"')
})

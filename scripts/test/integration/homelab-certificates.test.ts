// Follows docs/homelab-certificates.md with certbot, a cert-service of its own, and a folder for the router.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
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

t.test('from nothing to a router', { skip: !existsSync('/usr/bin/certbot') }, async (t) => {
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
  const yaml = here(readFileSync(join(EXAMPLE, 'cert-service.yaml'), 'utf8'))
    .replace('host: 0.0.0.0', `port: ${port}`)
    // biome-ignore lint/suspicious/noTemplateCurlyInString: as the configuration has it
    .replace('permitted: ["${DOMAIN}",', 'permitted: [localhost, "${DOMAIN}",')
  writeFileSync(join(folder, 'cert-service.yaml'), `${yaml}metrics: { enabled: false }\n`)
  const env = {
    ...process.env,
    DOMAIN,
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
  const [start = '', root = '', key = '', certbot = ''] = STEPS
  t.equal(STEPS.length, 4)

  await run(start.replace('cd examples/homelab/certificates\n', ''))
  t.equal(readFileSync(join(folder, '.env'), 'utf8'), `DOMAIN=${DOMAIN}\n`)
  await serve(t, folder, env)
  t.match(await run(root), /^subject=CN ?= ?Gatehouse Root CA\nsha256 Fingerprint=/)
  const shown = JSON.parse(blocks.find(({ info }) => info === 'json acme-key')?.text ?? '')
  const given = JSON.parse(await run(key))
  t.strictSame(Object.keys(given), Object.keys(shown))
  t.match(given, { kid: 'proxmox-1', algorithm: 'HS256' })

  const { hmacKey } = JSON.parse(await run(key.replace('proxmox', 'certbot')))
  const own = ['config', 'work', 'logs'].map((name) => `--${name}-dir ${folder}/certbot/${name}`)
  await run(certbot.replace('the-hmac-key', hmacKey).replace('certonly', `$& ${own.join(' ')}`))
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

  const other = certbot.replace(`router.${DOMAIN}`, `pve1.${DOMAIN}`)
  await t.rejects(
    run(other.replace('the-hmac-key', hmacKey).replace('certonly', `$& ${own.join(' ')}`)),
    'the name of another key',
  )
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

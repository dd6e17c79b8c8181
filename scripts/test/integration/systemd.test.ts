// The units, as systemd reads them, and as it runs them on a machine that is booted for this test.
import { execFile, execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { makeArchive, type Service } from '../../release/archive.ts'
import { parseDocument, ROOT } from '../markdown.ts'
import { until } from '../until.ts'
import { bootMachine, cannotBoot, type Machine } from './machine.ts'

const run = promisify(execFile)
const FOLDER = join(ROOT, 'deploy/systemd')
const UNITS = globSync('*.service', { cwd: FOLDER }).sort()

/** In tenths, as `--threshold` takes it: what is left are the network, and code that Node makes as it runs. */
const EXPOSURE: Readonly<Record<string, number>> = {
  'gatehouse-cert-service.service': 13,
  'gatehouse-forward-auth.service': 13,
  // Runs as root, and commands of other servers.
  'gatehouse-client@.service': 29,
}

t.strictSame(Object.keys(EXPOSURE).sort(), UNITS)

for (const unit of UNITS)
  t.test(unit, async (t) => {
    const text = readFileSync(join(FOLDER, unit), 'utf8')
    const folder = t.testdir({ [unit]: text.replaceAll(/\/opt\/\S+\/bin\/\S+/g, '/bin/true') })
    const { stdout, stderr } = await run('systemd-analyze', [
      ...['verify', '--man=no', join(folder, unit)],
    ])
    t.equal(stdout + stderr, '', 'systemd-analyze verify finds nothing')
    const threshold = `--threshold=${EXPOSURE[unit]}`
    await run('systemd-analyze', ['security', '--offline=yes', threshold, join(FOLDER, unit)])
  })

t.test('users and folders', { skip: process.getuid?.() !== 0 && 'only root may' }, async (t) => {
  const root = t.testdir({
    etc: {
      gatehouse: {
        'cert-service': { 'config.yaml': '', keys: { 'admin.key': '' } },
        'forward-auth': { 'client-secret': '' },
      },
    },
  })
  const at = (path: string) => join(root, path)
  for (const key of ['etc/gatehouse/cert-service/keys/admin.key'])
    execFileSync('chmod', ['600', at(key)])
  for (const service of ['cert-service', 'forward-auth']) {
    const conf = `gatehouse-${service}.conf`
    await run('systemd-sysusers', [`--root=${root}`, join(FOLDER, 'sysusers.d', conf)])
    const created = [`--root=${root}`, '--create', join(FOLDER, 'tmpfiles.d', conf)]
    await run('systemd-tmpfiles', created)
  }
  const passwd = readFileSync(at('etc/passwd'), 'utf8')
  t.match(
    passwd,
    /^gatehouse-certs:x:(\d+):\1:Gatehouse cert-service:\/var\/lib\/gatehouse\/cert-service:\/usr\/sbin\/nologin$/m,
  )
  t.match(passwd, /^gatehouse-auth:x:\d+:.*:\/usr\/sbin\/nologin$/m)
  const groups = new Map(
    Array.from(readFileSync(at('etc/group'), 'utf8').matchAll(/^(.+?):x:(\d+):/gm), (row) => [
      row[2],
      row[1],
    ]),
  )
  const { stdout } = await run('find', [at('etc/gatehouse'), '-printf', '%P %m %U %G\n'])
  const rows = stdout.trim().split('\n').sort()
  t.strictSame(
    rows.map((row) => row.replace(/\d+$/, (id) => groups.get(id) ?? id)),
    [
      '755 0 0',
      'cert-service 750 0 gatehouse-certs',
      'cert-service/config.yaml 640 0 gatehouse-certs',
      'cert-service/keys 750 0 gatehouse-certs',
      'cert-service/keys/admin.key 640 0 gatehouse-certs',
      'forward-auth 750 0 gatehouse-auth',
      'forward-auth/client-secret 640 0 gatehouse-auth',
    ],
  )
})

const VERSION: string = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version
const USERS = { 'cert-service': 'gatehouse-certs', 'forward-auth': 'gatehouse-auth' } as const

/** The commands of the guide, by the step that they are in. */
function readSteps(): Map<string, string[]> {
  const steps = new Map<string, string[]>()
  for (const section of readFileSync(join(ROOT, 'docs/systemd.md'), 'utf8')
    .split(/^## /m)
    .slice(1)) {
    const { blocks } = parseDocument('docs/systemd.md', section)
    const commands = blocks.filter(({ info }) => info === 'sh systemd').map(({ text }) => text)
    if (commands.length > 0) steps.set(section.split('\n', 1)[0] ?? '', commands)
  }
  return steps
}

t.test('the guide, with the archives, on a machine', { skip: cannotBoot() ?? false }, async (t) => {
  const shared = t.testdir()
  const architecture = process.arch === 'arm64' ? 'arm64' : 'x64'
  const made: string[] = []
  for (const version of [VERSION, '0.2.0'])
    for (const service of Object.keys(USERS) as Service[])
      made.push(await makeArchive(service, architecture, shared, version))
  await t.test('archives', async (t) => {
    const again = await makeArchive('cert-service', architecture, t.testdir(), VERSION)
    t.ok(readFileSync(again).equals(readFileSync(made[0] ?? '')), 'are made the same again')
    const { stdout } = await run('tar', ['-tvzf', again])
    const lines = stdout.trim().split('\n')
    t.strictSame(
      lines.filter(
        (line) => !/^[-dl]r[w-][x-]r-[x-]r-[x-] root\/root /.test(line.replace('lrwx', 'lr-x')),
      ),
      [],
      'hold files of root that only root may change',
    )
    const texts = ['LICENSE', 'node/LICENSE', 'THIRD-PARTY-LICENSES.txt', 'sbom.cdx.json']
    for (const path of [...texts, 'app/cert-service.schema.json'])
      t.ok(stdout.includes(` cert-service-${VERSION}/${path}\n`), path)
  })
  const files = made.map((file) => basename(file))
  await run('sh', ['-c', `cd "$0" && sha256sum ${files.join(' ')} > SHA256SUMS`, shared])

  const machine = await bootMachine(t, shared)
  const steps = readSteps()
  /** Does what a step says, and gives what its commands print. */
  async function follow(step: string): Promise<string> {
    const commands = steps.get(step)
    if (!commands) throw new Error(`the guide has no step "${step}"`)
    steps.delete(step)
    let output = ''
    for (const command of commands) {
      const here = command.replace(/^version=0\.1\.0 arch=x64/m, `version=${VERSION} arch=x64`)
      output += await machine.run(`cd /mnt\n${here.replace('arch=x64', `arch=${architecture}`)}`)
    }
    return output
  }

  t.match(await follow('1. Download and check'), `${files[0]}: OK`)
  t.match(await follow('2. Unpack'), VERSION)
  await t.rejects(machine.run('node --version'), 'the machine has no other Node')
  await follow('3. Configure')
  t.match(await follow('4. Start'), 'config.yaml is valid')
  const [issue = ''] = steps.get('5. The first certificate') ?? []
  const answer = await follow('5. The first certificate')
  const [first = ''] = /^\{.*\}$/m.exec(answer) ?? []
  t.match(JSON.parse(first), { domain: 'app.example.com', cached: false })
  t.equal(await follow('6. The first login'), '302\n')
  await t.test('client', async (t) => client(t, machine))
  for (const [service, user] of Object.entries(USERS))
    await t.test(service, async (t) =>
      lifecycle(t, machine, { unit: `gatehouse-${service}`, service, user }),
    )
  t.match(await follow('7. Look and change'), /active \(running\)[\s\S]*ready/)
  await t.test('a low port', async (t) => lowPort(t, machine))

  await follow('8. Upgrade')
  const [pid] = (await machine.run('systemctl show -P MainPID gatehouse-cert-service')).split('\n')
  t.match(await machine.run(`readlink /proc/${pid}/exe`), 'cert-service-0.2.0/node/node')
  const ask = /^curl .*\\\n.*\/api\/certificate$/m.exec(issue)?.[0] ?? ''
  const kept = JSON.parse(await machine.run(ask))
  const { privateKey } = JSON.parse(first)
  t.match(kept, { cached: true, privateKey }, 'nothing was lost')
  await follow('Remove it')
  t.equal(await machine.run("find /usr/local /opt /etc /var/lib -name '*gatehouse*'"), '')
  t.strictSame([...steps.keys()], [], 'every step was followed')
})

interface Unit {
  readonly unit: string
  readonly service: string
  readonly user: string
}

/** How a service is started, changed and stopped, and what it may do. */
async function lifecycle(t: Test, { run }: Machine, { unit, service, user }: Unit): Promise<void> {
  const show = async (property: string) =>
    (await run(`systemctl show -P ${property} ${unit}`)).trim()
  const config = `/etc/gatehouse/${service}/config.yaml`
  t.match(await run(`journalctl -o cat -u ${unit}`), '"msg":"ready"', 'starts when it is ready')
  const pid = await show('MainPID')
  const status = await run(`cat /proc/${pid}/status`)
  t.match(status, /^Seccomp:\t2$/m, 'its system calls are filtered')
  t.match(status, /^CapBnd:\t0+$/m, 'it has no capability')
  t.equal(await run(`stat -c %U /proc/${pid} /var/lib/gatehouse/${service}`), `${user}\n${user}\n`)
  await run(`systemctl reload ${unit}; echo 'sever: {}' >> ${config}`)
  await t.rejects(run(`systemctl reload ${unit}`), 'an invalid file is refused')
  t.match(await run(`journalctl -o cat -u ${unit}`), /config\.yaml:\d+:\d+ \/sever/)
  t.strictSame([await show('MainPID'), await show('ActiveState')], [pid, 'active'], 'it goes on')
  await run(`systemctl stop ${unit}`)
  t.equal(await show('Result'), 'success', 'ends in time')
  await t.rejects(run(`systemctl start ${unit}`), 'does not start with an invalid file')
  await run(`sed -i '$d' ${config}; systemctl stop ${unit}; systemctl start ${unit}`)
  const fresh = await show('MainPID')
  await run(`kill -KILL ${fresh}`)
  await until(async () => ![fresh, '0'].includes(await show('MainPID')))
  await run(`systemctl start ${unit}`)
  t.equal(await show('NRestarts'), '1', 'is started again if it dies')
}

async function client(t: Test, { run }: Machine): Promise<void> {
  await run(`cat > /etc/gatehouse/client-app.example.com.env <<END
OPTIONS=www.example.com --owner daemon:daemon --reload 'systemctl is-active basic.target > /var/reloaded'
END
systemctl restart gatehouse-client@app.example.com`)
  const files = '/var/lib/gatehouse/tls/app.example.com'
  await until(async () => (await run('cat /var/reloaded 2>/dev/null || true')) === 'active\n')
  t.match(
    await run(`openssl x509 -in ${files}/fullchain.pem -noout -ext subjectAltName`),
    'www.exa',
  )
  t.match(
    await run(
      `openssl verify -CAfile /etc/gatehouse/root.pem -untrusted ${files}/fullchain.pem ${files}/fullchain.pem`,
    ),
    'OK',
  )
  t.equal(await run(`stat -c %U:%a ${files}/privkey.pem`), 'daemon:600\n')
}

async function lowPort(t: Test, { run }: Machine): Promise<void> {
  const config = '/etc/gatehouse/cert-service/config.yaml'
  const unit = 'gatehouse-cert-service'
  await run(`sed -i 's/^server:/server:\\n  port: 443/' ${config}; systemctl restart ${unit}`)
  t.match(await run('curl -fsSk https://localhost/readyz'), 'ready')
  await run(`mv /etc/systemd/system/${unit}.service.d /var/allowed; systemctl daemon-reload`)
  await t.rejects(run(`systemctl restart ${unit}`), 'needs to be allowed')
  t.match(await run(`journalctl -o cat -u ${unit}`), 'this user may not use that port')
  await run(`mv /var/allowed /etc/systemd/system/${unit}.service.d; sed -i '/port: 443/d' ${config}
systemctl daemon-reload; systemctl restart ${unit}`)
}

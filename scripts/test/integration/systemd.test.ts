// The units, as systemd reads them, and as it runs them on a machine that is booted for this test.
import { execFile, execFileSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { ROOT } from '../markdown.ts'
import { programOf } from '../program.ts'
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

const SERVICES = {
  'cert-service': { program: 'gatehouse-certs', user: 'gatehouse-certs' },
  'forward-auth': { program: 'gatehouse-auth', user: 'gatehouse-auth' },
} as const

t.test('on a machine with systemd', { skip: cannotBoot() ?? false }, async (t) => {
  const shared = t.testdir()
  for (const [service, { program }] of Object.entries(SERVICES)) {
    const args = programOf(service as keyof typeof SERVICES).join("' '")
    mkdirSync(join(shared, service))
    const script = `#!/bin/sh\nexec '${process.execPath}' '${args}' "$@"\n`
    writeFileSync(join(shared, service, program), script, { mode: 0o755 })
  }
  const { run } = await bootMachine(t, shared)
  await run(`
mkdir -p /usr/local/lib/systemd/system /usr/local/lib/sysusers.d /usr/local/lib/tmpfiles.d
cp ${FOLDER}/*.service /usr/local/lib/systemd/system
cp ${FOLDER}/sysusers.d/* /usr/local/lib/sysusers.d
cp ${FOLDER}/tmpfiles.d/* /usr/local/lib/tmpfiles.d
for service in cert-service forward-auth; do
  mkdir -p /opt/gatehouse/$service
  cp -r /mnt/$service /opt/gatehouse/$service/bin
  ln -s /opt/gatehouse/$service/bin/* /usr/local/bin
done
systemctl daemon-reload
systemd-sysusers
gatehouse-certs init /etc/gatehouse/cert-service/config.yaml
gatehouse-auth init --domain example.com /etc/gatehouse/forward-auth/config.yaml
systemd-tmpfiles --create gatehouse-cert-service.conf gatehouse-forward-auth.conf`)

  for (const [service, { user }] of Object.entries(SERVICES))
    await t.test(service, async (t) => {
      const unit = `gatehouse-${service}`
      await run(`systemctl enable --now ${unit} || { journalctl -o cat -u ${unit}; false; }`)
      t.equal(await run(`systemctl is-active ${unit}`), 'active\n')
      t.match(await run(`journalctl -o cat -u ${unit}`), '"msg":"ready"', 'starts when it is ready')
      const pid = (await run(`systemctl show -P MainPID ${unit}`)).trim()
      const status = await run(`cat /proc/${pid}/status`)
      t.match(status, /^Seccomp:\t2$/m, 'its system calls are filtered')
      t.match(status, /^CapBnd:\t0+$/m)
      t.equal(
        await run(`stat -c %U /proc/${pid} /var/lib/gatehouse/${service}`),
        `${user}\n${user}\n`,
      )

      await run(`systemctl reload ${unit}`)
      await run(`echo 'sever: {}' >> /etc/gatehouse/${service}/config.yaml`)
      await t.rejects(run(`systemctl reload ${unit}`), 'an invalid file is refused')
      t.match(await run(`journalctl -o cat -u ${unit}`), /config\.yaml:\d+:\d+ \/sever/)
      t.equal((await run(`systemctl show -P MainPID ${unit}`)).trim(), pid)
      t.equal(await run(`systemctl is-active ${unit}`), 'active\n', 'and the service goes on')
      await run(`systemctl stop ${unit}`)
      t.equal(await run(`systemctl show -P Result ${unit}`), 'success\n', 'ends in time')
      await t.rejects(run(`systemctl start ${unit}`), 'does not start with an invalid file')
      await run(`sed -i '$d' /etc/gatehouse/${service}/config.yaml; systemctl stop ${unit}`)

      await run(`systemctl start ${unit}`)
      const fresh = (await run(`systemctl show -P MainPID ${unit}`)).trim()
      await run(`kill -KILL ${fresh}
while [ "$(systemctl show -P MainPID ${unit})" = ${fresh} ]; do sleep 0.1; done
systemctl start ${unit}`)
      t.equal(
        await run(`systemctl show -P NRestarts ${unit}`),
        '1\n',
        'is started again if it dies',
      )
    })

  await t.test('certificates', async (t) => certificates(t, run))
})

/** Some work of the service and the client, so that a system call that the filter lacks is found. */
async function certificates(t: Test, run: Machine['run']): Promise<void> {
  await run(`
curl -fsSk https://localhost:7401/ca/root.pem -o /etc/gatehouse/root.pem
cat > /etc/gatehouse/client.env <<END
GATEHOUSE_URL=https://localhost:7401
GATEHOUSE_CA=/etc/gatehouse/root.pem
GATEHOUSE_KEY_FILE=/etc/gatehouse/cert-service/keys/admin.key
END
cat > /etc/gatehouse/client-app.example.com.env <<END
OPTIONS=www.example.com --owner daemon:daemon --reload 'systemctl is-active basic.target > /var/reloaded'
END
systemctl enable --now gatehouse-client@app.example.com`)
  const files = '/var/lib/gatehouse/tls/app.example.com'
  await run(`for i in $(seq 300); do [ -s /var/reloaded ] && break; sleep 0.1; done
openssl verify -CAfile /etc/gatehouse/root.pem -untrusted ${files}/fullchain.pem ${files}/fullchain.pem`)
  t.match(
    await run(`openssl x509 -in ${files}/fullchain.pem -noout -ext subjectAltName`),
    'www.exa',
  )
  t.equal(await run(`stat -c %U:%a ${files}/privkey.pem`), 'daemon:600\n')
  t.equal(await run('cat /var/reloaded'), 'active\n')
}

// Runs the commands of docs/runbooks on services of their own, and compares what they print with the pages.
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { startGatehouse } from '../../../services/forward-auth/test/helpers/gatehouse.ts'
import { freePort } from '../../../services/forward-auth/test/helpers/process.ts'
import {
  checkAt,
  startPeople,
} from '../../../services/forward-auth/test/helpers/provider-session.ts'
import { ROOT, readDocument } from '../markdown.ts'
import { until } from '../until.ts'

const MAIN = {
  'gatehouse-certs': join(ROOT, 'services/cert-service/src/main.ts'),
  'gatehouse-auth': join(ROOT, 'services/forward-auth/src/main.ts'),
}
const KEYS = {
  admin: 'key-of-the-operator-0123456789abcdef',
  web: 'key-that-leaks-0123456789abcdef',
}

/** Runs a program on a terminal, so that it prints what people see, without the signs that it is busy. */
const onTerminal = (main: string) =>
  `printf -v words ' %q' "$@"
errors=$(mktemp)
script -qec "stty cols 160; exec '${process.execPath}' --conditions=@gatehouse/source '${main}'$words 2>$errors" /dev/null < /dev/null | tr -d '\\r'
status=\${PIPESTATUS[0]}
cat "$errors"; rm "$errors"
exit $status`

/** What systemd does of it, for the unit of a service. */
const SYSTEMCTL = `program=gatehouse-auth; [ "$2" = gatehouse-cert-service ] && program=gatehouse-certs
case $1 in
  start)
    "serve-$program" < /dev/null > "$2.log" 2>&1 &
    echo $! > "$2.pid"
    until "$program" healthcheck > /dev/null; do kill -0 $! || { cat "$2.log"; exit 1; }; done ;;
  stop)
    kill -TERM "$(cat "$2.pid")" || true
    while kill -0 "$(cat "$2.pid")" 2> /dev/null; do :; done ;;
  reload) kill -HUP "$(cat "$2.pid")" ;;
esac`

/** A server with both services under systemd, as the guide leaves it. */
async function startServer(t: Test) {
  const [certs, auth] = [await freePort(), await freePort()]
  const folder = testFolder(t, {
    bin: {},
    etc: { 'cert-service': { keys: {} }, 'forward-auth': {} },
  })
  for (const path of ['var/cert-service/keys', 'var/forward-auth', 'backups'])
    mkdirSync(join(folder, path), { recursive: true })
  for (const [name, value] of Object.entries(KEYS))
    writeFileSync(join(folder, `etc/cert-service/keys/${name}.key`), value, { mode: 0o600 })
  const scripts: Record<string, string> = { systemctl: SYSTEMCTL, runuser: 'shift 3; exec "$@"' }
  for (const [program, main] of Object.entries(MAIN)) {
    scripts[program] = onTerminal(main)
    scripts[`serve-${program}`] =
      `exec '${process.execPath}' --conditions=@gatehouse/source '${main}' serve`
  }
  for (const [name, script] of Object.entries(scripts)) {
    const service = name.endsWith('gatehouse-auth') ? 'forward-auth' : 'cert-service'
    const config = `export GATEHOUSE_CONFIG='${folder}/etc/${service}/config.yaml'`
    writeFileSync(join(folder, 'bin', name), `#!/bin/bash\n${config}\n${script}\n`)
    chmodSync(join(folder, 'bin', name), 0o755)
  }
  const here = (text: string) =>
    text
      .replaceAll('/etc/gatehouse/', `${folder}/etc/`)
      .replaceAll('/var/lib/gatehouse/', `${folder}/var/`)
      .replaceAll('/var/backups/', `${folder}/backups/`)
      .replaceAll('localhost:7401', `localhost:${certs}`)
      .replaceAll('127.0.0.1:4181', `127.0.0.1:${auth}`)
  const env = {
    ...process.env,
    PATH: `${folder}/bin:${dirname(process.execPath)}:${process.env.PATH}`,
  }
  writeFileSync(join(folder, 'variables'), '')

  /** Runs commands after those before, whose variables they have. */
  async function run(script: string): Promise<string> {
    const keep = `export -p | grep -E '^export (GATEHOUSE_|new=|old=|before=)' > ${folder}/variables || true`
    const whole = `cd ${folder}; . ./variables; ${here(script)}\n${keep}`
    const { stdout } = await promisify(execFile)('sh', ['-aeu', '-c', whole], { env })
    return stdout
  }
  t.teardown(() => run('for pid in *.pid; do kill -KILL "$(cat "$pid")" || true; done'))
  return { folder, run, here, auth: `http://127.0.0.1:${auth}`, ports: { certs, auth } }
}

type Server = Awaited<ReturnType<typeof startServer>>

/** Without what differs each time. */
const masked = (text: string) =>
  text
    .replaceAll(/\b(?:[0-9A-F]{2}:){31}[0-9A-F]{2}\b/g, 'FINGERPRINT')
    .replaceAll(/\b[0-9a-f]{64}\b/g, 'SHA-256')
    .replaceAll(/\b[0-9a-f]{32,40}\b/g, 'ID')
    .replaceAll(/\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?/g, 'TIME')
    .replaceAll(/actor: .+/g, 'actor: USER')
    .replaceAll(/ran: \d+/g, 'ran: MS')
    .replaceAll(/subject=CN ?= ?/g, 'subject=CN = ')
    .replaceAll(/[ \t]+/g, ' ')
    .trim()

/** Runs the commands of a page in order. Before some of them, something happens that no command of the page does. */
async function follow(
  t: Test,
  page: string,
  { run, here }: Server,
  before: Readonly<Record<number, () => Promise<unknown>>> = {},
): Promise<void> {
  const blocks = readDocument(`docs/runbooks/${page}`).blocks.filter(({ info }) =>
    info.endsWith(' runbook'),
  )
  t.not(blocks.length, 0)
  let index = 0
  for (const [i, { info, text, line }] of blocks.entries()) {
    if (info !== 'sh runbook') continue
    await before[index]?.()
    index += 1
    const printed = await run(text)
    const expected = blocks[i + 1]
    if (expected?.info === 'text runbook')
      t.equal(masked(printed), masked(here(expected.text)), `${page}:${line}`)
  }
}

async function startCertService(t: Test): Promise<Server> {
  const server = await startServer(t)
  writeFileSync(
    join(server.folder, 'etc/cert-service/config.yaml'),
    server.here(`server: { port: ${server.ports.certs} }
metrics: { enabled: false }
storage: { path: /var/lib/gatehouse/cert-service/data, masterKeyFile: /var/lib/gatehouse/cert-service/keys/master.key }
auth: { psk: { keys: [{ name: admin, keyFile: keys/admin.key }, { name: web, keyFile: keys/web.key, domains: ['*.example.com'] }] } }
certificates: [{ names: [app.example.com] }, { names: [shop.example.com] }]
`),
  )
  await server.run(`systemctl start gatehouse-cert-service
curl -fsSk https://localhost:7401/ca/root.pem -o /etc/gatehouse/root.pem
export GATEHOUSE_URL=https://localhost:7401 GATEHOUSE_CA=/etc/gatehouse/root.pem
export GATEHOUSE_KEY_FILE=/etc/gatehouse/cert-service/keys/admin.key
for name in app shop; do gatehouse-certs get $name.example.com --out tls; done`)
  return server
}

t.test('the key of the CA leaked', async (t) => {
  const server = await startCertService(t)
  const old = readFileSync(join(server.folder, 'etc/root.pem'), 'utf8')
  await follow(t, 'ca-key-leaked.md', server)
  const current = await server.run('curl -fsSk https://localhost:7401/ca/root.pem')
  t.notMatch(current, old.trim(), 'the old root is not published')
})

t.test('the database is lost', async (t) => {
  const server = await startCertService(t)
  await server.run(`gatehouse-certs backup /var/backups/gatehouse-certs.db
gatehouse-certs get later.example.com --out tls
gatehouse-certs revoke shop.example.com --reason keyCompromise
systemctl stop gatehouse-cert-service`)
  rmSync(join(server.folder, 'var/cert-service/data'), { recursive: true })
  await follow(t, 'database-lost.md', server)
  t.match(await server.run('gatehouse-certs get later.example.com --out tls'), 'a new certificate')
})

t.test('the identity provider is away', async (t) => {
  const server = await startServer(t)
  const people = await startPeople(t)
  const config = people.configOf(
    '',
    server.here(`server: { port: ${server.ports.auth} }
metrics: { enabled: false }
storage: { path: /var/lib/gatehouse/forward-auth }`),
  )
  writeFileSync(join(server.folder, 'etc/forward-auth/config.yaml'), config)
  await server.run('systemctl start gatehouse-forward-auth')
  const alice = await people.signIn(server.auth)
  const endpoints = ['/.well-known/openid-configuration', '/token']
  for (const endpoint of endpoints) people.hostility[endpoint] = 'error'
  await server.run('systemctl stop gatehouse-forward-auth; systemctl start gatehouse-forward-auth')
  const isBack = async () => {
    t.equal((await checkAt(server.auth, alice)).status, 200, 'who is signed in goes on')
    delete people.hostility['/.well-known/openid-configuration']
    people.resume()
    // The provider is asked again once a second at most.
    const signIn = () => people.signIn(server.auth, 'bob')
    await until(() => signIn().then(Boolean, () => false))
  }
  await follow(t, 'provider-away.md', server, { 3: isBack })
})

t.test('a longer grace lets those in who are out already, and those who are in stay', async (t) => {
  const people = await startPeople(t)
  const config = (grace: string) => people.configOf(`session: { refresh: 1m, grace: ${grace} }`, '')
  const gatehouse = await startGatehouse(t, config('10m'))
  const url = `http://127.0.0.1:${gatehouse.port}`
  const alice = await people.signIn(url)
  people.hostility['/token'] = 'error'
  const statusAfter = async (minutes: number) => {
    await gatehouse.clock.advance(minutes * 60_000)
    return (await checkAt(url, alice)).status
  }
  t.equal(await statusAfter(5), 200, 'within grace')
  t.not(await statusAfter(10), 200, 'past grace')
  await gatehouse.reload(config('12h'))
  t.equal(await statusAfter(0), 200, 'with a longer one')
  t.equal(await statusAfter(60), 200, 'an hour later')
})

t.test('a key leaked', async (t) => {
  const server = await startCertService(t)
  await server.run(`export GATEHOUSE_KEY_FILE=/etc/gatehouse/cert-service/keys/web.key
for name in api pay app; do gatehouse-certs get $name.example.com --out tls-$name; done
export GATEHOUSE_KEY_FILE=/etc/gatehouse/cert-service/keys/admin.key`)
  await follow(t, 'key-leaked.md', server)
  const statusFor = (key: string) =>
    server.run(`curl -sk -o /dev/null -w '%{http_code}' -H 'Authorization: APIKey ${key}' \
https://localhost:7401/api/certificate/api.example.com`)
  t.equal(await statusFor(KEYS.web), '401', 'the value that leaked is worth nothing')
  t.equal(await statusFor(KEYS.admin), '200')
})

t.test('a person leaves', async (t) => {
  const server = await startCertService(t)
  await server.run('gatehouse-certs get alice@example.com --profile client --out tls')
  const people = await startPeople(t)
  const config = people.configOf(
    '',
    server.here(`server: { port: ${server.ports.auth} }
metrics: { enabled: false }
storage: { path: /var/lib/gatehouse/forward-auth }`),
  )
  writeFileSync(join(server.folder, 'etc/forward-auth/config.yaml'), config)
  await server.run('systemctl start gatehouse-forward-auth')
  const [alice, bob] = [await people.signIn(server.auth), await people.signIn(server.auth, 'bob')]
  t.equal((await checkAt(server.auth, alice)).status, 200)
  await follow(t, 'person-leaves.md', server)
  t.not((await checkAt(server.auth, alice)).status, 200)
  t.equal((await checkAt(server.auth, bob)).status, 200)
  const proof = JSON.parse(readFileSync(join(server.folder, 'alice.json'), 'utf8'))
  t.match(proof, { dryRun: false, found: [{ sessions: { length: 1 } }], ended: { length: 1 } })
})

t.test('every runbook has the same sections', async (t) => {
  for (const page of readdirSync(join(ROOT, 'docs/runbooks'))) {
    const titles = readDocument(`docs/runbooks/${page}`).prose.flatMap(
      (line) => /^## (.+)/.exec(line)?.[1] ?? [],
    )
    t.equal(titles[0], 'The first minute', page)
    t.strictSame(titles.slice(-2), ['How you know that it is over', 'What to tell whom'], page)
  }
})

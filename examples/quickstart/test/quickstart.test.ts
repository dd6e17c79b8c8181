import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { createFetch } from '@gatehouse/net'
import t from 'tap'
import { freePorts } from '../../../scripts/free-ports.ts'
import { fail, settingsFor, start } from './program.ts'
import { createVisitor } from './visitor.ts'

const [SESSION, APP_COOKIE] = ['__Host-gatehouse.main', '__Host-gatehouse-app.main']

/** What a printed curl does, without curl: npm test needs no system programs. */
async function follow(command: string, token = '') {
  const [, ca = '', rest = '', url = ''] =
    /^curl -sS --cacert (\S+) (.*) (\S+)$/.exec(command) ?? []
  const headers: Record<string, string> = {}
  for (const [, name = '', value = ''] of rest.matchAll(/-H ["']([\w-]+): (.*?)["'](?= |$)/g)) {
    const [, file] = /\$\(cat (\S+)\)/.exec(value) ?? []
    const secret = file === undefined ? token : (await readFile(file, 'utf8')).trim()
    headers[name] = value.replace(/\$\(.*\)|\$TOKEN/, () => secret)
  }
  const [, body] = / -d '(.*)'/.exec(` ${rest}`) ?? []
  const fetch = createFetch({ ca: await readFile(ca, 'utf8') })
  const answer = await fetch(url, {
    headers,
    status: [200, 401],
    ...(body !== undefined && { method: 'POST', body }),
  })
  await fetch.close()
  return { status: answer.status, ...JSON.parse(answer.body.toString()) }
}

function commandsOf(printed: string): [certificate: string, verify: string] {
  const lines = printed.split('\n')
  // Programs look for the one line that begins with `curl `.
  const [certificate = '', ...more] = lines.filter((line) => line.startsWith('curl '))
  if (more.length > 0) throw new Error('there is more than one')
  const verify = lines.find((line) => line.endsWith('/verify')) ?? ''
  return [certificate, verify.trim()]
}

async function serialAt(port = ''): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port: Number(port), rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const { serialNumber } = socket.getPeerCertificate()
  socket.destroy()
  return serialNumber
}

t.test('npm start', async (t) => {
  const folder = join(t.testdir(), 'gatehouse')
  const settings = await settingsFor(folder)
  const originOf = (name: string) =>
    `https://${name}.gatehouse.localhost:${settings.GATEHOUSE_HTTPS_PORT}`
  const [app, admin, auth] = ['app', 'admin', 'auth'].map(originOf) as [string, string, string]
  const portal = `${auth}/portal/main`
  const first = await start(t, settings)
  const screen = first.printed()
  for (const url of [
    app,
    admin,
    `${portal}/signin`,
    `https://localhost:${settings.GATEHOUSE_PORT}`,
  ])
    t.match(screen, url)
  const [certificateCommand, verifyCommand] = commandsOf(screen)
  const certificate = await follow(certificateCommand)
  t.match(certificate, { status: 200, domain: 'app.example.com' })
  const secrets = ['api.key', 'master.key', 'idp-client.secret'].map((name) => `keys/${name}`)
  for (const secret of [...secrets, 'auth/session.key', 'tls/gatehouse.localhost.pem'])
    t.equal((await stat(join(folder, secret))).mode & 0o777, 0o600, secret)

  const visitor = createVisitor(await readFile(join(folder, 'root.pem'), 'utf8'))
  t.teardown(() => visitor.fetch.close())
  async function signIn(account: string) {
    const { url: form } = await visitor.open(`${portal}/profile`)
    t.match(form.href, /^https:\/\/idp\.gatehouse\.localhost:\d+\/interaction\//)
    const { status, url, body } = await visitor.open(form, { account })
    t.match({ status, path: url.pathname }, { status: 200, path: '/portals/main/profile' })
    return { body, token: visitor.cookie(auth, SESSION) }
  }
  const profile = async () => {
    const { status, body } = await visitor.open(`${portal}/profile.json`)
    return status === 200 ? JSON.parse(body) : status
  }

  const alice = await signIn('alice')
  t.equal(
    /<pre>([^<]*)<\/pre>/.exec(alice.body)?.[1],
    `Authenticated

ID: alice
Provider: demo
Name:
   Full Name: Alice Arden
   First: Alice
   Last: Arden
Email:
   Address: alice@example.com
   Verified: true
Groups:
  - admin
  - staff
`,
  )
  t.match(await profile(), { authenticated: true, id: 'alice', groups: ['admin', 'staff'] })
  for (const origin of [app, admin]) {
    const { status, body } = await visitor.open(origin)
    t.match({ status, body }, { status: 200, body: 'Hello, <bdi>Alice Arden</bdi>' }, origin)
    const token = visitor.cookie(origin, `${APP_COOKIE}.${new URL(origin).port}`) ?? ''
    t.match(token, /^ey/, 'the app has a session of its own')
    t.notMatch(body, token, 'which it does not show')
    t.match(await follow(verifyCommand, token), { status: 401 }, 'and which counts nowhere else')
  }
  const verified = { valid: true, portal: 'main', provider: 'demo', claims: { sub: 'alice' } }
  t.match(await follow(verifyCommand, alice.token), { status: 200, ...verified })

  t.match((await visitor.open(`${portal}/logout`)).body, 'Alice Arden')
  const left = await visitor.open(`${portal}/logout`, {})
  t.match(left.body, /https:\/\/idp\.gatehouse\.localhost:\d+\/session\/end\?/)
  t.match(await follow(verifyCommand, alice.token), { status: 401, valid: false })
  t.match(await profile(), { id: 'alice' }, 'the provider still knows her')

  t.test('a certificate that was renewed is taken up', async (t) => {
    const tlsFile = join(folder, 'tls/gatehouse.localhost.pem')
    const [domain, keyType] = ['*.gatehouse.localhost', 'p384']
    const renewed = await follow(
      certificateCommand.replace(/-d '.*'/, `-d '${JSON.stringify({ domain, keyType })}'`),
    )
    await writeFile(tlsFile, `${renewed.privateKey}${renewed.certificate}`)
    const held = new X509Certificate(renewed.certificate).serialNumber
    while ((await serialAt(settings.GATEHOUSE_HTTPS_PORT)) !== held);
    t.pass(held)
  })

  t.test('a port in use is one clear line that names the way out', async (t) => {
    for (const name of ['GATEHOUSE_PORT', 'GATEHOUSE_HTTPS_PORT']) {
      const busy = { ...(await settingsFor(join(t.testdir(), name))), [name]: settings[name] ?? '' }
      const line = `^gatehouse: cannot listen on port ${settings[name]}[^\\n]*${name}=\\d+[^\\n]*\\n$`
      t.match(await fail(t, busy), { code: 1, err: new RegExp(line) }, name)
    }
  })

  t.test('a second start says the same and has kept everything', async (t) => {
    t.equal(await first.stop(), 0)
    const [port = 0] = await freePorts(1)
    const second = await start(t, { ...settings, GATEHOUSE_AUTH_PORT: String(port) })
    t.ok((await fetch(`http://127.0.0.1:${port}/healthz`)).ok, 'forward-auth is at its port')
    t.equal(second.printed(), screen)
    const { serialNumber } = await follow(certificateCommand)
    t.equal(serialNumber, certificate.serialNumber)
    t.match(await follow(verifyCommand, alice.token), { status: 401 }, 'who signed out stays out')
    const { url, status } = await visitor.open(`${portal}/profile.json`)
    t.match(
      { url: url.href, status },
      { url: `${portal}/profile.json`, status: 200 },
      'who is in, in',
    )
    t.equal(await second.stop(), 0)
  })

  t.test('what cannot be is one clear line', async (t) => {
    await writeFile(join(t.testdir(), 'file'), '')
    const faults: [fault: Record<string, string>, line: RegExp][] = [
      [{ GATEHOUSE_DIR: join(t.testdirName, 'file/x') }, /^gatehouse: cannot write [^\n]*\n$/],
      [{ GATEHOUSE_HTTPS_PORT: '84x' }, /^gatehouse: GATEHOUSE_HTTPS_PORT is not [^\n]*\n$/],
    ]
    for (const [fault, err] of faults)
      t.match(await fail(t, { ...settings, ...fault }), { code: 1, err })
  })
})

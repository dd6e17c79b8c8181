// Follows the guides for people who move from another program: their file, our commands, and who comes in.
import { type ExecFileOptions, execFile } from 'node:child_process'
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createDns01, createDnsProviders } from '@gatehouse/acme'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { standIn } from '../../packages/acme/test/dns/providers/stand-in.ts'
import { createBrowser } from '../../packages/identity-providers/test/stand-ins/browser.ts'
import { startOpenIdProvider } from '../../packages/identity-providers/test/stand-ins/openid-provider.ts'
import { briskClock, startCa } from '../../services/cert-service/test/helpers/acme.ts'
import { NOW, start } from '../../services/cert-service/test/helpers/app.ts'
import { createDnsWorld } from '../../services/cert-service/test/helpers/dns-world.ts'
import { startApp } from '../../services/forward-auth/test/app.ts'
import { createVisitor } from '../../services/forward-auth/test/visitor.ts'
import { type Document, ROOT, readDocument } from './markdown.ts'

const ISSUER = 'https://id.example.com'

const only = ({ file, blocks }: Document, info: string): string => {
  const found = blocks.filter((block) => block.info === info)
  if (found.length !== 1) throw new Error(`${file} has ${found.length} blocks "${info}"`)
  return found[0]?.text ?? ''
}

/** A folder with the program of a service in `bin`. */
function folderWith(t: Test, program: string, service: string): string {
  const main = join(ROOT, 'services', service, 'src/main.ts')
  const script = `#!/bin/sh\nexec '${process.execPath}' --conditions=@gatehouse/source '${main}' "$@"\n`
  const cwd = t.testdir({ bin: { [program]: script } })
  chmodSync(join(cwd, 'bin', program), 0o755)
  return cwd
}

/** Runs a command of a guide as a person does, who may be asked for a secret. */
function run(
  command: string,
  cwd: string,
  input = '',
): Promise<{ code: number; out: string; err: string }> {
  const env = {
    ...process.env,
    PATH: `${cwd}/bin:${dirname(process.execPath)}:${process.env.PATH}`,
  }
  const options: ExecFileOptions = { cwd, env }
  return new Promise((resolve) => {
    const child = execFile('sh', ['-eu', '-c', command], options, (error, out, err) =>
      resolve({ code: Number(error?.code ?? 0), out: String(out), err: String(err) }),
    )
    child.stdin?.end(input)
  })
}

const person = (given: string, email: string, groups: string[], email_verified = true) => ({
  ...{ name: given, given_name: given, family_name: given, email, email_verified, groups },
})
const PEOPLE = new Map(
  Object.entries({
    ada: person('Ada', 'ada@example.com', ['staff']),
    guest: person('Guest', 'guest@other.example', ['staff']),
    intern: person('Intern', 'intern@example.com', ['interns']),
    unverified: person('Unverified', 'unverified@example.com', ['staff'], false),
  }),
)

interface Move {
  /** Kind of the block with their configuration, and the file that it is. */
  readonly theirs: string
  readonly file: string
  /** The command that translates it. */
  readonly migrate: string
  /** Fills the places that are marked. Default: there are none. */
  readonly fill?: (printed: string, issuer: string) => string
}

const SECRET = 'the-secret-of-the-client'

/** Follows a guide up to a running service, with a real provider in place of the one of the example. */
async function follow(t: Test, guide: Document, { theirs, file, migrate, fill }: Move) {
  const cwd = folderWith(t, 'gatehouse-auth', 'forward-auth')
  const text = only(guide, theirs)
  const [, clientId = 'gatehouse'] = /\bclient.?id"?\s*[:=]\s*"?([\w.-]+)"?$/im.exec(text) ?? []
  const client = { clientId, clientSecret: SECRET, redirectUris: [] as string[] }
  const provider = await startOpenIdProvider(t, { clients: [client], people: PEOPLE })
  writeFileSync(join(cwd, file), text.replace(ISSUER, provider.issuer))

  const before = await run(`gatehouse-auth check-config --config ${file}`, cwd)
  t.match(before, { code: 1, err: '[CONFIG_FOREIGN]' }, 'check-config knows whose file it is')
  const [command = ''] = migrate.split(` ${file} > `)
  t.match(before.err, `run ${command} `, 'and points to the command')
  t.match(await run(migrate, cwd), { code: 0, err: fill ? /marked TODO/ : /^$/ })
  const migrated = readFileSync(join(cwd, 'config.yaml'), 'utf8')
  if (fill)
    t.match(await run(only(guide, 'sh check'), cwd), { code: 1 }, 'it is refused until then')
  const printed = fill?.(migrated, provider.issuer) ?? migrated
  writeFileSync(join(cwd, 'config.yaml'), printed)
  for (const secret of [SECRET, 'c29tZS1yYW5kb20t']) t.notMatch(printed, secret)
  await run(only(guide, 'sh secret'), cwd, `${SECRET}\n`)
  t.equal(statSync(join(cwd, 'client-secret')).mode & 0o777, 0o600)
  const checked = await run(only(guide, 'sh check'), cwd)
  t.match(checked, { code: 0, err: '' })
  const [redirectUri = ''] = /(?<=^Redirect URI .*\n.*: )https:.*/m.exec(checked.out) ?? []
  client.redirectUris.push(redirectUri)
  // The provider reads its clients anew.
  provider.rotate('second')
  const yaml = printed.replace('File: client-secret', `File: ${cwd}/client-secret`)
  return { app: (await startApp(t, yaml)).app, redirectUri }
}

/** Asks as a proxy does, for somebody who opens a page of an app and signs in if need be. */
async function open(
  { app, redirectUri }: { readonly app: FastifyInstance; readonly redirectUri: string },
  page: string,
  who: string,
  query = '',
) {
  const visitor = createVisitor(app)
  const check = (url: string) => {
    const { pathname, host, search } = new URL(url)
    const headers = {
      'x-forwarded-proto': 'https',
      'x-forwarded-host': host,
      'x-forwarded-uri': `${pathname}${search}`,
      'x-forwarded-method': 'GET',
      'x-forwarded-for': '203.0.113.7',
    }
    return visitor.open(`https://auth.example.com/portals/main${query}`, { headers })
  }
  const first = await check(page)
  let answer = first
  while (answer.headers.location !== undefined) {
    const { href, origin, host } = new URL(answer.headers.location, page)
    if (origin === 'https://auth.example.com') answer = await visitor.open(href)
    else if (host.endsWith('.example.com')) answer = await check(href)
    else {
      const callback = await createBrowser().signIn(href, who)
      if (callback.origin + callback.pathname !== redirectUri) throw new Error(callback.href)
      answer = await visitor.open(callback)
    }
  }
  return { before: first.statusCode, after: answer.statusCode, sent: answer.headers }
}

const APP = 'https://app.example.com/a'

t.test('docs/moving-from-oauth2-proxy.md', async (t) => {
  const guide = readDocument('docs/moving-from-oauth2-proxy.md')
  const gate = await follow(t, guide, {
    ...{ theirs: 'toml oauth2-proxy.cfg', file: 'oauth2-proxy.cfg' },
    migrate: only(guide, 'sh migrate'),
  })
  t.equal(gate.redirectUri, only(guide, 'text redirect-uri').trim())
  const sent = { 'x-auth-request-email': 'ada@example.com' }
  const ada = await open(gate, APP, 'ada')
  t.match(ada, { before: 302, after: 200, sent })
  const taken = only(guide, 'nginx moved').matchAll(/\$upstream_http_(x_auth\w+)/g)
  const names = [...taken].map(([, name = '']) => name.replaceAll('_', '-'))
  const all = Object.keys(ada.sent).filter((name) => name.startsWith('x-auth-request-'))
  t.strictSame(names.sort(), all.sort(), 'nginx takes each header of the person')
  for (const who of ['guest', 'intern', 'unverified'])
    t.not((await open(gate, APP, who)).after, 200, `${who} is still refused`)
  const health = await open(gate, 'https://app.example.com/healthz', 'ada')
  t.equal(health.before, 200, 'what needed no session needs none')
})

t.test('docs/moving-from-traefik-forward-auth.md', async (t) => {
  const guide = readDocument('docs/moving-from-traefik-forward-auth.md')
  const gate = await follow(t, guide, {
    ...{ theirs: 'yaml traefik-forward-auth.yaml', file: 'traefik-forward-auth.yaml' },
    migrate: only(guide, 'sh migrate'),
  })
  t.equal(gate.redirectUri, only(guide, 'text redirect-uri').trim(), 'it is the old one')
  const [address = ''] = /(?<=address: ).*/.exec(only(guide, 'yaml')) ?? []
  const { search } = new URL(address)
  const sent = { 'x-forwarded-user': 'ada', 'x-forwarded-email': 'ada@example.com' }
  t.match(await open(gate, APP, 'ada', search), { before: 302, after: 200, sent })
  t.match(await open(gate, APP, 'guest', search), { after: 200 })
  t.match(await open(gate, APP, 'intern', search), { after: 403 }, 'by the condition of the router')
  t.match(await open(gate, APP, 'intern'), { after: 200 }, 'that another router does not have')
})

t.test('docs/moving-from-traefik-forward-auth.md, of thomseddon', async (t) => {
  const guide = readDocument('docs/moving-from-traefik-forward-auth.md')
  const file = 'traefik-forward-auth.ini'
  const gate = await follow(t, guide, {
    ...{ theirs: `ini ${file}`, file },
    migrate: `gatehouse-auth migrate traefik-forward-auth ${file} > config.yaml`,
  })
  const sent = { 'x-forwarded-user': 'ada@example.com' }
  t.match(await open(gate, APP, 'ada'), { before: 302, after: 200, sent })
  t.match(await open(gate, APP, 'intern'), { after: 200 }, 'is of the domain')
  for (const who of ['guest', 'unverified'])
    t.not((await open(gate, APP, who)).after, 200, `${who} is still refused`)
  const admin = 'https://admin.example.com/'
  t.match(await open(gate, admin, 'ada'), { after: 200 })
  t.match(await open(gate, admin, 'intern'), { after: 403 }, 'is for one person')
  t.match(await open(gate, 'https://app.example.com/healthz', 'ada'), { before: 200 })
})

t.test('docs/moving-from-authelia.md', async (t) => {
  const guide = readDocument('docs/moving-from-authelia.md')
  const gate = await follow(t, guide, {
    ...{ theirs: 'yaml configuration.yml', file: 'configuration.yml' },
    migrate: only(guide, 'sh migrate'),
    fill: (printed, issuer) =>
      printed.replace('type: openIDConnect', `type: openIDConnect\n        issuerUrl: ${issuer}`),
  })
  const sent = { 'remote-email': 'ada@example.com', 'remote-groups': 'staff' }
  t.match(await open(gate, APP, 'ada'), { before: 302, after: 200, sent })
  t.match(await open(gate, APP, 'intern'), { before: 302, after: 403 })
  const wiki = 'https://wiki.example.com/'
  for (const who of ['ada', 'intern']) t.match(await open(gate, wiki, who), { after: 200 }, who)
  t.match(await open(gate, 'https://app.example.com/api/v1', 'intern'), { before: 200 })
  const admin = 'https://admin.example.com/'
  t.match(await open(gate, admin, 'ada'), { after: 200 }, 'an earlier rule lets the staff in')
  t.match(await open(gate, admin, 'intern'), { after: 403 })
})

t.test('docs/moving-from-le-cert-server.md', async (t) => {
  const guide = readDocument('docs/moving-from-le-cert-server.md')
  const file = 'le-cert-server.yaml'
  const cwd = folderWith(t, 'gatehouse-certs', 'cert-service')
  const theirs = only(guide, `yaml ${file}`)
  writeFileSync(join(cwd, file), theirs)
  const before = await run(`gatehouse-certs check-config --config ${file}`, cwd)
  t.match(before, { code: 1, err: 'run gatehouse-certs migrate le-cert-server ' })
  t.match(await run(only(guide, 'sh migrate'), cwd), { code: 0, err: '' })
  const printed = readFileSync(join(cwd, 'config.yaml'), 'utf8')
  const { letsEncrypt, auth } = parse(theirs)
  const token = letsEncrypt.dnsCredentials.CF_DNS_API_TOKEN
  for (const secret of [token, auth.psk.key]) t.notMatch(printed, secret)
  await run(only(guide, 'sh secret'), cwd, `${token}\n`)
  t.match(await run(only(guide, 'sh check'), cwd), { code: 0, err: '' })

  // The CA and Cloudflare are elsewhere; the rest is as printed.
  const world = createDnsWorld({
    ...{ zones: 'shown', resolver: 'answers', nameServer: 'answers', alias: 'none' },
  })
  const cloudflare = await standIn(t, (request) => world.api(request))
  const clock = briskClock(NOW, [])
  const ca = await startCa(t, clock, {
    validate: async (challenge) => (world.shows(challenge) ? undefined : 'unauthorized'),
  })
  // Shorter times pass at once.
  const config = { issuance: { wait: '60s' }, ...parse(printed) }
  const [issuer] = config.issuers
  issuer.directory = ca.directoryUrl.href
  issuer.challenges[0].providers[0].endpoint = `${cloudflare.url}/open`
  const running = await start(t, config, {
    ...{ folder: cwd, clock },
    createSolver(challenge) {
      if (challenge.type !== 'dns-01') throw new Error(`there is ${challenge.type}`)
      const providers = createDnsProviders(challenge.providers, cloudflare.deps)
      return createDns01({ providers, propagation: challenge.propagation, clock, ask: world.ask })
    },
  })
  const request = only(guide, 'sh request')
  const [, authorization = ''] = /-H "Authorization: (.+?)"/.exec(request) ?? []
  const [, body = ''] = /-d '(.+)'/.exec(request) ?? []
  t.equal(authorization, `APIKey ${auth.psk.key}`, 'the key that clients have')
  const ask = (headers: object) =>
    running.call('POST', '/api/certificate', JSON.parse(body), headers)
  const answer = await ask({ authorization })
  t.match(answer, { status: 200, body: { domain: 'app.example.com', cached: false } })
  for (const member of ['certificate', 'privateKey', 'issuerCert', 'notBefore', 'notAfter'])
    t.type(answer.body[member], 'string', member)
  t.match(await ask({ authorization }), { status: 200, body: { cached: true } })
  t.match(await ask({ authorization: 'APIKey another-key-0123456789' }), { status: 401 })
  t.equal(cloudflare.requests[0]?.headers.authorization, `Bearer ${token}`)
})

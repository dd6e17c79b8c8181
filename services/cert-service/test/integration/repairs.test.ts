import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { startPebbleServer } from '../../../../packages/acme/test/integration/pebble.ts'
import { freePort } from '../../../../scripts/free-ports.ts'
import { createTestCa } from '../../../../scripts/test/certificates.ts'
import { programOf } from '../../../../scripts/test/program.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ask, startRunning } from '../../../../scripts/test/running.ts'
import { AUTHORIZATION, writeExample } from '../helpers/acme-example.ts'
import { startPublicDns } from '../helpers/public-dns.ts'
import { createHome, KEY, startService } from '../helpers/service.ts'

// Each mistake is one that people make at their first ACME CA. Once the file is right, the name that failed has its
// certificate with the first request, without any command.
expectWarnings(t, 'ACME_', 'AUTH_KEY_INVALID', 'CERT_')

const MAC_KEY = randomBytes(32).toString('base64url')
const dns = await startPublicDns(t)
const pebble = await startPebbleServer(t, { dns: dns.server })
const bound = await startPebbleServer(t, {
  dns: dns.server,
  config: { externalAccountBindingRequired: true, externalAccountMACKeys: { 'kid-1': MAC_KEY } },
})
const stranger = await createTestCa()

type Issuer = Record<string, unknown> & {
  challenges: { propagation: object; providers: Record<string, unknown>[] }[]
}

interface Mistake {
  readonly title: string
  readonly code: string
  /** What the answer says of it. */
  readonly detail: RegExp
  readonly ca?: typeof pebble
  /** Options of the issuer that are right. */
  readonly options?: object
  /** Makes the mistake in an issuer that is right. */
  spoil(issuer: Issuer): void
}

const closed = `127.0.0.1:${await freePort()}`
const strangerFile = join(testFolder(t), 'stranger.pem')
writeFileSync(strangerFile, stranger.root)
const dns01 = ({ challenges: [challenge] }: Issuer) => challenge as Issuer['challenges'][number]
const provider = (issuer: Issuer) => dns01(issuer).providers[0] as Record<string, unknown>
const account = { kid: 'kid-1', hmacKey: MAC_KEY }

// Side by side, since a CA that cannot be reached is tried for a while before the answer.
t.jobs = 4

const MISTAKES: readonly Mistake[] = [
  {
    title: 'resolvers that nobody runs',
    code: 'ACME_DNS_UNREACHABLE',
    detail: /127\.0\.0\.1/,
    spoil(issuer) {
      dns01(issuer).propagation = { check: 'resolvers', resolvers: [closed] }
    },
  },
  {
    title: 'the secret of another TSIG key',
    code: 'ACME_DNS_CREDENTIALS',
    detail: /does not accept the signature/,
    spoil(issuer) {
      delete provider(issuer).keySecretFile
      provider(issuer).keySecret = randomBytes(32).toString('base64')
    },
  },
  {
    title: 'the name of another TSIG key',
    code: 'ACME_DNS_CREDENTIALS',
    detail: /does not know the key/,
    spoil(issuer) {
      provider(issuer).keyName = 'gatehouse-of-before'
    },
  },
  {
    title: 'a name server that is away',
    code: 'ACME_DNS_UNREACHABLE',
    detail: /127\.0\.0\.1/,
    spoil(issuer) {
      provider(issuer).server = closed
    },
  },
  {
    title: 'the root of another CA for the directory',
    code: 'ACME_UNREACHABLE',
    detail: /its certificate is of a CA that is not trusted here/,
    spoil(issuer) {
      issuer.caFile = strangerFile
    },
  },
  {
    title: 'a directory at another port',
    code: 'ACME_UNREACHABLE',
    detail: /nothing listens there/,
    spoil(issuer) {
      issuer.directory = `https://${closed}/dir`
    },
  },
  {
    title: 'a directory at another path',
    code: 'ACME_ANSWER_INVALID',
    detail: /was not answered with an ACME directory/,
    spoil(issuer) {
      issuer.directory = new URL('/directory', pebble.directoryUrl).href
    },
  },
  {
    title: 'no external account',
    code: 'ACME_EXTERNAL_ACCOUNT_REQUIRED',
    detail: /externalAccountBinding/,
    ca: bound,
    options: { externalAccount: account },
    spoil(issuer) {
      delete issuer.externalAccount
    },
  },
  {
    title: 'the key of another external account',
    code: 'ACME_EXTERNAL_ACCOUNT_REQUIRED',
    detail: /external account binding/,
    ca: bound,
    options: { externalAccount: account },
    spoil(issuer) {
      issuer.externalAccount = { ...account, hmacKey: randomBytes(32).toString('base64url') }
    },
  },
]

/** Runs the service with this file, and requests a name once. */
async function requestOnce(t: Test, file: string, domain: string) {
  const args = [...programOf('cert-service'), 'serve', '--config', file]
  const { child, said, ended } = startRunning(t, args)
  const url = String((await said('ready')).url)
  const { status, body } = await ask(`${url}/api/certificate`, {
    method: 'POST',
    headers: { ...AUTHORIZATION, 'content-type': 'application/json' },
    body: JSON.stringify({ domain }),
  })
  child.kill('SIGTERM')
  t.match(await ended, { code: 0 })
  return { status, body: JSON.parse(body) }
}

for (const { title, code, detail, ca = pebble, options = {}, spoil } of process.env.SKIP
  ? []
  : MISTAKES)
  t.test(title, async (t) => {
    const place = { pebble: ca, dns, provider: (own: object) => ({ ...own, server: dns.server }) }
    const file = writeExample(t, 'rfc2136.yaml', { ...place, issuer: options })
    const right = readFileSync(file, 'utf8')
    const parsed = parse(right)
    const config = { ...parsed, server: { ...parsed.server, tls: 'off' }, log: { format: 'json' } }
    const wrong = structuredClone(config)
    spoil(wrong.issuers[0])
    writeFileSync(file, stringify(wrong))
    const domain = `${title.replaceAll(/\W+/g, '-')}.example.com`
    const refused = await requestOnce(t, file, domain)
    t.match(refused, { body: { code, detail } })
    t.match(refused.body.action, /\w/, 'says what to do')
    t.comment(
      `${refused.status} ${refused.body.code}: ${refused.body.detail} ${refused.body.action}`,
    )

    writeFileSync(file, stringify(config))
    const start = Date.now()
    t.match(await requestOnce(t, file, domain), { status: 200, body: { issuer: 'letsencrypt' } })
    t.comment(
      `a certificate ${Date.now() - start} ms after the repair, with the start of the service`,
    )
  })

/** The root of a service, from a client that does not trust it yet. */
async function rootOf(url: string): Promise<string> {
  const asked = request(`${url}/ca/root.pem`, { rejectUnauthorized: false }).end()
  const [response] = await once(asked, 'response')
  return text(response)
}

/** What a client is started with, wrong at first; it keeps running. */
const CLIENT_MISTAKES: readonly [title: string, file: 'ca' | 'key', code: string][] = [
  ['the key of another caller', 'key', 'AUTH_KEY_INVALID'],
  ['the root of another CA', 'ca', 'CERT_CLIENT_UNTRUSTED'],
]

for (const [title, file, code] of CLIENT_MISTAKES)
  t.test(`${title}, at a client that keeps running`, async (t) => {
    const base = testFolder(t)
    const home = createHome(join(base, 'service'))
    const config = join(home.base, 'config.yaml')
    writeFileSync(config, readFileSync(config, 'utf8').replace(', tls: off', ''))
    const service = await startService(t, home)
    const root = await rootOf(service.url)
    const RIGHT = { ca: root, key: KEY }
    const WRONG = { ca: stranger.root, key: 'key-of-somebody-else-0123456789' }
    const files = { ca: join(base, 'ca.pem'), key: join(base, 'client.key') }
    for (const name of ['ca', 'key'] as const)
      writeFileSync(files[name], (name === file ? WRONG : RIGHT)[name], { mode: 0o600 })
    const out = join(base, 'tls')
    const where = ['--url', service.url, '--ca', files.ca, '--key-file', files.key]
    const args = ['get', 'app.example.com', '--out', out, '--watch', ...where]
    const { said } = startRunning(t, [...programOf('cert-service'), ...args])
    for (let n = 1; n <= 5; n += 1)
      t.match(await said('the certificate could not be updated', n), { code, action: /\w/ })

    const start = Date.now()
    writeFileSync(files[file], RIGHT[file])
    await said('a new certificate is in place')
    t.comment(`a certificate ${Date.now() - start} ms after the repair`)
  })

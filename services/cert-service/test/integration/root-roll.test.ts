import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { promisify } from 'node:util'
import {
  createIntermediate,
  createRoot,
  generateKeyPair,
  loadAuthority,
  toPem,
} from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { issue as issueBelow } from '../../../../packages/pki/test/helpers.ts'
import { freePort, startProcess } from '../../../forward-auth/test/helpers/process.ts'
import { leapClock, type Running, start } from '../helpers/app.ts'
import { askOverTls } from '../helpers/client-certificates.ts'

const run = promisify(execFile)

interface Pair {
  readonly certificate: string
  readonly privateKey: string
}

/** A service, and files beside it. */
async function stage(t: Test) {
  const folder = testFolder(t)
  const running = await start(t, {}, { folder, clock: leapClock(Date.now()) })
  const write = (name: string, text: string) => {
    const file = join(folder, name)
    writeFileSync(file, text)
    return file
  }
  const fetchInto = async (name: string, path: string) =>
    write(name, (await running.app.inject(path)).body)
  let names = 0
  const issue = async (more: object = {}): Promise<Pair> => {
    names += 1
    const body = { domain: `n${names}.test`, names: ['localhost.test'], ...more }
    return (await running.call('POST', '/api/certificate', body)).body
  }
  return { running, write, fetchInto, issue }
}

const roll = async (t: Test, { call }: Running, action: string, more: object = {}) => {
  const { status, text } = await call('POST', '/api/ca/roll', { action, ...more })
  t.equal(status, 200, `${action}: ${text.slice(0, 200)}`)
}

async function isAccepted(program: string, ...args: readonly string[]): Promise<boolean> {
  const asked = run(program, args, { timeout: 20_000 })
  asked.child.stdin?.end()
  return asked.then(
    () => true,
    () => false,
  )
}

/** Whether clients that trust these roots accept a chain: OpenSSL offline and over TLS, and Node. */
async function acceptedBy(
  t: Test,
  { certificate, privateKey }: Pair,
  roots: string,
  write: (name: string, text: string) => string,
): Promise<readonly boolean[]> {
  const caFile = write('trusted.pem', roots)
  const chain = write('chain.pem', certificate)
  const server = createServer({ cert: certificate, key: privateKey })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo
  const servername = 'localhost.test'
  const strict = ['-x509_strict', '-purpose', 'sslserver', '-CAfile', caFile, '-no-CApath']
  const accepted = await Promise.all([
    isAccepted('openssl', 'verify', ...strict, '-no-CAstore', '-untrusted', chain, chain),
    isAccepted(
      'openssl',
      ...['s_client', '-connect', `127.0.0.1:${port}`, '-servername', servername],
      ...['-CAfile', caFile, '-no-CApath', '-verify_return_error', '-verify_hostname', servername],
    ),
    new Promise<boolean>((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', servername, ca: roots })
      socket.on('secureConnect', () => resolve(socket.authorized))
      socket.on('error', () => resolve(false))
      socket.on('close', () => resolve(false))
      t.teardown(() => void socket.destroy())
    }),
  ])
  server.close()
  return accepted
}

const ALGORITHMS: Readonly<Record<string, () => Promise<object>>> = {
  'made here': async () => ({}),
  'a root with an RSA key that was brought': async () => {
    const key = await generateKeyPair('rsa3072')
    const next = await createRoot({ commonName: 'Next', now: Date.now(), key })
    return {
      root: toPem('CERTIFICATE', next.certificate),
      key: String(next.key?.export({ type: 'pkcs8', format: 'pem' })),
    }
  },
}

for (const [what, bring] of Object.entries(ALGORITHMS))
  t.test(`who accepts what is served at each stage: ${what}`, async (t) => {
    const { running, write, issue } = await stage(t)
    const rootsOf = async () =>
      (await running.app.inject('/ca/root.pem')).body.match(
        /-----BEGIN[^-]+-----[^-]+-----END[^-]+-----\n/g,
      ) ?? []
    const [a = ''] = await rootsOf()
    const stranger = await createRoot({ commonName: 'Gatehouse Root CA', now: Date.now() })
    const before = await issue()
    await roll(t, running, 'begin', await bring())
    const [, b = ''] = await rootsOf()
    const trusts = {
      A: a,
      B: b,
      'A and B': a + b,
      'B and A': b + a,
      none: toPem('CERTIFICATE', stranger.certificate),
    }
    const look = async (pair: Pair, stage: string, byB: boolean) => {
      for (const [trust, roots] of Object.entries(trusts)) {
        const expected = trust === 'none' ? false : trust === 'B' ? byB : true
        const answers = await acceptedBy(t, pair, roots, write)
        t.strictSame(answers, [expected, expected, expected], `${stage}: trust in ${trust}`)
      }
    }
    await look(before, 'before', false)
    await look(await issue(), 'begun', false)
    await roll(t, running, 'use', { now: true })
    const crossed = await issue()
    await look(crossed, 'used', true)
    await roll(t, running, 'back')
    await look(await issue(), 'back', false)
    await look(crossed, 'served on after it went back', true)
    await roll(t, running, 'use', { now: true })
    await roll(t, running, 'finish', { force: true })
    await look(await issue(), 'finished', true)
  })

t.test(
  'a second roll serves who trusts either of its roots, and not who trusts only the first',
  async (t) => {
    const { running, write, issue } = await stage(t)
    const rootOf = async () => (await running.app.inject('/ca/root.pem')).body
    const a = await rootOf()
    const chains: Pair[] = []
    const roots = [a]
    for (let n = 0; n < 2; n += 1) {
      await roll(t, running, 'begin')
      await roll(t, running, 'use', { now: true })
      chains.push(await issue())
      await roll(t, running, 'finish', { force: true })
      roots.push(await rootOf())
    }
    const [first, second] = chains as [Pair, Pair]
    const [, b = '', c = ''] = roots
    for (const [pair, trusted, expected] of [
      [first, a, true],
      [first, b, true],
      [second, a, false],
      [second, b, true],
      [second, c, true],
      [second, a + b + c, true],
    ] as const)
      t.strictSame(await acceptedBy(t, pair, trusted, write), [expected, expected, expected])
  },
)

t.test('servers verify clients by lists that were out before the new root signs', async (t) => {
  const { running, write, fetchInto, issue } = await stage(t)
  const client = () =>
    issue({ domain: 'agent.test', names: [], profile: 'client', keyType: 'p384' })
  const old = await client()
  const files = async (name: string) => [
    await fetchInto(`${name}.pem`, '/ca/clients.pem'),
    await fetchInto(`${name}.crl.pem`, '/ca/clients.crl.pem'),
  ]
  const [oldRoots = '', oldLists = ''] = await files('old')
  await roll(t, running, 'begin')
  const [bothRoots = '', bothLists = ''] = await files('both')
  await roll(t, running, 'use', { now: true })
  const { body } = await running.call('POST', '/api/certificate', {
    ...{ domain: 'other.test', profile: 'client' },
  })
  const next: Pair = body
  const isVerified = ({ certificate }: Pair, roots: string, lists: string) => {
    const chain = write('client.pem', certificate)
    const checked = ['-CRLfile', lists, '-crl_check_all', '-x509_strict', '-purpose', 'sslclient']
    const anchors = ['-CAfile', roots, '-no-CApath', '-no-CAstore']
    return isAccepted('openssl', 'verify', ...checked, ...anchors, '-untrusted', chain, chain)
  }
  t.equal(await isVerified(old, oldRoots, oldLists), true)
  t.equal(await isVerified(old, bothRoots, bothLists), true)
  t.equal(await isVerified(next, bothRoots, bothLists), true)
  t.equal(await isVerified(next, oldRoots, bothLists), true, 'today’s lists with the old roots')
  t.equal(await isVerified(next, oldRoots, oldLists), false, 'there is no list of the new root')
  await roll(t, running, 'finish', { force: true })
  const [newRoots = '', newLists = ''] = await files('new')
  t.equal(await isVerified(next, newRoots, newLists), true)
  t.equal(await isVerified(next, oldRoots, newLists), true, 'the list of the old root goes on')
  t.equal(await isVerified(old, newRoots, newLists), false, 'that root is no longer to be trusted')
})

t.test('nginx admits clients of either root by the files that it has fetched', async (t) => {
  const { running, write, fetchInto, issue } = await stage(t)
  const client = (domain: string): Promise<Pair> =>
    running.call('POST', '/api/certificate', { domain, profile: 'client' }).then(({ body }) => body)
  const old = await client('old.test')
  const before = await fetchInto('before.pem', '/ca/clients.pem')
  await roll(t, running, 'begin')
  const both = await fetchInto('both.pem', '/ca/clients.pem')
  const lists = await fetchInto('lists.pem', '/ca/clients.crl.pem')
  const server = await issue()
  const cert = write('server.pem', server.certificate)
  const key = write('server.key', server.privateKey)
  const ports = [await freePort(), await freePort()]
  const [port = 0] = ports
  const serverOf = (roots: string, n: number) => `server {
    listen 127.0.0.1:${ports[n]} ssl; ssl_certificate ${cert}; ssl_certificate_key ${key};
    ssl_client_certificate ${roots}; ssl_crl ${lists}; ssl_verify_client on; ssl_verify_depth 2;
    location / { return 200 $ssl_client_verify; } }`
  const file = write(
    'nginx.conf',
    `daemon off; error_log stderr; events {} http { access_log off;
    ${[before, both].map(serverOf).join('\n')} }`,
  )
  const { folder } = running
  const args = ['-e', 'stderr', '-c', file, '-g', `pid ${folder}/nginx.pid;`]
  await startProcess(t, { command: 'nginx', args, folder, port })
  await roll(t, running, 'use', { now: true })
  const next = await client('next.test')
  t.equal(next.certificate.match(/BEGIN CERTIFICATE/g)?.length, 3)
  for (const [pair, what] of [
    [old, 'before'],
    [next, 'with the cross certificate'],
  ] as const)
    for (const [n, each] of ports.entries()) {
      const tls = { cert: pair.certificate, key: pair.privateKey }
      const { status, body } = await askOverTls(each, '/', tls)
      t.match([status, body], [200, 'SUCCESS'], `${what}: ${n === 0 ? 'old roots' : 'both'}`)
    }
})

t.test(
  'whoever has the key of the old root deceives nobody who trusts the new one alone',
  async (t) => {
    const { running, write, issue } = await stage(t)
    const { store } = running.service
    const [root] = await store
      .listAuthorities()
      .then((rows) => rows.filter(({ role }) => role === 'root'))
    const pkcs8 = await running.app.keyring.openAny(root!.sealedKey!, root!.certificate)
    await roll(t, running, 'begin')
    const now = Date.now()
    const { certificate } = root!
    const stolen = loadAuthority({ certificate, key: toPem('PRIVATE KEY', pkcs8), now })
    const theirs = await createIntermediate({ root: stolen, commonName: 'Theirs', now })
    const { der, key } = issueBelow(theirs, ['localhost.test'], { now })
    const rows = await store.listAuthorities()
    const cross = rows.find(({ role }) => role === 'cross')!.certificate
    const [, next = ''] = (await running.app.inject('/ca/root.pem')).body.split(
      /(?<=END CERTIFICATE-----\n)/,
    )
    for (const chain of [
      [der, theirs.certificate],
      [der, theirs.certificate, cross],
      [der, theirs.certificate, certificate, cross],
    ]) {
      const pair = {
        certificate: chain.map((part) => toPem('CERTIFICATE', part)).join(''),
        privateKey: toPem('PRIVATE KEY', key.pkcs8),
      }
      t.strictSame(await acceptedBy(t, pair, next, write), [false, false, false])
    }
    await roll(t, running, 'use', { now: true })
    t.strictSame(await acceptedBy(t, await issue(), next, write), [true, true, true])
  },
)

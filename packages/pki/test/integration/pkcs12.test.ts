import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect, createServer } from 'node:tls'
import { promisify } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import {
  createPkcs12,
  createTruststore,
  fromPem,
  generateKeyPair,
  KEY_TYPES,
  toPem,
} from '../../src/index.ts'
import { issue, makeAuthorities } from '../helpers.ts'

const now = Date.now()
const folder = t.testdir({})
const run = promisify(execFile)
const PASSWORD = 'correct horse ~ "battery"'
const WRONG = 'wrong horse'
const DOMAIN = 'app.example.com'

const { root, intermediate } = await makeAuthorities({ now })
const other = await makeAuthorities({ now })
const roots = [root.certificate, other.root.certificate]
const pairs = await Promise.all(
  KEY_TYPES.map(async (type) => {
    const key = await generateKeyPair(type)
    const certificate = issue(intermediate, [DOMAIN], { now, key }).der
    return { type, key, certificate, chain: [intermediate.certificate] }
  }),
)
const files = pairs.map(({ type, key, certificate, chain }) => {
  const file = join(folder, `${type}.p12`)
  const keystore = { privateKey: key.pkcs8, certificate, chain, friendlyName: DOMAIN }
  writeFileSync(file, createPkcs12({ ...keystore, password: PASSWORD }))
  return file
})
const truststore = join(folder, 'truststore.p12')
writeFileSync(truststore, createTruststore({ roots, password: PASSWORD }))
const SUBJECTS = [`CN=${DOMAIN}`, 'CN=Test Intermediate']

/** Runs a program; what it prints to both outputs, and whether it ended well. */
const tried = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  run(program, args, { env: { ...process.env, ...env }, timeout: 60_000 }).then(
    ({ stdout, stderr }) => ({ isRead: true, output: stdout + stderr }),
    ({ stdout, stderr, message }) => ({ isRead: false, output: `${stdout}${stderr}${message}` }),
  )

const openssl = (file: string, password: string, ...args: string[]) =>
  tried('openssl', ['pkcs12', '-in', file, '-passin', 'env:PASSWORD', '-noenc', ...args], {
    PASSWORD: password,
  })

t.test('OpenSSL', async (t) => {
  for (const [i, { type, key, certificate, chain }] of pairs.entries()) {
    const { output } = await openssl(files[i] ?? '', PASSWORD)
    t.same(fromPem(output, 'PRIVATE KEY'), [key.pkcs8], type)
    t.same(fromPem(output, 'CERTIFICATE'), [certificate, ...chain], type)
    t.match(await openssl(files[i] ?? '', WRONG), { isRead: false, output: /invalid password/ })
  }
  const { output } = await openssl(truststore, PASSWORD)
  t.same(fromPem(output, 'CERTIFICATE'), roots)
  t.match(await openssl(truststore, WRONG), { isRead: false, output: /invalid password/ })
})

t.test('OpenSSL reads key and chain back, whatever is written', async (t) => {
  const character = fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code))
  const file = join(folder, 'random.p12')
  const property = fc.asyncProperty(
    fc.constantFrom(...pairs),
    fc.string({ unit: character, minLength: 1, maxLength: 100 }),
    fc.string({ maxLength: 100 }),
    fc.subarray([intermediate.certificate, ...roots]),
    async ({ key, certificate }, password, friendlyName, chain) => {
      const keystore = { privateKey: key.pkcs8, certificate, chain, password, friendlyName }
      writeFileSync(file, createPkcs12(keystore))
      const { output } = await openssl(file, password)
      const certificates = fromPem(output, 'CERTIFICATE')
      return (
        fromPem(output, 'PRIVATE KEY')[0]?.equals(key.pkcs8) === true &&
        Buffer.concat(certificates).equals(Buffer.concat([certificate, ...chain]))
      )
    },
  )
  await t.resolves(fc.assert(property, { numRuns: 40 }))
})

/** The folder of each JDK on this machine. */
const jdks = new Set(globSync('/usr/lib/jvm/*/bin/keytool').map((file) => realpathSync(file)))
t.not(jdks.size, 0, 'there is a JDK')
for (const keytool of jdks)
  t.test(`Java, ${keytool}`, async (t) => {
    const program = join(import.meta.dirname, 'Keystores.java')
    const java = keytool.replace(/keytool$/, 'java')
    const { output } = await tried(java, [program, PASSWORD, truststore, ...files])
    const line = (algorithm: string, end: string) =>
      `${DOMAIN} ${algorithm} < ${SUBJECTS.join(' < ')} ${end}`
    const algorithms = { p256: 'EC', p384: 'EC', ed25519: 'EdDSA' } as Record<string, string>
    const lines = pairs.map(({ type }) =>
      line(algorithms[type] ?? 'RSA', type === 'ed25519' ? 'not served' : 'hello'),
    )
    const all = ['PKCS12', 'JKS'].flatMap((type) =>
      [`truststore ${roots.length}`, ...lines].map((said) => `${type} ${said}`),
    )
    t.strictSame(output.trim().split('\n'), all)
    const refused = await tried(java, [program, WRONG, truststore, ...files])
    t.match(refused.output, /^PKCS12 .*password was incorrect\nJKS .*password was incorrect\n$/)

    for (const type of ['PKCS12', 'JKS']) {
      const list = (file: string, password: string) =>
        tried(keytool, ['-list', '-keystore', file, '-storetype', type, '-storepass', password])
      for (const file of files)
        t.match((await list(file, PASSWORD)).output, /app\.example\.com, .*PrivateKeyEntry/)
      const trusted = (await list(truststore, PASSWORD)).output
      t.equal(trusted.match(/trustedCertEntry/g)?.length, roots.length)
      t.match(await list(truststore, WRONG), { isRead: false, output: /password was incorrect/ })
    }
  })

t.test('GnuTLS', async (t) => {
  const certtool = (file: string, password: string) =>
    tried('certtool', ['--p12-info', '--inder', '--infile', file, '--password', password])
  for (const [i, { type }] of pairs.entries()) {
    const { output } = await certtool(files[i] ?? '', PASSWORD)
    t.equal(output.match(/BEGIN ENCRYPTED PRIVATE KEY/g)?.length, 1, type)
    t.equal(output.match(/BEGIN CERTIFICATE/g)?.length, SUBJECTS.length, type)
    t.match(await certtool(files[i] ?? '', WRONG), { isRead: false }, type)
  }
  const { output } = await certtool(truststore, PASSWORD)
  t.equal(output.match(/BEGIN CERTIFICATE/g)?.length, roots.length)
})

t.test('NSS', async (t) => {
  for (const [i, { type }] of pairs.entries()) {
    // The NSS of Debian has no keys of this type.
    if (type === 'ed25519') continue
    const database = `sql:${folder}/nss-${type}`
    mkdirSync(join(folder, `nss-${type}`))
    await run('certutil', ['-N', '--empty-password', '-d', database])
    const read = (password: string) =>
      tried('pk12util', ['-i', files[i] ?? '', '-d', database, '-W', password])
    t.match(await read(WRONG), { isRead: false, output: /SEC_ERROR_BAD_PASSWORD/ }, type)
    t.match(await read(PASSWORD), { isRead: true, output: /IMPORT SUCCESSFUL/ }, type)
    const { stdout } = await run('certutil', ['-L', '-d', database])
    t.match(stdout, /app\.example\.com +u,u,u/, `the key belongs to the certificate, ${type}`)
    t.match(stdout, /Test Intermediate/, type)
  }
})

t.test('Node', async (t) => {
  for (const [i, { type }] of pairs.entries()) {
    const pfx = readFileSync(files[i] ?? '')
    const server = createServer({ pfx, passphrase: PASSWORD }, (socket) => void socket.end('hello'))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    const ca = toPem('CERTIFICATE', root.certificate)
    t.equal(await text(connect({ host: '127.0.0.1', port, servername: DOMAIN, ca })), 'hello', type)
    server.close()
    t.throws(() => createServer({ pfx, passphrase: WRONG }), /mac verify failure/, type)
  }
})

const PYTHON = '/usr/bin/python3'
t.test('Python', { skip: existsSync(PYTHON) ? false : 'needs Python' }, async (t) => {
  const program = join(import.meta.dirname, 'read-pkcs12.py')
  for (const [i, { type }] of pairs.entries()) {
    const { output } = await tried(PYTHON, [program, files[i] ?? '', PASSWORD])
    t.match(output, new RegExp(`^_\\w+PrivateKey ${SUBJECTS.join(' ')}\n$`), type)
    const refused = await tried(PYTHON, [program, files[i] ?? '', WRONG])
    t.match(refused, { isRead: false, output: /Invalid password/ }, type)
  }
  const { output } = await tried(PYTHON, [program, truststore, PASSWORD])
  t.equal(output, 'no key CN=Test Root CN=Test Root\n')
})

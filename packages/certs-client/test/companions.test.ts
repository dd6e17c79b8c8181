import { readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { createRoot, createTruststore, fromPem, KEY_TYPES, toPem } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { DAY, type Running, start } from '../../../services/cert-service/test/helpers/app.ts'
import { companionFiles, readPassword } from '../src/companions.ts'
import { getOnce } from '../src/keep.ts'
import { type ClientOptions, clientOf, type Fetched, injected, listAll } from './helpers/client.ts'

const FILES = ['bundle.p12', 'truststore.p12']

/** A client that writes PKCS#12 files, whose password and roots are in files of the test. */
function open(running: Running, options: ClientOptions = {}) {
  const passwordFile = join(running.folder, 'password')
  const rootFile = join(running.folder, 'root.pem')
  writeFileSync(passwordFile, 'first password\n', { mode: 0o600 })
  writeFileSync(rootFile, toPem('CERTIFICATE', running.service.ca.root() as Uint8Array))
  const chainRoots = { find: () => readFileSync(rootFile, 'utf8'), areNamed: () => true }
  const fetch = injected(running)
  const reloads = join(running.folder, 'reloads')
  writeFileSync(reloads, '')
  const client = clientOf(running, {
    ...{ reload: `echo >> ${reloads}`, fetch, ...options },
    folder: { chainRoots, pkcs12: { passwordFile, friendlyName: 'a.test' }, ...options.folder },
  })
  const folder = join(client.dir, 'a.test')
  return {
    ...{ ...client, folder, passwordFile, rootFile },
    contentOf: (file: string) => readFileSync(join(folder, file)),
    version: () => readlinkSync(folder),
    reloads: () => readFileSync(reloads, 'utf8').length,
    log: fetch.log as readonly Fetched[],
  }
}

function opens(t: Test, pfx: Buffer, passphrase: string, what: string) {
  t.doesNotThrow(() => createSecureContext({ pfx, passphrase }), what)
}

t.test('the files are beside those in PEM, and belong to them', async (t) => {
  for (const csr of [false, true])
    for (const keyType of KEY_TYPES) {
      const running = await start(t)
      const { get, place, folder, contentOf } = open(running, { csr, keyType })
      await getOnce(get)
      t.strictSame(listAll(folder), [
        ...['bundle.p12', 'ca.pem', 'combined.pem', 'fullchain.pem', 'privkey.pem', 'renewal.json'],
        'truststore.p12',
      ])
      opens(t, contentOf('bundle.p12'), 'first password', keyType)
      const placed = await place.read()
      t.match(placed, { keyType, isOwnKey: csr })
      const root = running.service.ca.root() as Uint8Array
      const truststore = createTruststore({ roots: [root], password: 'first password' })
      t.ok(contentOf('truststore.p12').equals(truststore))
    }
})

t.test('mode and owner are those of the other files, also later', async (t) => {
  const running = await start(t)
  const owner = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined
  for (const mode of [0o600, 0o640, 0o400]) {
    const { get, folder } = open(running, { folder: { mode, owner } })
    await getOnce(get)
    for (const file of [...FILES, 'privkey.pem']) {
      const stats = statSync(join(folder, file))
      t.equal(stats.mode & 0o777, mode, file)
      if (owner) t.equal(stats.uid, owner.uid, file)
    }
  }
})

t.test('the files are written anew when something changes, and only then', async (t) => {
  const running = await start(t)
  const client = open(running)
  const { get, version, reloads, contentOf, passwordFile, rootFile, folder } = client
  const other = await createRoot({ commonName: 'Another', now: running.clock.now() })
  const rows: readonly [what: string, change: () => unknown, isNew: boolean, password: string][] = [
    ['the first time', () => {}, true, 'first password'],
    ['nothing', () => {}, false, 'first password'],
    [
      'white space',
      () => writeFileSync(passwordFile, ' first password\n\n'),
      false,
      'first password',
    ],
    ['the password', () => writeFileSync(passwordFile, 'second'), true, 'second'],
    ['nothing', () => {}, false, 'second'],
    [
      'the roots',
      () => writeFileSync(rootFile, toPem('CERTIFICATE', other.certificate), { flag: 'a' }),
      true,
      'second',
    ],
    ['a file is gone', () => rmSync(join(folder, 'bundle.p12')), true, 'second'],
    ['a file is changed', () => writeFileSync(join(folder, 'truststore.p12'), 'x'), true, 'second'],
    ['nothing', () => {}, false, 'second'],
    ['the certificate', () => running.clock.advance(5 * DAY), true, 'second'],
  ]
  let count = 0
  let pem = ''
  for (const [what, change, isNew, password] of rows) {
    const prior = count === 0 ? '' : version()
    await change()
    await getOnce(get)
    t.equal(version() !== prior, isNew, what)
    if (isNew) count += 1
    t.equal(reloads(), count, `reloaded: ${what}`)
    opens(t, contentOf('bundle.p12'), password, what)
    const chain = contentOf('fullchain.pem').toString()
    t.equal(chain === pem, what !== 'the first time' && what !== 'the certificate', 'the chain')
    pem = chain
  }
  const roots = fromPem(readFileSync(rootFile, 'utf8'))
  t.equal(roots.length, 2)
  t.ok(contentOf('truststore.p12').equals(createTruststore({ roots, password: 'second' })))
})

t.test('a key that was made here stays when the password changes', async (t) => {
  const running = await start(t)
  const { get, contentOf, passwordFile } = open(running, { csr: true })
  await getOnce(get)
  const found = [contentOf('privkey.pem'), contentOf('fullchain.pem')]
  writeFileSync(passwordFile, 'second')
  await getOnce(get)
  t.same([contentOf('privkey.pem'), contentOf('fullchain.pem')], found)
  opens(t, contentOf('bundle.p12'), 'second', 'and the new password counts')
})

t.test(
  'while the service names no roots, those in place stay, and a new certificate has its own',
  async (t) => {
    const running = await start(t)
    const root = toPem('CERTIFICATE', running.service.ca.root() as Uint8Array)
    const answer = { pem: `${root}${root}`, areNamed: true }
    const chainRoots = { find: () => answer.pem, areNamed: () => answer.areNamed }
    const { get, contentOf, folder, version } = open(running, { folder: { chainRoots } })
    await getOnce(get)
    const prior = version()
    Object.assign(answer, { pem: root, areNamed: false })
    await getOnce(get)
    t.equal(version(), prior, 'what failed changes nothing')
    t.equal(contentOf('ca.pem').toString(), `${root}${root}`)
    rmSync(folder)
    await getOnce(get)
    t.equal(contentOf('ca.pem').toString(), root, 'no version is without the file')
    answer.areNamed = true
    const last = version()
    await getOnce(get)
    t.equal(version(), last, 'and the answer is no other')
  },
)

t.test('without roots there is no truststore', async (t) => {
  const running = await start(t)
  const { passwordFile } = open(running)
  const pkcs12 = { passwordFile, friendlyName: 'a.test' }
  const { get, folder } = open(running, {
    folder: { chainRoots: { find: () => undefined, areNamed: () => true }, pkcs12 },
  })
  await getOnce(get)
  t.ok(listAll(folder).includes('bundle.p12'))
  for (const file of ['ca.pem', 'truststore.p12']) t.notOk(listAll(folder).includes(file))
})

t.test('whoever does not ask for the files gets none, and leaves those of others', async (t) => {
  const running = await start(t)
  const { get, folder, version } = open(running)
  await getOnce(get)
  const found = version()
  const { get: other } = clientOf(running)
  await getOnce(other)
  t.equal(version(), found)
  t.ok(listAll(folder).includes('bundle.p12'))
  const names = { roots: 'ca.pem', keystore: 'bundle.p12' }
  t.strictSame(companionFiles((await get.place.read()) as never, names, {}), [])
})

t.test('a password that cannot be used is refused, and everything stays as it was', async (t) => {
  const running = await start(t)
  const { get, version, passwordFile, log } = open(running)
  const rows: readonly [content: string, message: RegExp][] = [
    ['', /is empty/],
    ['\n', /is empty/],
    ['one\ntwo', /something else than one/],
    ['Käse', /something else than one/],
    ['tab\tbed', /something else than one/],
    ['x'.repeat(70_000), /too large/],
  ]
  for (const [content, message] of rows) {
    writeFileSync(passwordFile, content)
    const refusal = { code: 'CERT_CLIENT_CREDENTIALS', message, action: /p12-password-file/ }
    t.throws(() => readPassword(passwordFile), refusal)
    writeFileSync(passwordFile, 'good')
    await getOnce(get)
    const found = version()
    const asked = log.length
    writeFileSync(passwordFile, content)
    await t.rejects(getOnce(get), refusal)
    t.equal(version(), found)
    t.equal(log.length, asked, 'the service was not asked')
  }
  rmSync(passwordFile)
  await t.rejects(getOnce(get), { code: 'CERT_CLIENT_CREDENTIALS', message: /ENOENT/ })
})

t.test('blanks within a password and all printable characters count', async (t) => {
  const running = await start(t)
  const { get, passwordFile, contentOf } = open(running)
  for (const password of ['two words', '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~', 'x'.repeat(500)]) {
    writeFileSync(passwordFile, password)
    await getOnce(get)
    opens(t, contentOf('bundle.p12'), password, password)
  }
})

import {
  chmodSync,
  cpSync,
  linkSync,
  lstatSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { DAY, start } from '../../../services/cert-service/test/helpers/app.ts'
import type { Placed } from '../src/certificate.ts'
import { certificateFolder, type FolderOptions } from '../src/folder.ts'
import { getOnce } from '../src/keep.ts'
import { clientOf, listAll, lookAt } from './helpers/client.ts'
import { before, failAt, noteWrites } from './helpers/file-calls.ts'

const running = await start(t)
const { get, place } = clientOf(running)

/** A certificate, and its successor. */
async function issue(): Promise<Placed> {
  await getOnce(get)
  const placed = await place.read()
  if (!placed) throw new Error('no certificate')
  return placed
}
const old = await issue()
await running.clock.advance(5 * DAY)
const renewed = await issue()

const OPTIONS = { domain: 'a.test', mode: 0o600, owner: undefined, isOwnKey: false }

/** An empty folder for certificates, in a folder of the test. */
function open(t: Test, options: Partial<FolderOptions> = {}) {
  const base = testFolder(t)
  const dir = join(base, 'out')
  const folder = certificateFolder({ ...OPTIONS, dir, ...options })
  folder.prepare()
  return { base, dir, folder }
}

/** Everything below a path: what it is, its mode, and what is in it. */
function contentOf(path: string): unknown {
  const stats = lstatSync(path)
  if (stats.isSymbolicLink()) return readlinkSync(path)
  if (!stats.isDirectory()) return [stats.mode, readFileSync(path, 'utf8')]
  return [stats.mode, listAll(path).map((name) => [name, contentOf(join(path, name))])]
}

t.test('what took the place of the link is not read, changed, replaced or removed', async (t) => {
  /** Puts something where the link was; `version` is the folder that it led to. */
  const intruders: Record<string, (link: string, version: string, base: string) => void> = {
    'a folder': (link, version) => cpSync(version, link, { recursive: true }),
    'a file': (link) => writeFileSync(link, 'mine'),
    'a link to another folder beside it': (link, version, base) => {
      renameSync(version, join(base, 'out/mine'))
      symlinkSync('mine', link)
    },
    'a link to a folder with a similar name': (link, version, base) => {
      renameSync(version, join(base, `out/my${basename(version)}`))
      symlinkSync(`my${basename(version)}`, link)
    },
    'a link to a folder elsewhere': (link, version, base) => {
      renameSync(version, join(base, 'mine'))
      symlinkSync('../mine', link)
    },
    'a link that leads elsewhere by way of one of ours': (link, version, base) => {
      cpSync(version, join(base, 'mine'), { recursive: true })
      symlinkSync(`${basename(version)}/../../mine`, link)
    },
    'an absolute link to the very folder': (link, version) => symlinkSync(version, link),
  }
  for (const [what, intrude] of Object.entries(intruders)) {
    const { base, dir, folder } = open(t)
    folder.publish(old, { needsReload: true })
    folder.publish(renewed, { needsReload: true })
    const version = join(dir, readlinkSync(folder.path))
    rmSync(folder.path)
    intrude(folder.path, version, base)
    const found = contentOf(base)
    // With another mode, which is not to be given to the files of others.
    const later = certificateFolder({ ...OPTIONS, dir, mode: 0o640 })
    const uses: Record<string, () => unknown> = {
      prepare: () => later.prepare(),
      read: () => later.read(),
      publish: () => later.publish(old, { needsReload: false }),
      adjust: () => later.adjust(),
      isUntidy: () => later.isUntidy(),
      tidy: () => later.tidy(),
    }
    for (const [name, use] of Object.entries(uses))
      t.throws(use, { code: 'CERT_CLIENT_FILES', message: /a\.test is in the way/ }, name)
    t.strictSame(contentOf(base), found, what)
  }
})

t.test('a failure after the link was turned leaves the folder that it leads to', (t) => {
  const steps = (() => {
    const { folder } = open(t)
    const stop = failAt(t, Number.POSITIVE_INFINITY)
    folder.publish(old, { needsReload: true })
    return stop()
  })()
  // The folder of all is opened and synchronised last.
  for (const failing of [steps - 1, steps])
    for (const earlier of [[], [old]]) {
      const { dir, folder } = open(t)
      for (const pair of earlier) folder.publish(pair, { needsReload: false })
      const stop = failAt(t, failing)
      t.throws(() => folder.publish(renewed, { needsReload: true }), {
        code: 'CERT_CLIENT_FILES',
        message: failing === steps ? /fsyncSync/ : /openSync/,
      })
      stop()
      t.equal(lookAt(dir, 'a.test').serialNumber, renewed.serialNumber)
      t.ok(folder.isReloadPending(), 'and the next run has it loaded')
      folder.tidy()
      t.equal(lookAt(dir, 'a.test').serialNumber, renewed.serialNumber)
    }
  t.end()
})

t.test('a failure before that leaves nothing of the new files', (t) => {
  const { dir, folder } = open(t)
  folder.publish(old, { needsReload: false })
  const found = contentOf(dir)
  for (let failing = 1; ; failing += 1) {
    const stop = failAt(t, failing)
    let error: unknown
    try {
      folder.publish(renewed, { needsReload: true })
    } catch (thrown) {
      error = thrown
    }
    stop()
    if (lookAt(dir, 'a.test').serialNumber === renewed.serialNumber) {
      t.ok(failing > 20, 'all steps were tried')
      break
    }
    t.match(error, { code: 'CERT_CLIENT_FILES', message: /EIO/ })
    // The link that is turned next time.
    rmSync(join(dir, '.a.test@link'), { force: true })
    t.strictSame(contentOf(dir), found, `step ${failing}`)
  }
  t.end()
})

t.test('a step that was broken off does not stop the next try', (t) => {
  const { dir, folder } = open(t, { isOwnKey: true })
  symlinkSync('.a.test@gone', join(dir, '.a.test@link'))
  folder.publish(old, { needsReload: false })
  t.equal(lookAt(dir, 'a.test').serialNumber, old.serialNumber)
  writeFileSync(join(dir, '.a.test@key.new'), 'half a k')
  folder.keepKey('a key')
  t.equal(folder.keptKey(), 'a key')
  t.end()
})

t.test('what is put in place is on the disk before anything leads to it', (t) => {
  const { dir, folder } = open(t, { isOwnKey: true })
  const stop = noteWrites(t, dir)
  folder.publish(old, { needsReload: true })
  const files = ['privkey.pem', 'fullchain.pem', 'combined.pem', 'renewal.json', 'reload-pending']
  t.strictSame(stop(), [
    ...files.flatMap((file) => [`write VERSION/${file}`, `sync VERSION/${file}`]),
    'sync VERSION',
    'rename .a.test@link to a.test',
    'sync .',
  ])
  const stopKey = noteWrites(t, dir)
  folder.keepKey('a key')
  t.strictSame(stopKey(), [
    'write .a.test@key.new',
    'sync .a.test@key.new',
    'rename .a.test@key.new to .a.test@key',
    'sync .',
  ])
  t.end()
})

t.test('a private key that waits stays until its certificate is in place', (t) => {
  const { dir, folder } = open(t, { isOwnKey: true })
  const rows: readonly [what: string, step: () => void, waits: boolean][] = [
    ['before the first certificate', () => folder.keepKey(old.privateKey), true],
    [
      'its certificate is there',
      () => folder.publish({ ...old, isOwnKey: true }, { needsReload: false }),
      false,
    ],
    ['for the next one', () => folder.keepKey(renewed.privateKey), true],
    [
      'another is renewed',
      () => folder.publish({ ...old, isOwnKey: true }, { needsReload: false }),
      true,
    ],
    ['its files are gone', () => rmSync(join(folder.path, 'privkey.pem')), true],
    ['the link is gone', () => rmSync(folder.path), true],
    [
      'its own is there',
      () => folder.publish({ ...renewed, isOwnKey: true }, { needsReload: false }),
      false,
    ],
  ]
  for (const [what, step, waits] of rows) {
    step()
    const kept = folder.keptKey()
    for (const _ of [1, 2]) folder.tidy()
    t.equal(folder.keptKey(), waits ? kept : undefined, what)
    t.equal(folder.isUntidy(), false, what)
  }
  folder.keepKey(old.privateKey)
  certificateFolder({ ...OPTIONS, dir }).tidy()
  t.equal(folder.keptKey(), undefined, 'a client that makes no keys keeps none')
  t.end()
})

t.test('a link in place of a file gives nobody the file that it leads to', (t) => {
  // Whom `--owner` names may put one there.
  const owner = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined
  const rows: readonly [name: string, isLate: boolean][] = [
    ['privkey.pem', false],
    ['privkey.pem', true],
    ['fullchain.pem', false],
    ['combined.pem', false],
    ['renewal.json', false],
  ]
  for (const [name, isLate] of rows) {
    const { base, dir, folder } = open(t)
    folder.publish(old, { needsReload: false })
    const secret = join(base, 'secret')
    writeFileSync(secret, 'mine', { mode: 0o600 })
    const known = statSync(secret)
    const swap = () => {
      rmSync(join(folder.path, name))
      symlinkSync(secret, join(folder.path, name))
    }
    const wider = certificateFolder({ ...OPTIONS, dir, mode: 0o640, owner })
    if (isLate) {
      wider.adjust()
      chmodSync(join(folder.path, name), 0o600)
      before(t, 'openSync', swap)
      t.throws(() => wider.adjust(), { code: 'CERT_CLIENT_FILES', message: /ELOOP/ })
    } else {
      swap()
      wider.adjust()
    }
    const { mode, uid, gid } = statSync(secret)
    t.strictSame([mode, uid, gid], [known.mode, known.uid, known.gid], name)
    t.equal(wider.read(), undefined, 'it is fetched anew')
  }
  const { base, dir, folder } = open(t)
  folder.publish(old, { needsReload: false })
  rmSync(join(folder.path, 'privkey.pem'))
  const other = join(base, 'other')
  writeFileSync(other, 'mine', { mode: 0o600 })
  linkSync(other, join(folder.path, 'privkey.pem'))
  certificateFolder({ ...OPTIONS, dir, mode: 0o640, owner }).adjust()
  t.equal(statSync(other).mode & 0o777, 0o600, 'nor does a second name of it')
  rmSync(other)
  rmSync(folder.path)
  folder.tidy()
  before(t, 'openSync', () => symlinkSync('../secret', join(dir, '.a.test@key.new')))
  t.throws(() => folder.keepKey('a key'), { code: 'CERT_CLIENT_FILES', message: /EEXIST/ })
  t.strictSame(listAll(base), ['out'], 'and none is written through a link')
  t.end()
})

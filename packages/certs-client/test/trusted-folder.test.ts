import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { DAY, start } from '../../../services/cert-service/test/helpers/app.ts'
import { certificateFolder } from '../src/folder.ts'
import { getOnce } from '../src/keep.ts'
import { clientOf } from './helpers/client.ts'
import { act, actAs } from './helpers/other-user.ts'

/** Two users that no machine of a test has anything of. */
const [ADA, EVE] = [61_001, 61_002]
const skip = process.getuid?.() === 0 ? false : 'only root can be two users'

/** A folder that every user may enter, below the `/tmp` of all. */
function commonFolder(t: Test): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'gh-users-')))
  chmodSync(folder, 0o755)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Makes folders below a base, each with its owner and mode, and links to a target. */
type Made = readonly [path: string, owner: number, what: number | string]
function make(base: string, all: readonly Made[]): void {
  for (const [name, owner, what] of all) {
    const path = join(base, name)
    if (typeof what === 'string') {
      symlinkSync(what.replace('BASE', base), path)
      lchownSync(path, owner, owner)
      continue
    }
    mkdirSync(path)
    chmodSync(path, what)
    chownSync(path, owner, owner)
  }
}

const FOLDERS: readonly (readonly [
  made: readonly Made[],
  asked: string,
  told: Readonly<Partial<Record<'root' | 'ada', 'done' | RegExp>>>,
])[] = [
  [
    [['own', ADA, 0o700]],
    'own/tls',
    {
      ada: 'done',
      root: /own belongs to user 61001.*only root may change, or run the client as that user/,
    },
  ],
  [[['roots', 0, 0o755]], 'roots/tls', { ada: 'done', root: 'done' }],
  [[['eves', EVE, 0o755]], 'eves', { ada: /belongs to user 61002/, root: /belongs to user 61002/ }],
  [
    [
      ['eves', EVE, 0o755],
      ['eves/adas', ADA, 0o755],
    ],
    'eves/adas',
    { ada: /eves belongs to user 61002.*Choose a folder that only you and root may change/ },
  ],
  [[['all', ADA, 0o777]], 'all', { ada: /mode 777.*chmod go-w/, root: /belongs to user/ }],
  [[['all', 0, 0o777]], 'all/tls', { ada: /mode 777/, root: /mode 777/ }],
  [[['group', 0, 0o775]], 'group', { ada: /mode 775/, root: /mode 775.*only root may change/ }],
  [
    [
      ['shared', 0, 0o1777],
      ['shared/adas', ADA, 0o755],
    ],
    'shared/adas',
    { ada: 'done', root: /adas belongs to/ },
  ],
  [[['shared', 0, 0o1777]], 'shared/new', { ada: 'done', root: 'done' }],
  [[['shared', 0, 0o1777]], 'shared', { ada: /mode 1777/, root: /mode 1777/ }],
  [[['shared', EVE, 0o1777]], 'shared/new', { ada: /user 61002/, root: /user 61002/ }],
  [
    [
      ['real', 0, 0o755],
      ['link', 0, 'real'],
    ],
    'link/tls',
    { ada: 'done', root: 'done' },
  ],
  [
    [
      ['real', 0, 0o755],
      ['real/deep', 0, 0o755],
      ['link', 0, 'BASE/real/deep/../deep'],
    ],
    'link/tls',
    { ada: 'done', root: 'done' },
  ],
  [
    [
      ['eves', EVE, 0o755],
      ['link', 0, 'eves'],
    ],
    'link',
    { ada: /eves belongs/, root: /eves belongs/ },
  ],
  [
    [
      ['eves', EVE, 0o755],
      ['eves/out', 0, 0o755],
      ['in', 0, 'eves/out'],
    ],
    'in/tls',
    { ada: /eves belongs/, root: /eves belongs/ },
  ],
  [
    [
      ['shared', 0, 0o1777],
      ['real', 0, 0o755],
      ['shared/link', EVE, 'BASE/real'],
    ],
    'shared/link/tls',
    { ada: /link that other users/, root: /link that other users/ },
  ],
  [[['loop', 0, 'loop']], 'loop/tls', { ada: /a link/, root: /a link/ }],
]

t.test('a folder is taken if nobody but root and the user may change it', { skip }, async (t) => {
  const paths = FOLDERS.map(([made, asked]) => {
    const base = commonFolder(t)
    make(base, made)
    return join(base, asked)
  })
  const byAda = await actAs(ADA, 'trust', ...paths)
  for (const [index, [made, asked, { root, ada }]] of FOLDERS.entries()) {
    const name = `${asked} in ${JSON.stringify(made)}`
    if (ada) t.match(byAda[index], ada, `a user: ${name}`)
    if (root) t.match(act('trust', paths[index] ?? ''), root, `root: ${name}`)
  }
})

t.test('root gives away no file that a user leads it to, and makes none', { skip }, async (t) => {
  const base = commonFolder(t)
  make(base, [
    ['victim', 0, 0o755],
    ['eves', EVE, 0o755],
    ['eves/tls', EVE, 0o755],
  ])
  const dir = join(base, 'eves/tls')
  const key = join(base, 'victim/privkey.pem')
  writeFileSync(key, 'of somebody else', { mode: 0o600 })
  chownSync(key, ADA, ADA)
  make(dir, [
    ['.a.test@x', EVE, 'BASE/../../victim'],
    ['a.test', EVE, '.a.test@x'],
    ['.a.test@lock', EVE, 'BASE/../../victim/made'],
  ])
  const owner = { uid: EVE, gid: EVE }
  const folder = certificateFolder({
    ...{ dir, domain: 'a.test', mode: 0o640, owner, isOwnKey: false },
  })
  const clock = { now: () => 0, setTimer: () => ({ cancel() {} }) }
  for (const use of [
    () => folder.prepare(),
    () => folder.read(),
    () => folder.adjust(),
    () => folder.tidy(),
  ])
    t.throws(use, { code: 'CERT_CLIENT_FILES', message: /eves belongs to user 61002/ })
  await t.rejects(folder.lock(0, clock), { message: /eves belongs to user 61002/ })
  const { uid, gid, mode } = statSync(key)
  t.strictSame([uid, gid, mode & 0o777], [ADA, ADA, 0o600])
  t.notOk(existsSync(join(base, 'victim/made')))
})

t.test('a folder that becomes that of another user is left alone', { skip }, async (t) => {
  const base = commonFolder(t)
  const running = await start(t)
  const dir = join(base, 'tls')
  const { get, place } = clientOf(running, { folder: { dir } })
  await getOnce(get)
  await running.clock.advance(5 * DAY)
  chownSync(dir, EVE, EVE)
  await t.rejects(getOnce(get), { code: 'CERT_CLIENT_FILES', message: /tls belongs to user/ })
  await t.rejects(place.read(), { code: 'CERT_CLIENT_FILES' })
})

t.test('whom the files are given may read and not replace them', { skip }, async (t) => {
  const base = commonFolder(t)
  const running = await start(t)
  const dir = join(base, 'tls')
  const rows: readonly [mode: number, owner: { uid: number; gid: number }, folder: string][] = [
    [0o600, { uid: EVE, gid: -1 }, '0:711'],
    [0o600, { uid: EVE, gid: EVE }, '0:711'],
    [0o640, { uid: EVE, gid: EVE }, '0:751'],
    [0o660, { uid: -1, gid: EVE }, '0:750'],
    [0o640, { uid: 0, gid: EVE }, '0:750'],
  ]
  for (const [mode, owner, folder] of rows) {
    await getOnce(clientOf(running, { folder: { dir, mode, owner } }).get)
    const { uid, mode: entered } = statSync(join(dir, 'a.test'))
    t.equal(`${uid}:${(entered & 0o777).toString(8)}`, folder)
    const key = join(dir, 'a.test/privkey.pem')
    t.match(await actAs(EVE, 'read', key), [/^-----BEGIN PRIVATE KEY/])
    t.match(await actAs(EVE, 'remove', key), [/EACCES/])
  }
})

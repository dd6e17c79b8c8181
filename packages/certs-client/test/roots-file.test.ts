import { X509Certificate } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createCross, createIntermediate, createRoot, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { leapClock } from '../../issuance/test/leap-clock.ts'
import { fingerprintOf } from '../src/certificate.ts'
import { pemOf } from '../src/roots.ts'
import { trustRootsFile, updateRootsFile } from '../src/roots-file.ts'
import { failAt } from './helpers/file-calls.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const NOW = Date.UTC(2030, 0, 1)
const make = (commonName: string, lifetimeMs = 3_650 * DAY) =>
  createRoot({ commonName, now: NOW, lifetimeMs })
type Root = Awaited<ReturnType<typeof make>>
const [first, second, stranger, brief] = (await Promise.all([
  make('First'),
  make('Second'),
  make('Stranger'),
  make('Brief', HOUR),
])) as [Root, Root, Root, Root]
const read = (der: Uint8Array) => new X509Certificate(der)
const A = read(first.certificate)
const B = read(second.certificate)
const C = read(stranger.certificate)
const BRIEF = read(brief.certificate)
type Bundle = readonly X509Certificate[]

/** Begins a file with the roots of another one. */
function begin(file: string, caFile: string | undefined, log = logTo([])) {
  const url = new URL('https://certs.test')
  const source = { kind: 'key', key: { text: 'key' } } as const
  return trustRootsFile({ url, caFile, source }, file, log)
}

function logTo(logged: { readonly [field: string]: unknown }[]) {
  const note = (fields: object, message: string) => void logged.push({ ...fields, message })
  return { info: note, warn: note, error: note }
}

/** A file of roots, which is told at times what the service names. */
function stage(t: Test, roots: Bundle = [A]) {
  const folder = testFolder(t)
  const file = join(folder, 'root.pem')
  writeFileSync(file, pemOf(roots))
  const logged: { readonly [field: string]: unknown }[] = []
  const log = logTo(logged)
  const update = (bundle: Bundle, ms: number) =>
    updateRootsFile(file, bundle, { clock: leapClock(NOW + ms), log })
  const isHeld = (roots: Bundle) => readFileSync(file, 'utf8') === pemOf(roots)
  return { folder, file, nextFile: `${file}.next`, logged, update, isHeld }
}

const LOOKS: readonly (readonly [
  what: string,
  before: Bundle,
  looks: readonly (readonly [ms: number, bundle: Bundle])[],
  after: Bundle,
  waits: boolean,
])[] = [
  ['what it has', [A], [[0, [A]]], [A], false],
  [
    'the order alone is no news',
    [A, B],
    [
      [0, [B, A]],
      [2 * DAY, [B, A]],
    ],
    [A, B],
    false,
  ],
  ['once is not enough', [A], [[0, [A, B]]], [A], true],
  [
    'nor is twice within a day',
    [A],
    [
      [0, [A, B]],
      [DAY - 1_000, [A, B]],
    ],
    [A],
    true,
  ],
  [
    'a root is added',
    [A],
    [
      [0, [A, B]],
      [HOUR, [A, B]],
      [DAY, [A, B]],
    ],
    [A, B],
    false,
  ],
  [
    'also if nobody looks in between',
    [A],
    [
      [0, [A, B]],
      [99 * DAY, [A, B]],
    ],
    [A, B],
    false,
  ],
  [
    'in whichever order',
    [A],
    [
      [0, [A, B]],
      [DAY, [B, A]],
    ],
    [B, A],
    false,
  ],
  [
    'a root is taken away',
    [A, B],
    [
      [0, [B]],
      [DAY, [B]],
    ],
    [B],
    false,
  ],
  [
    'not at once either',
    [A, B],
    [
      [0, [B]],
      [HOUR, [B]],
    ],
    [A, B],
    true,
  ],
  [
    'one takes the place of another',
    [A, B],
    [
      [0, [B, C]],
      [DAY, [B, C]],
    ],
    [B, C],
    false,
  ],
  [
    'a true answer in between finds out who answers in place of the service',
    [A],
    [
      [0, [A, C]],
      [HOUR, [A]],
      [DAY, [A, C]],
      [DAY + HOUR, [A, C]],
    ],
    [A],
    true,
  ],
  [
    'so does another one',
    [A],
    [
      [0, [A, C]],
      [HOUR, [A, B]],
      [DAY, [A, C]],
      [DAY + HOUR, [A, C]],
    ],
    [A],
    true,
  ],
  [
    'the day is that of the last',
    [A],
    [
      [0, [A, C]],
      [HOUR, [A, B]],
      [DAY, [A, B]],
    ],
    [A],
    true,
  ],
  [
    'which ends',
    [A],
    [
      [0, [A, C]],
      [HOUR, [A, B]],
      [DAY + HOUR, [A, B]],
    ],
    [A, B],
    false,
  ],
  [
    'a clock is set back',
    [A],
    [
      [9 * DAY, [A, B]],
      [0, [A, B]],
      [HOUR, [A, B]],
    ],
    [A],
    true,
  ],
  [
    'and a day passes',
    [A],
    [
      [9 * DAY, [A, B]],
      [0, [A, B]],
      [DAY, [A, B]],
    ],
    [A, B],
    false,
  ],
]

for (const [what, before, looks, after, waits] of LOOKS)
  t.test(`a file of roots: ${what}`, async (t) => {
    const { nextFile, update, isHeld } = stage(t, before)
    for (const [ms, bundle] of looks) update(bundle, ms)
    t.ok(isHeld(after))
    t.equal(existsSync(nextFile), waits)
  })

t.test('it is said what is added and removed', async (t) => {
  const { file, logged, update } = stage(t, [A, B])
  for (const ms of [0, HOUR, DAY, 2 * DAY]) update([B, C], ms)
  const change = { file, added: [fingerprintOf(C)], removed: [fingerprintOf(A)] }
  t.strictSame(logged, [
    { ...change, message: 'the service names other roots, which have to last a day' },
    { ...change, message: 'the file has the roots that the service names' },
  ])
})

t.test('bundles that are refused, however long they are named', async (t) => {
  const intermediate = await createIntermediate({ root: first, commonName: 'No root', now: NOW })
  const forged = Buffer.from(second.certificate)
  forged[forged.length - 1]! ^= 1
  const cross = createCross({ signer: first, root: second, now: NOW })
  const many = await Promise.all(Array.from({ length: 16 }, (_, i) => make(`${i}`)))
  const refused: readonly (readonly [what: string, bundle: Bundle, why: RegExp])[] = [
    ['none', [], /no root that is in the file/],
    ['strangers', [B, C], /no root that is in the file/],
    ['an intermediate', [A, read(intermediate.certificate)], /no root/],
    ['a cross certificate', [A, read(cross)], /no root/],
    ['a signature of somebody else', [A, read(forged)], /no root/],
    ['one that has ended', [A, BRIEF], /has ended/],
    ['many', [A, ...many.map(({ certificate }) => read(certificate))], /more than 16/],
  ]
  for (const [what, bundle, message] of refused) {
    const { nextFile, update, isHeld } = stage(t)
    for (const ms of [2 * HOUR, 2 * DAY])
      t.throws(() => update(bundle, ms), { code: 'CERT_CLIENT_UNTRUSTED', message }, what)
    t.ok(isHeld([A]), what)
    t.notOk(existsSync(nextFile), what)
  }
})

t.test('what waits may be broken or gone, and then waits anew', async (t) => {
  for (const harm of [
    (file: string) => writeFileSync(file, ''),
    (file: string) => writeFileSync(file, pemOf([A, B]).slice(0, -9)),
    (file: string) => writeFileSync(file, pemOf([A, C])),
  ]) {
    const { nextFile, update, isHeld } = stage(t)
    update([A, B], 0)
    harm(nextFile)
    utimesSync(nextFile, NOW / 1_000, NOW / 1_000)
    update([A, B], DAY)
    t.ok(isHeld([A]))
    update([A, B], 2 * DAY)
    t.ok(isHeld([A, B]))
  }
})

t.test('a file that is broken is not mended by what the service names', async (t) => {
  for (const text of ['', pemOf([A]).slice(9), toPem('CERTIFICATE', Buffer.alloc(9))]) {
    const { file, update } = stage(t)
    writeFileSync(file, text)
    for (const ms of [0, 2 * DAY])
      t.throws(() => update([A, B], ms), { code: 'CERT_CLIENT_UNTRUSTED', message: file })
    t.equal(readFileSync(file, 'utf8'), text)
  }
})

t.test('the mode stays, and nothing else lies about', async (t) => {
  const { folder, file, nextFile, update } = stage(t)
  chmodSync(file, 0o640)
  update([A, B], 0)
  t.equal(statSync(nextFile).mode & 0o777, 0o640)
  update([A, B], DAY)
  t.equal(statSync(file).mode & 0o777, 0o640)
  t.same(readdirSync(folder), ['root.pem'])
})

t.test('a disk that cannot be written leaves the file as it was', async (t) => {
  for (const [ms, failing] of [
    [0, 1],
    [0, 2],
    [DAY, 1],
    [DAY, 2],
  ] as const) {
    const { file, update, isHeld } = stage(t)
    if (ms > 0) update([A, B], 0)
    const restore = failAt(t, failing)
    t.throws(() => update([A, B], ms), { code: 'CERT_CLIENT_FILES', message: /EIO/ })
    restore()
    t.ok(isHeld([A]), file)
    update([A, B], ms)
    update([A, B], ms + DAY)
    t.ok(isHeld([A, B]), 'later it goes on')
  }
})

t.test('where nothing is new, nothing is written', async (t) => {
  const { update } = stage(t)
  failAt(t, 'all')
  t.doesNotThrow(() => update([A], 0))
})

t.test('a file begins with the roots of --ca, and with no others later', async (t) => {
  const folder = testFolder(t)
  const file = join(folder, 'kept.pem')
  const start = join(folder, 'root.pem')
  const logged: { readonly [field: string]: unknown }[] = []
  const log = logTo(logged)
  t.throws(() => begin(file, undefined), /^--ca-out needs --ca/)
  const plain = { url: new URL('http://localhost'), caFile: start, source: {} as never }
  t.throws(() => trustRootsFile(plain, file, log), /^--ca-out needs a service with TLS/)
  t.equal(trustRootsFile(plain, undefined, log), plain, 'unless there is no --ca-out')
  t.throws(() => begin(file, start), { code: 'CERT_CLIENT_UNTRUSTED' })
  writeFileSync(start, `# ours\n${pemOf([A])}`, { mode: 0o600 })
  t.equal(begin(file, start, log).caFile, file)
  t.equal(readFileSync(file, 'utf8'), pemOf([A]))
  t.equal(statSync(file).mode & 0o777, 0o644)
  t.match(logged, [{ file, added: [fingerprintOf(A)] }])
  writeFileSync(start, pemOf([C]))
  begin(file, start)
  begin(file, undefined)
  t.equal(readFileSync(file, 'utf8'), pemOf([A]), 'it counts alone')
  t.equal(logged.length, 1)
  begin(start, start)
  t.equal(readFileSync(start, 'utf8'), pemOf([C]), 'it may be the file of --ca itself')
})

t.test('a folder that others may change is refused', async (t) => {
  const folder = join(testFolder(t), 'shared')
  mkdirSync(folder)
  chmodSync(folder, 0o777)
  const file = join(folder, 'root.pem')
  const context = { clock: leapClock(NOW), log: logTo([]) }
  const refusal = { code: 'CERT_CLIENT_FILES', message: /other users may change/ }
  t.throws(() => begin(file, file), refusal)
  writeFileSync(file, pemOf([A]))
  t.throws(() => begin(file, file), refusal, 'also if the file is there')
  t.throws(() => updateRootsFile(file, [A, B], context), refusal)
  const absent = join(testFolder(t), 'absent/root.pem')
  writeFileSync(file, pemOf([A]))
  t.throws(() => begin(absent, file), {
    code: 'CERT_CLIENT_FILES',
    message: 'ENOENT',
  })
})

t.test('a draft that somebody left is no way to write elsewhere', async (t) => {
  const { folder, file, update, isHeld } = stage(t)
  const other = join(folder, 'other')
  writeFileSync(other, 'kept')
  for (const draft of [`${file}.next.${process.pid}.new`, `${file}.${process.pid}.new`])
    symlinkSync(other, draft)
  update([A, B], 0)
  update([A, B], DAY)
  t.ok(isHeld([A, B]))
  t.equal(readFileSync(other, 'utf8'), 'kept')
})

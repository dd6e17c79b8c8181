import { hash } from 'node:crypto'
import t from 'tap'
import { SignIns } from '../src/sign-ins.ts'

const MINUTE = 60_000
const HERE = '192.0.2.1'

function setup() {
  let now = 1_000_000
  const keys = new Set(['key of ada', 'key of bob'])
  const callers = new Map([...keys].map((key) => [hash('sha256', key), key]))
  const signIns = new SignIns({
    now: () => now,
    findKey(sha256) {
      const subject = callers.get(Buffer.from(sha256).toString('hex'))
      return subject && keys.has(subject) ? { method: 'psk', subject } : undefined
    },
  })
  const open = (key: string, address = HERE) => signIns.open(key, address)
  const pass = (ms: number) => {
    now += ms
  }
  const find = (id: string) => signIns.find(id)
  const close = (id: string) => signIns.close(id)
  return { keys, open, find, close, pass }
}

t.test('a session lasts as long as it is used, and never beyond an hour', async (t) => {
  const { open, find, pass } = setup()
  const [idle, used] = [open('key of ada')!, open('key of ada')!]
  t.match(idle, /^[\w-]{43}$/)
  t.not(idle, used)
  for (let minutes = 0; minutes < 56; minutes += 14) {
    t.match(find(used), { subject: 'key of ada' }, `after ${minutes} minutes`)
    pass(14 * MINUTE)
  }
  t.match(find(used), { subject: 'key of ada' }, 'after 56 minutes')
  t.equal(find(idle), undefined, 'not one that nobody used for a quarter of an hour')
  pass(4 * MINUTE)
  t.equal(find(used), undefined, 'not after 60 minutes')
})

t.test('a session of a clock that was ahead ends when the clock is right', async (t) => {
  for (const [ahead, isLive] of [
    [MINUTE, true],
    [10 * MINUTE, false],
    [24 * 60 * MINUTE, false],
    [-2 * 60 * MINUTE, false],
  ] as const) {
    const { open, find, pass } = setup()
    const kept = open('key of ada')!
    pass(ahead)
    const opened = open('key of ada')!
    find(kept)
    pass(-ahead)
    for (const id of [opened, kept]) t.equal(!!find(id), isLive, `${ahead / MINUTE} minutes`)
    pass(ahead)
    if (!isLive) t.equal(find(opened), undefined, 'and stays ended when that time comes')
  }
})

t.test('a session ends with its key, and does not come back with it', async (t) => {
  const { open, find, keys } = setup()
  const [ada, bob] = [open('key of ada')!, open('key of bob')!]
  keys.delete('key of ada')
  t.equal(find(ada), undefined)
  t.match(find(bob), { subject: 'key of bob' })
  keys.add('key of ada')
  t.equal(find(ada), undefined)
})

t.test('a session ends by being closed, and no made-up id is one', async (t) => {
  const { open, find, close } = setup()
  const id = open('key of ada')!
  for (const other of ['', 'x', `${id}x`, id.slice(1), hash('sha256', id)])
    t.equal(find(other), undefined, other)
  close(id)
  t.equal(find(id), undefined)
})

t.test('there are a thousand sessions at most: the one longest unused goes', async (t) => {
  const { open, find } = setup()
  const [first, second] = [open('key of ada')!, open('key of ada')!]
  find(first)
  for (let n = 0; n < 999; n += 1) open('key of bob')
  t.ok(find(first))
  t.equal(find(second), undefined)
})

t.test('ten wrong keys in a minute are enough, and no valid key is refused for them', async (t) => {
  const { open, pass } = setup()
  for (let n = 0; n < 10; n += 1) t.equal(open('guess'), undefined, `guess ${n}`)
  pass(30_000)
  const limited = { code: 'CERT_SIGN_IN_LIMITED', retryAfter: 30 }
  for (let n = 0; n < 20; n += 1) {
    t.throws(() => open('guess'), limited)
    t.ok(open('key of ada'), 'a valid key from the same address')
  }
  t.equal(open('guess', '192.0.2.2'), undefined, 'another address is not limited')
  pass(30_000)
  t.equal(open('guess'), undefined, 'nor is this one after the minute')
})

t.test('a clock that was set back refuses nobody for longer than a minute', async (t) => {
  const { open, pass } = setup()
  for (let n = 0; n < 11; n += 1) t.doesNotThrow(() => n === 10 || open('guess'))
  pass(-24 * 60 * MINUTE)
  t.equal(open('guess'), undefined)
})

t.test('whose wrong keys count together', async (t) => {
  const cases: [tried: (n: number) => string, from: string, isLimited: boolean][] = [
    [(n) => `2001:db8::${n}:1`, '2001:db8::ffff', true],
    [(n) => `2001:db8::${n}:1`, '2001:db8:0:1::1', false],
    [(n) => `2001:db8:0:${n}::1`, '2001:db8:0:1::2', false],
    [() => '::ffff:192.0.2.1', '192.0.2.1', true],
    [() => '::ffff:192.0.2.1', '::ffff:192.0.2.2', false],
    [() => 'fe80::1%eth0', 'fe80::1%eth0', true],
  ]
  for (const [tried, from, isLimited] of cases) {
    const { open } = setup()
    for (let n = 0; n < 10; n += 1) open('guess', tried(n))
    const guess = () => open('guess', from)
    if (isLimited) t.throws(guess, { code: 'CERT_SIGN_IN_LIMITED' }, from)
    else t.equal(guess(), undefined, from)
  }
})

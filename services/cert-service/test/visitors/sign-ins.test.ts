import { hash } from 'node:crypto'
import t from 'tap'
import { memoryStore } from '../../../../packages/cert-store/test/helpers/memory-store.ts'
import { signInsOf } from '../../src/visitors/sign-ins.ts'

const MINUTE = 60_000
const HERE = '192.0.2.1'

function setup() {
  const store = memoryStore()
  let now = 1_000_000
  const keys = new Set(['key of ada', 'key of bob'])
  const callers = new Map([...keys].map((key) => [hash('sha256', key), key]))
  const findKey = (sha256: Uint8Array) => {
    const subject = callers.get(Buffer.from(sha256).toString('hex'))
    return subject && keys.has(subject) ? ({ method: 'psk', subject } as const) : undefined
  }
  const newReplica = () => signInsOf({ store, now: () => now, findKey })
  const signIns = newReplica()
  const open = async (key: string, address = HERE) => (await signIns.open(key, address))?.id
  const pass = (ms: number) => {
    now += ms
  }
  const find = (id: string, isUsed?: boolean) => signIns.find(id, isUsed)
  const close = (id: string) => signIns.close(id)
  return { keys, open, find, close, pass, store, newReplica }
}

t.test('a session lasts as long as it is used, and never beyond an hour', async (t) => {
  const { open, find, pass } = setup()
  const [idle, used] = [(await open('key of ada'))!, (await open('key of ada'))!]
  t.match(idle, /^[\w-]{43}$/)
  t.not(idle, used)
  for (let minutes = 0; minutes < 56; minutes += 14) {
    t.match(await find(used), { subject: 'key of ada' }, `after ${minutes} minutes`)
    pass(14 * MINUTE)
  }
  t.match(await find(used), { subject: 'key of ada' }, 'after 56 minutes')
  t.equal(await find(idle), undefined, 'not one that nobody used for a quarter of an hour')
  pass(4 * MINUTE)
  t.equal(await find(used), undefined, 'not after 60 minutes')
})

t.test('a page that refreshes itself does not keep a session', async (t) => {
  const { open, find, pass } = setup()
  const id = (await open('key of ada'))!
  for (let minutes = 0; minutes < 15; minutes += 1) {
    t.match(await find(id, false), { subject: 'key of ada' }, `after ${minutes} minutes`)
    pass(MINUTE)
  }
  t.equal(await find(id, false), undefined)
})

t.test('a session of a clock that was ahead ends when the clock is right', async (t) => {
  for (const [ahead, isLive] of [
    [MINUTE, true],
    [10 * MINUTE, false],
    [24 * 60 * MINUTE, false],
    [-2 * 60 * MINUTE, false],
  ] as const) {
    const { open, find, pass } = setup()
    const kept = (await open('key of ada'))!
    pass(ahead)
    const opened = (await open('key of ada'))!
    await find(kept)
    pass(-ahead)
    for (const id of [opened, kept])
      t.equal(!!(await find(id)), isLive, `${ahead / MINUTE} minutes`)
    pass(ahead)
    if (!isLive) t.equal(await find(opened), undefined, 'and stays ended when that time comes')
  }
})

t.test('a session ends with its key, and does not come back with it', async (t) => {
  const { open, find, keys } = setup()
  const [ada, bob] = [(await open('key of ada'))!, (await open('key of bob'))!]
  keys.delete('key of ada')
  t.equal(await find(ada), undefined)
  t.match(await find(bob), { subject: 'key of bob' })
  keys.add('key of ada')
  t.equal(await find(ada), undefined)
})

t.test('a session ends by being closed, and no made-up id is one', async (t) => {
  const { open, find, close } = setup()
  const id = (await open('key of ada'))!
  for (const other of ['', 'x', `${id}x`, id.slice(1), hash('sha256', id)])
    t.equal(await find(other), undefined, other)
  await close(id)
  t.equal(await find(id), undefined)
})

t.test('there are a thousand sessions at most: the one longest unused goes', async (t) => {
  const { open, find, pass } = setup()
  const [first, second] = [(await open('key of ada'))!, (await open('key of ada'))!]
  pass(2 * MINUTE)
  await find(first)
  for (let n = 0; n < 999; n += 1) await open('key of bob')
  t.ok(await find(first))
  t.equal(await find(second), undefined)
})

t.test('each replica knows the sessions of all, and the store no id of any', async (t) => {
  const { open, find, close, store, newReplica } = setup()
  const other = newReplica()
  const id = (await open('key of ada'))!
  t.match(await other.find(id), { subject: 'key of ada' })
  t.equal(await store.findSignIn(id), undefined)
  t.ok(await store.findSignIn(hash('sha256', id)))
  await other.close(id)
  t.equal(await find(id), undefined)
  const { id: another } = (await other.open('key of bob', HERE))!
  await close(another)
  t.equal(await other.find(another), undefined)
})

t.test('ten wrong keys in a minute are enough, and no valid key is refused for them', async (t) => {
  const { open, pass } = setup()
  for (let n = 0; n < 10; n += 1) t.equal(await open('guess'), undefined, `guess ${n}`)
  pass(30_000)
  const limited = { code: 'CERT_SIGN_IN_LIMITED', retryAfter: 30 }
  for (let n = 0; n < 20; n += 1) {
    await t.rejects(open('guess'), limited)
    t.ok(await open('key of ada'), 'a valid key from the same address')
  }
  t.equal(await open('guess', '192.0.2.2'), undefined, 'another address is not limited')
  pass(30_000)
  t.equal(await open('guess'), undefined, 'nor is this one after the minute')
})

t.test('a clock that was set back refuses nobody for longer than a minute', async (t) => {
  const { open, pass } = setup()
  for (let n = 0; n < 10; n += 1) t.equal(await open('guess'), undefined)
  await t.rejects(open('guess'), { code: 'CERT_SIGN_IN_LIMITED' })
  pass(-24 * 60 * MINUTE)
  t.equal(await open('guess'), undefined)
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
    for (let n = 0; n < 10; n += 1) await open('guess', tried(n))
    const guess = open('guess', from)
    if (isLimited) await t.rejects(guess, { code: 'CERT_SIGN_IN_LIMITED' }, from)
    else t.equal(await guess, undefined, from)
  }
})

import fc from 'fast-check'
import t from 'tap'
import { Nonces } from '../../src/server/index.ts'

const START = Date.UTC(2026, 10, 27)
const SECOND = 1_000
const MINUTE = 60 * SECOND
const key = Buffer.alloc(32, 1)

function setup(options: { most?: number; key?: Uint8Array } = {}) {
  const clock = { time: START, now: () => clock.time }
  const open = () => new Nonces({ key, clock, ...options })
  return { clock, open, nonces: open() }
}

t.test('a nonce is accepted once', async (t) => {
  const { nonces } = setup()
  const nonce = nonces.issue()
  t.match(nonce, /^[\w-]{43}$/, 'as a header can have it')
  t.ok(nonces.use(nonce))
  t.notOk(nonces.use(nonce))
  t.notOk(nonces.use(`${nonce}=`), 'in no other spelling either')
  t.notOk(nonces.use(nonce.replace(/^/, ' ')))
  t.notOk(nonces.use(`${nonce.slice(0, -1)}${String.fromCharCode(nonce.charCodeAt(42) + 1)}`))
  t.ok(nonces.use(nonces.issue()), 'the next')
})

t.test('each replica accepts it, also after a restart', async (t) => {
  const { open } = setup()
  const nonce = open().issue()
  t.ok(open().use(nonce))
  t.ok(open().use(nonce), 'each process remembers its own')
})

t.test('it lives for ten minutes', async (t) => {
  const rows: [after: number, isAccepted: boolean][] = [
    [10 * MINUTE, true],
    [10 * MINUTE + SECOND, false],
    [24 * 60 * MINUTE, false],
    // The clock of another replica is behind, or was set back.
    [-MINUTE, true],
    [-MINUTE - SECOND, false],
    [-60 * MINUTE, false],
  ]
  for (const [after, isAccepted] of rows) {
    const { nonces, clock } = setup()
    const nonce = nonces.issue()
    clock.time += after
    t.equal(nonces.use(nonce), isAccepted, `after ${after} ms`)
  }
})

t.test('what another key sealed is refused, and what nobody did', async (t) => {
  const { nonces } = setup()
  t.notOk(nonces.use(setup({ key: Buffer.alloc(32, 2) }).nonces.issue()))
  const own = Buffer.from(nonces.issue(), 'base64url')
  const change = fc.record({ at: fc.nat(own.length - 1), bits: fc.integer({ min: 1, max: 255 }) })
  fc.assert(
    fc.property(change, ({ at, bits }) => {
      const changed = Buffer.from(own)
      changed.writeUInt8((changed[at] ?? 0) ^ bits, at)
      return !nonces.use(changed.toString('base64url'))
    }),
  )
  fc.assert(fc.property(fc.string(), (text) => !nonces.use(text)))
  const bytes = fc.uint8Array({ minLength: 30, maxLength: 34 })
  fc.assert(fc.property(bytes, (bytes) => !nonces.use(Buffer.from(bytes).toString('base64url'))))
  t.ok(nonces.use(own.toString('base64url')), 'the whole one is accepted')
})

type Action =
  | { readonly do: 'issue' }
  | { readonly do: 'use'; readonly which: number }
  | { readonly do: 'wait'; readonly ms: number }

t.test('none is accepted twice, whatever the clock does and however small the memory', async () => {
  const action: fc.Arbitrary<Action> = fc.oneof(
    { weight: 4, arbitrary: fc.constant({ do: 'issue' } as const) },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('use' as const), which: fc.nat(30) }) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('wait' as const),
        ms: fc.oneof(
          fc.integer({ min: -2 * SECOND, max: 5 * SECOND }),
          fc.integer({ min: -20 * MINUTE, max: 20 * MINUTE }),
          fc.constantFrom(-365 * 86_400_000, 365 * 86_400_000),
        ),
      }),
    },
  )
  fc.assert(
    fc.property(fc.array(action, { maxLength: 150 }), fc.integer({ min: 1, max: 8 }), run),
    { numRuns: 1_000 },
  )
})

function run(actions: readonly Action[], most: number): boolean {
  const { clock, nonces, open } = setup({ most })
  // Another replica, whose clock is the same.
  const issuers = [nonces, open()]
  const issued: string[] = []
  const used = new Set<string>()
  for (const action of actions) {
    if (action.do === 'issue') issued.push(issuers[issued.length % 2]?.issue() ?? '')
    if (action.do === 'wait') clock.time = Math.max(clock.time + action.ms, START)
    if (action.do !== 'use') continue
    const nonce = issued.at(-1 - action.which) ?? ''
    if (!nonces.use(nonce)) continue
    if (used.has(nonce)) return false
    used.add(nonce)
  }
  // A client that takes the nonce of a refusal, as RFC 8555 section 6.5 says, goes on.
  return [1, 2].some(() => nonces.use(nonces.issue()))
}

t.test('the memory is bounded, and forgets the oldest', async (t) => {
  const { clock, nonces } = setup({ most: 1_000 })
  const all: string[] = []
  for (let i = 0; i < 1_500; i++) {
    if (i % 10 === 0) clock.time += SECOND
    const nonce = nonces.issue()
    all.push(nonce)
    t.ok(nonces.use(nonce))
  }
  t.notOk(
    all.some((nonce) => nonces.use(nonce)),
    'none twice',
  )
  t.ok(nonces.use(nonces.issue()))
})

t.test('what was issued before the forgotten ones is refused', async (t) => {
  const rows: [used: number, isAccepted: boolean][] = [
    [2, true],
    // It may have been used and forgotten.
    [3, false],
    [4, false],
  ]
  for (const [used, isAccepted] of rows) {
    const { clock, nonces } = setup({ most: 3 })
    const early = nonces.issue()
    for (let i = 0; i < used; i++) {
      clock.time += SECOND
      t.ok(nonces.use(nonces.issue()))
    }
    t.equal(nonces.use(early), isAccepted, `after ${used} others`)
  }
})

t.test('what is too old is forgotten, but nothing of ten minutes', async (t) => {
  const { clock, nonces } = setup()
  const [first, second] = [nonces.issue(), nonces.issue()]
  t.ok(nonces.use(first))
  clock.time += 10 * MINUTE
  t.ok(nonces.use(nonces.issue()), 'which forgets what is too old')
  t.ok(nonces.use(second))
})

t.test(
  'what was forgotten in another order stays refused when the clock is set back',
  async (t) => {
    const { clock, nonces } = setup()
    const first = nonces.issue()
    clock.time += SECOND
    const second = nonces.issue()
    t.ok(nonces.use(second))
    t.ok(nonces.use(first))
    clock.time += 60 * MINUTE
    t.ok(nonces.use(nonces.issue()), 'which forgets both')
    clock.time -= 60 * MINUTE
    t.notOk(nonces.use(first))
    t.notOk(nonces.use(second))
    t.ok(nonces.use(nonces.issue()), 'others are accepted')
  },
)

t.test('100,000 nonces take a bounded memory and time', async (t) => {
  const { clock, nonces } = setup()
  const start = process.threadCpuUsage()
  const before = process.memoryUsage().heapUsed
  for (let i = 0; i < 150_000; i++) {
    if (i % 500 === 0) clock.time += SECOND
    if (!nonces.use(nonces.issue())) t.fail(`nonce ${i} was refused`)
  }
  t.ok(process.memoryUsage().heapUsed - before < 40_000_000, 'memory')
  t.ok(process.threadCpuUsage(start).user < 30_000_000, 'time')
})

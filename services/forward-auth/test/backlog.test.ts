import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { Backlog } from '../src/backlog.ts'
import { CORP, startApp, yamlOf } from './app.ts'
import { SCRIPT } from './portal/kit.ts'
import { BROWSER, SHAPES } from './shapes.ts'

/** A backlog in which each turn takes `pace` ms, and the names of those that have begun. */
function world(pace = 0) {
  let now = 0
  const backlog = new Backlog(() => now)
  const begun: string[] = []
  const ask = async (name: string, address?: string) => {
    await backlog.turn(address)
    begun.push(name)
    now += pace
  }
  return { ask, begun, backlog }
}

/** So many first steps of one address, once turns are known to take half a second. */
async function busy(count: number, address: string) {
  const { ask, begun } = world(500)
  for (let n = 0; n < 90; n++) await Promise.all([ask('a', 'any'), ask('b', 'any')])
  await nextTurn()
  begun.length = 0
  const asked = Array.from({ length: count }, (_, i) => ask(`${i}`, address))
  return { ask, begun, asked }
}

t.test(
  'a few begin in each turn of the event loop, and who comes alone waits for nothing',
  async (t) => {
    const { ask, begun } = world()
    const all = Array.from({ length: 10 }, (_, i) => ask(`${i}`, '::1'))
    await Promise.resolve()
    t.strictSame(begun, ['0'])
    const seen: number[] = []
    while (begun.length < 10) {
      await nextTurn()
      seen.push(begun.length)
    }
    t.strictSame([...new Set(seen)].slice(-2), [9, 10])
    t.ok([...seen.entries()].every(([i, count]) => count - (seen[i - 1] ?? 1) <= 4))
    await Promise.all(all)
    await nextTurn()
    const late = ask('late', '::1')
    await Promise.resolve()
    t.equal(begun.at(-1), 'late')
    await late
  },
)

t.test('steps under way go first, each in its order', async (t) => {
  const { ask, begun } = world()
  const names = ['first', 'a', 'b', 'B', 'c', 'C']
  await Promise.all(names.map((name) => ask(name, name === name.toUpperCase() ? undefined : '::1')))
  t.strictSame(begun, ['first', 'B', 'C', 'a', 'b', 'c'])
})

t.test('the connections of a crowd are accepted first, but no more than a hundred', async (t) => {
  const { ask, begun, backlog } = world()
  const all = ['a', 'b'].map((name) => ask(name, '::1'))
  let turns = 0
  for (; begun.length < 2; turns++) {
    backlog.accept()
    await nextTurn()
  }
  t.ok(turns >= 99 && turns <= 102, `${turns} turns`)
  await Promise.all(all)
  const more = ['c', 'd'].map((name) => ask(name, '::1'))
  backlog.accept()
  await Promise.all(more)
})

const BUSY = { code: 'FWA_BUSY', retryAfter: Number }
const cases: readonly [
  what: string,
  waiting: number,
  address: string | undefined,
  isBusy: boolean,
][] = [
  ['a few of its own wait', 4, 'crowd', false],
  ['many of its own wait', 9, 'crowd', true],
  ['many of another address wait', 9, 'other', false],
  ['more wait than can be served in ten seconds', 14, 'other', true],
  ['a step under way comes', 14, undefined, false],
]
for (const [what, waiting, address, isBusy] of cases)
  t.test(`${isBusy ? 'put off' : 'admitted'}: ${what}`, async (t) => {
    // The first of them begins at once.
    const { ask, begun, asked } = await busy(1, 'crowd')
    const more = Array.from({ length: waiting }, (_, i) =>
      ask(`more ${i}`, i < 9 ? 'crowd' : `each ${i}`).catch(() => {}),
    )
    const last = ask('last', address)
    if (isBusy) await t.rejects(last, BUSY)
    else await last
    await Promise.all([...asked, ...more])
    t.equal(begun.includes('last'), !isBusy)
  })

t.test('property: whoever is admitted begins once, and no step under way is put off', async (t) => {
  const arrival = fc.record({
    address: fc.option(fc.constantFrom('a', 'b', 'c'), { nil: undefined }),
    turns: fc.nat(2),
  })
  const isKept = fc.asyncProperty(
    fc.array(arrival, { maxLength: 80 }),
    fc.integer({ min: 0, max: 2_000 }),
    async (arrivals, pace) => {
      const { ask, begun } = world(pace)
      const outcomes: Promise<boolean>[] = []
      for (const [i, { address, turns }] of arrivals.entries()) {
        for (let n = 0; n < turns; n++) await nextTurn()
        outcomes.push(
          ask(`${i}`, address).then(
            () => true,
            () => false,
          ),
        )
      }
      const admitted = await Promise.all(outcomes)
      t.strictSame(
        begun.toSorted(),
        arrivals.flatMap((_, i) => (admitted[i] ? [`${i}`] : [])).toSorted(),
      )
      return arrivals.every(({ address }, i) => admitted[i] || address !== undefined)
    },
  )
  await fc.assert(isKept, { numRuns: 50 })
})

/** With two providers, `/signin` asks none of them. */
const CHOOSER = yamlOf(`  - { name: main, providers: [${CORP}, ${CORP.replace('corp', 'other')}] }`)

const signIn = (address = '192.0.2.1') => ({
  url: '/portals/main/signin',
  headers: { host: 'auth.example.com', ...BROWSER },
  remoteAddress: address,
})

t.test('checks and /readyz are answered before the sign-ins that came with them', async (t) => {
  const { app, check, signIn: begin } = await startApp(t, CHOOSER)
  const cookie = await begin('main')
  const ask = () => check(SHAPES[0]!, { ...SCRIPT, cookie })
  t.equal((await ask()).statusCode, 200)
  const order: string[] = []
  const note = (name: string) => () => void order.push(name)
  const signIns = Array.from({ length: 50 }, () => app.inject(signIn()).then(note('sign-in')))
  await Promise.all([
    ...signIns,
    ask().then(note('check')),
    app.inject('/readyz').then(note('/readyz')),
  ])
  for (const name of ['check', '/readyz']) t.ok(order.indexOf(name) < 10, name)
})

t.test('checks of people who are signed in go ahead of those of a crowd that is not', async (t) => {
  const { check, signIn: begin } = await startApp(t, CHOOSER)
  const cookie = await begin('main')
  const order: string[] = []
  const crowd = Array.from({ length: 50 }, () =>
    check(SHAPES[0]!, BROWSER).then(({ statusCode }) => order.push(`${statusCode}`)),
  )
  const known = check(SHAPES[0]!, { ...SCRIPT, cookie }).then(() => order.push('known'))
  await Promise.all([...crowd, known])
  t.ok(order.indexOf('known') < 10)
  t.equal(new Set(order).size, 2, 'all of the crowd are asked to sign in')
  t.equal(order.length, 51)
})

t.test('who is put off is told so, and when to come again', async (t) => {
  expectWarnings(t, 'FWA_BUSY')
  let now = 0
  const monotonic = () => (now += 1_000)
  const { app } = await startApp(t, CHOOSER, undefined, { monotonic })
  const wave = () => Promise.all(Array.from({ length: 60 }, () => app.inject(signIn())))
  await wave()
  const refused = (await wave()).filter(({ statusCode }) => statusCode === 503)
  t.ok(refused.length > 0)
  const [page] = refused
  t.match(page?.headers, { 'retry-after': /^\d+$/, 'content-type': /^text\/html/ })
  t.match(page?.body, 'Too many sign-ins at once')
  const json = { ...signIn(), headers: { host: 'auth.example.com', ...SCRIPT } }
  const answers = await Promise.all(Array.from({ length: 60 }, () => app.inject(json)))
  const problem = answers.find(({ statusCode }) => statusCode === 503)
  t.match(problem?.json(), { code: 'FWA_BUSY', status: 503 })
})

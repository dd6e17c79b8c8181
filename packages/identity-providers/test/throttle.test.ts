import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { ProviderError } from '../src/errors.ts'
import type { ReRead } from '../src/provider.ts'
import { createThrottle } from '../src/throttle.ts'

const ENDED: ReRead = { kind: 'ended', why: 'invalid_grant' }
const fault = (code: ProviderError['code'] = 'FWA_PROVIDER_UNREACHABLE'): ReRead => ({
  kind: 'fault',
  error: new ProviderError(code, 'down'),
  isUsed: true,
})
const turn = () => new Promise(setImmediate)

/** A provider that is asked through a throttle, and answers when it is told to. */
function startProvider() {
  const clock = manualClock()
  const throttle = createThrottle(clock)
  const open: ((answer: ReRead) => void)[] = []
  const ask = () =>
    throttle(() => {
      const { promise, resolve } = Promise.withResolvers<ReRead>()
      open.push(resolve)
      return promise
    })
  return {
    clock,
    open,
    ask,
    /** Asks once; the provider answers at once if it is reached. */
    async outcome(answer: ReRead): Promise<string> {
      const before = open.length
      const asking = ask()
      await turn()
      open[before]?.(answer)
      const { kind } = await asking
      return open.length > before ? `asked: ${kind}` : kind
    },
  }
}

t.test('eight are asked about at once, the others in the order in which they came', async (t) => {
  const { open, ask } = startProvider()
  const order: number[] = []
  const all = Array.from({ length: 20 }, async (_, index) => {
    await ask()
    order.push(index)
  })
  await turn()
  t.equal(open.length, 8)
  open[0]?.(ENDED)
  await turn()
  t.equal(open.length, 9)
  for (let index = 1; index < 20; index++) {
    open[index]?.(ENDED)
    await turn()
  }
  await Promise.all(all)
  t.strictSame(order, [...Array(20).keys()])
})

t.test('after an outage it pauses, twice as long each time', async (t) => {
  const { clock, outcome } = startProvider()
  t.equal(await outcome(fault()), 'asked: fault')
  for (const seconds of [5, 10, 20, 40, 60, 60]) {
    await clock.advance(seconds * 1_000 - 1)
    t.equal(await outcome(ENDED), 'fault', `${seconds} s are not over`)
    await clock.advance(1)
    t.equal(await outcome(fault()), 'asked: fault', `after ${seconds} s`)
  }
  await clock.advance(60_000)
  t.equal(await outcome(ENDED), 'asked: ended')
  t.equal(await outcome(fault()), 'asked: fault', 'open again')
  await clock.advance(5_000)
  t.equal(await outcome(ENDED), 'asked: ended', 'and short again')
})

t.test('one probes after an outage, and the others have the fault meanwhile', async (t) => {
  const { clock, open, ask, outcome } = startProvider()
  await outcome(fault())
  await clock.advance(5_000)
  const probe = ask()
  await turn()
  t.match(await ask(), { kind: 'fault', isUsed: false }, 'whose token was not sent')
  t.equal(open.length, 2)
  open[1]?.(ENDED)
  t.equal((await probe).kind, 'ended')
  t.equal(await outcome(ENDED), 'asked: ended')
})

t.test('who waits in line when the outage comes is not sent on', async (t) => {
  const { open, ask, clock, outcome } = startProvider()
  const all = Array.from({ length: 30 }, ask)
  await turn()
  for (const answer of open) answer(fault())
  const answers = await Promise.all(all)
  t.equal(open.length, 8)
  t.ok(answers.every(({ kind }) => kind === 'fault'))
  await clock.advance(5_000)
  t.equal(await outcome(ENDED), 'asked: ended', 'eight at once are one outage')
})

t.test('what concerns one person stops nobody', async (t) => {
  const { outcome } = startProvider()
  for (const answer of [fault('FWA_PROVIDER_INVALID'), fault('FWA_CLIENT_ASSERTION'), ENDED]) {
    await outcome(answer)
    t.match(await outcome(ENDED), 'asked')
  }
})

t.test('a clock that is set back does not prolong the pause', async (t) => {
  const { clock, outcome } = startProvider()
  await outcome(fault())
  await clock.advance(-60_000)
  t.equal(await outcome(ENDED), 'asked: ended')
})

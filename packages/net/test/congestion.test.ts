import fc from 'fast-check'
import t from 'tap'
import { Congestion } from '../src/congestion.ts'

const SECOND = 1_000
const MOST = 64
const MOST_WAITING = 1_000
const PATIENCE = 3 * SECOND

/** Somebody who is asked, by a clock that stands still unless it is moved. */
function startServer() {
  const questions = new Congestion()
  const open: ((isAway?: boolean) => void)[] = []
  let now = 1_000_000
  const seen = { dropped: 0 }
  /** Enters, and leaves as soon as there is a turn. */
  const ask = () =>
    questions.enter((isTurn) => {
      if (!isTurn) {
        seen.dropped += 1
        return
      }
      const sent = questions.send(now)
      open.push((isAway = false) => questions.end(sent, isAway, now))
    }, now)
  return {
    ...{ questions, open, ask, seen },
    condition: () => questions.condition(now),
    wait: () => questions.wait(now),
    advance(ms: number) {
      now += ms
    },
    /** All that are out are answered after some ms, and those that leave then, and so on. */
    answerAll(ms: number, rounds = Number.POSITIVE_INFINITY) {
      for (let round = 0; round < rounds && open.length > 0; round++) {
        now += ms
        for (const answer of open.splice(0)) answer()
      }
    },
    /** Asks once; gives whether the question was sent. */
    outcome(isAway: boolean) {
      const before = open.length
      ask()
      const answer = open.splice(before)[0]
      answer?.(isAway)
      return answer !== undefined
    },
  }
}

t.test('eight are out at first, the others wait in their order', async (t) => {
  const { questions, open, ask } = startServer()
  for (let i = 0; i < 20; i++) ask()
  t.strictSame(questions.load, { waiting: 12, running: 8 })
  open.shift()?.()
  t.strictSame(questions.load, { waiting: 11, running: 8 }, 'whoever is done hands the turn on')
})

t.test('one more is out at once as long as answers are quick, up to a limit', async (t) => {
  const { open, ask, answerAll } = startServer()
  const widths: number[] = []
  for (let round = 0; round < 120; round++) {
    for (let i = open.length; i < 200; i++) ask()
    widths.push(open.length)
    answerAll(100, 1)
  }
  t.strictSame(widths.slice(0, 4), [8, 9, 10, 11])
  t.equal(widths.at(-1), MOST)
})

t.test(
  'half as many are out once answers are slow, and more again when they are not',
  async (t) => {
    const { questions, open, ask, answerAll, condition, advance } = startServer()
    const width = (ms: number) => {
      while (questions.load.waiting < 100) ask()
      const { length } = open
      answerAll(ms, 1)
      return length
    }
    t.strictSame([100, 3_000, 3_000, 3_000, 3_000].map(width), [8, 9, 4, 2, 1])
    t.equal(condition(), 'slow')
    t.strictSame([3_000, 3_000, 3_000].map(width), [2, 3, 4], 'it is as slow with one')
    for (let round = 0; round < 10; round++) width(50)
    answerAll(50)
    advance(30 * SECOND)
    t.equal(condition(), 'well')
  },
)

t.test('somebody is slow whose answers, or whose turn, would not come in time', async (t) => {
  const { questions, open, ask, answerAll, advance, condition, wait } = startServer()
  t.equal(condition(), 'well')
  ask()
  advance(1_999)
  t.equal(condition(), 'well')
  advance(2)
  t.equal(condition(), 'slow', 'one that does not answer')
  open.splice(0)[0]?.()
  for (let i = 0; i < 8; i++) {
    ask()
    answerAll(100)
  }
  t.equal(condition(), 'slow', 'for half a minute')
  advance(30 * SECOND)
  t.equal(condition(), 'well')
  for (let i = 0; i < 300; i++) ask()
  t.ok(wait() > PATIENCE, `${questions.load.waiting} are before whoever comes`)
  t.equal(condition(), 'slow')
  answerAll(100)
  advance(30 * SECOND)
  t.equal(condition(), 'well')
  ask()
  answerAll(60 * SECOND)
  t.equal(condition(), 'slow')
  advance(120 * SECOND)
  t.equal(condition(), 'well', 'which is forgotten if nobody asks')
})

t.test('whoever was slow counts as slow for half a minute', async (t) => {
  const { open, ask, advance, condition } = startServer()
  ask()
  advance(2_001)
  t.equal(condition(), 'slow')
  open.splice(0)[0]?.()
  advance(30 * SECOND - 1)
  t.equal(condition(), 'slow')
  advance(1)
  t.equal(condition(), 'well')
})

t.test('after an outage it pauses, twice as long each time', async (t) => {
  const { outcome, advance, condition, wait } = startServer()
  t.equal(outcome(true), true)
  for (const seconds of [5, 10, 20, 40, 60, 60]) {
    t.match([condition(), wait()], ['away', Number.POSITIVE_INFINITY])
    advance(seconds * SECOND - 1)
    t.equal(outcome(false), false, `${seconds} s are not over`)
    advance(1)
    t.ok(wait() <= PATIENCE, 'whoever comes now is let through')
    t.equal(outcome(true), true, `after ${seconds} s`)
  }
  advance(60 * SECOND)
  t.equal(outcome(false), true)
  t.equal(condition(), 'well')
  t.equal(outcome(true), true, 'open again')
  advance(5 * SECOND)
  t.equal(outcome(false), true, 'and short again')
})

t.test('one is let through after an outage, and nobody else meanwhile', async (t) => {
  const { open, ask, outcome, advance, seen, condition } = startServer()
  outcome(true)
  advance(5 * SECOND)
  ask()
  ask()
  t.match([open.length, seen.dropped, condition()], [1, 1, 'away'])
  open.splice(0)[0]?.()
  t.match([outcome(false), condition()], [true, 'well'])
})

t.test('who waits when the outage comes is never sent', async (t) => {
  const { open, ask, outcome, advance, seen } = startServer()
  for (let i = 0; i < 30; i++) ask()
  for (const answer of open.splice(0)) answer(true)
  t.match([open.length, seen.dropped], [0, 22])
  advance(5 * SECOND)
  t.equal(outcome(false), true, 'eight at once are one outage')
})

t.test('a turn whose question never leaves says nothing', async (t) => {
  const { questions, condition } = startServer()
  let turns = 0
  for (let i = 0; i < 5; i++)
    questions.enter(() => {
      turns += 1
    }, 0)
  for (let i = 0; i < 5; i++) questions.end(undefined, true, 9e6)
  t.match([turns, questions.load.running, condition()], [5, 0, 'well'])
})

t.test('a clock that is set back does not prolong the pause', async (t) => {
  const { outcome, advance } = startServer()
  outcome(true)
  advance(-60 * SECOND)
  t.equal(outcome(false), true)
})

t.test('no more than a thousand wait', async (t) => {
  const { questions, ask, seen } = startServer()
  for (let i = 0; i < 2_000; i++) ask()
  t.strictSame(questions.load.waiting, MOST_WAITING)
  t.equal(seen.dropped, 2_000 - MOST_WAITING - 8)
})

/** What the other side does for some time: answers after so many ms, or not at all. */
const phase = fc.record({
  seconds: fc.integer({ min: 1, max: 40 }),
  /** Those who come in a second. */
  arrivals: fc.integer({ min: 0, max: 60 }),
  latency: fc.oneof(fc.constantFrom(20, 100, 2_500, 9_000), fc.integer({ min: 1, max: 9_000 })),
  isAway: fc.boolean(),
  /** Whether it takes longer the more it has to do. */
  isBusy: fc.boolean(),
})

t.test('property: whatever arrives, however slow, and whenever it dies', async (t) => {
  const STEP = 50
  const seen = { well: 0, slow: 0, away: 0, waited: 0, 'did not wait': 0, dropped: 0 }
  fc.assert(
    fc.property(fc.array(phase, { minLength: 1, maxLength: 6 }), (phases) => {
      const questions = new Congestion()
      const out: { until: number; end(now: number): void }[] = []
      let [now, entered, left, dropped, ended] = [0, 0, 0, 0, 0]
      const fastest = Math.min(...phases.map(({ latency }) => latency), 50)
      const last = { seconds: 200, arrivals: 1, latency: 50, isAway: false, isBusy: false }
      let state: (typeof phases)[number] = last
      let arrived = 0
      for (const current of [...phases, last])
        for (const end = now + current.seconds * SECOND; now < end; now += STEP) {
          state = current
          for (const one of out.filter(({ until }) => until <= now)) {
            out.splice(out.indexOf(one), 1)
            one.end(now)
          }
          arrived += (state.arrivals * STEP) / SECOND
          for (; arrived >= 1; arrived -= 1) {
            entered += 1
            const { waiting, running } = questions.load
            const isWaiting = questions.wait(now) <= PATIENCE
            seen[isWaiting ? 'waited' : 'did not wait'] += 1
            seen[questions.condition(now)] += 1
            // No answer is quicker, and no more are out at once.
            const soonest = (fastest * (waiting + running)) / MOST
            if (isWaiting && soonest > PATIENCE) throw new Error('one waits who cannot be served')
            let isOver = false
            questions.enter((isTurn) => {
              if (isOver) throw new Error('two answers to one who entered')
              isOver = true
              if (!isTurn) {
                dropped += 1
                seen.dropped += 1
                return
              }
              left += 1
              const sent = questions.send(now)
              const { latency, isBusy } = state
              const busy = latency * (isBusy ? questions.load.running : 1)
              const until = now + Math.min(busy, 30 * SECOND)
              const end = (at: number) => {
                ended += 1
                questions.end(sent, state.isAway, at)
              }
              out.push({ until, end })
            }, now)
            const { load } = questions
            if (load.running > MOST) throw new Error(`${load.running} are out`)
            if (load.waiting > MOST_WAITING) throw new Error(`${load.waiting} wait`)
            if (load.running !== left - ended) throw new Error('a turn was lost')
            if (entered !== left + dropped + load.waiting) throw new Error('somebody was lost')
          }
        }
      if (questions.load.waiting > 0) throw new Error('somebody waits though it is well')
      if (questions.condition(now) !== 'well')
        throw new Error(`${questions.condition(now)} at the end`)
    }),
    { numRuns: Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 100 },
  )
  for (const [what, times] of Object.entries(seen)) t.ok(times > 100, `${what}: ${times} times`)
})

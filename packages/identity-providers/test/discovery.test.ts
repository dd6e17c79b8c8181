import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { Discovery } from '../src/discovery.ts'
import { ProviderError } from '../src/errors.ts'

const DOWN = new ProviderError('FWA_PROVIDER_UNREACHABLE', 'down')
const log = { warn() {}, info() {} }

t.test('whoever needs a provider that was down causes one read in a second', async (t) => {
  const clock = manualClock()
  const state = { isUp: false, reads: 0 }
  const read = async () => {
    state.reads += 1
    await new Promise(setImmediate)
    if (!state.isUp) throw DOWN
    return 'the document'
  }
  const discovery = new Discovery('corp', read, { clock, log })
  t.teardown(() => discovery.close())
  const askTwenty = async () => {
    const before = state.reads
    const all = await Promise.allSettled(Array.from({ length: 20 }, () => discovery.get()))
    const reasons = all.map((one) => (one.status === 'rejected' ? one.reason : one.value))
    return { reads: state.reads - before, reasons: [...new Set(reasons.map(String))], all }
  }
  // The pauses between the reads in the background grow to 15 seconds or more. One begins here, so that none of them interferes.
  for (let minute = 0; minute < 5; minute++) await clock.advance(60_000)
  for (const { reads } = state; state.reads === reads; ) await clock.advance(500)
  t.equal(discovery.failing(), true)
  for (let second = 0; second < 5; second++) {
    await clock.advance(1_000)
    t.match(await askTwenty(), { reads: 1, reasons: [String(DOWN)] }, 'they share it')
    await clock.advance(400)
    const early = await askTwenty()
    t.match(early, { reads: 0, reasons: [String(DOWN)] }, 'and not soon again')
    t.match(early.all[0], { reason: { retryAfter: 1 } })
  }
  state.isUp = true
  t.match(await askTwenty(), { reads: 0, reasons: [String(DOWN)] })
  await clock.advance(600)
  t.match(await askTwenty(), { reads: 1, reasons: ['the document'] }, 'it is back')
  t.equal(discovery.failing(), false)
  t.match(await askTwenty(), { reads: 0, reasons: ['the document'] })
})

t.test('what is closed reads no more', async (t) => {
  const clock = manualClock()
  const states = { 'before the first answer': 0, 'with a document': 1 }
  for (const [when, good] of Object.entries(states)) {
    let reads = 0
    const read = async () => {
      reads += 1
      if (reads > good) throw DOWN
      return 'the document'
    }
    const discovery = new Discovery('corp', read, { clock, log })
    const asked = discovery.get().catch(() => {})
    if (good) {
      await asked
      await clock.advance(60_000)
      await discovery.get()
    }
    discovery.close()
    await asked
    await clock.advance(3_600_000)
    t.equal(reads, good + 1, when)
  }
})

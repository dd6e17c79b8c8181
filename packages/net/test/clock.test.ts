import { getEventListeners } from 'node:events'
import t from 'tap'
import { orAborted, orLate, sleep } from '../src/clock.ts'

const late = () => Promise.reject(new Error('late'))
const aborted = AbortSignal.abort(new Error('enough'))

t.test('leaves shared work at an abort, and handles its failure', async (t) => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => void unhandled.push(error)
  process.on('unhandledRejection', note)
  t.teardown(() => process.off('unhandledRejection', note))
  await t.rejects(orAborted(late(), aborted), { message: 'enough' })
  const stop = new AbortController()
  t.equal(await orAborted(Promise.resolve(1), stop.signal), 1)
  t.strictSame(getEventListeners(stop.signal, 'abort'), [], 'it no longer waits for one')
  const left = orAborted(new Promise(setImmediate).then(late), stop.signal)
  stop.abort(new Error('enough'))
  await t.rejects(left, { message: 'enough' })
  await new Promise((resolve) => setTimeout(resolve, 5))
  t.strictSame(unhandled, [])
})

function stillClock() {
  const timers = new Set<{ cancel(): void; run(): void }>()
  return {
    timers,
    now: () => 0,
    setTimer(run: () => void) {
      const timer = { run, cancel: () => void timers.delete(timer) }
      timers.add(timer)
      return timer
    },
  }
}

t.test('waits for work no longer than the clock says, and leaves no timer', async (t) => {
  const clock = stillClock()
  t.equal(await orLate(Promise.resolve(1), clock, 1_000), 1)
  await t.rejects(orLate(late(), clock, 1_000), { message: 'late' })
  t.equal(clock.timers.size, 0)
  const waiting = orLate(new Promise(() => {}), clock, 1_000)
  for (const { run } of clock.timers) run()
  t.equal(await waiting, undefined)
  t.equal(clock.timers.size, 0)
})

t.test('stops sleeping after an abort, and leaves no timer', async (t) => {
  const clock = stillClock()
  const { timers } = clock
  await t.rejects(sleep(clock, 1_000, aborted), { message: 'enough' })
  const stop = new AbortController()
  const sleeping = sleep(clock, 1_000, stop.signal)
  t.equal(timers.size, 1)
  stop.abort(new Error('enough'))
  await t.rejects(sleeping, { message: 'enough' })
  t.equal(timers.size, 0)
})

import { hash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock } from './clock.ts'

/** A clock that tests control. */
export interface ManualClock extends Clock {
  /** Moves the clock, fires each timer at its time, and lets their callbacks continue. */
  advance(ms: number): Promise<void>
}

/** Creates a {@link ManualClock} that begins at `start`, in milliseconds since the epoch. */
export function manualClock(start = Date.UTC(2030, 0, 1)): ManualClock {
  let now = start
  const timers = new Set<{ time: number; fn: () => void }>()
  const next = (until: number) =>
    [...timers].filter(({ time }) => time <= until).toSorted((a, b) => a.time - b.time)[0]

  return {
    now: () => now,
    setTimer(fn, ms) {
      // A clock shows whole milliseconds.
      const timer = { time: Math.ceil(now + ms), fn }
      timers.add(timer)
      return { cancel: () => void timers.delete(timer) }
    },
    async advance(ms) {
      const until = now + ms
      for (let timer = next(until); timer; timer = next(until)) {
        timers.delete(timer)
        now = Math.max(now, timer.time)
        timer.fn()
        await new Promise(setImmediate)
      }
      now = until
      await new Promise(setImmediate)
    },
  }
}

/** The content of a test's folder: the text of each file, and folders in turn. */
export interface FolderContent {
  [name: string]: string | Buffer | FolderContent
}

/** The parts of a tap test that {@link testFolder} uses. */
interface FolderOwner {
  testdirName: string
  teardown(fn: () => unknown): unknown
  testdir(content: FolderContent): string
}

/**
 * Makes a folder that lasts as long as the test and gives its path, which is in the system's temporary folder. Each call
 * makes another one: tap would empty the first, under a service that still uses it. tap removes them, but before the
 * teardowns run when no teardown was there before it. A service that still writes would then make it fail, so this
 * registers one first.
 */
export function testFolder(t: FolderOwner, content: FolderContent = {}): string {
  t.teardown(() => undefined)
  t.testdirName = join(tmpdir(), `gatehouse-test-${hash('sha256', t.testdirName)}`)
  return t.testdir(content)
}

import t from 'tap'
import { Usage } from '../../src/port/usage.ts'

const NOW = 1_000_000
const HOUR = 3_600_000

t.test('a reservation ends after its lifetime, and begins now if a clock was ahead', async (t) => {
  const cases: [what: string, since: number, kept: number | undefined][] = [
    ['a moment before its end', NOW - HOUR + 1, NOW - HOUR + 1],
    ['at its end', NOW - HOUR, undefined],
    ['now', NOW, NOW],
    ['later than now', NOW + 1, NOW],
  ]
  for (const [what, since, kept] of cases) {
    const usage = new Usage([], [{ key: 'k', order: 'o', since }])
    t.equal(usage.reservations('k', NOW, HOUR)[0]?.since, kept, what)
    t.strictSame([...usage.ended], kept === undefined ? ['o'] : [], `${what}: what is deleted`)
    const begun = kept === undefined || kept === since ? [] : [kept]
    t.strictSame(
      usage.begun.map((reservation) => reservation.since),
      begun,
      `${what}: what is stored`,
    )
  }
})

t.test('use that a clock wrote which was ahead is put right, and that is stored', async (t) => {
  const usage = new Usage([{ key: 'k', until: NOW }], [])
  t.equal(usage.untilAtMost('k', NOW), NOW)
  t.equal(usage.changed.size, 0)
  t.equal(usage.untilAtMost('k', NOW - 1), NOW - 1)
  t.strictSame([...usage.changed], [['k', NOW - 1]])
  t.equal(usage.until('k'), NOW - 1)
  t.equal(usage.until('other'), 0)
})

t.test('a copy begins with what was changed, and changes nothing', async (t) => {
  const usage = new Usage([{ key: 'k', until: 1 }], [])
  usage.set('k', 2)
  usage.reserve('o', ['k'], NOW)
  const copy = usage.copy()
  t.equal(copy.until('k'), 2)
  t.equal(copy.reservations('k', NOW, HOUR).length, 1)
  copy.set('k', 3)
  copy.end('o')
  t.equal(usage.until('k'), 2)
  t.equal(usage.reservations('k', NOW, HOUR).length, 1)
})

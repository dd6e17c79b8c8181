import t from 'tap'
import { compare, type Effort } from '../../bench/harness/compare.ts'

const EFFORT: Effort = {
  rounds: 1,
  slices: 2,
  sliceMs: 100,
  stable: 0.05,
  warmUpMs: { min: 500, max: 10_000 },
  certificates: 0,
  comparisons: 'all',
  wants: () => true,
  noise: 0.04,
}

t.test('a side is measured once its figure is stable', async (t) => {
  const rising = [10, 20, 40, 80, 99, 100, 101, 100]
  let turns = 0
  const { value, ratio } = await compare(
    async () => ({
      measure: { cold: async () => rising[turns++] ?? 100, steady: async () => 50 },
      stop: async () => {},
    }),
    EFFORT,
  )
  t.equal(value('cold'), 100)
  t.equal(ratio('cold', 'steady'), 2)
  t.equal(turns, rising.length + EFFORT.slices)
})

t.test('a side is not measured before its least warm-up', async (t) => {
  let turns = 0
  const { value } = await compare(
    async () => ({
      // Stable early on, then slower while V8 compiles again.
      measure: { early: async () => (turns++ < 5 ? 10 : 20) },
      stop: async () => {},
    }),
    { ...EFFORT, warmUpMs: { min: 900, max: 10_000 } },
  )
  t.equal(value('early'), 20)
  t.equal(turns, 9 + EFFORT.slices)
})

t.test('a side that never becomes stable is measured in the end', async (t) => {
  let turns = 0
  const { value } = await compare(
    async () => ({
      measure: { wild: async () => (turns++ % 2 === 0 ? 1 : 3) },
      stop: async () => {},
    }),
    EFFORT,
  )
  t.equal(value('wild'), 2)
  t.equal(turns, EFFORT.warmUpMs.max / EFFORT.sliceMs + EFFORT.slices)
})

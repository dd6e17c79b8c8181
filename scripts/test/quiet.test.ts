import t from 'tap'
import { assertQuiet, expectWarnings } from './quiet.ts'

type Line = Parameters<typeof assertQuiet>[1] extends () => readonly (infer Each)[] ? Each : never

/** What a test that ends says about the log of its service. */
function endOf(
  log: readonly Line[],
  named: readonly string[] = [],
  around: readonly string[] = [],
) {
  const ends: (() => void)[] = []
  const parent = {}
  const test = { parent, teardown: (run: () => void) => void ends.push(run) }
  assertQuiet(test, () => log)
  expectWarnings(test, ...named)
  expectWarnings(parent, ...around)
  return () => {
    for (const end of ends) end()
  }
}

t.test('a test fails that does not name a line at warn or above', async (t) => {
  const warning = { level: 40, msg: 'check refused: x', code: 'FWA_X' }
  const error = JSON.stringify({ level: 50, msg: 'broken', err: { code: 'EIO' } })
  const rows: [log: readonly Line[], named: readonly string[], fails?: RegExp][] = [
    [[{ level: 30, msg: 'ready' }], []],
    [[warning], ['FWA_X']],
    [
      [warning, error],
      ['check refused', 'EIO'],
    ],
    [[warning], [], /the log warns: FWA_X check refused: x/],
    [[warning], ['FWA_Y'], /FWA_X/],
    [[warning, error], ['FWA_X'], /EIO broken/],
  ]
  for (const [log, named, fails] of rows)
    for (const end of [endOf(log, named), endOf(log, [], named)])
      if (fails) t.throws(end, fails)
      else t.doesNotThrow(end)
})

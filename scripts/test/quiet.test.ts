import t from 'tap'
import { assertQuiet, expectWarnings } from './quiet.ts'

type Line = Parameters<typeof assertQuiet>[1] extends () => readonly (infer Each)[] ? Each : never

/** The failures of a test that ends, by the log of its service. */
function endOf(
  log: readonly Line[],
  named: readonly string[] = [],
  around: readonly string[] = [],
) {
  const ends: (() => void)[] = []
  const failures: string[] = []
  const parent = {}
  const test = {
    parent,
    teardown: (run: () => void) => void ends.push(run),
    threw: ({ message }: Error) => void failures.push(message),
  }
  assertQuiet(test, () => log)
  expectWarnings(test, ...named)
  expectWarnings(parent, ...around)
  for (const end of ends) end()
  return failures
}

t.test('a test fails that does not name a line at warn or above', async (t) => {
  const warning = { level: 40, msg: 'check refused: x', code: 'FWA_X' }
  const error = JSON.stringify({ level: 50, msg: 'broken', err: { code: 'EIO' } })
  const [ofWarning, ofError] = [
    'the log warns: FWA_X check refused: x',
    'the log warns: EIO broken',
  ]
  const rows: [log: readonly Line[], named: readonly string[], failures: readonly string[]][] = [
    [[{ level: 30, msg: 'ready' }], [], []],
    [[warning], ['FWA_X'], []],
    [[warning, error], ['check refused', 'EIO'], []],
    [[warning], [], [ofWarning]],
    [[warning], ['FWA_Y'], [ofWarning]],
    [[warning, error], ['FWA_X'], [ofError]],
    [[warning, error], [], [ofWarning, ofError]],
  ]
  for (const [log, named, failures] of rows) {
    t.strictSame(endOf(log, named), failures)
    t.strictSame(endOf(log, [], named), failures, 'named by the test around it')
  }
  t.throws(() => expectWarnings({}, ''), /empty text/)
})

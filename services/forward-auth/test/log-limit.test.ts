import t from 'tap'
import { createLogLimit } from '../src/log-limit.ts'

t.test('a log line with the same key is written once a minute', async (t) => {
  let now = 0
  const lines: string[] = []
  const limitLog = createLogLimit(() => now)
  const write = (key: string) => limitLog(key, () => lines.push(`${key}${now}`))
  for (now of [0, 1, 59_999, 60_000]) {
    write('a')
    write('b')
  }
  t.same(lines, ['a0', 'b0', 'a60000', 'b60000'])
  now = -100_000
  write('a')
  t.equal(lines.length, 5, 'also after the clock was set back')
})

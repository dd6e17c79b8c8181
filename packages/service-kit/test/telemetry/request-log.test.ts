import { pino } from 'pino'
import t from 'tap'
import { createRequestLog } from '../../src/telemetry/request-log.ts'

t.test('the logger of a request is made when it first logs, once', async (t) => {
  const lines: Record<string, unknown>[] = []
  const parent = pino({ base: {} }, { write: (line) => void lines.push(JSON.parse(line)) })
  let made = 0
  const counted = Object.assign(Object.create(parent), {
    child(...args: Parameters<typeof parent.child>) {
      made++
      return parent.child(...args)
    },
  })

  const log = createRequestLog(counted, { reqId: 'r-1' }, { level: 'debug' })
  t.equal(made, 0)
  log.debug({ a: 1 }, 'at the level of its options')
  log.trace('below it')
  log.child({ b: 2 }).error('further')
  t.equal(made, 1)
  t.match(lines, [
    { reqId: 'r-1', a: 1, level: 20 },
    { reqId: 'r-1', b: 2, level: 50 },
  ])
  t.equal(lines.length, 2)

  t.equal(log.level, 'debug')
  log.level = 'error'
  log.info('not any more')
  t.equal(lines.length, 2)
})

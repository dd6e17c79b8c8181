import t from 'tap'
import { escaped } from '../../src/telemetry/log.ts'
import { createTerminalLines } from '../../src/telemetry/terminal.ts'

const [INFO, WARN, ERROR] = [30, 40, 50]
const REQUEST = { msg: 'request', method: 'GET', path: '/a', status: 503, ms: 1.26 }
const DOWN = { code: 'CORP_DOWN', message: 'Corp is down', stack: 'Error: Corp\n    at x' }
const ODD = { message: 'x is undefined', stack: 'TypeError: x\n    at y' }

function lines() {
  const printed: { level: number; msg: string; err?: unknown }[] = []
  const due: (() => void)[] = []
  const { take, flushAll } = createTerminalLines({
    escaped,
    write: (line) => void printed.push(JSON.parse(line)),
    actionFor: (code) => (code === 'CORP_DOWN' ? 'Look at Corp.' : undefined),
    later: (then) => void due.push(then),
  })
  const log = (level: number, entry: object) =>
    take(JSON.stringify({ level, time: 1, name: 'test', ...entry }))
  return { printed, due, flushAll, log, texts: () => printed.map(({ msg }) => msg) }
}

const cases: [what: string, entries: [level: number, entry: object][], ...texts: string[]][] = [
  ['a message', [[INFO, { msg: 'ready', url: 'http://a' }]], 'ready url=http://a'],
  [
    'a request',
    [[INFO, { ...REQUEST, reqId: '1', status: 200, ip: '::1', caller: 'a b' }]],
    'GET /a 200 1.3 ms ip=::1 caller="a b"',
  ],
  [
    'a client that a proxy names',
    [[INFO, { ...REQUEST, reqId: '1', ip: '::1', clientAddress: '10.0.0.1', host: undefined }]],
    'GET /a 503 1.3 ms clientAddress=10.0.0.1',
  ],
  [
    'a request with all that was logged about it',
    [
      [INFO, { msg: 'signed in', reqId: '1', provider: 'corp' }],
      [INFO, { msg: 'signed in', reqId: '2', provider: 'other' }],
      [INFO, { ...REQUEST, reqId: '1', status: 303 }],
      [INFO, { ...REQUEST, reqId: '2', status: 302 }],
    ],
    'GET /a 303 1.3 ms; signed in provider=corp',
    'GET /a 302 1.3 ms; signed in provider=other',
  ],
  [
    'a request that was refused',
    [[INFO, { ...REQUEST, reqId: '1', status: 400, code: 'NAME_BAD', detail: 'no name' }]],
    'GET /a 400 1.3 ms; NAME_BAD: no name',
  ],
  [
    'an expected failure of a request, with what to do and the ID that its page names',
    [
      [WARN, { msg: 'request refused', reqId: '1', err: DOWN, code: DOWN.code }],
      [INFO, { ...REQUEST, reqId: '1', code: DOWN.code }],
    ],
    'GET /a 503 1.3 ms; CORP_DOWN: Corp is down (Look at Corp.) reqId=1',
  ],
  [
    'an expected failure',
    [[WARN, { msg: 'no provider', provider: 'corp', err: DOWN }]],
    'no provider; CORP_DOWN: Corp is down (Look at Corp.) provider=corp',
  ],
  [
    'what is over several lines',
    [[ERROR, { msg: 'not reloaded', err: { ...DOWN, code: 'CONFIG_X', message: 'a\nb' } }]],
    'not reloaded; CONFIG_X: a b',
  ],
  [
    'what looks like another line',
    [[INFO, { msg: 'a\nGET /b 200', tool: 'x\ny z=1\x1b[2J\u202e' }]],
    'a GET /b 200 tool="x\\ny z=1\\\\u001b[2J\\\\u202e"',
  ],
]

t.test('a line', async (t) => {
  for (const [what, entries, ...texts] of cases) {
    const { log, printed, texts: told } = lines()
    for (const [level, entry] of entries) log(level, entry)
    t.strictSame(told(), texts, what)
    t.notOk(
      printed.some(({ err }) => err),
      `${what}: no stack`,
    )
  }
})

t.test('a line has the highest level of what it is made of', async (t) => {
  const { log, printed } = lines()
  log(WARN, { msg: 'request refused', reqId: '1', err: DOWN })
  log(INFO, { ...REQUEST, reqId: '1' })
  t.match(printed, [{ level: WARN }])
})

t.test('an unexpected error keeps its stack and waits for nothing', async (t) => {
  for (const code of [undefined, 'ERR_INVALID_ARG_TYPE', 'FST_ERR_X', 'ENOENT']) {
    const { log, printed } = lines()
    log(ERROR, { msg: 'request refused', reqId: '1', err: { ...ODD, code } })
    t.match(
      printed,
      [{ level: ERROR, msg: /^request refused/, err: { stack: ODD.stack } }],
      `${code}`,
    )
  }
})

t.test('what belongs to a request is printed without it', async (t) => {
  t.test('after a second', async (t) => {
    const { log, due, texts } = lines()
    for (const msg of ['first', 'second']) log(INFO, { msg, reqId: '1' })
    t.strictSame(texts(), [])
    t.equal(due.length, 1)
    due[0]?.()
    t.strictSame(texts(), ['first', 'second'])
    log(INFO, { ...REQUEST, reqId: '1' })
    t.equal(texts().at(-1), 'GET /a 503 1.3 ms', 'and only once')
  })
  t.test('at the end', async (t) => {
    const { log, flushAll, texts } = lines()
    log(INFO, { msg: 'first', reqId: '1' })
    flushAll()
    t.strictSame(texts(), ['first'])
  })
  t.test('if too many wait', async (t) => {
    const { log, texts } = lines()
    for (let i = 0; i < 1_001; i++) log(INFO, { msg: `${i}`, reqId: `${i}` })
    t.strictSame(texts(), ['1000'])
  })
})

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import fc from 'fast-check'
import Fastify from 'fastify'
import t from 'tap'
import { appOptions, problems } from '../../src/http/index.ts'
import { createLogger, createMetrics, requestTelemetry } from '../../src/telemetry/index.ts'
import { redactLine, traceIdsOf } from '../../src/telemetry/log.ts'

const CANARY = 'canary5b8e2d'
const PEM = readFileSync(new URL('../fixtures/first.key.pem', import.meta.url), 'utf8')
const JWT = `eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIke${CANARY}In0.c2lnbmF0dXJl`

function capture(level = 'trace') {
  const lines: string[] = []
  const stream = { write: (text: string) => void lines.push(...text.split('\n').filter(Boolean)) }
  const log = createLogger({ level, format: 'json', name: 'test', stream })
  return { lines, log, last: () => JSON.parse(lines.at(-1) ?? '{}') }
}

const NAMES = [
  'authorization',
  'Authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'Set-Cookie',
  'privateKey',
  'private_key',
  'key',
  'psk',
  'jwk',
  'd',
  'pkcs8',
  'pem',
  'apiKey',
  'api-key',
  'masterKey',
  'data_key',
  'signing-key',
  'secret',
  'clientSecret',
  'client_secret',
  'password',
  'passphrase',
  'token',
  'access_token',
  'idToken',
  'refreshToken',
  'credential',
  'credentials',
]
const HARMLESS = ['keyType', 'csr', 'certificate', 'publicKey', 'keyId', 'tokenType', 'domain']

t.test('a secret by its name is never logged', async (t) => {
  const { log, last } = capture()
  for (const name of NAMES)
    t.test(name, async (t) => {
      log.info({ [name]: CANARY, a: { b: [{ c: { [name]: [CANARY] } }] } }, 'nested')
      t.match(last(), { [name]: '[redacted]', a: { b: [{ c: { [name]: '[redacted]' } }] } })
      log.child({ [name]: CANARY, x: { [name]: { deep: CANARY } } }).info('bound')
      t.match(last(), { [name]: '[redacted]', x: { [name]: '[redacted]' } })
      log.error(Object.assign(new Error('odd', { cause: { [name]: CANARY } }), { [name]: CANARY }))
      t.match(last(), { err: { type: 'Error', message: 'odd', [name]: '[redacted]' } })
      t.notMatch(JSON.stringify(last()), CANARY)
    })
  t.test('a member with a similar name is logged', async (t) => {
    log.info(Object.fromEntries(HARMLESS.map((name) => [name, name])))
    t.match(last(), Object.fromEntries(HARMLESS.map((name) => [name, name])))
  })
})

const TEXTS: [what: string, text: string][] = [
  ['a PEM key', PEM.replace(/^M.{10}/m, CANARY)],
  ['a PEM key in one line', PEM.replaceAll('\n', '').replace('EY-----', `EY-----${CANARY}`)],
  ['a PEM key with quotes in it', `"-----BEGIN PRIVATE KEY-----\n${CANARY}"${CANARY}\\"${CANARY}`],
  ['an RSA key', `x -----BEGIN RSA PRIVATE KEY-----\n${CANARY}`],
  ['a JWT', JWT],
  ['a JWT in a URL', `https://a.example/?id_token=${JWT}&x=1`],
  ['a JWT on a new line', `first\n${JWT}`],
  ['a JWT in quotes', `"${JWT}"`],
  ['an API key', `APIKey ${CANARY}`],
  ['a lower-case scheme', `apikey ${CANARY}`],
  ['a bearer token', `authorization: Bearer ${CANARY}`],
  ['basic credentials', `Basic ${CANARY}==`],
]

t.test('a secret by its shape is never logged', async (t) => {
  for (const [what, text] of TEXTS)
    t.test(what, async (t) => {
      const { log, lines } = capture()
      log.info(text)
      log.info({ note: text, list: [`a ${text}`] }, 'object')
      log.warn({ err: new Error(text, { cause: new Error(text) }) })
      log.child({ note: text }).debug('child')
      t.equal(lines.length, 4)
      for (const line of lines) {
        t.match(JSON.parse(line), { level: Number, name: 'test' }, 'the line is still JSON')
        t.match(line, '[redacted]')
        t.notMatch(line, CANARY)
      }
    })

  t.test('a certificate and ordinary words stay', async (t) => {
    const { log, last } = capture()
    const cert = readFileSync(new URL('../fixtures/first.cert.pem', import.meta.url), 'utf8')
    log.info({ cert }, 'eyJ is how a token begins, the bearer of it, basic')
    t.match(last(), { cert, msg: 'eyJ is how a token begins, the bearer of it, basic' })
  })

  t.test('redacts long lines quickly', async (t) => {
    const parts = ['eyJ', 'eyJaaaaa.', 'Bearer ', '-----BEGIN ', ' PRIVATE KEY-----', 'a', '.', '-']
    for (const part of parts) redactLine(part.repeat(300_000))
    t.pass('300,000 repeats of each part')
  })

  t.test('leaves other texts unchanged', async () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const line = JSON.stringify({ text })
        return /eyJ|apikey|bearer|basic|BEGIN/i.test(text) || redactLine(line) === line
      }),
    )
  })
})

t.test('odd values are logged without a fault', async (t) => {
  const { log, last } = capture()
  const loop: { self?: unknown; list: unknown[] } = { list: [] }
  loop.self = loop
  log.info({ loop, buffer: Buffer.from(CANARY), none: null, big: 1n.toString(), at: new Date(0) })
  t.match(last(), { buffer: '[omitted]', none: null, at: '1970-01-01T00:00:00.000Z' })
  log.info({ req: { method: 'GET', url: `/a?code=${CANARY}`, headers: { cookie: CANARY } } })
  t.strictSame(last().req, { method: 'GET', path: '/a' })
})

t.test('requestTelemetry', async (t) => {
  const { lines, log } = capture('info')
  const metrics = createMetrics({ service: 'test', version: '0' })
  const app = Fastify(appOptions(log))
  await app.register(requestTelemetry, { metrics })
  app.get('/a/:id', async (request) => {
    request.log.info('inside')
    return request.id
  })
  app.get('/quiet', { logLevel: 'warn' }, async () => '')

  const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
  const first = await app.inject({
    url: `/a/1?token=${CANARY}`,
    headers: { traceparent: `00-${trace}-00f067aa0ba902b7-01`, 'x-request-id': 'mine' },
  })
  const second = await app.inject(`/a/${encodeURIComponent('"}\n')}`)
  await app.inject({ method: 'POST', url: '/nothing' })
  await app.inject('/quiet')
  await app.close()
  const records = lines.map((line) => JSON.parse(line))
  const access = records.filter(({ msg }) => msg === 'request')

  t.test('logs one line per request, without the query', async (t) => {
    t.match(access, [
      { level: 30, method: 'GET', path: '/a/1', status: 200, ms: Number, ip: '127.0.0.1' },
      { method: 'GET', path: '/a/%22%7D%0A', status: 200 },
      { method: 'POST', path: '/nothing', status: 404 },
    ])
    t.equal(access.length, 3, 'and none for a route that asks for less')
    t.notMatch(lines.join(), CANARY)
  })

  t.test('a routine request is logged at the level debug', async (t) => {
    for (const [level, statuses] of [
      ['debug', [200, 404]],
      ['info', [404]],
    ] as const) {
      const { lines, log } = capture(level)
      const app = Fastify(appOptions(log))
      await app.register(requestTelemetry, {
        isRoutine: (_request, { statusCode }) => statusCode === 200,
      })
      app.get('/', async () => '')
      await app.inject('/')
      await app.inject('/nothing')
      t.strictSame(
        lines.map((line) => JSON.parse(line)).map(({ status }) => status),
        statuses,
        level,
      )
    }
  })

  t.test('request ids are generated, unique and on the lines of handlers', async (t) => {
    t.not(first.body, 'mine')
    t.not(first.body, second.body)
    t.strictSame(
      access.slice(0, 2).map(({ reqId }) => reqId),
      [first.body, second.body],
    )
    t.equal(records.find(({ msg }) => msg === 'inside').reqId, first.body)
  })

  t.test('the trace of the caller is on every line of its request', async (t) => {
    const traced = records.filter(({ trace_id }) => trace_id === trace)
    t.strictSame(
      traced.map(({ msg, span_id }) => [msg, span_id]),
      [
        ['inside', '00f067aa0ba902b7'],
        ['request', '00f067aa0ba902b7'],
      ],
    )
  })

  t.test('durations are counted by route pattern', async (t) => {
    const text = await metrics.text()
    t.match(text, 'http_request_duration_seconds_count{method="GET",route="/a/:id",status="2xx"} 2')
    t.match(
      text,
      'http_request_duration_seconds_count{method="POST",route="unmatched",status="4xx"} 1',
    )
    t.match(text, /_bucket\{le="\+Inf",method="GET",route="\/a\/:id",status="2xx"\} 2/)
  })
})

t.test('the line of a request that was refused says why', async (t) => {
  const { lines, log } = capture('info')
  const app = Fastify(appOptions(log))
  await app.register(requestTelemetry, {})
  await app.register(problems, { statusOf: { TEST_BAD: 422, TEST_DOWN: 503 } })
  for (const code of ['TEST_BAD', 'TEST_DOWN'])
    app.get(`/${code}`, async () => {
      throw Object.assign(new Error(`not ${'x'.repeat(300)}`), { code })
    })
  for (const path of ['/TEST_BAD', '/TEST_DOWN', '/nothing']) await app.inject(path)
  await app.close()
  const access = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request')
  t.match(access, [
    { status: 422, code: 'TEST_BAD', detail: /^not x{252}$/ },
    { status: 503, code: 'TEST_DOWN', detail: undefined },
    { status: 404, code: 'NOT_FOUND', detail: /nothing/ },
  ])
})

const traceparents: [what: string, header: string | string[] | undefined][] = [
  ['none', undefined],
  ['another version', `01-${'a'.repeat(32)}-${'b'.repeat(16)}-01`],
  ['version ff', `ff-${'a'.repeat(32)}-${'b'.repeat(16)}-01`],
  ['zeros as trace id', `00-${'0'.repeat(32)}-${'b'.repeat(16)}-01`],
  ['zeros as parent id', `00-${'a'.repeat(32)}-${'0'.repeat(16)}-01`],
  ['upper case', `00-${'A'.repeat(32)}-${'b'.repeat(16)}-01`],
  ['more at the end', `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01-x`],
  ['a quote', `00-${'a'.repeat(31)}"-${'b'.repeat(16)}-01`],
]

t.test('a traceparent that is not valid is not followed', async (t) => {
  for (const [what, header] of traceparents) t.equal(traceIdsOf(header), undefined, what)
})

t.test('logs the name of an error, since bundles rename classes', async (t) => {
  const lines: string[] = []
  const stream = { write: (line: string) => void lines.push(line) }
  const log = createLogger({ level: 'info', format: 'json', name: 'test', stream })
  const Minified = class a extends Error {
    override readonly name = 'CertError'
  }
  log.error({ err: new Minified('no') })
  log.error({ err: new TypeError('no') })
  t.strictSame(
    lines.map((line) => JSON.parse(line).err.type),
    ['CertError', 'TypeError'],
  )
})

t.test('on a terminal each line is one, but for the stacks of faults', async (t) => {
  const source = JSON.stringify(new URL('../../src/telemetry/log.ts', import.meta.url))
  const run = async (format: string, statement: string) => {
    const script = `
      const { createLogger } = await import(${source})
      const log = createLogger({ level: 'info', format: '${format}', name: 'test' })
      const failed = (code) => Object.assign(new Error('down', { cause: new Error('refused') }), { code })
      ${statement}`
    const args = ['--no-warnings', '--input-type=module', '-e', script]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    return stdout.trimEnd().split('\n')
  }
  const expected = "log.warn({ provider: 'corp', err: failed('NET_FETCH_TIMEOUT') }, 'no provider')"
  const cases: [what: string, statement: string, ...line: RegExp[]][] = [
    [
      'a request',
      "log.info({ reqId: '1', method: 'GET', path: '/a', status: 200, ms: 1.2 }, 'request')",
      /INFO.*GET \/a 200 1.2 ms$/,
    ],
    ['an expected failure', expected, /corp/, /NET_FETCH_TIMEOUT: down: refused/],
    [
      'what a terminal obeys',
      "log.info({ tool: 'a\\x9b2J\\u2028b\\u202ec\\x1b[2Jd\\n' }, 'e\\x9b\\x1bf')",
      /^[^\p{Cc}\p{Cf}\p{Zl}]*$/u,
      /e\\u009b\\u001bf tool="a\\\\u009b2J\\\\u2028b\\\\u202ec\\\\u001b\[2Jd\\n"/,
    ],
    ['what nothing follows', "log.info({ reqId: '1' }, 'signed in')", /signed in/],
  ]
  for (const [what, statement, ...expressions] of cases) {
    const lines = await run('pretty', statement)
    t.equal(lines.length, 1, what)
    for (const expression of expressions) t.match(lines[0], expression, what)
  }
  for (const code of ["'ERR_INVALID_ARG_TYPE'", "'FST_ERR_X'", 'undefined'])
    t.match((await run('pretty', `log.error(failed(${code}))`)).join(), /stack.* at /s, code)
  t.match(JSON.parse((await run('json', expected))[0] ?? ''), { err: { stack: /at / } }, 'JSON')
})

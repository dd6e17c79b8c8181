import t from 'tap'
import { request } from 'undici'
import { createMetrics } from '../../src/telemetry/index.ts'
import { createDurations, methodOf } from '../../src/telemetry/log.ts'
import { listenMetrics } from '../../src/telemetry/metrics.ts'

t.test('labels take values from their list and no others', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '1.2.3' })
  const counter = metrics.counter({
    name: 'c_total',
    help: 'h',
    labels: { result: ['ok', 'error'] },
  })
  counter.inc({ result: 'ok' })
  counter.inc({ result: 'ok' }, 2)
  for (let i = 0; i < 100; i++) counter.inc({ result: `attack-${i}` as 'ok' })
  metrics.counter({ name: 'plain_total', help: 'h' }).inc()
  metrics.counter({ name: 'two_total', help: 'h', labels: { a: ['x', 'y'], b: ['z'] } })
  metrics.gauge({ name: 'g', help: 'h', labels: { kind: ['a'] } }).set(7, { kind: 'a' })
  let asked = 0
  metrics.gauge({ name: 'asked', help: 'h', collect: () => ++asked })

  const text = await metrics.text()
  for (const line of [
    'c_total{result="ok"} 3',
    'c_total{result="other"} 100',
    'plain_total 1',
    'two_total{a="x",b="z"} 0',
    'two_total{a="y",b="z"} 0',
    'g{kind="a"} 7',
    'asked 1',
    'gatehouse_build_info{service="test",version="1.2.3"} 1',
    'process_cpu_seconds_total',
  ])
    t.ok(text.includes(`\n${line}`), line)
  t.notMatch(text, 'attack')
})

t.test('gauges are replaced at each scrape, up to the maximum', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  let names = ['a', 'b', 'c']
  metrics.gauges({
    name: 'gs',
    help: 'h',
    labels: ['name'],
    max: 2,
    collect: async () => names.map((name, value) => ({ labels: { name }, value })),
  })
  const lines = async () => (await metrics.text()).match(/^gs\{.*$/gm)
  t.strictSame(await lines(), ['gs{name="a"} 0', 'gs{name="b"} 1'])
  names = ['d']
  t.strictSame(await lines(), ['gs{name="d"} 0'])
})

t.test('durations fall into their buckets', async (t) => {
  const { registry } = createMetrics({ service: 'test', version: '0' })
  const durations = createDurations(registry)
  for (const seconds of [0.0004, 0.001, 0.0011, 0.3, 60])
    durations.observe({ method: methodOf('GET'), route: '/', status: '2xx' }, seconds)
  for (const method of ['BREW', 'PROPFIND'])
    durations.observe({ method: methodOf(method), route: '/', status: '4xx' }, 0)
  const lines = (await registry.metrics())
    .split('\n')
    .filter((line) => line.includes('method="GET"'))
  const counts = lines.map((line) =>
    line.replace(/.*le="([^"]+)".*\} /, '$1: ').replace(/.*_(sum|count)\{.*\} /, '$1: '),
  )
  t.strictSame(counts, [
    '0.001: 2',
    '0.0025: 3',
    '0.005: 3',
    '0.01: 3',
    '0.025: 3',
    '0.05: 3',
    '0.1: 3',
    '0.25: 3',
    '0.5: 4',
    '1: 4',
    '2.5: 4',
    '5: 4',
    '10: 4',
    '+Inf: 5',
    'sum: 60.3025',
    'count: 5',
  ])
  t.match(await registry.metrics(), '_count{method="OTHER",route="/",status="4xx"} 2')
})

t.test('listenMetrics', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const listener = await listenMetrics(metrics, { host: '127.0.0.1', port: 0 })
  t.teardown(() => listener.close())

  const answer = await request(listener.url)
  t.equal(answer.statusCode, 200)
  t.match(answer.headers['content-type'], 'text/plain; version=0.0.4')
  t.match(await answer.body.text(), 'gatehouse_build_info')

  const { origin, port } = new URL(listener.url)
  for (const [path, method] of [
    ['/', 'GET'],
    ['/metrics?x', 'GET'],
    ['/metrics', 'POST'],
  ] as const) {
    const { statusCode, body } = await request(origin + path, { method })
    await body.dump()
    t.equal(statusCode, 404, `${method} ${path}`)
  }
  await t.rejects(listenMetrics(metrics, { host: '127.0.0.1', port: Number(port) }), {
    code: 'CONFIG_LISTEN_FAILED',
    message: `cannot listen on 127.0.0.1:${port}: the port is in use by another program`,
  })
})

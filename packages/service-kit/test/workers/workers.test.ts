import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { Agent } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { bundleScript } from '../../../../scripts/test/bundle-script.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { ask, connectEach, startRunning } from '../../../../scripts/test/running.ts'
import { freePort } from '../../../acme/test/integration/processes.ts'

/** The service of these tests in one file, as dozens of processes start. */
const PROGRAM = join(t.testdir({}), 'crew.mjs')
await bundleScript(fileURLToPath(new URL('../fixtures/crew.ts', import.meta.url)), PROGRAM)

interface Settings {
  readonly workers?: number | 'auto'
  readonly port?: number
  /** Further lines. */
  readonly rest?: string
  readonly metrics?: string
  readonly env?: Readonly<Record<string, string>>
}

type Started = Awaited<ReturnType<typeof start>>

async function start(t: Test, settings: Settings = {}) {
  const file = join(testFolder(t), 'config.yaml')
  const configure = ({
    workers = 2,
    port = 0,
    rest = '',
    metrics = '{ enabled: false }',
  }: Settings) =>
    writeFile(
      file,
      `server: { port: ${port}, workers: ${workers} }\nmetrics: ${metrics}\n${rest}\n`,
    )
  await configure(settings)
  const running = startRunning(t, [PROGRAM, 'serve', '--config', file], settings.env)
  const heard = new Map<string, number>()
  return {
    ...running,
    /** The next line that says this. */
    next(msg: string) {
      const nth = (heard.get(msg) ?? 0) + 1
      heard.set(msg, nth)
      return running.said(msg, nth)
    },
    configure: (changed: Settings) => configure({ ...settings, ...changed }),
    async ready() {
      const { url, workers = [] } = await running.said('ready')
      return { url: url as string, workers: workers as readonly number[] }
    },
  }
}

/** What each worker answers, by its process. */
async function askEach(url: string, count: number): Promise<ReadonlyMap<number, string>> {
  const answers = new Map<number, string>()
  // They take new connections in turns, but not strictly.
  while (answers.size < count) {
    const [pid = '', ...rest] = (await ask(url)).body.split(' ')
    answers.set(Number(pid), rest.join(' '))
  }
  return answers
}

/** A connection to each worker, by its process. */
async function connect(t: Test, url: string, workers: readonly number[]) {
  const owners = await connectEach(t, workers, async (agent) =>
    Number((await ask(url, { agent })).body.split(' ')[0]),
  )
  return new Map([...owners].map(([agent, pid]) => [pid as number, agent]))
}

const sorted = (pids: Iterable<number>) => [...pids].toSorted((a, b) => a - b)

t.test('one worker is the process itself', async (t) => {
  const { ready, child, lines } = await start(t, { workers: 1 })
  const { url, workers } = await ready()
  t.strictSame(workers, [])
  t.strictSame([...(await askEach(url, 1)).keys()], [child.pid])
  t.strictSame(
    lines.filter((line) => 'pid' in line),
    [],
  )
  t.equal((await ask(`${url}/tell/nobody`)).body, 'told')
})

t.test('three workers', async (t) => {
  expectWarnings(t, 'a worker could not be told')
  expectWarnings(t, 'configuration not reloaded', 'not every worker reloaded')
  const port = await freePort()
  const settings = { workers: 3, metrics: `{ port: ${port} }`, rest: 'greeting: one' }
  const began = Date.now() / 1_000
  const { ready, child, lines, said, next, configure, ended } = await start(t, settings)
  const { url, workers } = await ready()

  t.test('each answers, and their counters are added up', async (t) => {
    t.equal(workers.length, 3)
    t.notOk(workers.includes(child.pid ?? 0))

    const counts = new Map<number, number>()
    let asked = 0
    // They take new connections in turns, but a busy machine may keep one of them from it for a while.
    for (; counts.size < 3 || Math.min(...counts.values()) < 10; asked++) {
      const pid = Number((await ask(url)).body.split(' ')[0])
      counts.set(pid, (counts.get(pid) ?? 0) + 1)
    }
    t.strictSame(sorted(counts.keys()), sorted(workers), 'none is left out')
    await said('request', asked, '/')
    const lined = lines.filter(({ msg, path }) => msg === 'request' && path === '/')
    t.strictSame(sorted(new Set(lined.map(({ pid }) => pid as number))), sorted(workers))
    t.equal(lines.filter(({ msg }) => msg === 'ready').length, 1)

    const expected = [
      `asked_total ${asked}`,
      `http_request_duration_seconds_count{method="GET",route="/",status="2xx"} ${asked}`,
      'gatehouse_build_info{service="crew",version="1"} 1',
      'gatehouse_ready 1',
      'gatehouse_workers 3',
      'gatehouse_config_reload_success 1',
    ]
    let metrics = ''
    const isIn = (line: string) => metrics.includes(`\n${line}\n`)
    // A worker that is too busy for a scrape counts as at the one before.
    for (let tries = 0; tries < 100 && !expected.every(isIn); tries++)
      metrics = (await ask(`http://127.0.0.1:${port}/metrics`)).body
    for (const line of expected) t.ok(isIn(line), line)
    const [, loadedAt] = /^gatehouse_config_loaded_seconds (\d+)$/m.exec(metrics) ?? []
    const [, startedAt] = /^process_start_time_seconds (\d+)$/m.exec(metrics) ?? []
    const now = Date.now() / 1_000
    for (const time of [loadedAt, startedAt])
      t.ok(Number(time) > began - 1 && Number(time) < now + 1, 'a time, not a sum of times')
  })

  t.test('what one worker says, all others have handled before it goes on', async (t) => {
    const agents = [...(await connect(t, url, workers)).values()]
    let missed = 0
    for (let n = 0, heardByAll = 0; heardByAll < 30; n++) {
      const [first, ...others] = [...agents.slice(n % 3), ...agents.slice(0, n % 3)]
      t.equal((await ask(`${url}/tell/${n}`, { agent: first! })).body, 'told')
      const answers = await Promise.all(others.map((agent) => ask(url, { agent })))
      const late = answers.filter(({ body }) => body.split(' ')[2] !== String(n))
      if (late.length === 0) heardByAll += 1
      missed += late.length
      // Whom a busy machine keeps from answering for a second is named in the log.
      if (missed > 0) await said('a worker could not be told', missed)
    }
    const hasFailed = () =>
      lines.some(({ err }) => /it cannot be handled/.test(JSON.stringify(err)))
    do t.equal((await ask(`${url}/tell/fail`)).body, 'told', 'one that fails ends nothing')
    while (!hasFailed())
  })

  t.test('SIGHUP: all reload, and the log says whether they did', async (t) => {
    const greetings = async () =>
      [...(await askEach(url, 3)).values()].map((text) => text.split(' ')[0])
    t.strictSame(await greetings(), ['one', 'one', 'one'])

    await configure({ rest: 'greeting: two' })
    child.kill('SIGHUP')
    t.match(await next('all workers reloaded'), { workers: 3 })
    t.strictSame(await greetings(), ['two', 'two', 'two'])

    await configure({ rest: 'greeting: [no, text]' })
    child.kill('SIGHUP')
    const { failed } = await next('not every worker reloaded')
    t.equal((failed as unknown[]).length, 3)
    t.match(await said('configuration not reloaded, the old one stays', 3), {
      err: { message: /greeting must be a string/ },
    })
    t.strictSame(await greetings(), ['two', 'two', 'two'])
  })

  t.test('the supervisor is killed: no worker outlives it', async (t) => {
    child.kill('SIGKILL')
    t.match(await ended, { signal: 'SIGKILL' })
    await t.rejects(ask(url), { code: 'ECONNREFUSED' })
  })
})

t.test('two workers', async (t) => {
  expectWarnings(t, 'a worker could not be told', 'a worker ended', 'unexpected error, stopping')
  const port = await freePort()
  const { ready, said, next, child, ended } = await start(t, { metrics: `{ port: ${port} }` })
  const { url, workers } = await ready()

  t.test('one that is stuck is waited for a second', async (t) => {
    const [[, agent], [stuck]] = [...(await connect(t, url, workers))] as [
      [number, Agent],
      [number, Agent],
    ]
    process.kill(stuck, 'SIGSTOP')
    t.teardown(() => process.kill(stuck, 'SIGCONT'))
    t.equal((await ask(`${url}/tell/news`, { agent })).body, 'told')
    const untold = await next('a worker could not be told')
    t.match(untold, { worker: stuck, topic: 'heard' })
    const answered = await said('request', 1, '/tell/news')
    t.ok(Number(answered.time) >= Number(untold.time), 'not answered before that')
    process.kill(stuck, 'SIGCONT')
    t.equal((await askEach(url, 2)).get(stuck), 'hello news', 'and takes part again')
  })

  t.test('one is killed: the port stays open, another takes its place', async (t) => {
    const counted = async () => {
      const { body } = await ask(`http://127.0.0.1:${port}/metrics`)
      return Number(/^asked_total (\d+)$/m.exec(body)?.[1])
    }
    await askEach(url, 2)
    const before = await counted()

    const failures: unknown[] = []
    let answered = 0
    let isOver = false
    const asking = (async () => {
      while (!isOver)
        await ask(url).then(
          () => answered++,
          // The killed worker may have had a connection.
          ({ code }) => code !== 'ECONNRESET' && failures.push(code),
        )
    })()
    process.kill(workers[0]!, 'SIGKILL')
    t.match(await next('a worker ended'), {
      worker: workers[0],
      outcome: 'SIGKILL',
      pid: child.pid,
    })
    const { worker } = await next('a worker is ready')
    isOver = true
    await asking
    t.strictSame(failures, [], 'no connection is refused, and none waits for ever')
    t.ok(answered > 0)
    t.strictSame(sorted((await askEach(url, 2)).keys()), sorted([workers[1]!, worker as number]))
    t.ok((await counted()) >= before, 'what it had counted stays counted')
  })

  t.test('an unexpected error ends one, which is replaced', async (t) => {
    await ask(`${url}/crash`).catch(() => {})
    const { pid } = await next('unexpected error, stopping')
    t.match(await next('a worker ended'), { worker: pid, outcome: 'code 1' })
    await next('a worker is ready')
    t.equal((await askEach(url, 2)).size, 2)
  })

  t.test('one that is told to end drains, and is replaced', async (t) => {
    const answer = ask(`${url}/slow`)
    const { pid } = await next('in flight')
    process.kill(pid as number, 'SIGTERM')
    t.equal((await answer).body, 'finished')
    t.match(await next('a worker ended'), { worker: pid, outcome: 'code 0' })
    await next('a worker is ready')
  })

  t.test('SIGTERM: requests in flight are answered, and all end', (t) =>
    drained(t, 'SIGTERM', { ready, next, child, ended }),
  )
})

t.test('SIGINT: requests in flight are answered, and all end', async (t) =>
  drained(t, 'SIGINT', await start(t)),
)

/** Ends two workers in order while each has a request. */
async function drained(
  t: Test,
  signal: NodeJS.Signals,
  { ready, child, next, ended }: Pick<Started, 'ready' | 'child' | 'next' | 'ended'>,
) {
  const { url } = await ready()
  const answers = Promise.all([ask(`${url}/slow`), ask(`${url}/slow`)])
  const pids = [await next('in flight'), await next('in flight')].map(({ pid }) => pid)
  t.equal(new Set(pids).size, 2, 'one at each worker')
  child.kill(signal)
  t.strictSame(
    (await answers).map(({ body }) => body),
    ['finished', 'finished'],
  )
  t.match(await ended, { code: 0, stderr: '' })
  await t.rejects(ask(url), { code: 'ECONNREFUSED' })
}

t.test('a signal to all processes at once, as systemd and terminals send it', async (t) => {
  const { ready, child, said, ended } = await start(t)
  const { url, workers } = await ready()
  const answer = ask(`${url}/slow`)
  await said('in flight')
  for (const pid of [child.pid ?? 0, ...workers]) process.kill(pid, 'SIGINT')
  t.equal((await answer).body, 'finished')
  t.match(await ended, { code: 0 })
})

t.test('a start that fails ends as one of a single process does', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => void taken.close())
  await once(taken, 'listening')
  const { port } = taken.address() as { port: number }
  const cases: [what: string, settings: Settings][] = [
    ['a port in use', { port }],
    ['a port of the metrics in use', { metrics: `{ port: ${port} }` }],
    ['a configuration with faults', { rest: 'greeting: []\natStart: sometimes' }],
    ['an error of the service', { rest: 'atStart: throws' }],
  ]
  for (const [what, settings] of cases)
    t.test(what, async (t) => {
      const outcomes = []
      for (const workers of [1, 2]) {
        const { ended, lines } = await start(t, { ...settings, workers })
        const { code, stderr } = await ended
        outcomes.push({ code, stderr })
        t.notOk(lines.some(({ msg }) => msg === 'ready'))
      }
      t.match(outcomes[0], { code: 1, stderr: /\[[A-Z_]+\]\n$/ })
      t.strictSame(outcomes[1], outcomes[0])
    })
  t.test('a process that is killed at once', async (t) => {
    const { ended } = await start(t, { rest: 'atStart: dies' })
    t.match(await ended, { code: 1, stderr: 'crew: a worker ended at its start (SIGKILL)\n' })
  })
})

t.test('gives up when no worker is left and none can be started', async (t) => {
  expectWarnings(t, 'a worker ended', 'a worker could not start', 'no worker can be started')
  const { ready, said, configure, ended } = await start(t)
  const { workers } = await ready()
  await configure({ rest: 'greeting: []' })
  for (const pid of workers) process.kill(pid, 'SIGKILL')
  t.match(await said('a worker could not start'), { reason: /greeting must be a string/ })
  await said('no worker can be started')
  t.match(await ended, { code: 1 })
})

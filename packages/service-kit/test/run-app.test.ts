import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { get, Agent as HttpAgent } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { text } from 'node:stream/consumers'
import Fastify from 'fastify'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { ask as answer, connections } from '../../../scripts/test/running.ts'
import { until } from '../../../scripts/test/until.ts'
import { systemClock } from '../src/clock.ts'
import { runApp } from '../src/lifecycle.ts'
import { GRACE_MS, limitConnections } from '../src/run-app.ts'

const log = pino({ level: 'silent' })

/** Asks on a connection that is kept, so that closing it is the service's part. */
function ask(url: string): Promise<string> {
  const agent = new HttpAgent({ keepAlive: true })
  return new Promise((resolve, reject) => {
    get(url, { agent }, (response) => resolve(text(response))).on('error', reject)
  })
}

async function start(t: Test, { graceMs = 10_000, drainMs = 0 } = {}) {
  const file = new URL('fixtures/service.ts', import.meta.url)
  const child = fork(file, [String(graceMs), String(drainMs)], { stdio: 'pipe' })
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  child.stdout!.setEncoding('utf8').on('data', (chunk) => {
    output += chunk
  })
  const exit = once(child, 'close').then(([code]) => ({ code, output }))
  return { child, exit, url: String(await message(child)), output: () => output }
}

async function message(child: ChildProcess) {
  const [value] = await once(child, 'message')
  return value
}

t.test('SIGTERM: pending requests are answered, then the process exits', async (t) => {
  const { child, exit, url } = await start(t)
  t.match(url, /^http:\/\/127\.0\.0\.1:\d+$/)
  t.equal(await ask(`${url}/`), 'ready')
  const answer = ask(`${url}/slow`)
  t.equal(await message(child), 'in flight')

  child.kill('SIGTERM')
  const refused = async () =>
    ask(`${url}/`).then(
      () => false,
      () => true,
    )
  while (!(await refused()));
  const closed = message(child)
  child.send('release')
  t.equal(await answer, 'finished')
  t.equal(await closed, 'closed')
  t.match(await exit, { code: 0, output: /"msg":"stopping"[\s\S]*"msg":"stopped"/ })
})

t.test('SIGTERM: unready, it goes on answering for a moment', async (t) => {
  const { child, url } = await start(t, { graceMs: 120_000, drainMs: 100_000 })
  const agents = connections(t, 9)
  for (const agent of agents) await answer(url, { agent })
  child.kill('SIGTERM')
  while ((await answer(`${url}/readyz`)).status === 200);
  const answers = await Promise.all(agents.map((agent) => answer(url, { agent })))
  for (const { status, headers } of [...answers, await answer(url)])
    t.match({ status, ...headers }, { status: 200, connection: 'close' })
  t.match(JSON.parse((await answer(`${url}/readyz`)).body), { code: 'NOT_READY', status: 503 })
})

t.test('SIGTERM: it stops at the end of that moment; SIGINT: without one', async (t) => {
  for (const [signal, drainMs] of [
    ['SIGTERM', 50],
    ['SIGINT', 100_000],
  ] as const) {
    const { child, exit, url } = await start(t, { graceMs: 120_000, drainMs })
    const [agent] = connections(t, 1)
    t.equal((await answer(url, { agent: agent! })).status, 200)
    child.kill(signal)
    t.match(await exit, { code: 0 }, 'though a connection is kept')
  }
})

t.test('a second signal exits at once', async (t) => {
  const { child, exit, url, output } = await start(t)
  const answer = ask(`${url}/slow`).catch(() => 'cut')
  await message(child)
  child.kill('SIGINT')
  await until(() => output().includes('"msg":"stopping"'))
  child.kill('SIGINT')
  t.match(await exit, { code: 1, output: /second SIGINT/ })
  t.equal(await answer, 'cut')
})

t.test('exits at the end of the grace period, also after an unexpected error', async (t) => {
  const { child, exit, url } = await start(t, { graceMs: 50 })
  ask(`${url}/slow`).catch(() => {})
  await message(child)
  await ask(`${url}/crash`)
  t.match(await exit, { code: 1, output: /unexpected error, stopping[\s\S]*killed by timeout/ })
})

t.test('SIGHUP reloads, and a failed reload changes nothing', async (t) => {
  const { child, exit, url, output } = await start(t)
  const outcomes = () => output().match(/configuration (not )?reloaded/g) ?? []
  const expected = [
    'configuration reloaded',
    'configuration not reloaded',
    'configuration reloaded',
  ]
  for (let count = 1; count <= expected.length; count++) {
    child.kill('SIGHUP')
    await until(() => outcomes().length === count)
    t.strictSame(outcomes(), expected.slice(0, count))
  }
  t.equal(await ask(url), 'ready')
  child.kill('SIGTERM')
  t.match(await exit, { code: 0 })
})

t.test('runApp in this process', async (t) => {
  const before = process.listenerCount('SIGTERM')
  let closed = 0
  const running = await runApp({
    app: Fastify().get('/', async () => 'ready'),
    host: '127.0.0.1',
    port: 0,
    log,
    onClose: async () => void closed++,
  })
  t.equal(await ask(running.url), 'ready')

  const port = Number(new URL(running.url).port)
  const refusals: [what: string, address: { host: string; port: number }, message: string][] = [
    [
      'a port in use',
      { host: '127.0.0.1', port },
      `127.0.0.1:${port}: the port is in use by another program`,
    ],
    [
      'a foreign address',
      { host: '192.0.2.1', port },
      `192.0.2.1:${port}: this machine does not have that address`,
    ],
  ]
  for (const [what, address, message] of refusals)
    t.test(`${what} is one clear line`, async (t) => {
      await t.rejects(runApp({ app: Fastify(), ...address, log }), {
        code: 'CONFIG_LISTEN_FAILED',
        message: `cannot listen on ${message}`,
      })
    })

  t.test('rejects with the error of a plugin', async (t) => {
    const app = Fastify()
    app.register(async () => {
      throw new Error('no store')
    })
    await t.rejects(runApp({ app, host: '127.0.0.1', port: 0, log }), { message: 'no store' })
  })

  t.test('close() stops it and leaves no handler behind', async (t) => {
    await running.close()
    t.equal(closed, 1)
    t.equal(process.listenerCount('SIGTERM'), before)
    await t.rejects(ask(running.url))
  })
})

t.test('stops within the ten seconds after which Docker kills', async (t) => {
  t.ok(GRACE_MS <= 9_000)
})

t.test('systemClock', async (t) => {
  const [before, now, after] = [Date.now(), systemClock.now(), Date.now()]
  t.ok(before <= now && now <= after)
  t.test('a timer fires, a cancelled one does not', async (t) => {
    const fired: string[] = []
    systemClock.setTimer(() => fired.push('cancelled'), 1).cancel()
    await new Promise<void>((resolve) => {
      const keepAlive = setTimeout(() => {}, 5_000)
      systemClock.setTimer(() => {
        fired.push('fired')
        clearTimeout(keepAlive)
        resolve()
      }, 5)
    })
    t.strictSame(fired, ['fired'])
  })
  t.test('a timer beyond what setTimeout can hold does not fire at once', async (t) => {
    let fired = false
    const timer = systemClock.setTimer(() => {
      fired = true
    }, 30 * 86_400_000)
    await new Promise((resolve) => setTimeout(resolve, 5))
    timer.cancel()
    t.notOk(fired)
  })
})

t.test('refuses connections beyond the limit, and logs it once a minute', async (t) => {
  const server = createServer()
  const lines: object[] = []
  let now = 0
  const log = { warn: (fields: object, message: string) => void lines.push({ ...fields, message }) }
  limitConnections(server, log, { openFiles: 65, now: () => now })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo

  const first = connect(port, '127.0.0.1')
  t.teardown(() => first.destroy())
  await once(server, 'connection')
  const refuse = async () => {
    const dropped = once(server, 'drop')
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    const closed = new Promise((resolve) => socket.on('close', resolve))
    await Promise.all([dropped, closed])
  }
  await refuse()
  await refuse()
  await refuse()
  const message = 'connections refused: too many are open'
  t.strictSame(lines, [{ refused: 1, maxConnections: 1, openFiles: 65, message }])
  now = 60_000
  await refuse()
  t.match(lines[1], { refused: 3 })
  t.equal(lines.length, 2)
})

t.test('keeps a tenth of the files free, and sets no limit if the system has none', async (t) => {
  const log = { warn() {} }
  const table: [openFiles: number, maxConnections: number | undefined][] = [
    [10, 1],
    [100, 36],
    [1_024, 921],
    [Number.POSITIVE_INFINITY, undefined],
  ]
  for (const [openFiles, maxConnections] of table) {
    const server = createServer()
    limitConnections(server, log, { openFiles })
    t.equal(server.maxConnections, maxConnections, String(openFiles))
  }
})

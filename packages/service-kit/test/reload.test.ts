import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { measureReloads, reload, watchConfig } from '../src/reload.ts'
import { createMetrics } from '../src/telemetry/index.ts'

interface Config {
  readonly keys: string
  readonly server: string
}

/** A program whose state is what was committed last; `files` is what the next load gives. */
function program(t: Test, files: Config) {
  const state = { ...files }
  const warned: object[] = []
  const faults: { prepare?: Error } = {}
  const gates: Promise<void>[] = []
  const { reload, close } = watchConfig<Config>({
    loaded: { value: { ...files }, secretFiles: [] },
    async load() {
      const value = { ...files }
      await gates.shift()
      return { value, secretFiles: [] }
    },
    async prepare(next) {
      if (faults.prepare) throw faults.prepare
      return () => void Object.assign(state, next)
    },
    readOnce: ['server'],
    log: { warn: (fields) => void warned.push(fields), error: () => {} },
  })
  t.teardown(close)
  return { state, files, faults, warned, gates, reload }
}

t.test('a configuration that cannot be prepared changes nothing', async (t) => {
  const { state, files, faults, warned, reload } = program(t, { keys: 'old', server: 'a' })
  Object.assign(files, { keys: 'new', server: 'b' })
  faults.prepare = new Error('no')
  await t.rejects(reload(), { message: 'no' })
  t.same(state, { keys: 'old', server: 'a' })
  t.same(warned, [], 'and nothing is said of a restart')

  faults.prepare = undefined as never
  await reload()
  t.same(state, { keys: 'new', server: 'b' })
  t.same(warned, [{ sections: ['server'] }])
})

t.test('reloads run one after the other, so the newest files win', async (t) => {
  const { state, files, gates, reload } = program(t, { keys: 'old', server: 'a' })
  const { promise: slow, resolve } = Promise.withResolvers<void>()
  gates.push(slow)
  Object.assign(files, { keys: 'second' })
  const first = reload()
  await Promise.resolve()
  Object.assign(files, { keys: 'third' })
  const other = reload()
  resolve()
  await Promise.all([first, other])
  t.equal(state.keys, 'third')
})

t.test('watches the secret files of the new configuration after a reload', async (t) => {
  const folder = t.testdir({ old: 'a', new: 'b' })
  const [before, after] = [join(folder, 'old'), join(folder, 'new')]
  let loads = 0
  let seen = Promise.withResolvers<void>()
  const { reload, close } = watchConfig({
    loaded: { value: {}, secretFiles: [before] },
    async load() {
      loads += 1
      return { value: {}, secretFiles: [after] }
    },
    prepare: async () => () => seen.resolve(),
    readOnce: [],
    log: { warn() {}, error() {} },
  })
  // A watch alone does not keep a process running.
  const alive = setInterval(() => {}, 60_000)
  t.teardown(() => {
    clearInterval(alive)
    close()
  })
  await reload()
  seen = Promise.withResolvers()
  await writeFile(after, 'changed')
  await seen.promise
  t.equal(loads, 2)
})

t.test('logs only the changed keys that need a restart', async (t) => {
  const warned: object[] = []
  const next = { server: { port: 1, trusted: 'a' } }
  const { reload, close } = watchConfig({
    loaded: { value: structuredClone(next), secretFiles: [] },
    load: async () => ({ value: structuredClone(next), secretFiles: [] }),
    prepare: async () => () => {},
    readOnce: ['server.port'],
    log: { warn: (fields) => void warned.push(fields), error() {} },
  })
  t.teardown(close)
  next.server.trusted = 'b'
  await reload()
  t.same(warned, [])
  next.server.port = 2
  await reload()
  t.same(warned, [{ sections: ['server.port'] }])
})

t.test('reports whether each reload succeeded', async (t) => {
  const told: boolean[] = []
  let fault: Error | undefined
  const { reload, close } = watchConfig({
    loaded: { value: {}, secretFiles: [] },
    load: async () => ({ value: {}, secretFiles: [] }),
    async prepare() {
      if (fault) throw fault
      return () => {}
    },
    readOnce: [],
    onReload: (isTakenUp) => void told.push(isTakenUp),
    log: { warn() {}, error() {} },
  })
  t.teardown(close)
  await reload()
  fault = new Error('faulty')
  await t.rejects(reload(), fault)
  fault = undefined
  await reload()
  t.strictSame(told, [true, false, true])
})

t.test('the plugin', async (t) => {
  const app = Fastify()
  await app.register(reload)
  const calls: string[] = []
  let failure: Error | undefined
  const part = (name: string) => (config: Config) => {
    if (name === 'second' && failure) throw failure
    calls.push(`${name} prepares ${config.keys}`)
    return () => void calls.push(`${name} commits ${config.keys}`)
  }
  app.onReload<Config>(part('first'))
  await app.register(async (child) => child.onReload<Config>(async (next) => part('second')(next)))

  t.test('prepares in the order of registration and commits all at once', async (t) => {
    const commit = await app.prepareReload({ keys: 'new', server: 'a' })
    t.strictSame(calls.splice(0), ['first prepares new', 'second prepares new'])
    commit()
    t.strictSame(calls.splice(0), ['first commits new', 'second commits new'])
  })

  t.test('rejects and commits nothing if one part fails', async (t) => {
    failure = new Error('no')
    await t.rejects(app.prepareReload({ keys: 'bad', server: 'a' }), failure)
    t.strictSame(calls.splice(0), ['first prepares bad'])
  })
})

t.test(
  'reloads are measured: when the last one was taken up, and how the last try went',
  async (t) => {
    const metrics = createMetrics({ service: 'test', version: '0' })
    let now = 1_000
    const reloaded = measureReloads(metrics, () => now)
    const lines = async () => (await metrics.text()).match(/^gatehouse_config.*$/gm)
    const of = (at: number, success: number) => [
      `gatehouse_config_loaded_seconds ${at}`,
      `gatehouse_config_reload_success ${success}`,
    ]
    t.strictSame(await lines(), of(1, 1))
    now = 5_000
    reloaded(false)
    t.strictSame(await lines(), of(1, 0))
    reloaded(true)
    t.strictSame(await lines(), of(5, 1))
  },
)

import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type BoundedFetch, createFetch } from '@gatehouse/net'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { manualClock, testFolder } from '@gatehouse/service-kit/testing'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { buildApp } from '../src/app.ts'
import { loadForwardAuthConfig } from '../src/config/load.ts'
import type { ForwardAuthConfig } from '../src/config/schema.ts'
import { CORP, portalOf, startApp, yamlOf } from './app.ts'
import { SHAPES } from './shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_HOST_UNKNOWN', 'FWA_PEER_UNTRUSTED', 'FWA_NOT_FOUND')

const SILENT = createLogger({ name: 'test', level: 'silent', format: 'json' })

/** A service whose connections to providers are counted. */
async function startCounted(t: Test) {
  const folder = testFolder(t, { 'config.yaml': yamlOf(portalOf('main') + portalOf('other')) })
  const { value: config } = await loadForwardAuthConfig(`${folder}/config.yaml`, {})
  const open = new Set<BoundedFetch>()
  const state = { made: 0, failAt: 0 }
  const clock = manualClock()
  const app = await buildApp(config, {
    clock,
    log: SILENT,
    createFetch(options) {
      state.made += 1
      if (state.made === state.failAt) throw new Error('no more connections')
      const fetch = createFetch(options)
      const counted = Object.assign((...args: Parameters<BoundedFetch>) => fetch(...args), {
        close: async () => {
          open.delete(counted)
          await fetch.close()
        },
      }) as BoundedFetch
      open.add(counted)
      return counted
    },
  })
  let closing: Promise<void> | undefined
  const close = () => (closing ??= app.close())
  t.teardown(close)
  return { config, app, clock, open, state, close }
}

type Broken = (config: ForwardAuthConfig) => unknown
const throwing = (key: string, rest: object = {}) =>
  Object.create(rest, {
    [key]: {
      get() {
        throw new Error(`no ${key}`)
      },
    },
  })

/** Each part that a reload makes, and a configuration that it cannot be made of. */
const FAULTS: Readonly<Record<string, Broken>> = {
  keys: (config) => ({ ...config, session: { ...config.session, keys: [{ secret: 'short' }] } }),
  sites: (config) => ({ ...config, domains: [throwing('domain')] }),
  trust: (config) => ({ ...config, server: throwing('trustedProxies') }),
  'a policy of the last portal': ({ portals, ...config }) => ({
    ...config,
    portals: portals.with(1, { ...portals[1]!, policies: { broken: 'Group(' } }),
  }),
  'who may in': ({ portals, ...config }) => ({
    ...config,
    portals: portals.with(1, { ...portals[1]!, allow: 'Group(' }),
  }),
  headers: ({ portals, ...config }) => ({
    ...config,
    portals: portals.with(1, throwing('headers', portals[1])),
  }),
}

/** What a reload would change. */
function stateOf({ portals, sites, trust }: FastifyInstance) {
  return {
    portals: new Map(portals),
    sites: sites.list,
    trusted: ['10.0.0.9', '127.0.0.1'].map((remoteAddress) => trust.trusts({ remoteAddress })),
  }
}

t.test('a reload that fails anywhere changes nothing and leaves no connection', async (t) => {
  const { config, app, open, state } = await startCounted(t)

  const before = stateOf(app)
  const areSame = () => [...app.portals].every(([name, each]) => before.portals.get(name) === each)
  const connections = [...open]
  const changed = {
    ...config,
    domains: [{ domain: 'example.org', session: { scope: 'host' } as const }],
    server: { ...config.server, trustedProxies: ['10.0.0.0/8'] },
  }
  for (const [part, breakIt] of Object.entries(FAULTS)) {
    await t.rejects(app.prepareReload(breakIt(changed) as ForwardAuthConfig), part)
    t.strictSame(stateOf(app), before, part)
    t.ok(areSame(), part)
    t.strictSame([...open], connections, `${part}: what was made is closed`)
  }
  for (const nth of [1, 2]) {
    state.failAt = state.made + nth
    await t.rejects(app.prepareReload(changed), { message: 'no more connections' })
    t.ok(areSame(), `provider ${nth}`)
    t.strictSame([...open], connections, `provider ${nth}: those before it are closed`)
  }

  state.failAt = 0
  const commit = await app.prepareReload(changed)
  t.strictSame(stateOf(app), before, 'prepared, and nothing is taken up yet')
  commit()
  const after = stateOf(app)
  t.notOk(areSame())
  t.strictSame(
    after.sites.map(({ domain }) => domain),
    ['example.org'],
  )
  t.strictSame(
    [before.trusted, after.trusted],
    [
      [false, true],
      [true, false],
    ],
  )
})

t.test('sessions of what a reload left in place go on, those of the rest end', async (t) => {
  const both = `  - { name: main, providers: [${CORP}, ${CORP.replace('corp', 'partner')}] }\n`
  const test = await startApp(t, yamlOf(both + portalOf('other')))
  const cookies = {
    main: await test.signIn('main'),
    partner: await test.signIn('main', {}, { provider: 'partner' }),
    other: await test.signIn('other'),
  }
  const statuses = async () => {
    const asked = Object.entries(cookies).map(([name, cookie]) =>
      test.check(SHAPES[0]!, { cookie }, { portal: name === 'other' ? 'other' : 'main' }),
    )
    return (await Promise.all(asked)).map(({ statusCode }) => statusCode)
  }
  t.strictSame(await statuses(), [200, 200, 200])
  await test.reload(yamlOf(both + portalOf('other')))
  t.strictSame(await statuses(), [200, 200, 200], 'nothing changed')
  await test.reload(yamlOf(portalOf('main') + portalOf('other')))
  t.strictSame(await statuses(), [200, 401, 200], 'without a provider')
  await test.reload(yamlOf(portalOf('main')))
  t.strictSame(await statuses(), [200, 401, 404], 'without a portal')
  await test.reload(yamlOf(portalOf('main')).replace('0123456789abcdef', 'another-key-here'))
  t.strictSame(await statuses(), [401, 401, 404], 'without the key')
})

t.test('a reload takes up trusted proxies and domains together with the portals', async (t) => {
  const test = await startApp(t, yamlOf(portalOf('main')))
  const ask = (remoteAddress: string, host: string) =>
    test.check(SHAPES[0]!, { 'X-Forwarded-Host': host }, { remoteAddress })
  t.equal((await ask('10.0.0.9', 'app.example.com')).statusCode, 403)
  const yaml = yamlOf(portalOf('main'), 'server: { trustedProxies: [10.0.0.0/8] }')
  await test.reload(yaml.replaceAll('example.com', 'example.org'))
  t.equal((await ask('10.0.0.9', 'app.example.org')).statusCode, 401)
  t.equal((await ask('10.0.0.9', 'app.example.com')).json().code, 'FWA_HOST_UNKNOWN')
  t.equal((await ask('127.0.0.1', 'app.example.org')).json().code, 'FWA_PEER_UNTRUSTED')
})

t.test('providers that a reload replaced are closed when their logins have had time', async (t) => {
  const { config, app, clock, open } = await startCounted(t)
  const before = [...open]
  const commit = await app.prepareReload(config)
  commit()
  t.equal(open.size, 2 * before.length)
  await clock.advance(30_000)
  await setImmediate()
  t.notOk(before.some((fetch) => open.has(fetch)))
  t.equal(open.size, before.length)
})

t.test('what a reload replaced is let go, with what it cached', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const yaml = yamlOf(
    portalOf(
      'main',
      'policies: { staff: "Group(`staff`)" }, assertion: { hosts: [app.example.com] }',
    ),
  )
  const { app, clock, ...test } = await startApp(t, yaml)
  // Its own function, since a variable of the loop would hold them.
  const weakly = () =>
    [...app.portals.values(), app.sites, app.trust, app.keys].map((part) => new WeakRef(part))
  const replaced: WeakRef<object>[] = []
  for (let i = 0; i < 3; i++) {
    const asked = await test.check(SHAPES[0]!, { cookie: await test.signIn('main') })
    t.equal(asked.statusCode, 200)
    replaced.push(...weakly())
    await test.reload(yaml)
    await clock.advance(30_000)
  }
  t.equal((await test.check(SHAPES[0]!)).statusCode, 401)
  await setImmediate()
  collect()
  t.equal(replaced.filter((part) => part.deref()).length, 0, `of ${replaced.length}`)
})

t.test('the service ends at once after a reload', async (t) => {
  const { config, app, open, close } = await startCounted(t)
  const commit = await app.prepareReload(config)
  commit()
  await close()
  t.equal(open.size, 0)
})

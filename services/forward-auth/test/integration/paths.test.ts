import fc from 'fast-check'
import t from 'tap'
import { DAILY_URLS, isAdminToSome, target } from '../../../../packages/gate/test/paths.ts'
import { CONFIG, startGate } from '../helpers/gate.ts'
import { missingProgram, PROXIES, type ProxyName } from '../proxies/index.ts'

/** Three of four may be taken for others; the rest shows that paths are open at all. */
const path = fc.oneof(
  { weight: 3, arbitrary: target },
  {
    weight: 1,
    arbitrary: fc
      .array(fc.constantFrom('a', 'b', 'public'), { minLength: 1, maxLength: 4 })
      .map((segments) => `/${segments.join('/')}`),
  },
)

/** Anybody may pass but at and below `/admin`. */
const YAML = CONFIG.replace(
  'providers:',
  `rules:
      - { paths: [/public/*], require: anyone }
      - { paths: [/admin/*], require: admins }
      - { require: anyone }
    providers:`,
)

const KEY = 'correct-horse-battery-staple'
/** A key that may read one page, and an app that is open but for a part of it. */
const WITH_KEY = CONFIG.replace('policies:', 'policies:\n      metrics: Scope("metrics")').replace(
  'providers:',
  `callers: { keys: [{ name: monitor, key: ${KEY}, scopes: [metrics], policies: [metrics] }] }
    rules:
      - { paths: [/metrics], require: metrics }
      - { paths: [/payments/*], require: admins }
    providers:`,
)

/** Spellings of paths that the key must not reach, whatever a proxy makes of them. */
const SPELLINGS = [
  ...['/admin//users', '/./secret', '/secret;x', '/%2e/secret', '/x%2fy', '/admin/users', '/'],
  ...['//metrics/x', '/metrics%2f..%2fadmin', '/METRICS/x', '/x/..;/metrics', '/metrics;/x'],
]

for (const proxy of Object.keys(PROXIES) as ProxyName[])
  t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
    await t.test('nobody reaches a path that the app may take for a guarded one', async (t) => {
      const { pass } = await startGate(t, proxy, { yaml: YAML })
      const seen = { open: 0, guarded: 0 }
      await fc.assert(
        fc.asyncProperty(path, async (path) => {
          const { heard } = await pass(path)
          seen[heard === undefined ? 'guarded' : 'open'] += 1
          return heard === undefined || !isAdminToSome(heard)
        }),
        { numRuns: 200 },
      )
      t.ok(seen.open > 10 && seen.guarded > 30, JSON.stringify(seen))
      for (const [app, url] of DAILY_URLS) t.ok((await pass(url)).heard, `${app}: ${url}`)
      for (const [app, url] of [
        ['a slash too many', '/public//x'],
        ['a backslash in a query', '/public/x?path=C:\\Users'],
      ] as const)
        t.equal((await pass(url)).status, 200, `${app}: ${url}`)
      // Some proxies and Node.js refuse bytes that are not ASCII; the app here is one of Node.js.
      const bytes = '/public/x?q=\xc3\xa4'
      if (PROXIES[proxy].sendsBytes) t.equal((await pass(bytes)).told, bytes)
    })

    await t.test('a key for one policy reaches no other path by its spelling', async (t) => {
      const { pass } = await startGate(t, proxy, { yaml: WITH_KEY })
      const headers = { Authorization: `APIKey ${KEY}` }
      t.equal((await pass('/metrics', headers)).status, 200)
      for (const spelling of SPELLINGS) {
        const { heard, status } = await pass(spelling, headers)
        // Envoy itself makes another path of some.
        if (heard !== '/metrics')
          t.match([heard, status >= 300], [undefined, true], `${spelling}: ${status}`)
      }
    })
  })

import fc from 'fast-check'
import t from 'tap'
import { isAdminToSome, target } from '../check/paths.ts'
import { CONFIG, startGate } from '../helpers/gate.ts'
import { missingProgram, PROXIES, type ProxyName } from '../helpers/proxies.ts'

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

t.test('nobody reaches an app by a path that it may take for a guarded one', async (t) => {
  for (const proxy of Object.keys(PROXIES) as ProxyName[])
    await t.test(proxy, { skip: missingProgram(proxy) }, async (t) => {
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
    })
})

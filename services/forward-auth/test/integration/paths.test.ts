import fc from 'fast-check'
import t from 'tap'
import { isAdminToSome, target } from '../check/paths.ts'
import { CONFIG, startGate } from '../helpers/gate.ts'
import { missingProgram, PROXIES, type ProxyName } from '../helpers/proxies.ts'

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
        fc.asyncProperty(target, async (path) => {
          const { heard } = await pass(path)
          seen[heard === undefined ? 'guarded' : 'open'] += 1
          return heard === undefined || !isAdminToSome(heard)
        }),
        { numRuns: 150 },
      )
      // About one of nine is open. The paths are others in every run.
      t.ok(seen.open > 0 && seen.guarded > 0, JSON.stringify(seen))
    })
})

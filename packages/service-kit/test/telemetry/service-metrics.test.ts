import t from 'tap'
import { createMetrics, measureReloads, type Readiness } from '../../src/index.ts'
import { measureReadiness } from '../../src/telemetry/service-metrics.ts'

t.test('readiness and what does not work are measured', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  let state: Readiness = { ready: true, degraded: [] }
  measureReadiness(metrics, () => state)
  const lines = async () => (await metrics.text()).match(/^gatehouse_(ready|degraded).*$/gm)
  t.strictSame(await lines(), ['gatehouse_ready 1'])
  state = { ready: false, reason: 'store', degraded: ['issuer corp', 'ca-intermediate'] }
  t.strictSame(await lines(), [
    'gatehouse_ready 0',
    'gatehouse_degraded{part="issuer corp"} 1',
    'gatehouse_degraded{part="ca-intermediate"} 1',
  ])
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

import type { Readiness } from '../http/health.ts'
import type { Metrics } from './metrics.ts'

const MAX_PARTS = 100

/** Measures what `/readyz` tells. */
export function measureReadiness(metrics: Metrics, readiness: () => Readiness): void {
  metrics.gauge({
    name: 'gatehouse_ready',
    help: 'Whether the service can do its work: 1, or 0 while it starts, stops or has no store.',
    collect: () => (readiness().ready ? 1 : 0),
  })
  metrics.gauges({
    name: 'gatehouse_degraded',
    help: 'Parts that do not work though the service does; always 1.',
    labels: ['part'],
    max: MAX_PARTS,
    collect: async () => readiness().degraded.map((part) => ({ labels: { part }, value: 1 })),
  })
}

/**
 * Measures when the configuration was last taken up, and whether the last try did so. What it gives
 * is to be called after each reload.
 *
 * @param now - milliseconds since the epoch
 */
export function measureReloads(metrics: Metrics, now: () => number): (isTakenUp: boolean) => void {
  const at = metrics.gauge({
    name: 'gatehouse_config_loaded_seconds',
    help: 'When the configuration that is in use was taken up, as a Unix time.',
  })
  const success = metrics.gauge({
    name: 'gatehouse_config_reload_success',
    help: 'Whether the last reload of the configuration was taken up: 1 or 0.',
  })
  function reloaded(isTakenUp: boolean): void {
    success.set(isTakenUp ? 1 : 0)
    if (isTakenUp) at.set(Math.floor(now() / 1000))
  }
  reloaded(true)
  return reloaded
}

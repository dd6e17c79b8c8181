import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance } from 'fastify'
import type { AuditEvent } from '../store/store.ts'

const LOGIN_RESULTS: Readonly<Partial<Record<AuditEvent, string>>> = {
  'sign-in': 'finished',
  'sign-in-refused': 'refused',
  'sign-in-failed': 'failed',
}

/** Counts what the audit trail records of sign-ins and sessions, by portal. */
export function createCounters(
  app: FastifyInstance,
  metrics: Metrics,
): (event: AuditEvent, portal: string) => void {
  const portals = [...app.portals.keys()]
  const results = Object.values(LOGIN_RESULTS)
  const logins = metrics.counter({
    name: 'gatehouse_auth_logins_total',
    help: 'Sign-ins by portal and result.',
    labels: { portal: portals, result: results },
  })
  const logouts = metrics.counter({
    name: 'gatehouse_auth_logouts_total',
    help: 'Sessions that people ended, by portal.',
    labels: { portal: portals },
  })
  const ended = metrics.counter({
    name: 'gatehouse_auth_sessions_ended_total',
    help: 'Times that sessions ended early although nobody signed out of them, by portal.',
    labels: { portal: portals },
  })
  app.onReload(() => () => {
    portals.splice(0, portals.length, ...app.portals.keys())
    // A counter that begins at 1 would show no rate.
    for (const portal of portals) {
      for (const result of results) logins.inc({ portal, result }, 0)
      for (const counter of [logouts, ended]) counter.inc({ portal }, 0)
    }
  })
  return (event, portal) => {
    const result = LOGIN_RESULTS[event]
    if (result !== undefined) logins.inc({ portal, result })
    if (event === 'sign-out') logouts.inc({ portal })
    if (event === 'session-ended') ended.inc({ portal })
  }
}

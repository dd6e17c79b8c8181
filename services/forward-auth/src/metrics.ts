import type { Metrics } from '@gatehouse/service-kit'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { AuditEvent } from './store/store.ts'

const LOGIN_RESULTS: Readonly<Partial<Record<AuditEvent, string>>> = {
  'sign-in': 'finished',
  'sign-in-refused': 'refused',
  'sign-in-failed': 'failed',
}
const RESULTS = Object.values(LOGIN_RESULTS)
const DECISIONS = [
  'allow',
  'anonymous',
  'preflight',
  'sign-in',
  'no-session',
  'step-up',
  'forbidden',
  'bad-credentials',
  'refused',
] as const

interface AuthMetrics {
  /**
   * Counts a check by its decision; `bad-credentials` if those of a program were not valid, `refused`
   * if its request was not.
   */
  check(portal: string, decision: (typeof DECISIONS)[number]): void
  /** Counts what the audit trail records, but for the outcomes of checks. */
  event(event: AuditEvent, portal: string): void
}

const UNCOUNTED: AuthMetrics = { check() {}, event() {} }

declare module 'fastify' {
  interface FastifyInstance {
    readonly authMetrics: AuthMetrics
  }
}

export const authMetrics = fp<{ readonly metrics?: Metrics | undefined }>(
  async (app: FastifyInstance, { metrics }) => {
    if (!metrics) return void app.decorate('authMetrics', UNCOUNTED)
    const known = [...app.portals.keys()]
    const checks = metrics.counter({
      name: 'gatehouse_auth_checks_total',
      help: 'Checks by portal and decision; `refused` are those with an invalid request.',
      labels: { portal: known, decision: DECISIONS },
    })
    const logins = metrics.counter({
      name: 'gatehouse_auth_logins_total',
      help: 'Sign-ins by portal and result.',
      labels: { portal: known, result: RESULTS },
    })
    const logouts = metrics.counter({
      name: 'gatehouse_auth_logouts_total',
      help: 'Sessions that people ended, by portal.',
      labels: { portal: known },
    })
    const ended = metrics.counter({
      name: 'gatehouse_auth_sessions_ended_total',
      help: 'Times that sessions ended early although nobody signed out of them, by portal.',
      labels: { portal: known },
    })
    app.decorate('authMetrics', {
      check: (portal, decision) => checks.inc({ portal, decision }),
      event(event, portal) {
        const result = LOGIN_RESULTS[event]
        if (result !== undefined) logins.inc({ portal, result })
        if (event === 'sign-out') logouts.inc({ portal })
        if (event === 'session-ended') ended.inc({ portal })
      },
    })
    app.onReload(() => () => {
      known.splice(0, known.length, ...app.portals.keys())
      // A counter that begins at 1 would show no rate.
      for (const portal of known) {
        for (const decision of DECISIONS) checks.inc({ portal, decision }, 0)
        for (const result of RESULTS) logins.inc({ portal, result }, 0)
        for (const counter of [logouts, ended]) counter.inc({ portal }, 0)
      }
    })
  },
  {
    fastify: '5.x',
    name: 'forward-auth/metrics',
    dependencies: ['forward-auth/portals', 'service-kit/reload'],
  },
)

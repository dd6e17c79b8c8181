import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance } from 'fastify'
import { type AuditEvent, ENDED_BY, type EndedBy } from '../store/store.ts'

const LOGIN_RESULTS: Readonly<Partial<Record<AuditEvent, string>>> = {
  'sign-in': 'finished',
  'sign-in-refused': 'refused',
  'sign-in-failed': 'failed',
}

/** The decisions about programs. */
const OUTCOMES: readonly string[] = ['allow', 'forbidden', 'step-up']

/** Counts what the audit trail records of sign-ins and sessions, by portal; and the calls of programs. */
export function createCounters(
  app: FastifyInstance,
  metrics: Metrics,
): (event: AuditEvent, portal: string, endedBy?: EndedBy) => void {
  const { portals } = app
  const resources = () => [...portals.values()].flatMap(({ gate }) => gate.programs.resources)
  const logins = metrics.counter({
    name: 'gatehouse_auth_logins_total',
    help: 'Sign-ins by portal and result.',
    labels: { portal: () => [...portals.keys()], result: Object.values(LOGIN_RESULTS) },
  })
  const logouts = metrics.counter({
    name: 'gatehouse_auth_logouts_total',
    help: 'Sessions that people ended, by portal.',
    labels: { portal: () => [...portals.keys()] },
  })
  const ended = metrics.counter({
    name: 'gatehouse_auth_sessions_ended_total',
    help: 'Sessions that ended early although nobody signed out of them, by portal and by whom they were ended.',
    labels: { portal: () => [...portals.keys()], by: ENDED_BY },
  })
  const calls = metrics.counter({
    name: 'gatehouse_auth_program_calls_total',
    help: 'Checks of programs by portal, resource and outcome.',
    labels: {
      portal: () => [...portals.keys()],
      resource: () => ['none', ...new Set(resources().map(({ url }) => url))],
      outcome: OUTCOMES,
    },
  })
  app.addHook('onResponse', ({ check }, { statusCode }, done) => {
    if (check?.principal?.isProgram) {
      const { portal, resource, decision } = check
      const { outcome } = decision
      // A call that was allowed may have failed since.
      const isAnswered = OUTCOMES.includes(outcome) && (outcome !== 'allow' || statusCode === 200)
      if (isAnswered) calls.inc({ portal: portal.name, resource: resource?.url ?? 'none', outcome })
    }
    done()
  })
  return (event, portal, by = 'sign-in') => {
    const result = LOGIN_RESULTS[event]
    if (result !== undefined) logins.inc({ portal, result })
    if (event === 'sign-out') logouts.inc({ portal })
    if (event === 'session-ended') ended.inc({ portal, by })
  }
}

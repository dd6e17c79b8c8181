import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance } from 'fastify'
import type { AuditEvent, EndedBy } from '../store/store.ts'

const LOGIN_RESULTS: Readonly<Partial<Record<AuditEvent, string>>> = {
  'sign-in': 'finished',
  'sign-in-refused': 'refused',
  'sign-in-failed': 'failed',
}

const ENDED_BY: readonly EndedBy[] = ['person', 'provider', 'administrator', 'program', 'sign-in']

/** Counts what the audit trail records of sign-ins and sessions, by portal. */
export function createCounters(
  { portals }: FastifyInstance,
  metrics: Metrics,
): (event: AuditEvent, portal: string, endedBy?: EndedBy) => void {
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
  return (event, portal, by = 'sign-in') => {
    const result = LOGIN_RESULTS[event]
    if (result !== undefined) logins.inc({ portal, result })
    if (event === 'sign-out') logouts.inc({ portal })
    if (event === 'session-ended') ended.inc({ portal, by })
  }
}

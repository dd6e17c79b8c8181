import type { Metrics } from '@gatehouse/service-kit'

const RESULTS = ['finished', 'refused', 'failed'] as const

/** What is counted of people. */
export interface AuthMetrics {
  /** A login came back from its provider: the person is in, was refused, or it failed. */
  login(result: (typeof RESULTS)[number]): void
  logout(): void
}

/** The metrics of forward-auth; without a registry nothing is counted. */
export function createAuthMetrics(metrics: Metrics | undefined): AuthMetrics {
  if (!metrics) return { login() {}, logout() {} }
  const logins = metrics.counter({
    name: 'gatehouse_auth_logins_total',
    help: 'Logins that came back from a provider.',
    labels: { result: RESULTS },
  })
  const logouts = metrics.counter({
    name: 'gatehouse_auth_logouts_total',
    help: 'Sessions that were ended by their owner.',
  })
  return { login: (result) => logins.inc({ result }), logout: () => logouts.inc() }
}

import type { Metrics } from '@gatehouse/service-kit'

const RESULTS = ['finished', 'refused', 'failed'] as const

const OUTCOMES = ['allow', 'preflight', 'sign-in', 'no-session', 'forbidden', 'refused'] as const

/** What is counted of people. */
export interface AuthMetrics {
  /** A check was decided, or refused for what its proxy sent. */
  check(portal: string, decision: (typeof OUTCOMES)[number]): void
  /** A login came back from its provider: the person is in, was refused, or it failed. */
  login(result: (typeof RESULTS)[number]): void
  logout(): void
  /** These portals are there now, and no others: a rate is not seen of what begins with 1. */
  expect(portals: Iterable<string>): void
}

/** The metrics of forward-auth, which begins with these portals; without a registry nothing is counted. */
export function createAuthMetrics(
  metrics: Metrics | undefined,
  portals: Iterable<string>,
): AuthMetrics {
  if (!metrics) return { check() {}, login() {}, logout() {}, expect() {} }
  const known = [...portals]
  const checks = metrics.counter({
    name: 'gatehouse_auth_checks_total',
    help: 'Checks by portal and decision; `refused` are those whose proxy sent something odd.',
    labels: { portal: known, decision: OUTCOMES },
  })
  const logins = metrics.counter({
    name: 'gatehouse_auth_logins_total',
    help: 'Logins that came back from a provider.',
    labels: { result: RESULTS },
  })
  const logouts = metrics.counter({
    name: 'gatehouse_auth_logouts_total',
    help: 'Sessions that were ended by their owner.',
  })
  return {
    check: (portal, decision) => checks.inc({ portal, decision }),
    login: (result) => logins.inc({ result }),
    logout: () => logouts.inc(),
    expect(names) {
      known.splice(0, known.length, ...names)
      for (const portal of known)
        for (const decision of OUTCOMES) checks.inc({ portal, decision }, 0)
    },
  }
}

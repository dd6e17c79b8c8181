import type { Name } from '@gatehouse/pki'
import type { Issuer } from './issuer.ts'

/** The issuers of the configuration, and the embedded CA as the last. */
export interface Issuers {
  /** The first that may sign every one of the names; the last one if none may. */
  choose(names: readonly Name[]): Issuer
  find(name: string): Issuer | undefined
  /** What an operator has to see to, the embedded CA aside. */
  degraded(): readonly string[]
}

export function createIssuers(configured: readonly Issuer[], last: Issuer): Issuers {
  const byName = new Map([...configured, last].map((issuer) => [issuer.name, issuer]))
  return {
    choose: (names) =>
      configured.find((issuer) => names.every((name) => issuer.permits(name))) ?? last,
    find: (name) => byName.get(name),
    degraded: () => configured.flatMap((issuer) => issuer.degraded?.() ?? []),
  }
}

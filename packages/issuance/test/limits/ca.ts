import type { Limit } from '../../src/limits/bucket.ts'
import { type CaLimits, loadRegisteredDomain, setOf } from '../../src/limits/ca-limits.ts'

const registeredDomain = await loadRegisteredDomain()

export type AllLimits = {
  readonly [K in Exclude<keyof CaLimits, 'accounts'>]-?: NonNullable<CaLimits[K]>
}

/** The limits as a CA keeps them: tokens that trickle back, checked at the order, spent as it goes on. */
export function createLimitedCa(limits: AllLimits, now: () => number) {
  const tokens = new Map<string, { left: number; at: number }>()
  const issuedSets = new Set<string>()

  function leftOf(key: string, { count, per }: Limit): number {
    const bucket = tokens.get(key) ?? { left: count, at: now() }
    const left = Math.min(count, bucket.left + ((now() - bucket.at) * count) / per)
    tokens.set(key, { left, at: now() })
    return left
  }

  /** As far as there is one: a bucket never owes. */
  function spend(key: string, limit: Limit): boolean {
    const left = leftOf(key, limit)
    if (left < 1) return false
    tokens.set(key, { left: left - 1, at: now() })
    return true
  }

  const domainsOf = (names: readonly string[]) =>
    new Set(names.map((name) => `domain ${registeredDomain(name)}`))
  const hostOf = (name: string) => `failures ${name.replace('*.', '')}`
  const inARowOf = (name: string) => `in a row ${hostOf(name)}`
  const isRenewal = (names: readonly string[], ari: boolean) => ari || issuedSets.has(setOf(names))

  return {
    /** Whether it takes the order. */
    order(names: readonly string[], ari: boolean): boolean {
      if (ari) return true
      const has = (keys: Iterable<string>, limit: Limit) =>
        [...keys].every((key) => leftOf(key, limit) >= 1)
      const exempt = isRenewal(names, ari)
      return (
        (exempt || has(domainsOf(names), limits.domain)) &&
        has([setOf(names)], limits.names) &&
        has(names.map(hostOf), limits.failures) &&
        has(names.map(inARowOf), limits.failuresInARow) &&
        (exempt || spend('orders', limits.orders))
      )
    },
    /** Whether what an issuance takes was there. */
    issue(names: readonly string[], ari: boolean): boolean {
      const spent = isRenewal(names, ari)
        ? true
        : [...domainsOf(names)].every((key) => spend(key, limits.domain))
      spend(setOf(names), limits.names)
      issuedSets.add(setOf(names))
      for (const name of names) tokens.delete(inARowOf(name))
      return spent
    },
    fail(names: readonly string[]): void {
      for (const name of names) {
        spend(hostOf(name), limits.failures)
        spend(inARowOf(name), limits.failuresInARow)
      }
    },
  }
}

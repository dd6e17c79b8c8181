import { directoryOf, type IssuerConfig } from '../config/issuers.ts'
import { CertError } from '../errors.ts'
import { toTime } from '../issuance/answer.ts'
import type { IssuanceLimits, LimitedAccount, LimitedOrder } from '../issuers/acme/limits.ts'
import type { Store } from '../store/store.ts'
import { emptyAt, freeAt, left, take } from './bucket.ts'
import { type CaLimits, caLimitsOf } from './ca-limits.ts'
import { issuedKey, type Quota, quotasOf } from './quotas.ts'
import { loadRegisteredDomain } from './registered-domain.ts'
import { createReservations } from './reservations.ts'

const MAX_ROWS = 100_000
/** For how long a CA knows for certain that names had a certificate. */
const KNOWN_MS = 90 * 86_400_000

/** What is left of a limit for an order. */
export interface Budget extends Quota {
  readonly left: number
  /** When there is one, if none is left. */
  readonly freeAt: number | null
}

/** What the orders so far have used up of the limits of the CAs. */
export interface Ledger extends IssuanceLimits {
  /** What an order that is no ARI renewal would count against. */
  budgets(issuer: string, names: readonly string[]): readonly Budget[]
  /** Forgets what came back by itself. */
  prune(): Promise<void>
}

interface LedgerDeps {
  readonly issuers: readonly IssuerConfig[]
  readonly store: Pick<Store, 'listUsage' | 'saveUsage' | 'pruneUsage'>
  now(): number
  readonly log: { warn(fields: object, message: string): void }
}

/** Takes up the ledger of the store; later changes are written behind. */
export async function openLedger({ issuers, store, now, log }: LedgerDeps): Promise<Ledger> {
  const limitsOf = new Map(issuers.map((config) => [config.name, caLimitsOf(config)]))
  const directories = new Map(issuers.map(({ name, directory }) => [name, directoryOf(directory)]))
  // Buckets, and what had a certificate: each with the moment from which it tells nothing any more.
  const rows = new Map((await store.listUsage(MAX_ROWS)).toReversed())
  const reservations = createReservations(now)
  const registeredDomain = issuers.length > 0 ? await loadRegisteredDomain() : String

  function admit(order: LimitedOrder): void {
    reservations.end(order)
    refuseUsedUp(order, budgetsOf(order))
    reserve(order, ['orders', 'domain'])
  }

  /** Its certificate is still to come. */
  function resumed(order: LimitedOrder): void {
    reserve(order, ['domain'])
  }

  function reserve(order: LimitedOrder, kinds: readonly Quota['kind'][]): void {
    const quotas = isExempt(order) ? [] : kinds.flatMap((kind) => quotasFor(kind, order))
    reservations.start(
      order,
      quotas.map(({ key }) => key),
    )
  }

  function admitAccount(account: LimitedAccount): void {
    refuseUsedUp(account, accountQuotas(account).map(budgetOf))
  }

  function registered(account: LimitedAccount): void {
    save(accountQuotas(account).map(taken))
  }

  function accountQuotas(account: LimitedAccount): readonly Quota[] {
    return quotasFor('accounts', { ...account, names: [] })
  }

  function refuseUsedUp(of: LimitedAccount, budgets: readonly Budget[]): void {
    const [worst] = budgets
      .filter((budget) => budget.left === 0)
      .toSorted((a, b) => Number(b.freeAt) - Number(a.freeAt))
    if (worst) throw usedUp(of, worst, now())
  }

  function budgets(issuer: string, names: readonly string[]): readonly Budget[] {
    return budgetsOf({ issuer, directory: directories.get(issuer) ?? '', names, renewal: false })
  }

  function budgetsOf(order: LimitedOrder): readonly Budget[] {
    if (order.renewal) return []
    const kinds: Quota['kind'][] = ['names', 'failures', 'failuresInARow']
    if (!isExempt(order)) kinds.unshift('orders', 'domain')
    return kinds.flatMap((kind) => quotasFor(kind, order)).map(budgetOf)
  }

  function budgetOf(quota: Quota): Budget {
    const fullAt = read(quota)
    const reserved = reservations.of(quota.key)
    const unused = left(fullAt, quota.limit, now())
    const budget = { ...quota, left: Math.max(0, unused - reserved.count) }
    if (budget.left > 0) return { ...budget, freeAt: null }
    const at = freeAt(Math.max(fullAt, now()), quota.limit, reserved.count + 1)
    return { ...budget, freeAt: unused > 0 ? Math.min(at, reserved.until) : at }
  }

  function ordered(order: LimitedOrder): void {
    if (isExempt(order)) return
    const quotas = quotasFor('orders', order)
    for (const { key } of quotas) reservations.drop(order, key)
    save(quotas.map(taken))
  }

  function failed(order: LimitedOrder, names: readonly string[]): void {
    reservations.end(order)
    // A name and its wildcard are two proofs of one bucket.
    for (const name of names) {
      const of = { ...order, names: [name] }
      save([...quotasFor('failures', of), ...quotasFor('failuresInARow', of)].map(taken))
    }
  }

  /** CAs count renewals as well where they let them pass: what is no renewal meets them. */
  function issued(order: LimitedOrder): void {
    reservations.end(order)
    const domains = isExempt(order) ? [] : quotasFor('domain', order)
    const ended = quotasFor('failuresInARow', order).filter(({ key }) => rows.has(key))
    save([
      ...ended.map(({ key }) => [key, 0] as const),
      ...[...domains, ...quotasFor('names', order)].map(taken),
      ...(ofIssuer(order).renewalsExempt ? [[issuedKey(order), now() + KNOWN_MS] as const] : []),
    ])
  }

  function quotasFor(kind: Quota['kind'], order: Omit<LimitedOrder, 'renewal'>): readonly Quota[] {
    return quotasOf(kind, order, ofIssuer(order), registeredDomain)
  }

  function isExempt(order: LimitedOrder): boolean {
    if (order.renewal) return true
    return !!ofIssuer(order).renewalsExempt && (rows.get(issuedKey(order)) ?? 0) > now()
  }

  function ofIssuer({ issuer }: LimitedAccount): CaLimits {
    return limitsOf.get(issuer) ?? {}
  }

  /** A clock that was ahead for a while must not close a bucket for longer than it is deep. */
  function read({ key, limit }: Quota): number {
    const latest = emptyAt(limit, now())
    const fullAt = rows.get(key) ?? 0
    if (fullAt <= latest) return fullAt
    rows.set(key, latest)
    return latest
  }

  function taken(quota: Quota): readonly [key: string, fullAt: number] {
    return [quota.key, take(read(quota), quota.limit, now())]
  }

  function save(changed: readonly (readonly [key: string, until: number])[]): void {
    for (const [key, until] of changed) {
      rows.delete(key)
      rows.set(key, until)
    }
    for (const key of rows.keys()) {
      if (rows.size <= MAX_ROWS) break
      rows.delete(key)
    }
    if (changed.length === 0) return
    store
      .saveUsage(changed)
      .catch((error) => log.warn({ err: error }, 'what was used of a limit could not be stored'))
  }

  async function prune(): Promise<void> {
    for (const key of await store.pruneUsage(now())) rows.delete(key)
  }

  return { admitAccount, registered, admit, resumed, ordered, failed, issued, budgets, prune }
}

function usedUp({ issuer }: LimitedAccount, { kind, subject, limit, freeAt }: Budget, now: number) {
  const at = Number(freeAt)
  const what = `${limit.count} ${WHAT[kind]} in ${spanOf(limit.per)} for ${subject}`
  const detail = `the limit of ${issuer} is used up: ${what}; none is left until ${toTime(at)}`
  return new CertError('CERT_RATE_LIMITED', detail, { retryAfter: Math.ceil((at - now) / 1000) })
}

const WHAT: Readonly<Record<Quota['kind'], string>> = {
  orders: 'orders',
  domain: 'certificates',
  names: 'certificates',
  failures: 'failed proofs',
  failuresInARow: 'failed proofs in a row',
  accounts: 'new accounts',
}

/** A time span as the configuration writes it. */
export function spanOf(ms: number): string {
  const units = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'm'],
    [1_000, 's'],
  ] as const
  const [size, unit] = units.find(([size]) => ms % size === 0) ?? [1, 'ms']
  return `${ms / size}${unit}`
}

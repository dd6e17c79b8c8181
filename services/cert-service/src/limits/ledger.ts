import { directoryOf, type IssuerConfig } from '../config/issuers.ts'
import { CertError } from '../errors.ts'
import { toTime } from '../issuers/issuer.ts'
import type { Store } from '../store/store.ts'
import { emptyAt, freeAt, left, take } from './bucket.ts'
import {
  type CaLimits,
  caLimitsOf,
  issuedKey,
  type LimitedOrder,
  loadRegisteredDomain,
  type Quota,
  quotasOf,
  type RegisteredDomain,
  setOf,
} from './ca-limits.ts'

const MAX_ROWS = 100_000
/** How long a CA knows for certain that names had a certificate. */
const KNOWN_MS = 90 * 86_400_000
/** An order without news for so long will not lead to a certificate. */
const ABANDONED_MS = 3_600_000

export interface Budget extends Quota {
  readonly left: number
  /** When the next one comes back, if none is left. */
  readonly freeAt: number | null
}

interface LedgerDeps {
  readonly issuers: readonly IssuerConfig[]
  readonly store: Pick<Store, 'listUsage' | 'saveUsage' | 'pruneUsage'>
  now(): number
  readonly log: { warn(fields: object, message: string): void }
  readonly orders?: { inc(labels: { readonly issuer: string }): void } | undefined
}

/** A row of the store: when a bucket is full again, or until when a fact holds. */
type Row = readonly [key: string, until: number]

type LimitedAccount = Pick<LimitedOrder, 'issuer' | 'directory'>

/** Keeps account of the limits of CAs, so that no order runs into them. Changes are written behind. */
export class Ledger {
  readonly #deps: LedgerDeps
  readonly #registeredDomain: RegisteredDomain
  readonly #limits: ReadonlyMap<string, CaLimits>
  readonly #rows: Map<string, number>
  readonly #reservations: Reservations

  static async open(deps: LedgerDeps): Promise<Ledger> {
    const rows = await deps.store.listUsage(MAX_ROWS)
    const registeredDomain = deps.issuers.length > 0 ? await loadRegisteredDomain() : String
    return new Ledger(deps, rows, registeredDomain)
  }

  private constructor(deps: LedgerDeps, rows: readonly Row[], registeredDomain: RegisteredDomain) {
    this.#deps = deps
    this.#registeredDomain = registeredDomain
    this.#limits = new Map(deps.issuers.map((config) => [config.name, caLimitsOf(config)]))
    this.#rows = new Map(rows.toReversed())
    this.#reservations = new Reservations(deps.now)
  }

  /** Before an order is placed. @throws CertError `CERT_RATE_LIMITED` */
  admit(order: LimitedOrder): void {
    this.#reservations.end(order)
    this.#assertLeft(order, this.#budgetsOf(order))
    this.#reserve(order, ['orders', 'domain'])
  }

  resumed(order: LimitedOrder): void {
    this.#reserve(order, ['domain'])
  }

  ordered(order: LimitedOrder): void {
    this.#deps.orders?.inc({ issuer: order.issuer })
    if (this.#isExempt(order)) return
    const quotas = this.#quotas('orders', order)
    for (const { key } of quotas) this.#reservations.drop(order, key)
    this.#save(quotas.map(this.#taken))
  }

  failed(order: LimitedOrder, names: readonly string[]): void {
    this.#reservations.end(order)
    // A name and its wildcard are two authorizations and share a bucket.
    for (const name of names) {
      const of = { ...order, names: [name] }
      const quotas = [...this.#quotas('failures', of), ...this.#quotas('failuresInARow', of)]
      this.#save(quotas.map(this.#taken))
    }
  }

  /** CAs count renewals as well, though they let them pass: they use up what other orders need. */
  issued(order: LimitedOrder): void {
    this.#reservations.end(order)
    const domains = this.#isExempt(order) ? [] : this.#quotas('domain', order)
    const inARow = this.#quotas('failuresInARow', order).filter(({ key }) => this.#rows.has(key))
    const exempt = this.#limitsOf(order).renewalsExempt
    this.#save([
      ...inARow.map(({ key }): Row => [key, 0]),
      ...[...domains, ...this.#quotas('names', order)].map(this.#taken),
      ...(exempt ? [[issuedKey(order), this.#deps.now() + KNOWN_MS] as const] : []),
    ])
  }

  /** Before an account is registered. @throws CertError `CERT_RATE_LIMITED` */
  admitAccount(account: LimitedAccount): void {
    const quotas = this.#quotas('accounts', { ...account, names: [] })
    this.#assertLeft(account, quotas.map(this.#budgetOf))
  }

  registered(account: LimitedAccount): void {
    const quotas = this.#quotas('accounts', { ...account, names: [] })
    this.#save(quotas.map(this.#taken))
  }

  /** What an order would count against that is no renewal by ARI. */
  budgets(issuer: string, names: readonly string[]): readonly Budget[] {
    const config = this.#deps.issuers.find(({ name }) => name === issuer)
    const directory = config ? directoryOf(config.directory) : ''
    return this.#budgetsOf({ issuer, directory, names, renewal: false })
  }

  async prune(): Promise<void> {
    for (const key of await this.#deps.store.pruneUsage(this.#deps.now())) this.#rows.delete(key)
  }

  #reserve(order: LimitedOrder, kinds: readonly Quota['kind'][]): void {
    if (this.#isExempt(order)) return
    const quotas = kinds.flatMap((kind) => this.#quotas(kind, order))
    this.#reservations.start(order, quotas)
  }

  /** @throws CertError `CERT_RATE_LIMITED` for the budget that is free last */
  #assertLeft({ issuer }: LimitedAccount, budgets: readonly Budget[]): void {
    const [worst] = budgets
      .filter((budget) => budget.left === 0)
      .toSorted((a, b) => Number(b.freeAt) - Number(a.freeAt))
    if (worst) throw rateLimited(issuer, worst, this.#deps.now())
  }

  #budgetsOf(order: LimitedOrder): readonly Budget[] {
    if (order.renewal) return []
    const kinds: Quota['kind'][] = ['names', 'failures', 'failuresInARow']
    if (!this.#isExempt(order)) kinds.unshift('orders', 'domain')
    return kinds.flatMap((kind) => this.#quotas(kind, order)).map(this.#budgetOf)
  }

  #budgetOf = (quota: Quota): Budget => {
    const now = this.#deps.now()
    const fullAt = this.#fullAt(quota)
    const reserved = this.#reservations.of(quota.key)
    const unused = left(fullAt, quota.limit, now)
    const budget = { ...quota, left: Math.max(0, unused - reserved.count) }
    if (budget.left > 0) return { ...budget, freeAt: null }
    const at = freeAt(Math.max(fullAt, now), quota.limit, reserved.count + 1)
    return { ...budget, freeAt: unused > 0 ? Math.min(at, reserved.until) : at }
  }

  #quotas(kind: Quota['kind'], order: Omit<LimitedOrder, 'renewal'>): readonly Quota[] {
    return quotasOf(kind, order, this.#limitsOf(order), this.#registeredDomain)
  }

  #isExempt(order: LimitedOrder): boolean {
    if (order.renewal) return true
    const knownUntil = this.#rows.get(issuedKey(order)) ?? 0
    return !!this.#limitsOf(order).renewalsExempt && knownUntil > this.#deps.now()
  }

  #limitsOf({ issuer }: LimitedAccount): CaLimits {
    return this.#limits.get(issuer) ?? {}
  }

  /** When a bucket is full again; a clock that was ahead must not empty it below its depth. */
  #fullAt({ key, limit }: Quota): number {
    const latest = emptyAt(limit, this.#deps.now())
    const fullAt = this.#rows.get(key) ?? 0
    if (fullAt <= latest) return fullAt
    this.#rows.set(key, latest)
    return latest
  }

  #taken = (quota: Quota): Row => [
    quota.key,
    take(this.#fullAt(quota), quota.limit, this.#deps.now()),
  ]

  #save(changed: readonly Row[]): void {
    for (const [key, until] of changed) {
      this.#rows.delete(key)
      this.#rows.set(key, until)
    }
    for (const key of this.#rows.keys()) {
      if (this.#rows.size <= MAX_ROWS) break
      this.#rows.delete(key)
    }
    if (changed.length === 0) return
    const { store, log } = this.#deps
    store
      .saveUsage(changed)
      .catch((error) => log.warn({ err: error }, 'the use of a limit could not be stored'))
  }
}

/**
 * What the orders under way are going to use. There is one order at a time for a set of names: a new
 * try replaces the last one.
 */
class Reservations {
  readonly #now: () => number
  readonly #underway = new Map<string, { readonly keys: Set<string>; since: number }>()

  constructor(now: () => number) {
    this.#now = now
  }

  start(order: LimitedOrder, quotas: readonly Quota[]): void {
    const keys = new Set(quotas.map(({ key }) => key))
    if (keys.size > 0) this.#underway.set(idOf(order), { keys, since: this.#now() })
  }

  drop(order: LimitedOrder, key: string): void {
    this.#underway.get(idOf(order))?.keys.delete(key)
  }

  end(order: LimitedOrder): void {
    this.#underway.delete(idOf(order))
  }

  /** How many orders may use a key, and until when at most the first of them may. */
  of(key: string): { readonly count: number; readonly until: number } {
    const now = this.#now()
    let count = 0
    let until = Number.POSITIVE_INFINITY
    for (const [id, reservation] of this.#underway) {
      // If a clock was ahead, the time counts from when it is right.
      reservation.since = Math.min(reservation.since, now)
      const end = reservation.since + ABANDONED_MS
      if (end <= now) this.#underway.delete(id)
      else if (reservation.keys.has(key)) {
        count += 1
        until = Math.min(until, end)
      }
    }
    return { count, until }
  }
}

function idOf({ directory, names }: LimitedOrder): string {
  return `${directory} ${setOf(names)}`
}

function rateLimited(issuer: string, { kind, subject, limit, freeAt }: Budget, now: number) {
  const at = Number(freeAt)
  const what = `${limit.count} ${UNITS[kind]} in ${spanOf(limit.per)} for ${subject}`
  const detail = `the limit of ${issuer} is used up: ${what}; none is left until ${toTime(at)}`
  return new CertError('CERT_RATE_LIMITED', detail, { retryAfter: Math.ceil((at - now) / 1000) })
}

const UNITS: Readonly<Record<Quota['kind'], string>> = {
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

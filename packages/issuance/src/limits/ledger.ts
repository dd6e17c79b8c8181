import type { Store, Usage } from '@gatehouse/cert-store/port'
import { durationText } from '@gatehouse/service-kit/config'
import { IssuanceError } from '../errors.ts'
import { directoryOf, type IssuerConfig } from '../options/issuers.ts'
import { DAY, HOUR, toTime } from '../times.ts'
import { emptyAt, freeAt, left, take } from './bucket.ts'
import {
  type CaLimits,
  caLimitsOf,
  issuedKey,
  type LimitedOrder,
  loadRegisteredDomain,
  type Quota,
  type RegisteredDomain,
  setOf,
  sharesOf,
  subjectsOf,
} from './ca-limits.ts'

/** Milliseconds for which a CA knows for certain that names had a certificate. */
const KNOWN_MS = 90 * DAY
/** An order for the same names counts as a renewal after so long. One at once gets no more than a first one. */
const RENEWED_AFTER_MS = DAY
/** An order without news for so long will not lead to a certificate. */
const ABANDONED_MS = HOUR

export interface Budget extends Quota {
  readonly left: number
  /** The time at which the next one is available, if none is left. */
  readonly freeAt: number | null
}

export interface LedgerDeps {
  readonly issuers: readonly IssuerConfig[]
  readonly store: Pick<Store, 'changeUsage'>
  now(): number
  readonly log: { warn(fields: object, message: string): void }
  readonly orders?: { inc(labels: { readonly issuer: string }): void } | undefined
}

type LimitedAccount = Pick<LimitedOrder, 'issuer' | 'directory'>

const KINDS: readonly Quota['kind'][] = ['orders', 'domain', 'names', 'failures', 'failuresInARow']

/** Keeps account of the limits of CAs, so that no order of any replica runs into them. */
export class Ledger {
  readonly #deps: LedgerDeps
  readonly #registeredDomain: RegisteredDomain
  readonly #limits: ReadonlyMap<string, CaLimits>

  static async open(deps: LedgerDeps): Promise<Ledger> {
    const registeredDomain = deps.issuers.length > 0 ? await loadRegisteredDomain() : String
    return new Ledger(deps, registeredDomain)
  }

  private constructor(deps: LedgerDeps, registeredDomain: RegisteredDomain) {
    this.#deps = deps
    this.#registeredDomain = registeredDomain
    this.#limits = new Map(deps.issuers.map((config) => [config.name, caLimitsOf(config)]))
  }

  /** Reserves what an order is going to use, before it is placed. @throws IssuanceError `CERT_RATE_LIMITED` */
  async admit(order: LimitedOrder): Promise<void> {
    const refusal = await this.#change(order, (usage) => {
      usage.end(idOf(order))
      const refusal = this.#refusalOf(order, this.#budgetsOf(order, usage))
      if (!refusal) this.#reserve(order, usage, this.#quotas('orders', order))
      return refusal
    })
    if (refusal) throw refusal
  }

  resumed(order: LimitedOrder): Promise<void> {
    return this.#change(order, (usage) => this.#reserve(order, usage))
  }

  ordered(order: LimitedOrder): Promise<void> {
    this.#deps.orders?.inc({ issuer: order.issuer })
    return this.#count(order, (usage) => {
      if (this.#isExempt(order, usage)) return
      this.#take(usage, this.#quotas('orders', order))
      this.#reserve(order, usage)
    })
  }

  failed(order: LimitedOrder, names: readonly string[]): Promise<void> {
    // A CA may report names in another form than the order has.
    const report = { ...order, names: [...order.names, ...names] }
    return this.#count(report, (usage) => {
      usage.end(idOf(order))
      // A name and its wildcard are two authorizations and share a bucket.
      for (const name of names) {
        const authorization = { ...order, names: [name] }
        this.#take(usage, this.#quotas('failures', authorization))
        this.#take(usage, this.#quotas('failuresInARow', authorization))
      }
    })
  }

  /** CAs count renewals as well, though they let them pass: they use up what other orders need. */
  issued(order: LimitedOrder): Promise<void> {
    return this.#count(order, (usage) => {
      usage.end(idOf(order))
      for (const { key } of this.#quotas('failuresInARow', order))
        if (usage.until(key) > 0) usage.set(key, 0)
      this.#take(usage, this.#domainQuotas(order, usage))
      this.#take(usage, this.#quotas('names', order))
      const { domain, renewalsExempt } = this.#limitsOf(order)
      if (domain || renewalsExempt) usage.set(issuedKey(order), this.#deps.now() + KNOWN_MS)
    })
  }

  /** Reserves a registration, before an account is registered. @throws IssuanceError `CERT_RATE_LIMITED` */
  async admitAccount(account: LimitedAccount): Promise<void> {
    const quotas = this.#quotas('accounts', { ...account, names: [] })
    const refusal = await this.#deps.store.changeUsage(keysOf(quotas), (usage) =>
      this.#refusalOf(
        account,
        quotas.map((quota) => this.#budgetOf(quota, usage)),
      ),
    )
    if (refusal) throw refusal
  }

  async registered(account: LimitedAccount): Promise<void> {
    const quotas = this.#quotas('accounts', { ...account, names: [] })
    await this.#deps.store
      .changeUsage(keysOf(quotas), (usage) => this.#take(usage, quotas))
      .catch(this.#warn)
  }

  /** The limits that an order counts against, unless it renews by ARI. */
  budgets(issuer: string, names: readonly string[], askedBy?: string): Promise<readonly Budget[]> {
    const config = this.#deps.issuers.find(({ name }) => name === issuer)
    const directory = config ? directoryOf(config.directory) : ''
    const order = { issuer, directory, names, renewal: false, askedBy }
    return this.#change(order, (usage) => this.#budgetsOf(order, usage))
  }

  /** Changes the usage of all limits of an order in one transaction. */
  #change<T>(order: LimitedOrder, change: (usage: Usage) => T): Promise<T> {
    const shares = sharesOf(this.#quotas('domain', order), order, {})
    const quotas = [...KINDS.flatMap((kind) => this.#quotas(kind, order)), ...shares]
    return this.#deps.store.changeUsage([...keysOf(quotas), issuedKey(order)], change)
  }

  /** Counts what has happened at the CA. That is a fact: an order does not fail because it cannot be counted. */
  async #count(order: LimitedOrder, change: (usage: Usage) => void): Promise<void> {
    await this.#change(order, change).catch(this.#warn)
  }

  #warn = (error: unknown): void => {
    this.#deps.log.warn({ err: error }, 'the use of a limit could not be stored')
  }

  #reserve(order: LimitedOrder, usage: Usage, more: readonly Quota[] = []): void {
    const isExempt = this.#isExempt(order, usage)
    const quotas = isExempt ? [] : [...more, ...this.#domainQuotas(order, usage)]
    usage.reserve(idOf(order), keysOf(quotas), this.#deps.now())
  }

  #domainQuotas(order: LimitedOrder, usage: Usage): readonly Quota[] {
    if (this.#isExempt(order, usage)) return []
    const quotas = this.#quotas('domain', order)
    return this.#isRenewal(order, usage) ? quotas : sharesOf(quotas, order, this.#limitsOf(order))
  }

  /** The refusal for the budget that is free last. It is returned, not thrown, so that other changes are stored. */
  #refusalOf({ issuer }: LimitedAccount, budgets: readonly Budget[]): IssuanceError | undefined {
    const [worst] = budgets
      .filter((budget) => budget.left === 0)
      .toSorted((a, b) => Number(b.freeAt) - Number(a.freeAt))
    return worst && rateLimited(issuer, worst, this.#deps.now())
  }

  #budgetsOf(order: LimitedOrder, usage: Usage): readonly Budget[] {
    if (order.renewal) return []
    const kinds: Quota['kind'][] = ['names', 'failures', 'failuresInARow']
    const orders = this.#isExempt(order, usage) ? [] : this.#quotas('orders', order)
    return [
      ...orders,
      ...this.#domainQuotas(order, usage),
      ...kinds.flatMap((kind) => this.#quotas(kind, order)),
    ].map((quota) => this.#budgetOf(quota, usage))
  }

  #budgetOf(quota: Quota, usage: Usage): Budget {
    const now = this.#deps.now()
    const fullAt = this.#fullAt(quota, usage)
    const reserved = reservedOf(usage, quota.key, now)
    const { kept = 0 } = quota
    const unused = left(fullAt, quota.limit, now) - kept
    const budget = { ...quota, left: Math.max(0, unused - reserved.count) }
    if (budget.left > 0) return { ...budget, freeAt: null }
    const time = freeAt(Math.max(fullAt, now), quota.limit, kept + reserved.count + 1)
    return { ...budget, freeAt: unused > 0 ? Math.min(time, reserved.until) : time }
  }

  /** The quotas of one kind that an order counts against; none if the CA has no such limit. */
  #quotas(kind: Quota['kind'], order: Omit<LimitedOrder, 'renewal'>): readonly Quota[] {
    const limit = this.#limitsOf(order)[kind]
    if (!limit) return []
    const { directory, names } = order
    return subjectsOf(kind, names, this.#registeredDomain).map(({ id, subject }) => {
      return { kind, key: `${kind} ${directory} ${id}`, subject, limit }
    })
  }

  #isExempt(order: LimitedOrder, usage: Usage): boolean {
    if (order.renewal) return true
    const knownUntil = usage.until(issuedKey(order))
    return !!this.#limitsOf(order).renewalsExempt && knownUntil > this.#deps.now()
  }

  /** Whether the names were ordered before, also with another key: a client of ACME makes one for each renewal. */
  #isRenewal(order: LimitedOrder, usage: Usage): boolean {
    const knownUntil = usage.until(issuedKey(order))
    const now = this.#deps.now()
    const isKnown = knownUntil > now && knownUntil - KNOWN_MS + RENEWED_AFTER_MS <= now
    return order.isRenewal || isKnown
  }

  #limitsOf({ issuer }: LimitedAccount): CaLimits {
    return this.#limits.get(issuer) ?? {}
  }

  /** The time at which a bucket is full again. A clock that was ahead must not empty it below its depth. */
  #fullAt({ key, limit }: Quota, usage: Usage): number {
    return usage.untilAtMost(key, emptyAt(limit, this.#deps.now()))
  }

  #take(usage: Usage, quotas: readonly Quota[]): void {
    for (const quota of quotas)
      usage.set(quota.key, take(this.#fullAt(quota, usage), quota.limit, this.#deps.now()))
  }
}

function keysOf(quotas: readonly Quota[]): string[] {
  return quotas.map(({ key }) => key)
}

/** Counts the orders under way that may use a key, and says until when at most the first of them may. */
function reservedOf(
  usage: Usage,
  key: string,
  now: number,
): { readonly count: number; readonly until: number } {
  const open = usage.reservations(key, now, ABANDONED_MS)
  const ends = open.map(({ since }) => since + ABANDONED_MS)
  return { count: open.length, until: Math.min(Number.POSITIVE_INFINITY, ...ends) }
}

/** The id of the order for a set of names: a new attempt replaces the last one. */
function idOf({ directory, names }: LimitedOrder): string {
  return `${directory} ${setOf(names)}`
}

function rateLimited(issuer: string, { kind, subject, limit, freeAt }: Budget, now: number) {
  const time = Number(freeAt)
  const what = `${limit.count} ${UNITS[kind]} in ${durationText(limit.per)} for ${subject}`
  const detail = `the limit of ${issuer} is used up: ${what}; none is left until ${toTime(time)}`
  return new IssuanceError('CERT_RATE_LIMITED', detail, {
    retryAfter: Math.ceil((time - now) / 1000),
  })
}

const UNITS: Readonly<Record<Quota['kind'], string>> = {
  orders: 'orders',
  domain: 'certificates',
  names: 'certificates',
  failures: 'failed proofs',
  failuresInARow: 'failed proofs in a row',
  accounts: 'new accounts',
}

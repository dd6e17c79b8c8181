import type { Counted, Lease, OrderRecord, Store, Usage } from '@gatehouse/cert-store/port'
import { type Clock, hasCode, sleep } from '@gatehouse/net'
import { LRUCache } from 'lru-cache'
import { IssuanceError } from './errors.ts'
import { issueFailed, nextTryOf, waitOf } from './failure.ts'
import { emptyAt, freeAt, left, take } from './limits/bucket.ts'
import type { CallerLimits } from './options/callers.ts'
import { type Actor, type IssuanceRequest, preparationOf } from './request.ts'
import { DAY } from './times.ts'

/** Counts that are made at most, and the milliseconds between two of them. */
const MAX_COUNTS = 20
const COUNT_AGAIN = 50
/** The share of what may have one first name from which on the log warns. */
const NEARLY = 0.8
/** The tries of a name before its wait is over, by people or another configuration. */
const RETRIES = { issuancesPerMinute: 0.5, burst: 5 }
const MINUTE = 60_000

/** The service itself, as opposed to its callers. */
export const SYSTEM: Actor = { actor: 'system', way: 'service' }

/** A certificate to be admitted. Without a lease, this only asks whether it would be. */
export interface CertificateAdmission {
  readonly request: IssuanceRequest
  readonly actor: Actor
  /** The latest order of the request key. */
  readonly order: OrderRecord | undefined
  readonly isRenewal: boolean
  /** The caller that the certificate counts for; undefined for renewals. */
  readonly askedBy: string | undefined
  readonly lease?: Lease
}

interface Demand extends Pick<IssuanceRequest, 'names'> {
  readonly isPrepared?: boolean
}

interface AdmissionDeps {
  readonly callers: Callers
  readonly clock: Pick<Clock, 'now'>
  readonly store: Pick<Store, 'findOrderByRequestKey'>
}

/**
 * Whatever refuses a certificate before its issuer begins, in order. Work on it ends at the first; a dry run
 * collects all. Who asks for the same later may be refused nevertheless.
 */
export async function* refusalsOf(admission: CertificateAdmission, deps: AdmissionDeps) {
  const { callers, clock, store } = deps
  const { request, actor, isRenewal, lease } = admission
  const retry = await refusedRetry(admission, callers, clock.now())
  if (retry) yield retry
  if (actor !== SYSTEM) {
    const demand = { names: request.names, isPrepared: await isPrepared(admission, store) }
    const admitted = lease
      ? callers.admit(demand, actor, isRenewal, lease)
      : callers.ask(demand, actor, isRenewal)
    const limit = await limitOf(admitted)
    if (limit) yield limit
  }
  const refusal = request.issuer.refusal?.(request)
  if (refusal) yield refusal
}

/** Refuses what failed until its next try is due, unless its share refused another caller. */
async function refusedRetry(
  { request, actor, order, lease }: CertificateAdmission,
  callers: Callers,
  now: number,
): Promise<Error | undefined> {
  const nextTryAt = order && waitOf(order, now)
  if (!order || nextTryAt === undefined) return undefined
  const { lastError, askedBy = actor.actor, names } = order
  if (lastError?.code === 'CERT_RATE_LIMITED' && askedBy !== actor.actor) return undefined
  const isVoid = nextTryOf(order, request.issuer, now) === undefined
  // Replicas with two configurations must not hand a name to and fro.
  const isTried = isVoid && (!lease || !(await limitOf(callers.admitRetry(names[0] ?? ''))))
  return isTried ? undefined : issueFailed({ ...order, nextTryAt }, now)
}

/** Whether the same caller had the names proven ahead, which took one from its bucket. */
async function isPrepared(
  { request, askedBy }: CertificateAdmission,
  store: AdmissionDeps['store'],
): Promise<boolean> {
  if (!request.issuer.authorize || request.isPreparation) return false
  const prepared = await store.findOrderByRequestKey(preparationOf(request).requestKey)
  const isProven = prepared?.status === 'done' && prepared.checkpoint !== undefined
  return isProven && prepared.askedBy === askedBy
}

async function limitOf(admission: Promise<void>): Promise<Error | undefined> {
  return admission.then(
    () => undefined,
    (error: unknown) => {
      if (hasCode(error, 'CERT_CALLER_LIMITED')) return error
      throw error
    },
  )
}

interface CallersDeps {
  readonly store: Pick<Store, 'countNames' | 'countInUse' | 'changeUsage' | 'listUsage'>
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
  /** Whether it is only asked, so that no lease counts what is wanted. */
  readonly isAsked?: boolean
}

interface OwnLimits extends Readonly<CallerLimits['perCaller']> {
  readonly path: 'perCaller' | 'perOperator'
}

/** Limits how many certificates callers have and how fast they get new ones, whichever replica they ask. */
export class Callers {
  readonly #deps: CallersDeps
  /** Names that the log warned of in this hour. */
  readonly #warned = new LRUCache<string, true>({ max: 1_000, ttl: 60 * MINUTE })

  /** Replaced when the configuration changes. */
  limits: CallerLimits

  constructor(limits: CallerLimits, deps: CallersDeps) {
    this.limits = limits
    this.#deps = deps
  }

  /**
   * Admits a request for a new certificate whose lease is taken: what is counted includes the lease, so
   * that requests at the same time see each other.
   * @throws IssuanceError `CERT_CALLER_LIMITED`
   */
  async admit(
    { names, isPrepared = false }: Demand,
    { actor, isOperator = false }: Actor,
    isRenewal: boolean,
    lease?: Lease,
  ): Promise<void> {
    const limits = ownLimits(this.limits, isOperator)
    if (!isRenewal) await this.#checkName(names[0]?.text ?? '', lease)
    const demand = { names: isRenewal ? 0 : names.length, tokens: isPrepared ? 0 : 1 }
    if (limits) await this.#admitOwn(actor, demand, limits, lease)
  }

  /** Refuses what `admit` would refuse now, and takes nothing. @throws IssuanceError `CERT_CALLER_LIMITED` */
  async ask(demand: Demand, actor: Actor, isRenewal: boolean): Promise<void> {
    const { store, clock } = this.#deps
    const changeUsage: typeof store.changeUsage = (keys, change) =>
      store.changeUsage(keys, (usage) => change(usage.copy()))
    const deps = { store: { ...store, changeUsage }, clock, log: { warn() {} }, isAsked: true }
    await new Callers(this.limits, deps).admit(demand, actor, isRenewal)
  }

  /** Takes one of the tries that a name has before its wait is over. @throws IssuanceError `CERT_CALLER_LIMITED` */
  async admitRetry(name: string): Promise<void> {
    const key = `caller retry ${name}`
    const now = this.#deps.clock.now()
    const wait = await this.#deps.store.changeUsage([key], (usage) =>
      takeOne(usage, key, RETRIES, now),
    )
    if (wait === 0) return
    const retryAfter = Math.ceil(wait / 1_000)
    const why = `${name} was tried ${RETRIES.burst} times within minutes: it can be tried again in ${retryAfter} s`
    throw new IssuanceError('CERT_CALLER_LIMITED', why, { retryAfter })
  }

  /** Notes that a request goes on that was admitted before a restart: it may not be counted. */
  async resumed(askedBy: string): Promise<void> {
    const keys = keysOf(askedBy)
    await this.#deps.store.changeUsage([keys.names], (usage) => usage.set(keys.names, UNKNOWN))
  }

  /** Has what a caller has used count for its present name; the names that it has are counted anew. */
  async rename(former: string, present: string): Promise<void> {
    const { store } = this.#deps
    const renamed = (await store.listUsage(former)).map(
      (key) => [key, key.slice(0, -former.length) + present] as const,
    )
    await store.changeUsage(renamed.flat(), (usage) => {
      for (const [from, to] of renamed) usage.set(to, Math.max(usage.until(from), usage.until(to)))
    })
    await this.resumed(present)
  }

  /** Demands room for one more certificate. None that is in use makes room for it. */
  async #checkName(domain: string, lease?: Lease): Promise<void> {
    const { certificates } = this.limits.perName
    const { store, clock } = this.#deps
    const { count, until } = await this.#count(certificates, lease, (upTo) =>
      store.countInUse(domain, clock.now(), upTo),
    )
    const total = count + (this.#deps.isAsked ? 1 : 0)
    if (count >= certificates * NEARLY) this.#warn(domain, count)
    if (total <= certificates) return
    const why = `${certificates} certificates are in use whose first name is ${domain}`
    throw limited('perName.certificates', why, this.#waitUntil(until))
  }

  #warn(domain: string, count: number): void {
    if (this.#warned.has(domain)) return
    this.#warned.set(domain, true)
    const { certificates: limit } = this.limits.perName
    const message = 'nearly `limits.perName.certificates` certificates have this first name'
    this.#deps.log.warn({ domain, count, limit }, message)
  }

  async #admitOwn(
    actor: string,
    { names: newNames, tokens }: { readonly names: number; readonly tokens: number },
    limits: OwnLimits,
    lease?: Lease,
  ): Promise<void> {
    const now = this.#deps.clock.now()
    const keys = keysOf(actor)
    const admit = (count: (usage: Usage) => boolean) =>
      this.#deps.store.changeUsage(Object.values(keys), (usage) =>
        count(usage) ? (tokens === 0 ? 0 : takeOne(usage, keys.bucket, limits, now)) : usage,
      )
    let wait = await admit((usage) => addNames(usage, keys, { now, newNames, limits }))
    // A count reads all rows of the caller, so it is made only near the limit.
    while (typeof wait !== 'number') {
      const kept = wait.until(keys.names)
      const names = await this.#recount(actor, newNames, limits, lease)
      wait = await admit((usage) => replaceNames(usage, keys, { kept, names, now }))
    }
    if (wait === 0) return
    throw limited(`${limits.path}.issuancesPerMinute`, 'too many certificates at once', wait)
  }

  async #recount(
    actor: string,
    newNames: number,
    { path, names: allowed }: OwnLimits,
    lease?: Lease,
  ): Promise<number> {
    const { store, clock } = this.#deps
    const { count: used, until } = await this.#count(allowed, lease, (upTo) =>
      store.countNames(actor, clock.now(), upTo),
    )
    const count = used + (this.#deps.isAsked ? newNames : 0)
    if (count <= allowed) return count
    const why = `${count - newNames} of ${allowed} names are in use, and this takes ${newNames}`
    throw limited(`${path}.names`, why, this.#waitUntil(until))
  }

  /**
   * Counts until it is clear who is admitted: of requests at the same time that are too many together,
   * those with the later leases are refused, and then the others are not too many.
   */
  async #count(
    most: number,
    lease: Lease | undefined,
    count: (upTo?: Lease) => Promise<Counted>,
  ): Promise<Counted> {
    for (let tries = 1; ; tries += 1) {
      const counted = await count()
      if (counted.count <= most || !lease || tries === MAX_COUNTS) return counted
      const withoutLater = await count(lease)
      if (withoutLater.count > most) return withoutLater
      await sleep(this.#deps.clock, COUNT_AGAIN)
    }
  }

  #waitUntil(until: number | null): number {
    return Math.min(DAY, Math.max(MINUTE, (until ?? 0) - this.#deps.clock.now()))
  }
}

/** A count of names is kept as one more than it is. */
const UNKNOWN = 0

/** The rows of a caller: its bucket, an upper bound of the names in use, and when those were counted. */
function keysOf(actor: string) {
  return {
    bucket: `caller ${actor}`,
    names: `caller names ${actor}`,
    countedAt: `caller counted ${actor}`,
  }
}

type UsageKeys = ReturnType<typeof keysOf>

/** Adds names to the last count and all that was admitted since; false if that may be too many. */
function addNames(
  usage: Usage,
  keys: UsageKeys,
  {
    now,
    newNames,
    limits,
  }: { readonly now: number; readonly newNames: number; readonly limits: OwnLimits },
): boolean {
  if (newNames === 0) return true
  const kept = usage.until(keys.names)
  const names = kept - 1 + newNames
  // After the clock was set back, expired certificates count again.
  if (kept === UNKNOWN || usage.until(keys.countedAt) > now || names > limits.names) return false
  usage.set(keys.names, names + 1)
  return true
}

/** Takes up a count, unless others were admitted since it was begun. */
function replaceNames(
  usage: Usage,
  keys: UsageKeys,
  { kept, names, now }: { readonly kept: number; readonly names: number; readonly now: number },
): boolean {
  if (usage.until(keys.names) !== kept) return false
  usage.set(keys.names, names + 1)
  usage.set(keys.countedAt, now)
  return true
}

/** Takes one from the bucket of a caller; otherwise gives how long to wait for the next, in milliseconds. */
function takeOne(
  usage: Usage,
  key: string,
  { issuancesPerMinute, burst }: Pick<OwnLimits, 'issuancesPerMinute' | 'burst'>,
  now: number,
) {
  const limit = { count: burst, per: (burst / issuancesPerMinute) * MINUTE }
  // After the clock was set back, the bucket is empty at worst.
  const fullAt = usage.untilAtMost(key, emptyAt(limit, now))
  if (left(fullAt, limit, now) < 1) return freeAt(fullAt, limit, 1) - now
  usage.set(key, take(fullAt, limit, now))
  return 0
}

function ownLimits(limits: CallerLimits, isOperator: boolean): OwnLimits | undefined {
  if (!isOperator) return { ...limits.perCaller, path: 'perCaller' }
  return limits.perOperator && { ...limits.perOperator, path: 'perOperator' }
}

function limited(limit: string, why: string, waitMs: number): IssuanceError {
  const retryAfter = Math.max(1, Math.ceil(waitMs / 1_000))
  const detail = `${why}; an operator can raise \`limits.${limit}\``
  return new IssuanceError('CERT_CALLER_LIMITED', detail, { retryAfter, members: { limit } })
}

import type { CertificateRecord, OrderRecord } from '@gatehouse/cert-store/port'
import { hasCode } from '@gatehouse/net'
import type { Name } from '@gatehouse/pki'
import { isUnavailable } from '@gatehouse/store'
import { refusalsOf, SYSTEM } from './admission.ts'
import { IssuanceError, IssueError } from './errors.ts'
import { nextTryOf } from './failure.ts'
import { Flight } from './flight/flight.ts'
import type { FlightPlan } from './flight/order.ts'
import type { IssuanceDeps } from './flight/ports.ts'
import type { Certificate } from './holdings.ts'
import {
  type Actor,
  type IssuanceRequest,
  livesTooLong,
  type NamesOfIssuer,
  preparationOf,
  refuseCompromised,
  requestTo,
  rerouteRequest,
  restoreRequest,
} from './request.ts'
import { hasBegun, isMisdated, planRenewal } from './times.ts'

/** A certificate, or the order of one that takes longer than its caller waits. */
export type IssuanceResult =
  | { readonly certificate: Certificate; readonly cached: boolean }
  | { readonly certificate?: undefined; readonly order: OrderRecord }

const MAX_FLIGHTS = 10_000
/** Time for flights to end when the service closes. */
const CLOSING_MS = 3_000
/** Milliseconds that callers wait once the service is stopping: for a CA of its own, and not for an order. */
const LAST_WAIT_MS = 500
const LOOK_EVERY = 100
const noop = () => {}

/** Whether another caller may not be refused the same work. */
const isOfItsCaller = (error: unknown): boolean =>
  hasCode(error, 'CERT_CALLER_LIMITED') ||
  (error instanceof IssueError && error.code === 'CERT_RATE_LIMITED')

/** Answers certificates that are held and issues all others, at most once at a time per request key. */
export class Issuance {
  readonly #deps: IssuanceDeps
  readonly #flights = new Map<string, Flight>()
  /** The certificates whose renewal is being planned again. */
  readonly #planning = new Set<number>()
  readonly #closing = new AbortController()
  /** Ends the waiting of each caller. */
  readonly #waiting = new Set<() => void>()
  #patience: number

  constructor(deps: IssuanceDeps) {
    this.#deps = deps
    this.#patience = deps.wait
  }

  get flights(): ReadonlyMap<string, Flight> {
    return this.#flights
  }

  /**
   * The certificate that is held, or else a new one. Returns no promise if the answer is ready.
   * @throws IssuanceError, IssueError, CertStoreError; see also {@link refuseCompromised}
   */
  obtain(request: IssuanceRequest, actor: Actor): IssuanceResult | Promise<IssuanceResult> {
    const certificate = request.csr ? undefined : this.#deps.holdings.peek(request.requestKey)
    const isFit = certificate && !livesTooLong(certificate.record, request)
    return isFit ? this.#answer(certificate, actor) : this.#obtain(request, actor)
  }

  async #obtain(request: IssuanceRequest, actor: Actor): Promise<IssuanceResult> {
    const certificate = await this.#find(request)
    if (!certificate || livesTooLong(certificate.record, request))
      return this.#order(request, actor, certificate)
    return isMisdated(certificate.record, this.#deps.clock.now())
      ? this.#replace(certificate, actor)
      : this.#answer(certificate, actor)
  }

  /** Gets a new certificate, which replaces one that lives longer than was asked for. */
  async #order(request: IssuanceRequest, actor: Actor, old?: Certificate): Promise<IssuanceResult> {
    const outcome = old
      ? await this.renew({ ...old.record, lifetime: request.lifetime }, actor)
      : await this.#joinOrFallBack(request, actor)
    // Somebody else may have asked for a longer one at the same time.
    const isNew = outcome.certificate && outcome.certificate.record.id !== old?.record.id
    return isNew && livesTooLong(outcome.certificate.record, request)
      ? this.#obtain(request, actor)
      : outcome
  }

  /**
   * The certificate that `obtain` would answer at once, possibly that of a fallback. One whose
   * validity begins in the future is the last resort.
   * @throws as {@link refuseCompromised}
   */
  async find(request: IssuanceRequest): Promise<Certificate | undefined> {
    const certificate = await this.#find(request)
    return certificate && livesTooLong(certificate.record, request) ? undefined : certificate
  }

  async #find(request: IssuanceRequest): Promise<Certificate | undefined> {
    // Both are sent at once, so that a database answers them together.
    const refusal = refuseCompromised(request, this.#deps.store)
    const [certificate] = await Promise.all([this.#findBest(request), refusal])
    return certificate
  }

  async #findBest(request: IssuanceRequest): Promise<Certificate | undefined> {
    const { holdings, clock } = this.#deps
    let best: Certificate | undefined
    let failure: unknown
    for (let next: IssuanceRequest | undefined = request; next; next = this.fallbackOf(next)) {
      const stored = await holdings.find(next.requestKey).catch((error) => {
        if (!isUnavailable(error)) throw error
        failure = error
        return undefined
      })
      // It may have been issued while the store was read.
      const certificate = holdings.peek(next.requestKey) ?? stored
      if (certificate && hasBegun(certificate.record, clock.now())) return certificate
      best ??= certificate
    }
    if (!best && failure) throw failure
    return best
  }

  /**
   * Places the order for these names at the CA of their issuer and proves them, so that a later {@link obtain}
   * only finalizes it (RFC 8555, section 7.4). An issuer that asks for no proof is `ready` at once; `working`
   * says that it takes longer than callers wait. What nobody finalizes ends by itself.
   * @throws IssuanceError, IssueError, CertStoreError as {@link obtain} does
   */
  async authorize(names: NamesOfIssuer, actor: Actor): Promise<'ready' | 'working'> {
    if (!names.issuer.authorize) return 'ready'
    const request = preparationOf(names)
    const joined = this.#flights.get(request.requestKey)
    try {
      const flight = joined ?? this.#start(this.#planOf(request, actor))
      return (await this.#earlyOf(flight)) ? 'ready' : 'working'
    } catch (error) {
      if (joined && isOfItsCaller(error)) return this.authorize(request, actor)
      const fallback = error instanceof IssueError && this.fallbackOf(request)
      if (!fallback) throw error
      return this.authorize(fallback, actor)
    }
  }

  /** @throws IssuanceError CERT_NOT_PERMITTED also for a certificate whose client has asked for its end */
  async renew(record: CertificateRecord, actor: Actor): Promise<IssuanceResult> {
    // Only clients with keys of their own can do so.
    const clientRequest = record.csr && restoreRequest(record, this.#deps.issuers, record.notAfter)
    const why = 'its ACME client requested this end and renews it'
    if (clientRequest?.requestKey === record.requestKey)
      throw new IssuanceError('CERT_NOT_PERMITTED', why)
    const today = rerouteRequest(record, this.#deps.issuers)
    if (today && today.requestKey !== record.requestKey) return this.#move(record, today, actor)
    return this.#join(today ?? this.#restore(record), actor, record)
  }

  /**
   * Records that a certificate is delivered, and plans its renewal again if that had stopped. Await the
   * promise before the answer: then the audit trail has the row.
   */
  recordDelivery(certificate: Certificate, actor: Actor): Promise<void> | undefined {
    if (actor === SYSTEM) return undefined
    const isWithheld = certificate.record.sealedKey !== null && certificate.privateKey === ''
    const detail = isWithheld ? 'without the private key' : undefined
    const written = this.#deps.audit.recordDelivery(certificate.record, actor, detail)
    this.#deps.metrics?.delivered.inc()
    this.#ensureRenewal(certificate.record)
    return written
  }

  /** Records that a certificate is in use although it was not delivered again. */
  recordUse({ record }: Certificate): void {
    this.#deps.audit.recordUse(record.id)
    this.#ensureRenewal(record)
  }

  /** Waits, no longer than callers do, for all work on certificates with this first name. */
  async settle(domain: Pick<Name, 'text'>): Promise<void> {
    const isFor = ({ plan }: Flight) => plan.request.names[0]?.text === domain.text
    const underway = [...this.#flights.values()].filter(isFor)
    const settled = Promise.allSettled(underway.map(({ result }) => result))
    const everywhere = settled.then(() => this.#settledElsewhere(domain))
    await this.#within(everywhere, this.#patience)
  }

  async #settledElsewhere(domain: Pick<Name, 'text'>): Promise<void> {
    const { store, clock } = this.#deps
    const deadline = clock.now() + this.#patience
    while (clock.now() < deadline && (await store.isBusyElsewhere(domain.text)))
      await this.#within(new Promise(noop), LOOK_EVERY)
  }

  /** Resumes the orders that nobody works on, as after a restart. */
  async resume(): Promise<void> {
    const { store, clock, log } = this.#deps
    const unfinished = await store.listPendingOrders()
    const failed = await store.listResumableOrders(clock.now())
    for (const order of [...unfinished, ...failed])
      await this.#resumeOne(order).catch((error) =>
        log.warn({ err: error, names: order.names }, 'an unfinished order could not be resumed'),
      )
  }

  /** Makes due what failed with another configuration than that of today, and the renewals that it put off. */
  async voidOutdated(): Promise<void> {
    const { store, issuers, clock } = this.#deps
    const configurations = issuers.configurations()
    let voided: readonly OrderRecord[]
    do {
      voided = await store.voidWaits({ configurations }, clock.now())
      await this.#bringForward(voided)
    } while (voided.length > 0)
  }

  /**
   * Tries failed orders of a name now, within the limits of its CA. Gives them as they are when that has ended, or
   * when callers stop waiting.
   * @throws IssuanceError `CERT_CALLER_LIMITED`, also if the name was tried too often
   */
  async retry(name: string, orders: readonly OrderRecord[], actor: Actor): Promise<OrderRecord[]> {
    const { callers, store, clock, issuers } = this.#deps
    await callers.admitRetry(name)
    const now = clock.now()
    // A wait that a CA demands stays.
    const isDemanded = (order: OrderRecord) => {
      const { configuration } = issuers.find(order.issuer) ?? {}
      const demanded = { ...order, nextTryAt: order.lastError?.demandedUntil ?? 0 }
      return nextTryOf(demanded, { configuration }, now) !== undefined
    }
    const requestKeys = orders.flatMap((order) => (isDemanded(order) ? [] : order.requestKey))
    await this.#bringForward(await store.voidWaits({ requestKeys }, now))
    return Promise.all(
      orders.map((order) => (isDemanded(order) ? order : this.#retryOne(order, actor))),
    )
  }

  async #retryOne(order: OrderRecord, actor: Actor): Promise<OrderRecord> {
    const flight = await this.#resumeOne(order, actor)
    try {
      if (flight && !(await this.#earlyOf(flight))) return await flight.file()
    } catch (error) {
      if (!(error instanceof IssueError)) throw error
    }
    return (await this.#deps.store.findOrder(order.id)) ?? order
  }

  /** Makes the renewals due that failed orders have put off, also of a fallback or of another issuer before. */
  async #bringForward(orders: readonly OrderRecord[]): Promise<void> {
    const { store, issuers, holdings, clock } = this.#deps
    const now = clock.now()
    for (const { requestKey, names } of orders)
      for (const record of await store.findByDomain(names[0] ?? '')) {
        const isPutOff = record.renewAt !== null && record.renewAt > now && !record.account
        const today = isPutOff && rerouteRequest(record, issuers)?.requestKey
        if (!isPutOff || ![record.requestKey, today].includes(requestKey)) continue
        await store.setRenewAt(record.id, now)
        holdings.forget([record.requestKey])
      }
  }

  /** Returns the errors that would refuse this request now, before its issuer is asked. */
  async refusals(request: IssuanceRequest, actor: Actor): Promise<readonly Error[]> {
    const order = await this.#deps.store.findOrderByRequestKey(request.requestKey)
    // A certificate that lives too long is renewed.
    const isRenewal = (await this.#find(request)) !== undefined
    const admission = { request, actor, order, isRenewal, askedBy: actor.actor }
    return Array.fromAsync(refusalsOf(admission, this.#deps))
  }

  /** Ends the waiting of callers, and not what they wait for: they are told where to ask for it. */
  stopWaiting(): void {
    this.#patience = Math.min(this.#patience, LAST_WAIT_MS)
    for (const stop of this.#waiting) stop()
  }

  /** Stores the orders of work under way and gives it a moment to end. */
  async close(): Promise<void> {
    const underway = [...this.#flights.values()]
    const waiting = underway.filter(({ state }) => state === 'leading')
    await Promise.allSettled(waiting.map((flight) => flight.file()))
    this.#closing.abort()
    await Promise.allSettled(underway.map(({ result }) => this.#within(result, CLOSING_MS)))
  }

  #answer(certificate: Certificate, actor: Actor): IssuanceResult | Promise<IssuanceResult> {
    const outcome = { certificate, cached: true }
    return this.recordDelivery(certificate, actor)?.then(() => outcome) ?? outcome
  }

  /** Replaces a misdated certificate, or answers it if there is no other at once. */
  async #replace(certificate: Certificate, actor: Actor): Promise<IssuanceResult> {
    try {
      const outcome = await this.renew(certificate.record, actor)
      return outcome.certificate ? outcome : this.#answer(certificate, actor)
    } catch (error) {
      const { names } = certificate.record
      this.#deps.log.warn({ err: error, names }, 'a certificate with wrong dates is still served')
      return this.#answer(certificate, actor)
    }
  }

  async #joinOrFallBack(request: IssuanceRequest, actor: Actor): Promise<IssuanceResult> {
    try {
      return await this.#join(request, actor)
    } catch (error) {
      const fallback = this.fallbackOf(request)
      // Only the failure of an issuer itself is a reason to ask another one.
      if (!fallback || !(error instanceof IssueError)) throw error
      return this.#joinOrFallBack(fallback, actor)
    }
  }

  /** The same request to the issuer that stands in for its own. */
  fallbackOf(request: IssuanceRequest): IssuanceRequest | undefined {
    const { fallback } = request.issuer
    const issuer = fallback === undefined ? undefined : this.#deps.issuers.find(fallback)
    return issuer && requestTo(issuer, request)
  }

  /** Renews by the issuer of today what a fallback or an earlier configuration issued. */
  async #move(record: CertificateRecord, today: IssuanceRequest, actor: Actor) {
    const { holdings, store, clock } = this.#deps
    try {
      const certificate = await holdings.find(today.requestKey)
      const outcome = certificate ? { certificate, cached: true } : await this.#join(today, actor)
      if (outcome.certificate) await store.setRenewAt(record.id, null)
      holdings.forget([record.requestKey])
      return outcome
    } catch (error) {
      if (planRenewal(record, () => 0) > clock.now()) throw error
      return this.#join(this.#restore(record), actor, record)
    }
  }

  #restore(record: CertificateRecord): IssuanceRequest {
    const request = restoreRequest(record, this.#deps.issuers)
    if (request?.requestKey === record.requestKey) return request
    const why = `the issuer ${record.issuer} no longer signs for ${record.names[0]}`
    throw new IssuanceError('CERT_NOT_PERMITTED', why)
  }

  #ensureRenewal(record: CertificateRecord): void {
    const { id, requestKey, names } = record
    if (record.renewAt !== null || this.#planning.has(id)) return
    const { clock, holdings, log, random, store } = this.#deps
    const now = clock.now()
    const renewAt = isMisdated(record, now) ? now : Math.max(now, planRenewal(record, random))
    this.#planning.add(id)
    store
      .setRenewAt(id, renewAt)
      .then(() => holdings.forget([requestKey]))
      .catch((error) => log.warn({ err: error, names }, 'the renewal could not be rescheduled'))
      .finally(() => this.#planning.delete(id))
  }

  /** Waits for the work on a request key, which it starts if there is none. */
  async #join(
    request: IssuanceRequest,
    actor: Actor,
    replaces?: CertificateRecord,
  ): Promise<IssuanceResult> {
    const joined = this.#flights.get(request.requestKey)
    const flight = joined ?? this.#start(this.#planOf(request, actor, replaces))
    try {
      return await this.#outcomeOf(flight, actor, joined !== undefined)
    } catch (error) {
      // The limits and the order of the caller that it waited for are not its own.
      if (joined && (isOfItsCaller(error) || hasCode(error, 'CERT_ORDER_ENDED')))
        return this.#join(request, actor, replaces)
      throw error
    }
  }

  #planOf(request: IssuanceRequest, actor: Actor, replaces?: CertificateRecord): FlightPlan {
    const askedBy = replaces ? undefined : actor.actor
    return { request, actor, replaces, since: this.#deps.clock.now(), askedBy }
  }

  /** The result of a flight before its callers stop waiting. */
  async #earlyOf(flight: Flight): Promise<Certificate | 'proven' | undefined> {
    return this.#within(flight.result, this.#patience).catch((error) => {
      // The next start resumes it.
      if (this.#closing.signal.aborted) return undefined
      throw error
    })
  }

  async #outcomeOf(flight: Flight, actor: Actor, hasJoined: boolean): Promise<IssuanceResult> {
    const early = await this.#earlyOf(flight)
    if (!early && flight.state !== 'storing') return { order: await flight.file() }
    const certificate = (early ?? (await flight.result)) as Certificate
    // The audit row of the issuance covers the caller that started it.
    if (hasJoined || flight.state !== 'landed') await this.recordDelivery(certificate, actor)
    return { certificate, cached: false }
  }

  /** The work on a request key that is under way, or begins now: two would take the lease from each other without end. */
  #start(plan: FlightPlan): Flight {
    const { requestKey } = plan.request
    const underway = this.#flights.get(requestKey)
    if (underway) return underway
    const why = 'too many certificates are being issued'
    if (this.#flights.size >= MAX_FLIGHTS)
      throw new IssuanceError('CERT_BUSY', why, { retryAfter: 5 })
    const flight = new Flight(plan, this.#deps, this.#closing.signal)
    this.#flights.set(requestKey, flight)
    flight.result.finally(() => this.#flights.delete(requestKey)).catch(noop)
    return flight
  }

  async #resumeOne(order: OrderRecord, actor = SYSTEM): Promise<Flight | undefined> {
    const { store, issuers, callers } = this.#deps
    const underway = this.#flights.get(order.requestKey)
    if (underway) return underway
    const restored = restoreRequest(order, issuers, order.origin?.notAfter)
    const request =
      restored &&
      [restored, preparationOf(restored)].find(({ requestKey }) => requestKey === order.requestKey)
    const { checkpoint: _, configuration: __, ...ended } = order
    if (!request) {
      await this.#giveUp(ended)
      return undefined
    }
    const replaces = await store.findCurrent(order.requestKey)
    const { since, askedBy, origin } = order
    // Another replica had it, and ended it just before this order was filed.
    if (store.isShared && (replaces?.madeAt ?? 0) >= since) {
      await store.saveOrder({ ...ended, status: 'done' })
      return undefined
    }
    if (askedBy !== undefined) await callers.resumed(askedBy)
    const resumed = { ...request, predecessor: origin?.predecessor }
    return this.#start({ request: resumed, actor, replaces, since, askedBy, origin })
  }

  /** Ends an order that cannot go on, as its issuer was changed: it failed unless another one has led to a certificate. */
  async #giveUp(order: OrderRecord): Promise<void> {
    const { store, clock } = this.#deps
    const now = clock.now()
    const setOf = ({ names }: Pick<OrderRecord, 'names'>) => names.toSorted().join()
    const records = await store.findByDomain(order.names[0] ?? '')
    if (records.some((record) => setOf(record) === setOf(order)))
      return void (await store.saveOrder({ ...order, status: 'done' }))
    const detail = 'its issuer no longer signs it'
    const lastError = { code: 'CERT_NOT_PERMITTED', detail, at: now }
    await store.saveOrder({ ...order, status: 'failed', lastError, nextTryAt: now })
  }

  async #within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
    const { promise: late, resolve } = Promise.withResolvers<undefined>()
    const stop = () => resolve(undefined)
    const timer = this.#deps.clock.setTimer(stop, ms)
    this.#waiting.add(stop)
    return Promise.race([promise, late]).finally(() => {
      timer.cancel()
      this.#waiting.delete(stop)
    })
  }
}

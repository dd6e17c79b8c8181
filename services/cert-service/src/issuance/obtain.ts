import type { Name } from '@gatehouse/pki'
import type { Audit, Requester } from '../audit.ts'
import { hasBegun } from '../clocks.ts'
import { CertError, IssueError } from '../errors.ts'
import type { CallerGate } from '../limits/callers.ts'
import type { CertificateRecord, OrderRecord } from '../store/store.ts'
import type { Held } from './answer.ts'
import { createFlights, type Flight, type Flights, orderOf, STORING } from './flights.ts'
import { createIssue, type IssueDeps, SYSTEM } from './issue.ts'
import { isMisdated, planRenewal } from './renewal.ts'
import { type CertificateRequest, requestTo, rerouteRequest, restoreRequest } from './request.ts'

/** A certificate, or the order of one that takes longer than the caller is made to wait. */
export type Outcome =
  | { readonly held: Held; readonly cached: boolean }
  | { readonly held?: undefined; readonly order: OrderRecord }

export interface Issuance {
  readonly flights: Flights
  /** The certificate that is held, else a new one. Gives no promise when its answer is ready. */
  obtain(request: CertificateRequest, by: Requester): Outcome | Promise<Outcome>
  /** What would be answered at once: the certificate that is held, or what stands in for it. */
  find(request: CertificateRequest): Promise<Held | undefined>
  /** A new certificate in place of one that is held. */
  renew(record: CertificateRecord, by: Requester): Promise<Outcome>
  /**
   * Notes that a certificate goes out, and takes up its renewal again should it have ended. Its
   * promise is to be waited for before the answer: then the audit trail has the row.
   */
  handOut(held: Held, by: Requester): Promise<void> | undefined
  /** Notes that a certificate is still in use, though it did not go out. */
  touch(held: Held): void
  /** Waits, no longer than callers do, for whatever is on its way under this first name. */
  settle(domain: Name): Promise<void>
  /** Goes on with the orders that nobody works on, as after a restart. */
  resume(): Promise<void>
  /** Files what is under way as orders and gives it a moment to end. */
  close(): Promise<void>
}

export interface IssuanceDeps extends IssueDeps {
  readonly audit: Audit
  readonly callers: CallerGate
}

const CLOSING_MS = 3_000

export function createIssuance(deps: IssuanceDeps): Issuance {
  const { store, holdings, issuers, audit, callers, metrics, clock, log } = deps
  const flights = createFlights()
  const closing = new AbortController()
  const issue = createIssue(deps, closing.signal)

  function obtain(request: CertificateRequest, by: Requester): Outcome | Promise<Outcome> {
    const held = holdings.peek(request.lineage)
    return held ? answerHeld(held, by) : obtainSlowly(request, by)
  }

  async function obtainSlowly(request: CertificateRequest, by: Requester): Promise<Outcome> {
    const held = await findAny(request)
    if (!held) return joinAny(request, by)
    return isMisdated(held.record, clock.now()) ? replace(held, by) : answerHeld(held, by)
  }

  /** A new certificate in place of a misdated one; what is held, if there is none at once. */
  async function replace(held: Held, by: Requester): Promise<Outcome> {
    try {
      const outcome = await renew(held.record, by)
      return outcome.held ? outcome : answerHeld(held, by)
    } catch (error) {
      log.warn({ err: error, names: held.record.names }, 'a misdated certificate is still answered')
      return answerHeld(held, by)
    }
  }

  /** The certificate of a request, or what stands in for it; one that begins in the future is the last resort. */
  async function findAny(request: CertificateRequest): Promise<Held | undefined> {
    const found = await holdings.find(request.lineage)
    // A flight may have landed while the store was being asked.
    const held = holdings.peek(request.lineage) ?? found
    if (held && hasBegun(held.record, clock.now())) return held
    const other = standIn(request)
    const instead = other && (await findAny(other))
    return instead && (!held || hasBegun(instead.record, clock.now())) ? instead : held
  }

  /** As `join`; where its issuer fails, its fallback stands in. */
  async function joinAny(request: CertificateRequest, by: Requester): Promise<Outcome> {
    try {
      return await join(request, by)
    } catch (error) {
      const other = standIn(request)
      // The failure of an issuer itself: its fallback may be better off.
      if (!other || !(error instanceof IssueError)) throw error
      return joinAny(other, by)
    }
  }

  function standIn(request: CertificateRequest): CertificateRequest | undefined {
    const { fallback } = request.issuer
    const issuer = fallback === undefined ? undefined : issuers.find(fallback)
    return issuer && requestTo(issuer, request)
  }

  async function renew(record: CertificateRecord, by: Requester): Promise<Outcome> {
    const today = rerouteRequest(record, issuers)
    if (today && today.lineage !== record.lineage) return move(record, today, by)
    return join(today ?? (await ownRequest(record)), by, record)
  }

  /** Its issuer stood in for another, or is no longer the one for its names. */
  async function move(
    record: CertificateRecord,
    today: CertificateRequest,
    by: Requester,
  ): Promise<Outcome> {
    try {
      const held = await holdings.find(today.lineage)
      const outcome = held ? { held, cached: true } : await join(today, by)
      if (outcome.held) await store.setRenewAt(record.id, null)
      holdings.forget(record.lineage)
      return outcome
    } catch (error) {
      if (planRenewal(record, () => 0) > clock.now()) throw error
      return join(await ownRequest(record), by, record)
    }
  }

  async function ownRequest(record: CertificateRecord): Promise<CertificateRequest> {
    const request = restoreRequest(record, issuers)
    if (request?.lineage === record.lineage) return request
    const why = `the issuer ${record.issuer} no longer signs for ${record.names[0]}`
    throw new CertError('CERT_NOT_PERMITTED', why)
  }

  function answerHeld(held: Held, by: Requester): Outcome | Promise<Outcome> {
    const outcome = { held, cached: true }
    return handOut(held, by)?.then(() => outcome) ?? outcome
  }

  function handOut(held: Held, by: Requester): Promise<void> | undefined {
    if (by === SYSTEM) return undefined
    const written = audit.handOut(held.record, by)
    metrics.handedOut()
    if (held.record.renewAt === null) revive(held.record)
    return written
  }

  function touch({ record }: Held): void {
    audit.fetched(record.id)
    if (record.renewAt === null) revive(record)
  }

  function revive(record: CertificateRecord): void {
    const now = clock.now()
    const planned = Math.max(now, planRenewal(record, deps.random))
    const renewAt = isMisdated(record, now) ? now : planned
    holdings.put({ ...record, renewAt })
    store.setRenewAt(record.id, renewAt).catch((error) => {
      holdings.forget(record.lineage)
      log.warn({ err: error, names: record.names }, 'renewal could not be taken up again')
    })
  }

  /** Takes part in the flight of a lineage, starting it if there is none. */
  async function join(
    request: CertificateRequest,
    by: Requester,
    replaces?: CertificateRecord,
  ): Promise<Outcome> {
    const isFree = by === SYSTEM || flights.get(request.lineage) !== undefined
    const release = isFree ? () => {} : await callers.admit(request, by, replaces !== undefined)
    const joined = flights.get(request.lineage)
    const flight = joined ?? start(request, by, replaces)
    flight.landed.then(release, release)
    const early = await within(flight.landed, deps.wait).catch((error) => {
      // It goes on at the next start.
      if (!closing.signal.aborted) throw error
    })
    if (!early && flight.step !== STORING) return { order: await file(flight) }
    const held = early ?? (await flight.landed)
    // The row of the issuance itself says that its starter got the certificate.
    if (joined) await handOut(held, by)
    return { held, cached: false }
  }

  function start(request: CertificateRequest, by: Requester, replaces?: CertificateRecord): Flight {
    const begin = { request, since: clock.now(), askedBy: replaces ? undefined : by.actor }
    return flights.start(begin, (started) => issue(started, by, replaces))
  }

  /** Writes the order of a flight that outlives its callers' wait. */
  async function file(flight: Flight): Promise<OrderRecord> {
    flight.filed ??= store.saveOrder(orderOf(flight))
    await flight.filed
    return orderOf(flight)
  }

  async function settle(domain: Name): Promise<void> {
    const underway = flights.all().filter(({ request }) => request.names[0]?.text === domain.text)
    const landed = Promise.allSettled(underway.map((flight) => flight.landed))
    await within(landed, deps.wait)
  }

  async function resume(): Promise<void> {
    const unfinished = await store.listPendingOrders()
    const failed = await store.listResumableOrders(clock.now())
    for (const order of [...unfinished, ...failed])
      await resumeOne(order).catch((error) =>
        log.warn({ err: error, names: order.names }, 'an unfinished order could not be taken up'),
      )
  }

  async function resumeOne(order: OrderRecord): Promise<void> {
    if (flights.get(order.lineage)) return
    const request = restoreRequest(order, issuers)
    if (request?.lineage !== order.lineage) return giveUp(order)
    const replaces = await store.findCurrent(order.lineage)
    const { since, askedBy } = order
    const work = (flight: Flight) => issue(flight, SYSTEM, replaces)
    const { landed } = flights.start({ request, since, askedBy }, work)
    const release = askedBy === undefined ? () => {} : callers.resume(request, askedBy)
    landed.then(release, release)
  }

  async function giveUp({ checkpoint: _, ...order }: OrderRecord): Promise<void> {
    const lastError = {
      code: 'CERT_NOT_PERMITTED',
      detail: 'its issuer is no longer configured so',
    }
    await store.saveOrder({ ...order, status: 'failed', lastError, nextTryAt: clock.now() })
  }

  async function close(): Promise<void> {
    const underway = flights.all()
    const waiting = underway.filter((flight) => flight.step !== STORING)
    await Promise.allSettled(waiting.map(file))
    closing.abort()
    await Promise.allSettled(underway.map((flight) => within(flight.landed, CLOSING_MS)))
  }

  /** What a promise gives, or undefined if it takes longer. */
  async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
    const { promise: late, resolve } = Promise.withResolvers<undefined>()
    const timer = clock.setTimer(() => resolve(undefined), ms)
    return Promise.race([promise, late]).finally(() => timer.cancel())
  }

  return { flights, obtain, find: findAny, renew, handOut, touch, settle, resume, close }
}

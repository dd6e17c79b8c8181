import { type Name, PkiError } from '@gatehouse/pki'
import type { Clock } from '@gatehouse/service-kit'
import type { Audit, Requester } from '../audit.ts'
import { CertError } from '../errors.ts'
import type { Issuer } from '../issuers/issuer.ts'
import type { CertMetrics } from '../metrics.ts'
import type { Keyring } from '../sealing/keyring.ts'
import type { CertificateRecord, Order, Store } from '../store/store.ts'
import type { Held } from './answer.ts'
import { failedOrder, issueFailed, refuseTooEarly } from './failure.ts'
import { createFlights, type Flight, type Flights, orderOf, STORING } from './flights.ts'
import type { Holdings } from './holdings.ts'
import { planRenewal } from './renewal.ts'
import { type CertificateRequest, restoreRequest } from './request.ts'
import { type Signed, sign } from './sign.ts'

/** A certificate, or the order of one that takes longer than the caller is made to wait. */
export type Outcome =
  | { readonly held: Held; readonly cached: boolean }
  | { readonly held?: undefined; readonly order: Order }

export interface Issuance {
  readonly flights: Flights
  /** The certificate that is held, else a new one. Gives no promise when its answer is ready. */
  obtain(request: CertificateRequest, by: Requester): Outcome | Promise<Outcome>
  /** A new certificate in place of one that is held. */
  renew(record: CertificateRecord, by: Requester): Promise<Outcome>
  /** Notes that a certificate went out, and takes up its renewal again should it have ended. */
  handOut(held: Held, by: Requester): void
  /** Notes that a certificate is still in use, though it did not go out. */
  touch(held: Held): void
  /** Waits, no longer than callers do, for whatever is on its way under this first name. */
  settle(domain: Name): Promise<void>
  /** Goes on with the orders that nobody works on, as after a restart. */
  resume(): Promise<void>
  /** Files what is under way as orders and gives it a moment to end. */
  close(): Promise<void>
}

export interface IssuanceDeps {
  readonly store: Store
  readonly keyring: Keyring
  readonly holdings: Holdings
  readonly issuer: Issuer
  readonly audit: Audit
  readonly metrics: CertMetrics
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
  /** How long a caller is made to wait, in milliseconds. */
  readonly wait: number
  /** From 0 up to 1. */
  random(): number
}

/** The service itself, as against its callers. */
export const SYSTEM: Requester = { actor: 'system' }

const CLOSING_MS = 3_000

export function createIssuance(deps: IssuanceDeps): Issuance {
  const { store, keyring, holdings, audit, metrics, clock, log } = deps
  const flights = createFlights()

  function obtain(request: CertificateRequest, by: Requester): Outcome | Promise<Outcome> {
    const held = holdings.peek(request.lineage)
    return held ? answerHeld(held, by) : obtainSlowly(request, by)
  }

  async function obtainSlowly(request: CertificateRequest, by: Requester): Promise<Outcome> {
    const found = await holdings.find(request.lineage)
    // A flight may have landed while the store was being asked.
    const held = found ?? holdings.peek(request.lineage)
    return held ? answerHeld(held, by) : join(request, by)
  }

  async function renew(record: CertificateRecord, by: Requester): Promise<Outcome> {
    return join(await restoreRequest(record, deps.issuer), by, record)
  }

  function answerHeld(held: Held, by: Requester): Outcome {
    handOut(held, by)
    return { held, cached: true }
  }

  function handOut(held: Held, by: Requester): void {
    if (by === SYSTEM) return
    audit.handOut(held.record, by)
    metrics.handedOut()
    if (held.record.renewAt === null) revive(held.record)
  }

  function touch({ record }: Held): void {
    audit.fetched(record.id)
    if (record.renewAt === null) revive(record)
  }

  function revive(record: CertificateRecord): void {
    const renewAt = Math.max(clock.now(), planRenewal(record, deps.random))
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
    const joined = flights.get(request.lineage)
    const flight =
      joined ?? flights.start(request, clock.now(), (started) => issue(started, by, replaces))
    const early = await within(flight.landed, deps.wait)
    if (!early && flight.step !== STORING) return { order: await file(flight) }
    const held = early ?? (await flight.landed)
    // The row of the issuance itself says that its starter got the certificate.
    if (joined) handOut(held, by)
    return { held, cached: false }
  }

  async function issue(flight: Flight, by: Requester, replaces?: CertificateRecord): Promise<Held> {
    const before = await store.findOrderByLineage(flight.request.lineage)
    refuseTooEarly(before, clock.now())
    if (before) Object.assign(flight, { id: before.id, failures: before.failures })
    try {
      const signed = await sign(flight)
      flight.step = STORING
      return await keep(flight, signed, by, replaces)
    } catch (error) {
      throw await explain(flight, error, by)
    }
  }

  async function keep(
    flight: Flight,
    { key, issued }: Signed,
    by: Requester,
    replaces?: CertificateRecord,
  ): Promise<Held> {
    const { request } = flight
    const now = clock.now()
    const names = request.names.map((name) => name.text)
    const action = replaces ? 'renew' : 'issue'
    const { certificate, serialNumber } = issued
    await filing(flight)
    const record = await store.addCertificate(
      {
        ...issued,
        lineage: request.lineage,
        issuer: request.issuer.name,
        names,
        keyType: request.keyType,
        sealedKey: key && keyring.seal('leaf', key.pkcs8, certificate),
        csr: request.csr?.der ?? null,
        renewAt: planRenewal(issued, deps.random),
        fetchedAt: replaces && by === SYSTEM ? replaces.fetchedAt : now,
      },
      { at: now, action, ...by, names, serialNumber },
    )
    metrics.issued(action)
    return holdings.put(record, key?.pkcs8)
  }

  /** Remembers a failure, so that neither callers nor the scheduler repeat it at once. */
  async function explain(flight: Flight, error: unknown, by: Requester): Promise<unknown> {
    metrics.failed()
    if (error instanceof CertError && error.code === 'CERT_STORE_UNAVAILABLE') return error
    if (error instanceof PkiError && error.code === 'PKI_KEY_QUEUE_FULL')
      return new CertError('CERT_BUSY', error.message, { cause: error, retryAfter: 10 })
    const at = clock.now()
    const order = failedOrder(flight, error, at)
    const { names, lastError, nextTryAt } = order
    log.warn({ err: error, names, nextTryAt }, 'a certificate could not be issued')
    await filing(flight)
    await Promise.all([
      store.saveOrder(order),
      store.addAudit([{ at, action: 'fail', ...by, names, detail: lastError?.code ?? '' }]),
    ])
    return issueFailed(order, at, error)
  }

  /** Writes the order of a flight that outlives its callers' wait. */
  async function file(flight: Flight): Promise<Order> {
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
    for (const order of await store.listPendingOrders())
      await resumeOne(order).catch((error) =>
        log.warn({ err: error, names: order.names }, 'an unfinished order could not be taken up'),
      )
  }

  async function resumeOne(order: Order): Promise<void> {
    const request = await restoreRequest(order, deps.issuer)
    if (!flights.get(request.lineage))
      flights.start(request, order.since, (flight) => issue(flight, SYSTEM))
  }

  async function close(): Promise<void> {
    await Promise.allSettled(
      flights.all().map(async (flight) => {
        if (flight.step !== STORING) await file(flight)
        await within(flight.landed, CLOSING_MS)
      }),
    )
  }

  /** What a promise gives, or undefined if it takes longer. */
  async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
    const { promise: late, resolve } = Promise.withResolvers<undefined>()
    const timer = clock.setTimer(() => resolve(undefined), ms)
    return Promise.race([promise, late]).finally(() => timer.cancel())
  }

  return { flights, obtain, renew, handOut, touch, settle, resume, close }
}

/** Waits until the order of a flight is written, or cannot be: it is about to be out of date. */
async function filing({ filed }: Flight): Promise<void> {
  await filed?.catch(() => {})
}

import { PkiError } from '@gatehouse/pki'
import type { Clock } from '@gatehouse/service-kit'
import type { Requester } from '../audit.ts'
import type { CallerLimits } from '../config/schema.ts'
import { CertError } from '../errors.ts'
import type { Issuers } from '../issuers/issuer.ts'
import type { CertMetrics } from '../metrics.ts'
import type { Keyring } from '../sealing/keyring.ts'
import type { CertificateRecord, NewCertificate, Store } from '../store/store.ts'
import type { Held } from './answer.ts'
import { refuseCompromised } from './compromised.ts'
import type { Events } from './events.ts'
import { failedOrder, issueFailed, refuseTooEarly } from './failure.ts'
import { type Flight, STORING } from './flights.ts'
import type { Holdings } from './holdings.ts'
import { planRenewal, soonestRenewal } from './renewal.ts'
import type { CertificateRequest } from './request.ts'
import { type Signed, sign } from './sign.ts'

export interface IssueDeps {
  readonly store: Store
  readonly keyring: Keyring
  readonly holdings: Holdings
  readonly issuers: Issuers
  readonly metrics: CertMetrics
  readonly events: Events
  limits(): CallerLimits
  readonly clock: Clock
  /** How long a caller is made to wait, in milliseconds. */
  readonly wait: number
  readonly log: { warn(fields: object, message: string): void }
  /** From 0 up to 1. */
  random(): number
}

/** The service itself, as against its callers. */
export const SYSTEM: Requester = { actor: 'system' }

/** When it is first seen whether a certificate that stands in is still needed. */
const LOOK_AGAIN_MS = 60_000

/**
 * Makes what a flight does: have the certificate signed, store it, and give it; or remember why not.
 * Once `closing` is aborted what is under way stays as it is, for the next start.
 */
export function createIssue(deps: IssueDeps, closing: AbortSignal) {
  const { store, keyring, holdings, issuers, metrics, events, clock, log } = deps

  async function issue(flight: Flight, by: Requester, replaces?: CertificateRecord): Promise<Held> {
    const before = await store.findOrderByLineage(flight.request.lineage)
    refuseTooEarly(before, clock.now())
    if (before)
      Object.assign(flight, {
        id: before.id,
        failures: before.failures,
        checkpoint: before.checkpoint,
      })
    try {
      // Also at renewals: another certificate for the same key may have been revoked.
      await refuseCompromised(flight.request, store)
      const signing = { keyring, store, signal: closing, patience: patienceFor(flight) }
      const signed = await sign(flight, signing, replaces?.certificate)
      flight.step = STORING
      return await keep(flight, signed, by, replaces)
    } catch (error) {
      throw await explain(flight, error, by)
    }
  }

  /** Callers of an issuer with a fallback are not made to wait for the end of an outage. */
  function patienceFor({ request }: Flight): number {
    return request.issuer.fallback === undefined ? deps.wait : deps.wait / 4
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
        fetchedAt: replaces && by === SYSTEM ? replaces.fetchedAt : now,
        ...(!replaces && { askedBy: flight.askedBy ?? by.actor }),
        ...(await planOf(request, issued, replaces)),
      },
      { at: now, action, ...by, names, serialNumber },
      deps.limits().perName.certificates,
    )
    record.pushedOut?.forEach(holdings.forget)
    metrics.issued(action)
    events.emit({ type: replaces ? 'renewed' : 'issued', certificate: record })
    return holdings.put(record, key?.pkcs8)
  }

  /** When it is looked at again; not at all if what it replaces was let go meanwhile. */
  async function planOf(
    request: CertificateRequest,
    issued: Signed['issued'],
    replaces?: CertificateRecord,
  ): Promise<Pick<NewCertificate, 'renewAt' | 'checkAt'>> {
    const now = clock.now()
    const checkAt = request.issuer.renewalInfo ? now : null
    if (replaces && !(await store.findCurrent(request.lineage))) return { renewAt: null, checkAt }
    if (isStandIn(request)) return { renewAt: now + LOOK_AGAIN_MS }
    const renewAt = Math.max(planRenewal(issued, deps.random), soonestRenewal(issued, now))
    return { renewAt, checkAt }
  }

  /** Whether another issuer is the one for its names. */
  function isStandIn({ issuer, names }: CertificateRequest): boolean {
    return issuers.choose(names) !== issuer
  }

  /** Remembers a failure, so that neither callers nor the scheduler repeat it at once. */
  async function explain(flight: Flight, error: unknown, by: Requester): Promise<unknown> {
    if (closing.aborted) return error
    metrics.failed(error)
    if (error instanceof CertError && error.code === 'CERT_STORE_UNAVAILABLE') return error
    if (error instanceof PkiError && error.code === 'PKI_KEY_QUEUE_FULL')
      return new CertError('CERT_BUSY', error.message, { cause: error, retryAfter: 10 })
    const at = clock.now()
    const order = failedOrder(flight, error, at)
    const { names, lastError, nextTryAt } = order
    log.warn({ err: error, names, nextTryAt }, 'a certificate could not be issued')
    events.emit({ type: 'failing', order })
    await filing(flight)
    await Promise.all([
      store.saveOrder(order),
      store.addAudit([{ at, action: 'fail', ...by, names, detail: lastError?.code ?? '' }]),
    ])
    return issueFailed(order, at, error)
  }

  return issue
}

/** Waits until the order of a flight is written, or cannot be: it is about to be out of date. */
async function filing({ filed }: Flight): Promise<void> {
  await filed?.catch(() => {})
}

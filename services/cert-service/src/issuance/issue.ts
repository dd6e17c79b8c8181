import type { Keyring } from '@gatehouse/cert-store'
import type {
  CertificateRecord,
  Lease,
  NewCertificate,
  OrderRecord,
} from '@gatehouse/cert-store/port'
import {
  buildCsr,
  generateKeyPair,
  generateP256,
  type KeyPair,
  keyPairFromPem,
  PkiError,
  toPem,
} from '@gatehouse/pki'
import type { FastifyInstance } from 'fastify'
import { CertError, hasCode } from '../errors.ts'
import type { Issued, IssuerIo } from '../issuers/issuer.ts'
import { isMisdated, planRenewal, soonestRenewal } from '../times.ts'
import {
  assertRetryDue,
  ELSEWHERE,
  type Flight,
  failedOrder,
  issueFailed,
  orderOf,
  STORING,
} from './flight.ts'
import type { Held } from './held.ts'
import { type IssuanceRequest, type Requester, refuseCompromised } from './request.ts'

export type CertEvent =
  | { readonly type: 'issued' | 'renewed' | 'expiring'; readonly certificate: CertificateRecord }
  | { readonly type: 'failing'; readonly order: OrderRecord }

/** Delivers events. Never throws, and is not waited for. */
export interface Events {
  emit(event: CertEvent): void
}

/** The limits of callers. */
export interface CallerGate {
  /**
   * Admits a request for a new certificate whose lease is taken: what is counted includes the lease, so
   * that requests at the same time see each other.
   * @throws CertError `CERT_CALLER_LIMITED`
   */
  admit(
    request: Pick<IssuanceRequest, 'names'>,
    by: Requester,
    isRenewal: boolean,
    lease?: Lease,
  ): Promise<void>
  /** To be called when a request goes on that was admitted before a restart: it may not be counted. */
  resumed(askedBy: string): Promise<void>
}

export interface IssuanceDeps
  extends Pick<
    FastifyInstance,
    'audit' | 'certMetrics' | 'clock' | 'events' | 'holdings' | 'issuers' | 'keyring' | 'store'
  > {
  readonly callers: CallerGate
  /** How long a caller waits at most, in milliseconds. */
  readonly wait: number
  readonly log: { warn(fields: object, message: string): void }
  random(): number
}

/** The service itself, as opposed to its callers. */
export const SYSTEM: Requester = { actor: 'system' }

/** When to look again whether the certificate of a fallback is still needed. */
const FALLBACK_CHECK_MS = 60_000

/** How often to look whether another replica has come to an end, in ms: it usually tells. */
const LOOK_EVERY = 1_000

/**
 * Has the certificate of a flight signed and stores it, or stores the failure. While another replica
 * works on the lineage, waits for what comes of it. Once `closing` is aborted, the order stays as it
 * is for the next start.
 */
export async function issue(
  flight: Flight,
  deps: IssuanceDeps,
  closing: AbortSignal,
): Promise<Held> {
  const { lineage, names } = flight.request
  const domain = names[0]?.text ?? ''
  const work = { lineage, domain, names: names.length, askedBy: flight.askedBy }
  for (;;) {
    flight.lease = await deps.store.takeLease(work)
    try {
      const held = flight.lease
        ? await issueWith(flight.lease, flight, deps, closing)
        : await heldElsewhere(flight, deps, closing)
      if (held) return held
    } finally {
      const { lease } = flight
      flight.lease = undefined
      // Until it ends by itself, other replicas wait.
      if (lease) deps.store.releaseLease(lease).catch(noop)
    }
  }
}

const noop = () => {}

/** Undefined if another replica has taken the lineage over. */
async function issueWith(
  lease: Lease,
  flight: Flight,
  deps: IssuanceDeps,
  closing: AbortSignal,
): Promise<Held | undefined> {
  const { request, by, replaces } = flight
  const { currentId } = lease
  if (currentId !== null && currentId !== replaces?.id) {
    const held = await usable(flight, deps)
    if (held) return held
  }
  const order = await deps.store.findOrderByLineage(request.lineage)
  if (order) {
    assertRetryDue(order, deps.clock.now())
    Object.assign(flight, { id: order.id, failures: order.failures, checkpoint: order.checkpoint })
  }
  if (by !== SYSTEM) await deps.callers.admit(request, by, replaces !== undefined, lease)
  const signal = AbortSignal.any([closing, lease.lost])
  try {
    return await signAndSave(flight, deps, signal)
  } catch (error) {
    if (closing.aborted) throw error
    if (lease.lost.aborted || hasCode(error, 'CERT_LEASE_LOST')) return undefined
    const failure = await saveFailure(flight, error, deps).catch((failed) => {
      if (!hasCode(failed, 'CERT_LEASE_LOST')) throw failed
    })
    if (failure === undefined) return undefined
    throw failure
  }
}

async function signAndSave(flight: Flight, deps: IssuanceDeps, signal: AbortSignal): Promise<Held> {
  const { request, by, replaces } = flight
  // The key may have been revoked since this was first asked for.
  if (replaces || by === SYSTEM) await refuseCompromised(request, deps.store)
  const key = request.csr ? null : await keyFor(flight, deps.keyring)
  const issued = await sign(flight, key, deps, signal)
  flight.step = STORING
  return save(flight, key, issued, deps)
}

/** The certificate that another replica has issued since this one looked. */
async function heldElsewhere(
  flight: Flight,
  { holdings, clock }: Pick<IssuanceDeps, 'holdings' | 'clock'>,
  closing: AbortSignal,
): Promise<Held | undefined> {
  flight.step = ELSEWHERE
  await holdings.nextChange(flight.request.lineage, LOOK_EVERY)
  closing.throwIfAborted()
  const held = await usable(flight, { holdings, clock })
  return held?.record.id === flight.replaces?.id ? undefined : held
}

async function usable(
  { request }: Flight,
  { holdings, clock }: Pick<IssuanceDeps, 'holdings' | 'clock'>,
): Promise<Held | undefined> {
  const held = await holdings.find(request.lineage)
  return held && !isMisdated(held.record, clock.now()) ? held : undefined
}

async function keyFor({ checkpoint, request }: Flight, keyring: Keyring): Promise<KeyPair> {
  const { keyType, lineage } = request
  if (!checkpoint?.sealedKey) return keyType === 'p256' ? generateP256() : generateKeyPair(keyType)
  const key = await keyring.openAny(checkpoint.sealedKey, Buffer.from(lineage))
  return keyPairFromPem(toPem('PRIVATE KEY', key))
}

async function sign(
  flight: Flight,
  key: KeyPair | null,
  deps: IssuanceDeps,
  signal: AbortSignal,
): Promise<Issued> {
  const { issuer, names, keyType, csr } = flight.request
  const { spki } = (csr ?? key) as { spki: Uint8Array }
  const der = () => csr?.der ?? buildCsr(key as KeyPair, names)
  const replaces = flight.replaces?.certificate
  return issuer.issue({ names, keyType, spki, csr: der, replaces }, ioOf(flight, key, deps, signal))
}

function ioOf(
  flight: Flight,
  key: KeyPair | null,
  { keyring, store, wait }: IssuanceDeps,
  signal: AbortSignal,
): IssuerIo {
  const { issuer, lineage } = flight.request
  // A key without a certificate is sealed for its lineage.
  const seal = () => key && keyring.seal('leaf', key.pkcs8, Buffer.from(lineage))
  return {
    report(step) {
      flight.step = step
    },
    checkpoint: flight.checkpoint?.state,
    async save(state) {
      const sealedKey = flight.checkpoint?.sealedKey
      flight.checkpoint =
        state === undefined ? undefined : { state, sealedKey: sealedKey ?? seal() }
      flight.filed = store.saveOrder(orderOf(flight), flight.lease)
      flight.id = await flight.filed
    },
    signal,
    since: flight.since,
    // With a fallback, callers do not wait for the end of an outage.
    patience: issuer.fallback === undefined ? wait : wait / 4,
  }
}

async function save(
  flight: Flight,
  key: KeyPair | null,
  issued: Issued,
  deps: IssuanceDeps,
): Promise<Held> {
  const { request, by, replaces, lease } = flight
  const { store, keyring, holdings } = deps
  const at = deps.clock.now()
  const names = request.names.map((name) => name.text)
  const action = replaces ? 'renew' : 'issue'
  const { certificate, serialNumber } = issued
  await settleFiling(flight)
  const record = await store.addCertificate(
    {
      ...issued,
      lineage: request.lineage,
      issuer: request.issuer.name,
      names,
      keyType: request.keyType,
      sealedKey: key && keyring.seal('leaf', key.pkcs8, certificate),
      csr: request.csr?.der ?? null,
      fetchedAt: replaces && by === SYSTEM ? replaces.fetchedAt : at,
      ...(!replaces && { askedBy: flight.askedBy ?? by.actor }),
      ...(await planOf(flight, issued, deps)),
    },
    { at, action, ...by, names, serialNumber },
    { lease },
  )
  flight.isIssued = true
  deps.certMetrics?.issued.inc({ action })
  deps.events?.emit({ type: replaces ? 'renewed' : 'issued', certificate: record })
  return holdings.put(record, key?.pkcs8)
}

/** When to renew it and to ask its CA; never if what it replaces went out of service meanwhile. */
async function planOf(
  { request, replaces }: Flight,
  issued: Issued,
  { clock, store, issuers, random }: IssuanceDeps,
): Promise<Pick<NewCertificate, 'renewAt' | 'checkAt'>> {
  const { issuer, names, lineage } = request
  const now = clock.now()
  const checkAt = issuer.renewalInfo ? now : null
  if (replaces && !(await store.findCurrent(lineage))) return { renewAt: null, checkAt }
  const isFallback = issuers.choose(names) !== issuer
  if (isFallback) return { renewAt: now + FALLBACK_CHECK_MS }
  return { renewAt: Math.max(planRenewal(issued, random), soonestRenewal(issued, now)), checkAt }
}

/** Stores a failure, so that neither callers nor renewals repeat it at once; gives the error to throw. */
async function saveFailure(flight: Flight, error: unknown, deps: IssuanceDeps): Promise<unknown> {
  const { store, certMetrics, events, clock, log } = deps
  certMetrics?.failed(error)
  if (hasCode(error, 'CERT_STORE_UNAVAILABLE')) return error
  if (error instanceof PkiError && error.code === 'PKI_KEY_QUEUE_FULL')
    return new CertError('CERT_BUSY', error.message, { cause: error, retryAfter: 10 })
  const at = clock.now()
  const order = failedOrder(flight, error, at)
  const { names, lastError, nextTryAt } = order
  log.warn({ err: error, names, nextTryAt }, 'a certificate could not be issued')
  events?.emit({ type: 'failing', order })
  await settleFiling(flight)
  const detail = lastError?.code ?? ''
  await Promise.all([
    store.saveOrder(order, flight.lease),
    store.addAudit([{ at, action: 'fail', ...flight.by, names, detail }]),
  ])
  return issueFailed(order, at, error)
}

/** Waits until the order of a flight is written or cannot be, as it is about to be replaced. */
async function settleFiling({ filed }: Flight): Promise<void> {
  await filed?.catch(() => {})
}

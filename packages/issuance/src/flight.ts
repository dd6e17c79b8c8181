import { randomUUID } from 'node:crypto'
import type { Keyring } from '@gatehouse/cert-store'
import type {
  CertificateRecord,
  Checkpoint,
  Lease,
  NewCertificate,
  OrderRecord,
  Origin,
  Store,
} from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import { hasCode } from '@gatehouse/net'
import {
  buildCsr,
  generateKeyPair,
  generateP256,
  type KeyPair,
  keyPairFromPem,
  PkiError,
  toPem,
} from '@gatehouse/pki'
import { isUnavailable } from '@gatehouse/store'
import { IssuanceError, IssueError } from './errors.ts'
import { failedOrder, issueFailed } from './failure.ts'
import { type CallerGate, refusalsOf, SYSTEM } from './gate.ts'
import type { Held, Holdings } from './held.ts'
import type { Issued, IssuerIo } from './issuers/issuer.ts'
import {
  type Actor,
  type IssuanceRequest,
  type Issuers,
  preparationOf,
  profileOf,
  refuseCompromised,
} from './request.ts'
import { isMisdated, planRenewal, soonestRenewal } from './times.ts'

export type CertEvent =
  | {
      readonly type: 'issued' | 'renewed' | 'expiring'
      readonly certificate: CertificateRecord
      /** Whether another caller has certificates that end later for all of the names. */
      readonly isCovered?: boolean
    }
  | { readonly type: 'failing'; readonly order: OrderRecord }

/** Delivers events. Never throws, and is not waited for. */
export interface Events {
  emit(event: CertEvent): void
}

/** The audit trail of deliveries. */
interface DeliveryLog {
  /** Records a delivery. Gives a promise to await before the answer, if a row is written. */
  recordDelivery(
    certificate: CertificateRecord,
    by: Actor,
    detail?: string,
  ): Promise<void> | undefined
  /** Records that a certificate is in use although it was not delivered. */
  recordUse(id: number): void
}

export interface IssuanceMetrics {
  readonly issued: { inc(labels: { readonly action: 'issue' | 'renew' }): void }
  readonly delivered: { inc(): void }
  failed(error: unknown): void
}

/** The parts of the service that issuing needs. */
export interface IssuanceDeps {
  readonly store: Store
  readonly keyring: Pick<Keyring, 'seal' | 'openAny'>
  readonly issuers: Issuers
  readonly holdings: Holdings
  readonly callers: CallerGate
  readonly audit: DeliveryLog
  readonly events: Events | undefined
  readonly metrics: IssuanceMetrics | undefined
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
  /** Milliseconds that a caller waits at most. */
  readonly wait: number
  random(): number
}

/** When to look again whether the certificate of a fallback is still needed. */
const FALLBACK_CHECK_MS = 60_000

/** Milliseconds after which to look whether another replica has come to an end: it usually tells. */
const LOOK_EVERY = 1_000

/** What ends work and is no failure of it. */
const UNSTORED = ['CERT_LEASE_LOST', 'CERT_ORDER_ENDED', 'CERT_CALLER_LIMITED']

/** The purpose of a flight. */
export interface FlightPlan {
  readonly request: IssuanceRequest
  readonly by: Actor
  readonly replaces: CertificateRecord | undefined
  readonly since: number
  /** The caller that the certificate counts for; undefined for renewals. */
  readonly askedBy: string | undefined
  /** Of work that goes on after a restart: for whom it is. Default: for `by`. */
  readonly origin?: OrderRecord['origin']
}

/** By whom a certificate is asked for. One that the service renews keeps it, but is of no order. */
function originOf({ by, replaces, origin }: FlightPlan): Origin {
  const kept = by.account === undefined ? replaces : undefined
  const { way, client, account, servedOrder, address } =
    origin ?? (kept ? { ...kept, servedOrder: null } : { ...by, address: by.remoteAddress })
  return way ? { way, client, account, servedOrder, ...(account && { address }) } : {}
}

/** Where a flight is. With a lease, this replica is the one that does the work. */
type FlightState =
  /** It asks for the lease. */
  | { readonly name: 'starting' }
  /** Another replica has the lease, and may store the certificate. */
  | { readonly name: 'following' }
  /** The issuer works. */
  | { readonly name: 'leading'; readonly lease: Lease; readonly step: string }
  /** The issuer has signed: what is left is one commit. */
  | { readonly name: 'storing'; readonly lease: Lease }
  /** The certificate was issued here, so that the audit row of that covers who asked first. */
  | { readonly name: 'landed' }

const NEXT: Readonly<Record<FlightState['name'], readonly FlightState['name'][]>> = {
  starting: ['following', 'leading'],
  following: ['starting'],
  leading: ['leading', 'storing', 'starting'],
  storing: ['landed', 'starting'],
  landed: [],
}

/** The steps as orders show them, of states without an issuer that reports its own. */
const STEPS = {
  starting: 'starting',
  following: 'another replica is issuing it',
  storing: 'storing',
  landed: 'storing',
}

/** Work on one request key, shared by all callers that ask for it and bound to none of them. */
export class Flight {
  readonly plan: FlightPlan
  /** Of a preparation, that the names are proven. */
  readonly result: Promise<Held | 'proven'>
  readonly #deps: IssuanceDeps
  /** Once it is aborted, the order stays as it is for the next start. */
  readonly #closing: AbortSignal
  #state: FlightState = { name: 'starting' }
  #id: string = randomUUID()
  /** How it went before. */
  #before: Pick<OrderRecord, 'failures' | 'lastError'> = { failures: 0, lastError: null }
  /** The state that its issuer keeps in the order. */
  #checkpoint: Checkpoint | undefined
  /** The write of its order, which gives the id of the order. */
  #filed: Promise<string> | undefined

  constructor(plan: FlightPlan, deps: IssuanceDeps, closing: AbortSignal) {
    this.plan = plan
    this.#deps = deps
    this.#closing = closing
    this.result = this.#fly()
    // Callers that wait get the error; it is fine if none does.
    this.result.catch(() => {})
  }

  get state(): FlightState['name'] {
    return this.#state.name
  }

  /** The order of this work, as it stands. */
  get order(): OrderRecord {
    const { request, since, askedBy } = this.plan
    const { requestKey, issuer, names, keyType, csr, predecessor, notAfter, lifetime } = request
    const origin = originOf(this.plan)
    return {
      id: this.#id,
      requestKey,
      issuer: issuer.name,
      names: names.map((name) => name.text),
      keyType,
      csr: csr?.der ?? null,
      status: 'pending',
      step: this.#state.name === 'leading' ? this.#state.step : STEPS[this.#state.name],
      since,
      failures: this.#before.failures,
      lastError: null,
      nextTryAt: null,
      configuration: issuer.configuration,
      ...(this.#checkpoint && { checkpoint: this.#checkpoint }),
      ...(askedBy !== undefined && { askedBy }),
      ...(lifetime !== undefined && { lifetime }),
      ...(origin.servedOrder && { origin: { ...origin, predecessor, notAfter } }),
    }
  }

  /** Stores the order of this work. Gives it, or that of the replica that does the work. */
  async file(): Promise<OrderRecord> {
    const lease = 'lease' in this.#state ? this.#state.lease : undefined
    if (!lease) return this.#deps.store.fileOrder(this.order)
    this.#filed ??= this.#saveOrder(lease)
    await this.#filed
    return this.order
  }

  #become(next: FlightState): void {
    const { name } = this.#state
    if (!NEXT[name].includes(next.name))
      throw new Error(`A flight goes from ${name} to ${next.name}.`)
    this.#state = next
  }

  /**
   * Has the certificate signed and stores it, or stores the failure. While another replica works on the
   * request key, waits for what comes of it.
   */
  async #fly(): Promise<Held | 'proven'> {
    const { request, askedBy } = this.plan
    const { requestKey, names } = request
    const { store } = this.#deps
    const work = { requestKey, domain: names[0]?.text ?? '', names: names.length, askedBy }
    for (;;) {
      const lease = await store.takeLease(work)
      try {
        const held = lease ? await this.#lead(lease) : await this.#follow()
        if (held) return held
      } finally {
        if (this.#state.name !== 'landed') this.#become({ name: 'starting' })
        // Until it ends by itself, other replicas wait.
        if (lease) store.releaseLease(lease).catch(() => {})
      }
    }
  }

  /** The certificate that another replica has issued since this one looked. */
  async #follow(): Promise<Held | undefined> {
    const { request, replaces } = this.plan
    this.#become({ name: 'following' })
    await this.#deps.holdings.nextChange(request.requestKey, LOOK_EVERY)
    this.#closing.throwIfAborted()
    const held = await this.#findUsable()
    return held?.record.id === replaces?.id ? undefined : held
  }

  /** Undefined if another replica has taken the request key over. */
  async #lead(lease: Lease): Promise<Held | 'proven' | undefined> {
    const { request, by, replaces, askedBy } = this.plan
    const { currentId, order } = lease
    this.#become({ name: 'leading', lease, step: STEPS.starting })
    if (currentId !== null && currentId !== replaces?.id) {
      const held = await this.#findUsable()
      if (held) return held
    }
    if (order) this.#takeUp(order)
    const asked = { request, by, order, isRenewal: replaces !== undefined, askedBy, lease }
    try {
      for await (const refusal of refusalsOf(asked, this.#deps)) throw refusal
      return request.isPreparation ? await this.#prove(lease) : await this.#issue(lease)
    } catch (error) {
      if (this.#closing.aborted) throw error
      if (lease.lost.aborted) return undefined
      const failure = await this.#saveFailure(lease, error)
      if (hasCode(failure, 'CERT_LEASE_LOST')) return undefined
      throw failure
    }
  }

  /** Goes on with an order. What failed with another configuration does not count. */
  #takeUp(order: OrderRecord): void {
    this.#id = order.id
    if (order.configuration === this.plan.request.issuer.configuration) this.#before = order
    this.#checkpoint = order.checkpoint
  }

  async #findUsable(): Promise<Held | undefined> {
    const { holdings, clock } = this.#deps
    const held = await holdings.find(this.plan.request.requestKey)
    return held && !isMisdated(held.record, clock.now()) ? held : undefined
  }

  async #issue(lease: Lease): Promise<Held> {
    const { request, by, replaces } = this.plan
    const { issuer, names, keyType, csr, notAfter, lifetime } = request
    // The key may have been revoked since this was first asked for.
    if (replaces || by === SYSTEM) await refuseCompromised(request, this.#deps.store)
    const key = csr ? null : await this.#openKey()
    const { spki } = (csr ?? key) as { spki: Uint8Array }
    const der = () => csr?.der ?? buildCsr(key as KeyPair, names)
    const asked = { askedBy: this.#sharer, replaces: await this.#findReplaced() }
    const wanted = { names, keyType, spki, csr: der, notAfter, lifetime, ...asked }
    const issued = await issuer.issue(wanted, this.#ioFor(lease, key))
    this.#become({ name: 'storing', lease })
    return this.#save(lease, key, issued)
  }

  /** The order stays in the store, for the certificate that takes it over or until it is old. */
  async #prove(lease: Lease): Promise<'proven'> {
    const { issuer, names } = this.plan.request
    const { store } = this.#deps
    const wanted = { names, askedBy: this.#sharer, replaces: await this.#findReplaced() }
    await issuer.authorize?.(wanted, this.#ioFor(lease, null))
    await store.saveOrder({ ...this.order, status: 'done' }, lease).catch((error) => {
      // Whoever has the lease now goes on with what is proven.
      if (!hasCode(error, 'CERT_LEASE_LOST')) throw error
    })
    await store.releaseLease(lease)
    return 'proven'
  }

  /** The caller whose share of the limits of a CA is used: operators and the service itself have none. */
  get #sharer(): string | null | undefined {
    const { by, askedBy } = this.plan
    if (by === SYSTEM && this.#checkpoint) return undefined
    return by.isOperator || askedBy === SYSTEM.actor ? null : askedBy
  }

  /** The certificate of the same issuer that the new one replaces, for its CA (RFC 9773 section 5). */
  async #findReplaced(): Promise<Uint8Array | undefined> {
    const { request, replaces } = this.plan
    if (replaces || !request.predecessor) return replaces?.certificate
    const found = await this.#deps.store.findById(request.predecessor.id)
    return found?.isCurrent && found.issuer === request.issuer.name ? found.certificate : undefined
  }

  async #openKey(): Promise<KeyPair> {
    const { keyType, requestKey } = this.plan.request
    const sealed = this.#checkpoint?.sealedKey
    if (!sealed) return keyType === 'p256' ? generateP256() : generateKeyPair(keyType)
    const key = await this.#deps.keyring.openAny(sealed, Buffer.from(requestKey))
    return keyPairFromPem(toPem('PRIVATE KEY', key))
  }

  #ioFor(lease: Lease, key: KeyPair | null): IssuerIo {
    const { wait } = this.#deps
    const { request, since } = this.plan
    const { issuer } = request
    return {
      report: (step) => {
        // What ends late has nothing to report any more.
        if (this.#state.name === 'leading') this.#become({ ...this.#state, step })
      },
      checkpoint: this.#checkpoint?.state,
      save: (state) => this.#saveState(state, key, lease),
      takeOver: (goOn) => this.#takeOver(goOn, key, lease),
      signal: AbortSignal.any([this.#closing, lease.lost]),
      since,
      // With a fallback, callers do not wait for the end of an outage.
      patience: issuer.fallback === undefined ? wait : wait / 4,
    }
  }

  async #takeOver<State>(goOn: (prepared: unknown) => State, key: KeyPair | null, lease: Lease) {
    const { store } = this.#deps
    const { requestKey } = preparationOf(this.plan.request)
    if (!(await store.findOrderByRequestKey(requestKey))) return undefined
    // It counts for nobody.
    const prepared = await store.takeLease({ requestKey, domain: '', names: 0, askedBy: undefined })
    if (!prepared) return undefined
    const state = goOn(prepared.order?.checkpoint?.state)
    const saving = this.#saveState(state, key, lease, prepared)
    await saving.finally(() => void store.releaseLease(prepared).catch(() => {}))
    return state
  }

  /** Saves the state of the issuer, with the key that it may have certified from then on. */
  async #saveState(
    state: unknown,
    key: KeyPair | null,
    lease: Lease,
    ended?: Lease,
  ): Promise<void> {
    const { requestKey } = this.plan.request
    // A key without a certificate is sealed for its request key.
    const seal = () => key && this.#deps.keyring.seal('leaf', key.pkcs8, Buffer.from(requestKey))
    const sealedKey = this.#checkpoint?.sealedKey ?? seal()
    this.#checkpoint = state === undefined ? undefined : { state, sealedKey }
    this.#filed = this.#saveOrder(lease, ended)
    await this.#filed
  }

  /** A replica that waits for this one may have filed the order under an id of its own. */
  async #saveOrder(lease: Lease, ended?: Lease): Promise<string> {
    this.#id = await this.#deps.store.saveOrder(this.order, lease, ended)
    return this.#id
  }

  async #save(lease: Lease, key: KeyPair | null, issued: Issued): Promise<Held> {
    const { request, by, replaces, askedBy } = this.plan
    const { store, keyring, holdings, clock, metrics, events } = this.#deps
    const at = clock.now()
    const names = request.names.map((name) => name.text)
    const action = replaces ? 'renew' : 'issue'
    const { certificate, serialNumber } = issued
    await this.#settleFiling()
    const record = await store.addCertificate(
      {
        ...issued,
        requestKey: request.requestKey,
        issuer: request.issuer.name,
        names,
        keyType: request.keyType,
        sealedKey: key && keyring.seal('leaf', key.pkcs8, certificate),
        csr: request.csr?.der ?? null,
        ...(request.lifetime !== undefined && { lifetime: request.lifetime }),
        fetchedAt: replaces && by === SYSTEM ? replaces.fetchedAt : at,
        ...(!replaces && { askedBy: askedBy ?? by.actor }),
        ...originOf(this.plan),
        ...(await this.#planOf(issued)),
      },
      { at, action, ...by, names, serialNumber },
      { lease, predecessor: request.predecessor },
    )
    this.#become({ name: 'landed' })
    metrics?.issued.inc({ action })
    const isRenewal = replaces !== undefined || request.predecessor !== undefined
    events?.emit({ type: isRenewal ? 'renewed' : 'issued', certificate: record })
    return holdings.put(record, key?.pkcs8)
  }

  /** When to renew it and to ask its CA; never if what it replaces went out of service meanwhile. */
  async #planOf(issued: Issued): Promise<Pick<NewCertificate, 'renewAt' | 'checkAt'>> {
    const { request, replaces } = this.plan
    const { issuer, names, requestKey } = request
    const { clock, store, issuers, random } = this.#deps
    const now = clock.now()
    const checkAt = issuer.renewalInfo ? now : null
    if (replaces && !(await store.findCurrent(requestKey))) return { renewAt: null, checkAt }
    // An ACME client renews by itself.
    const isOurs = !originOf(this.plan).account
    const profile = profileOf({ issuer: issuer.name })
    const isFallback = isOurs && issuers.choose(names, profile) !== issuer
    if (isFallback) return { renewAt: now + FALLBACK_CHECK_MS }
    return { renewAt: Math.max(planRenewal(issued, random), soonestRenewal(issued, now)), checkAt }
  }

  /** Stores a failure, so that neither callers nor renewals repeat it at once; gives the error to throw. */
  async #saveFailure(lease: Lease, error: unknown): Promise<unknown> {
    const { store, metrics, events, clock, log } = this.#deps
    if (UNSTORED.some((code) => hasCode(error, code)) || error instanceof IssueError) return error
    metrics?.failed(error)
    if (isUnavailable(error)) return error
    if (error instanceof PkiError && error.code === 'PKI_KEY_QUEUE_FULL')
      return new IssuanceError('CERT_BUSY', error.message, { cause: error, retryAfter: 10 })
    const at = clock.now()
    const order = failedOrder(this.order, error, at, this.#before.lastError)
    const { names, lastError, nextTryAt } = order
    log.warn({ err: error, names, nextTryAt }, 'a certificate could not be issued')
    events?.emit({ type: 'failing', order })
    await this.#settleFiling()
    const entry = {
      at,
      action: 'fail',
      ...this.plan.by,
      names,
      detail: lastError?.code ?? '',
    } as const
    try {
      await Promise.all([store.saveOrder(order, lease), store.addAudit([entry])])
    } catch (failed) {
      if (hasCode(failed, 'CERT_LEASE_LOST')) return failed
      throw failed
    }
    return issueFailed(order, at, error)
  }

  /** Waits until the order is written or cannot be, as it is about to be replaced. */
  async #settleFiling(): Promise<void> {
    await this.#filed?.catch(() => {})
  }
}

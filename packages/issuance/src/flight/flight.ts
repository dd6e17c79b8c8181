import type { Lease, NewCertificate, OrderRecord } from '@gatehouse/cert-store/port'
import { hasCode } from '@gatehouse/net'
import { buildCsr, type KeyPair } from '@gatehouse/pki'
import { refusalsOf, SYSTEM } from '../admission.ts'
import type { Certificate } from '../holdings.ts'
import type { IssuerIo, SignedCertificate } from '../issuers/issuer.ts'
import { profileOf, refuseCompromised } from '../request.ts'
import { isMisdated, planRenewal, soonestRenewal } from '../times.ts'
import { storeFailure } from './failure.ts'
import { FlightOrder, type FlightPlan, originOf } from './order.ts'
import type { IssuanceDeps } from './ports.ts'
import { type FlightState, stepOf } from './states.ts'

/** The pause between two looks at whether the certificate of a fallback is still needed, in ms. */
const FALLBACK_CHECK_MS = 60_000

/** Milliseconds after which to look whether another replica has come to an end: it usually tells. */
const LOOK_EVERY = 1_000

/** Work on one request key, shared by all callers that ask for it and bound to none of them. */
export class Flight {
  readonly plan: FlightPlan
  /** The certificate, or for a preparation, that the names are proven. */
  readonly result: Promise<Certificate | 'proven'>
  readonly #deps: IssuanceDeps
  readonly #order: FlightOrder
  /** Aborted when the service closes. The order then stays as it is for the next start. */
  readonly #closing: AbortSignal
  #state: FlightState = { name: 'starting' }

  constructor(plan: FlightPlan, deps: IssuanceDeps, closing: AbortSignal) {
    this.plan = plan
    this.#deps = deps
    this.#order = new FlightOrder(plan, deps, () => stepOf(this.#state))
    this.#closing = closing
    this.result = this.#fly()
    // Callers that wait get the error; it is fine if none does.
    this.result.catch(() => {})
  }

  get state(): FlightState['name'] {
    return this.#state.name
  }

  get order(): OrderRecord {
    return this.#order.record
  }

  /** Stores the order of this work. Gives it, or that of the replica that does the work. */
  file(): Promise<OrderRecord> {
    return this.#order.file('lease' in this.#state ? this.#state.lease : undefined)
  }

  /**
   * Has the certificate signed and stores it, or stores the failure. While another replica works on the
   * request key, waits for what comes of it.
   */
  async #fly(): Promise<Certificate | 'proven'> {
    const { request, askedBy } = this.plan
    const { requestKey, names } = request
    const { store } = this.#deps
    const work = { requestKey, domain: names[0]?.text ?? '', names: names.length, askedBy }
    for (;;) {
      const lease = await store.takeLease(work)
      try {
        const certificate = lease ? await this.#lead(lease) : await this.#follow()
        if (certificate) return certificate
      } finally {
        if (this.#state.name !== 'landed') this.#state = { name: 'starting' }
        // Until it ends by itself, other replicas wait.
        if (lease) store.releaseLease(lease).catch(() => {})
      }
    }
  }

  /** The certificate that another replica has issued since this one looked. */
  async #follow(): Promise<Certificate | undefined> {
    const { request, replaces } = this.plan
    this.#state = { name: 'following' }
    await this.#deps.holdings.nextChange(request.requestKey, LOOK_EVERY)
    this.#closing.throwIfAborted()
    const certificate = await this.#findUsable()
    return certificate?.record.id === replaces?.id ? undefined : certificate
  }

  /** Undefined if another replica has taken the request key over. */
  async #lead(lease: Lease): Promise<Certificate | 'proven' | undefined> {
    const { request, actor, replaces, askedBy } = this.plan
    const { currentId, order } = lease
    this.#state = { name: 'leading', lease }
    if (currentId !== null && currentId !== replaces?.id) {
      const certificate = await this.#findUsable()
      if (certificate) return certificate
    }
    if (order) this.#order.resume(order)
    const admission = { request, actor, order, isRenewal: replaces !== undefined, askedBy, lease }
    try {
      for await (const refusal of refusalsOf(admission, this.#deps)) throw refusal
      return request.isPreparation ? await this.#prove(lease) : await this.#issue(lease)
    } catch (error) {
      if (this.#closing.aborted) throw error
      if (lease.lost.aborted) return undefined
      const failure = await storeFailure(error, this.#order, lease, actor, this.#deps)
      if (hasCode(failure, 'CERT_LEASE_LOST')) return undefined
      throw failure
    }
  }

  async #findUsable(): Promise<Certificate | undefined> {
    const { holdings, clock } = this.#deps
    const certificate = await holdings.find(this.plan.request.requestKey)
    return certificate && !isMisdated(certificate.record, clock.now()) ? certificate : undefined
  }

  async #issue(lease: Lease): Promise<Certificate> {
    const { request, actor, replaces } = this.plan
    const { issuer, names, keyType, csr, notAfter, lifetime } = request
    // The key may have been revoked since this was first asked for.
    if (replaces || actor === SYSTEM) await refuseCompromised(request, this.#deps.store)
    const key = csr ? null : await this.#order.openKey()
    const { spki } = (csr ?? key) as { spki: Uint8Array }
    const der = () => csr?.der ?? buildCsr(key as KeyPair, names)
    const successor = { askedBy: this.#order.sharer, replaces: await this.#findReplaced() }
    const leaf = { names, keyType, spki, csr: der, notAfter, lifetime, ...successor }
    const issued = await issuer.issue(leaf, this.#ioFor(lease, key))
    this.#state = { name: 'storing', lease }
    return this.#save(lease, key, issued)
  }

  /** The order stays in the store, for the certificate that takes it over or until it is old. */
  async #prove(lease: Lease): Promise<'proven'> {
    const { issuer, names } = this.plan.request
    const { store } = this.#deps
    const proof = { names, askedBy: this.#order.sharer, replaces: await this.#findReplaced() }
    await issuer.authorize?.(proof, this.#ioFor(lease, null))
    await store.saveOrder({ ...this.order, status: 'done' }, lease).catch((error) => {
      // Whoever has the lease now goes on with what is proven.
      if (!hasCode(error, 'CERT_LEASE_LOST')) throw error
    })
    await store.releaseLease(lease)
    return 'proven'
  }

  /** The certificate of the same issuer that the new one replaces, for its CA (RFC 9773 section 5). */
  async #findReplaced(): Promise<Uint8Array | undefined> {
    const { request, replaces } = this.plan
    if (replaces || !request.predecessor) return replaces?.certificate
    const record = await this.#deps.store.findById(request.predecessor.id)
    return record?.isCurrent && record.issuer === request.issuer.name
      ? record.certificate
      : undefined
  }

  #ioFor(lease: Lease, key: KeyPair | null): IssuerIo {
    const { wait } = this.#deps
    const { request, since } = this.plan
    const { issuer } = request
    return {
      report: (step) => {
        // A flight that ends late has nothing to report any more.
        if (this.#state.name === 'leading') this.#state = { ...this.#state, step }
      },
      checkpoint: this.#order.state,
      save: (state) => this.#order.save(state, key, lease),
      takeOver: (goOn) => this.#order.takeOver(goOn, key, lease),
      signal: AbortSignal.any([this.#closing, lease.lost]),
      since,
      // With a fallback, callers do not wait for the end of an outage.
      patience: issuer.fallback === undefined ? wait : wait / 4,
    }
  }

  async #save(lease: Lease, key: KeyPair | null, issued: SignedCertificate): Promise<Certificate> {
    const { request, actor, replaces, askedBy } = this.plan
    const { store, keyring, holdings, clock, metrics, events } = this.#deps
    const now = clock.now()
    const names = request.names.map((name) => name.text)
    const action = replaces ? 'renew' : 'issue'
    const { certificate, serialNumber } = issued
    await this.#order.settle()
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
        fetchedAt: replaces && actor === SYSTEM ? replaces.fetchedAt : now,
        ...(!replaces && { askedBy: askedBy ?? actor.actor }),
        ...originOf(this.plan),
        ...(await this.#planOf(issued)),
      },
      { at: now, action, ...actor, names, serialNumber },
      { lease, predecessor: request.predecessor },
    )
    this.#state = { name: 'landed' }
    metrics?.issued.inc({ action })
    const isRenewal = replaces !== undefined || request.predecessor !== undefined
    events?.emit({ type: isRenewal ? 'renewed' : 'issued', certificate: record })
    return holdings.put(record, key?.pkcs8)
  }

  /**
   * The times at which to renew the certificate and to ask its CA; never if the one that it replaces went out of
   * service meanwhile.
   */
  async #planOf(issued: SignedCertificate): Promise<Pick<NewCertificate, 'renewAt' | 'checkAt'>> {
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
}

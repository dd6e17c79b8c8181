import { randomUUID } from 'node:crypto'
import type {
  CertificateRecord,
  Checkpoint,
  Lease,
  OrderRecord,
  Origin,
} from '@gatehouse/cert-store/port'
import { generateKeyPair, type KeyPair, keyPairFromPem, toPem } from '@gatehouse/pki'
import { SYSTEM } from '../admission.ts'
import { failedOrder } from '../failure.ts'
import { type Actor, type IssuanceRequest, preparationOf } from '../request.ts'
import type { IssuanceDeps } from './ports.ts'

/** The purpose of a flight. */
export interface FlightPlan {
  readonly request: IssuanceRequest
  readonly actor: Actor
  readonly replaces: CertificateRecord | undefined
  readonly since: number
  /** The caller that the certificate counts for; undefined for renewals. */
  readonly askedBy: string | undefined
  /** The origin of work that goes on after a restart. Default: the actor. */
  readonly origin?: OrderRecord['origin']
}

/** Returns the origin of a certificate. A renewal by the service keeps it, but belongs to no order. */
export function originOf({ actor, replaces, origin }: FlightPlan): Origin {
  const kept = actor.account === undefined ? replaces : undefined
  const { way, client, account, servedOrder, address } =
    origin ?? (kept ? { ...kept, servedOrder: null } : { ...actor, address: actor.remoteAddress })
  return way ? { way, client, account, servedOrder, ...(account && { address }) } : {}
}

/** The order of a flight, from which any replica can go on with the work. */
export class FlightOrder {
  readonly #plan: FlightPlan
  readonly #deps: Pick<IssuanceDeps, 'keyring' | 'store'>
  /** The step that the flight has come to. */
  readonly #step: () => string
  #id: string = randomUUID()
  /** The failures before this try. */
  #history: Pick<OrderRecord, 'failures' | 'lastError'> = { failures: 0, lastError: null }
  /** The state that its issuer keeps in the order. */
  #checkpoint: Checkpoint | undefined
  /** The write of the order, which gives its id. */
  #writing: Promise<string> | undefined

  constructor(plan: FlightPlan, deps: Pick<IssuanceDeps, 'keyring' | 'store'>, step: () => string) {
    this.#plan = plan
    this.#deps = deps
    this.#step = step
  }

  get record(): OrderRecord {
    const { request, since, askedBy } = this.#plan
    const { requestKey, issuer, names, keyType, csr, predecessor, notAfter, lifetime } = request
    const origin = originOf(this.#plan)
    return {
      id: this.#id,
      requestKey,
      issuer: issuer.name,
      names: names.map((name) => name.text),
      keyType,
      csr: csr?.der ?? null,
      status: 'pending',
      step: this.#step(),
      since,
      failures: this.#history.failures,
      lastError: null,
      nextTryAt: null,
      configuration: issuer.configuration,
      ...(this.#checkpoint && { checkpoint: this.#checkpoint }),
      ...(askedBy !== undefined && { askedBy }),
      ...(lifetime !== undefined && { lifetime }),
      ...(origin.servedOrder && { origin: { ...origin, predecessor, notAfter } }),
    }
  }

  failedBy(error: unknown, now: number): OrderRecord {
    return failedOrder(this.record, error, now, this.#history.lastError)
  }

  get state(): unknown {
    return this.#checkpoint?.state
  }

  /** The caller whose share of the limits of a CA is used: operators and the service itself have none. */
  get sharer(): string | null | undefined {
    const { actor, askedBy } = this.#plan
    if (actor === SYSTEM && this.#checkpoint) return undefined
    return actor.isOperator || askedBy === SYSTEM.actor ? null : askedBy
  }

  /** Goes on with a stored order. What failed with another configuration does not count. */
  resume(order: OrderRecord): void {
    this.#id = order.id
    if (order.configuration === this.#plan.request.issuer.configuration) this.#history = order
    this.#checkpoint = order.checkpoint
  }

  /** Stores the order. Without a lease, gives that of the replica that does the work. */
  async file(lease: Lease | undefined): Promise<OrderRecord> {
    if (!lease) return this.#deps.store.fileOrder(this.record)
    this.#writing ??= this.#write(lease)
    await this.#writing
    return this.record
  }

  /** Waits until the order is written or cannot be, as it is about to be replaced. */
  async settle(): Promise<void> {
    await this.#writing?.catch(() => {})
  }

  /** The key to certify: that of an earlier try, or a new one. */
  async openKey(): Promise<KeyPair> {
    const { keyType, requestKey } = this.#plan.request
    const sealed = this.#checkpoint?.sealedKey
    if (!sealed) return generateKeyPair(keyType)
    const key = await this.#deps.keyring.openAny(sealed, Buffer.from(requestKey))
    return keyPairFromPem(toPem('PRIVATE KEY', key))
  }

  /** Saves the state of the issuer, with the key that it may have certified from then on. */
  async save(state: unknown, key: KeyPair | null, lease: Lease, ended?: Lease): Promise<void> {
    const { requestKey } = this.#plan.request
    // A key without a certificate is sealed for its request key.
    const seal = () => key && this.#deps.keyring.seal('leaf', key.pkcs8, Buffer.from(requestKey))
    const sealedKey = this.#checkpoint?.sealedKey ?? seal()
    this.#checkpoint = state === undefined ? undefined : { state, sealedKey }
    this.#writing = this.#write(lease, ended)
    await this.#writing
  }

  /** Saves what `goOn` makes of the state in which the names were proven ahead, and ends that preparation. */
  async takeOver<State>(goOn: (prepared: unknown) => State, key: KeyPair | null, lease: Lease) {
    const { store } = this.#deps
    const { requestKey } = preparationOf(this.#plan.request)
    if (!(await store.findOrderByRequestKey(requestKey))) return undefined
    // The certificate counts for no caller.
    const prepared = await store.takeLease({ requestKey, domain: '', names: 0, askedBy: undefined })
    if (!prepared) return undefined
    const state = goOn(prepared.order?.checkpoint?.state)
    const saving = this.save(state, key, lease, prepared)
    await saving.finally(() => void store.releaseLease(prepared).catch(() => {}))
    return state
  }

  /** A replica that waits for this one may have filed the order under an id of its own. */
  async #write(lease: Lease, ended?: Lease): Promise<string> {
    this.#id = await this.#deps.store.saveOrder(this.record, lease, ended)
    return this.#id
  }
}

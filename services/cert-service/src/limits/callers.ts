import type { Clock } from '@gatehouse/service-kit'
import { LRUCache } from 'lru-cache'
import type { CallerLimits } from '../config/schema.ts'
import { CertError } from '../errors.ts'
import type { IssuanceRequest } from '../issuance/request.ts'
import type { Requester } from '../plugins/audit.ts'
import type { Store } from '../store/store.ts'
import { emptyAt, freeAt, left, take } from './bucket.ts'

/** Callers that are remembered; any other has a full bucket. */
const MAX_CALLERS = 10_000
const MINUTE = 60_000
const DAY = 86_400_000

interface GateDeps {
  readonly store: Pick<Store, 'countNames' | 'countKeysHeld'>
  readonly clock: Pick<Clock, 'now'>
}

interface OwnLimits extends Readonly<CallerLimits['perCaller']> {
  readonly path: 'perCaller' | 'perOperator'
}

/** Limits how many certificates callers have and how fast they get new ones. */
export class CallerGate {
  readonly #deps: GateDeps
  readonly #buckets = new LRUCache<string, number>({ max: MAX_CALLERS })
  /** Upper bounds of the names in use: the last count, and all that was admitted since. */
  readonly #names = new LRUCache<string, { names: number; at: number }>({ max: MAX_CALLERS })
  /** Of requests that are admitted and not stored yet, by caller and by first name. */
  readonly #reserved = { names: new Map<string, number>(), held: new Map<string, number>() }

  /** Replaced when the configuration changes. */
  limits: CallerLimits

  constructor(limits: CallerLimits, deps: GateDeps) {
    this.limits = limits
    this.#deps = deps
  }

  /**
   * Admits a request for a new certificate. Call what it gives once that is stored or will not come.
   * @throws CertError `CERT_CALLER_LIMITED`
   */
  async admit(
    { names, csr }: IssuanceRequest,
    { actor, isOperator = false }: Requester,
    isRenewal: boolean,
  ): Promise<() => void> {
    const own = ownLimits(this.limits, isOperator)
    if (isRenewal) {
      if (own) this.#takeOne(actor, own)
      return () => {}
    }
    const domain = names[0]?.text ?? ''
    // Before anything is counted, so that requests at the same time see each other.
    const release = this.#reserve(actor, domain, names.length, csr === null)
    try {
      await this.#checkName(domain, csr === null)
      if (own) {
        await this.#checkNames(actor, names.length, own)
        this.#takeOne(actor, own)
      }
      return release
    } catch (error) {
      release()
      throw error
    }
  }

  /** Counts a request that was admitted before a restart; returns a function as `admit` does. */
  resume({ names, csr }: IssuanceRequest, askedBy: string): () => void {
    this.#names.delete(askedBy)
    return this.#reserve(askedBy, names[0]?.text ?? '', names.length, csr === null)
  }

  #reserve(actor: string, domain: string, names: number, isHeld: boolean): () => void {
    const { names: byCaller, held } = this.#reserved
    add(byCaller, actor, names)
    add(held, domain, Number(isHeld))
    return () => {
      add(byCaller, actor, -names)
      add(held, domain, -Number(isHeld))
    }
  }

  /** Demands room for one more certificate; for a CSR, it may replace another one for a CSR. */
  async #checkName(domain: string, isHeld: boolean): Promise<void> {
    const { certificates } = this.limits.perName
    const stored = await this.#deps.store.countKeysHeld(domain, this.#deps.clock.now())
    const reserved = this.#reserved.held.get(domain) ?? 0
    if (stored.certificates + reserved - Number(isHeld) < certificates) return
    const why = `${certificates} certificates are live whose first name is ${domain}`
    throw limited('perName.certificates', why, this.#waitUntil(stored.until))
  }

  /** A count reads all rows of the caller, so it is made only near the limit. */
  async #checkNames(actor: string, wanted: number, { path, names: allowed }: OwnLimits) {
    const at = this.#deps.clock.now()
    const before = this.#names.get(actor)
    // After the clock was set back, expired certificates count again.
    if (before && before.at <= at && before.names + wanted <= allowed) {
      this.#names.set(actor, { names: before.names + wanted, at })
      return
    }
    const stored = await this.#deps.store.countNames(actor, at)
    const names = stored.names + (this.#reserved.names.get(actor) ?? 0)
    if (names > allowed) {
      const why = `${stored.names} of ${allowed} names are in use, and this takes ${wanted}`
      throw limited(`${path}.names`, why, this.#waitUntil(stored.until))
    }
    this.#names.set(actor, { names, at })
  }

  #waitUntil(until: number | null): number {
    return Math.min(DAY, Math.max(MINUTE, (until ?? 0) - this.#deps.clock.now()))
  }

  #takeOne(actor: string, { path, issuancesPerMinute, burst }: OwnLimits): void {
    const limit = { count: burst, per: (burst / issuancesPerMinute) * MINUTE }
    const at = this.#deps.clock.now()
    // After the clock was set back, the bucket is empty at worst.
    const fullAt = Math.min(this.#buckets.get(actor) ?? 0, emptyAt(limit, at))
    const isEmpty = left(fullAt, limit, at) < 1
    this.#buckets.set(actor, isEmpty ? fullAt : take(fullAt, limit, at))
    if (!isEmpty) return
    const wait = freeAt(fullAt, limit, 1) - at
    throw limited(`${path}.issuancesPerMinute`, 'too many certificates at once', wait)
  }
}

function ownLimits(limits: CallerLimits, isOperator: boolean): OwnLimits | undefined {
  if (!isOperator) return { ...limits.perCaller, path: 'perCaller' }
  return limits.perOperator && { ...limits.perOperator, path: 'perOperator' }
}

function limited(limit: string, why: string, waitMs: number): CertError {
  const retryAfter = Math.max(1, Math.ceil(waitMs / 1_000))
  return new CertError('CERT_CALLER_LIMITED', why, { retryAfter, members: { limit } })
}

function add(counts: Map<string, number>, key: string, count: number): void {
  const sum = (counts.get(key) ?? 0) + count
  if (sum > 0) counts.set(key, sum)
  else counts.delete(key)
}

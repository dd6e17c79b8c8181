import type { AuditEntry, CertificateRecord, Store } from '@gatehouse/cert-store/port'
import type { Actor } from '@gatehouse/issuance/request'
import type { Clock } from '@gatehouse/service-kit/clock'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'

declare module 'fastify' {
  interface FastifyInstance {
    readonly audit: Audit
  }
}

interface AuditDeps {
  readonly store: Pick<Store, 'addAudit' | 'setFetchedAt'>
  readonly clock: Clock
  readonly log: { error(fields: object, message: string): void }
}

const HOUR = 3_600_000
const FLUSH_MS = 60_000
const MAX_COUNTED = 10_000
/** Kinds of refusal with a row of their own per hour: invented callers and addresses fill no disk. */
const MAX_REFUSALS = 200
const MAX_REFUSED_NAMES = 5
/** Addresses of a caller with rows of their own per hour: moving from one to the next fills no disk. */
const MAX_ADDRESSES = 50

interface Counted {
  readonly entry: AuditEntry & { readonly key: string }
  /** Number of times since the last row was written. */
  count: number
  /** The write of the first row, until it ends. */
  written: Promise<void> | undefined
}

/** Writes what happens too often for a row each as a row per hour, caller and address with a count. Never throws. */
export class Audit {
  readonly #deps: AuditDeps
  #counted = new Map<string, Counted>()
  #fetchedAt = new Map<number, number>()
  #fresh: Counted[] = []
  #writing = Promise.resolve()
  #addresses = new LRUCache<string, { readonly hour: number; readonly addresses: Set<string> }>({
    max: MAX_COUNTED,
  })
  #refusals = { hour: 0, keys: new Set<string>() }
  #timer: { cancel(): void }

  constructor(deps: AuditDeps) {
    this.#deps = deps
    this.#timer = this.#flushLater()
  }

  /**
   * Records that a certificate and what the store holds of its key are delivered. Await the promise
   * before the answer: it resolves when the row of this hour is written, or is logged as lost. Without
   * a promise the row exists already, and its count is written later.
   */
  recordDelivery(
    { id, names, serialNumber }: Pick<CertificateRecord, 'id' | 'names' | 'serialNumber'>,
    actor: Actor,
    detail?: string,
  ): Promise<void> | undefined {
    const now = this.#deps.clock.now()
    this.recordUse(id)
    const hour = hourOf(now)
    const remoteAddress = this.#addressOf(actor, hour)
    const key = `${hour} hand-out ${detail ?? ''} ${serialNumber} ${remoteAddress} ${actor.actor}`
    const row = { at: now, names, serialNumber, ...(detail && { detail }) }
    return this.#count(key, () => ({ ...row, action: 'hand-out', ...actor, remoteAddress }))
  }

  /** Records that a certificate is in use although it was not delivered. */
  recordUse(id: number): void {
    this.#fetchedAt.set(id, this.#deps.clock.now())
    if (this.#fetchedAt.size >= MAX_COUNTED) void this.#flush()
  }

  /** @param detail - code of the error */
  recordRefusal(actor: Actor, names: readonly string[], detail: string): void {
    const now = this.#deps.clock.now()
    const hour = hourOf(now)
    if (this.#refusals.hour !== hour) this.#refusals = { hour, keys: new Set() }
    const { keys } = this.#refusals
    const key = `${hour} refuse ${detail} ${actor.remoteAddress} ${actor.actor}`
    if (keys.has(key) || keys.size < MAX_REFUSALS) {
      keys.add(key)
      const shown = names.slice(0, MAX_REFUSED_NAMES)
      void this.#count(key, () => ({ at: now, action: 'refuse', names: shown, detail, ...actor }))
      return
    }
    const summary = { actor: '*', names: [], detail: 'more refusals, to other callers' }
    void this.#count(`${hour} refuse`, () => ({ at: now, action: 'refuse', ...summary }))
  }

  async close(): Promise<void> {
    this.#timer.cancel()
    await Promise.all([this.#writing, this.#flush()])
  }

  /** The address of a caller, or `*` if it has too many in this hour. */
  #addressOf({ actor, remoteAddress = '' }: Actor, hour: number): string {
    let counter = this.#addresses.get(actor)
    if (counter?.hour !== hour) {
      counter = { hour, addresses: new Set() }
      this.#addresses.set(actor, counter)
    }
    const { addresses } = counter
    if (addresses.size < MAX_ADDRESSES) addresses.add(remoteAddress)
    return addresses.has(remoteAddress) ? remoteAddress : '*'
  }

  /** Writes the first of a key at once, with whatever else this turn of the event loop commits. */
  #count(key: string, describe: () => AuditEntry): Promise<void> | undefined {
    const counter = this.#counted.get(key)
    if (counter) {
      counter.count++
      return counter.written
    }
    if (this.#fresh.length === 0) this.#writing = Promise.resolve().then(() => this.#writeFresh())
    const first: Counted = { entry: { ...describe(), key }, count: 0, written: this.#writing }
    this.#counted.set(key, first)
    this.#fresh.push(first)
    if (this.#counted.size >= MAX_COUNTED) void this.#flush()
    return this.#writing
  }

  async #writeFresh(): Promise<void> {
    const firsts = this.#fresh
    this.#fresh = []
    const isWritten = await this.#write(firsts.map(({ entry }) => ({ ...entry, count: 1 })))
    for (const first of firsts) {
      first.written = undefined
      // The next row with this key is written at once again.
      const { key } = first.entry
      if (!isWritten && this.#counted.get(key) === first) this.#counted.delete(key)
    }
  }

  /** Returns whether the rows are written. */
  async #write(entries: readonly AuditEntry[]): Promise<boolean> {
    if (entries.length === 0) return true
    try {
      await this.#deps.store.addAudit(entries)
      return true
    } catch (err) {
      this.#deps.log.error({ err, entries: entries.length }, 'audit rows were lost')
      return false
    }
  }

  async #flush(): Promise<void> {
    const entries = [...this.#counted.values()]
      .filter(({ count }) => count > 0)
      .map(({ entry, count }) => ({ ...entry, count }))
    const fetched = this.#fetchedAt
    this.#counted = new Map()
    this.#fetchedAt = new Map()
    await Promise.all([this.#write(entries), this.#writeFetchedAt(fetched)])
  }

  async #writeFetchedAt(fetched: ReadonlyMap<number, number>): Promise<void> {
    if (fetched.size === 0) return
    try {
      await this.#deps.store.setFetchedAt(fetched)
    } catch (err) {
      this.#deps.log.error({ err, certificates: fetched.size }, 'fetch times were lost')
    }
  }

  /** Rows of this hour stay known, so that what repeats them is only counted. */
  #keepThisHour(counted: ReadonlyMap<string, Counted>): void {
    const hour = hourOf(this.#deps.clock.now())
    for (const [key, counter] of counted) {
      if (hourOf(counter.entry.at) !== hour) continue
      counter.count = 0
      this.#counted.set(key, counter)
    }
  }

  #flushLater(): { cancel(): void } {
    return this.#deps.clock.setTimer(() => {
      this.#timer = this.#flushLater()
      const counted = this.#counted
      void this.#flush()
      this.#keepThisHour(counted)
    }, FLUSH_MS)
  }
}

function hourOf(time: number): number {
  return Math.floor(time / HOUR)
}

/** The audit trail of deliveries and refusals; what is still counted is written on close. */
export const audit = fp(
  async (app: FastifyInstance) => {
    const audit = new Audit(app)
    app.addHook('onClose', async () => audit.close())
    app.decorate('audit', audit)
  },
  { name: 'cert-service/audit', dependencies: ['cert-service/store'] },
)

import type { Clock } from '@gatehouse/service-kit'
import type { AuditEntry, CertificateRecord, Store } from './store/store.ts'

/** Whom an audit row is about. */
export interface Requester {
  /** `psk:<key name>`, `jwt:<issuer>#<subject>` or `system`. */
  readonly actor: string
  readonly remoteAddress?: string
  readonly requestId?: string
  /** A key that no names limit. */
  readonly isOperator?: boolean
}

/** Notes what happens too often for a row each: one row an hour and caller, with a count. Never throws. */
export interface Audit {
  /**
   * A certificate goes out with what the store holds of its key. Wait for the promise before the
   * answer: it resolves when the row of this hour is written, or is logged as lost. Without one the
   * row is there already, and its count is written later.
   */
  handOut(
    certificate: Pick<CertificateRecord, 'id' | 'names' | 'serialNumber'>,
    by: Requester,
  ): Promise<void> | undefined
  /** A certificate is in use, though nothing went out. */
  fetched(id: number): void
  /** `detail` is the error's code. */
  refuse(by: Requester, names: readonly string[], detail: string): void
  /** Writes what is still counted. */
  close(): Promise<void>
}

export interface AuditOptions {
  readonly store: Store
  readonly clock: Clock
  readonly log: { error(fields: object, message: string): void }
}

const HOUR = 3_600_000
const FLUSH_MS = 60_000
const MAX_COUNTED = 10_000
/** Kinds of refusal told apart in an hour: whoever makes up callers or addresses fills no disk. */
const MAX_REFUSALS = 200
const MAX_REFUSED_NAMES = 5

interface Counted {
  readonly entry: AuditEntry & { readonly key: string }
  /** How often it happened that no row tells yet. */
  count: number
  /** Until the first one is written. */
  written: Promise<void> | undefined
}

export function createAudit({ store, clock, log }: AuditOptions): Audit {
  let counted = new Map<string, Counted>()
  let fetchedAt = new Map<number, number>()
  let fresh: Counted[] = []
  let writing = Promise.resolve()
  let refusals = { hour: 0, keys: new Set<string>() }
  let timer = clock.setTimer(flushOnTime, FLUSH_MS)

  /** The first of its key is written at once, with whatever else this turn commits. */
  function count(key: string, describe: () => AuditEntry): Promise<void> | undefined {
    const known = counted.get(key)
    if (known) {
      known.count++
      return known.written
    }
    if (fresh.length === 0) writing = Promise.resolve().then(writeFresh)
    const first: Counted = { entry: { ...describe(), key }, count: 0, written: writing }
    counted.set(key, first)
    fresh.push(first)
    if (counted.size >= MAX_COUNTED) void flush()
    return writing
  }

  function note(id: number): void {
    fetchedAt.set(id, clock.now())
    if (fetchedAt.size >= MAX_COUNTED) void flush()
  }

  async function writeFresh(): Promise<void> {
    const firsts = fresh
    fresh = []
    const isWritten = await write(firsts.map(({ entry }) => ({ ...entry, count: 1 })))
    for (const first of firsts) {
      first.written = undefined
      // The next one of its key is a first again.
      if (!isWritten && counted.get(first.entry.key) === first) counted.delete(first.entry.key)
    }
  }

  /** Gives whether they are written. */
  async function write(entries: readonly AuditEntry[]): Promise<boolean> {
    if (entries.length === 0) return true
    try {
      await store.addAudit(entries)
      return true
    } catch (err) {
      log.error({ err, entries: entries.length }, 'audit.lost')
      return false
    }
  }

  async function flush(): Promise<void> {
    const entries = [...counted.values()]
      .filter(({ count }) => count > 0)
      .map(({ entry, count }) => ({ ...entry, count }))
    const fetched = fetchedAt
    counted = new Map()
    fetchedAt = new Map()
    await Promise.all([write(entries), writeFetchedAt(fetched)])
  }

  async function writeFetchedAt(fetched: ReadonlyMap<number, number>): Promise<void> {
    if (fetched.size === 0) return
    try {
      await store.setFetchedAt(fetched)
    } catch (err) {
      log.error({ err, certificates: fetched.size }, 'fetched.lost')
    }
  }

  function flushOnTime(): void {
    timer = clock.setTimer(flushOnTime, FLUSH_MS)
    void flush()
  }

  return {
    handOut(certificate, by) {
      const at = clock.now()
      const { id, names, serialNumber } = certificate
      note(id)
      return count(`${hourOf(at)} hand-out ${serialNumber} ${by.actor}`, () => ({
        at,
        action: 'hand-out',
        names,
        serialNumber,
        ...by,
      }))
    },

    fetched: note,

    refuse(by, names, detail) {
      const at = clock.now()
      const hour = hourOf(at)
      if (refusals.hour !== hour) refusals = { hour, keys: new Set() }
      const key = `${hour} refuse ${detail} ${by.remoteAddress} ${by.actor}`
      if (refusals.keys.has(key) || refusals.keys.size < MAX_REFUSALS) {
        refusals.keys.add(key)
        const shown = names.slice(0, MAX_REFUSED_NAMES)
        void count(key, () => ({ at, action: 'refuse', names: shown, detail, ...by }))
      } else {
        const rest = 'more refusals, to other callers'
        void count(`${hour} refuse`, () => ({
          at,
          action: 'refuse',
          actor: '*',
          names: [],
          detail: rest,
        }))
      }
    },

    async close() {
      timer.cancel()
      await Promise.all([writing, flush()])
    },
  }
}

function hourOf(at: number): number {
  return Math.floor(at / HOUR)
}

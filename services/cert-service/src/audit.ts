import type { Clock } from '@gatehouse/service-kit'
import type { AuditEntry, CertificateRecord, Store } from './store/store.ts'

/** Whom an audit row is about. */
export interface Requester {
  /** `psk:<key name>`, `jwt:<issuer>#<subject>` or `system`. */
  readonly actor: string
  readonly remoteAddress?: string
  readonly requestId?: string
}

/** Notes what happens too often for a row each: one row an hour and caller, with a count. Never throws, never waits. */
export interface Audit {
  /** A certificate went out with what the store holds of its key. */
  handOut(
    certificate: Pick<CertificateRecord, 'id' | 'names' | 'serialNumber'>,
    by: Requester,
  ): void
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

type Counted = AuditEntry & { readonly key: string; count: number }

export function createAudit({ store, clock, log }: AuditOptions): Audit {
  let counted = new Map<string, Counted>()
  let fetchedAt = new Map<number, number>()
  let fresh: AuditEntry[] = []
  let refusals = { hour: 0, keys: new Set<string>() }
  let timer = clock.setTimer(flushOnTime, FLUSH_MS)

  /** The first of its key is written at once, with whatever else this turn commits. */
  function count(key: string, describe: () => AuditEntry): void {
    const known = counted.get(key)
    if (known) {
      known.count++
      return
    }
    const entry = describe()
    counted.set(key, { ...entry, key, count: 0 })
    if (fresh.length === 0) queueMicrotask(writeFresh)
    fresh.push({ ...entry, key, count: 1 })
    if (counted.size >= MAX_COUNTED) void flush()
  }

  function note(id: number): void {
    fetchedAt.set(id, clock.now())
    if (fetchedAt.size >= MAX_COUNTED) void flush()
  }

  function writeFresh(): Promise<void> {
    const entries = fresh
    fresh = []
    return write(entries)
  }

  async function write(entries: readonly AuditEntry[]): Promise<void> {
    if (entries.length === 0) return
    try {
      await store.addAudit(entries)
    } catch (err) {
      log.error({ err, entries: entries.length }, 'audit.lost')
    }
  }

  async function flush(): Promise<void> {
    const entries = [...counted.values()].filter((entry) => entry.count > 0)
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
      count(`${hourOf(at)} hand-out ${serialNumber} ${by.actor}`, () => ({
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
        count(key, () => ({ at, action: 'refuse', names: shown, detail, ...by }))
      } else {
        const rest = 'more refusals, to other callers'
        count(`${hour} refuse`, () => ({
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
      await Promise.all([writeFresh(), flush()])
    },
  }
}

function hourOf(at: number): number {
  return Math.floor(at / HOUR)
}

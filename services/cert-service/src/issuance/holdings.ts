import { LRUCache } from 'lru-cache'
import { hasBegun } from '../clocks.ts'
import type { Keyring } from '../sealing/keyring.ts'
import type { CertificateRecord, Store } from '../store/store.ts'
import { type Held, hold } from './answer.ts'

/** About 6 kB each. */
const MAX_READY = 4096

/** The certificates that are held, the busy ones with their answers made ready. */
export interface Holdings {
  /** The certificate of a lineage if its answer is ready and it is valid now. */
  peek(lineage: string): Held | undefined
  /** The certificate of a lineage unless it has ended; it may begin in the future. */
  find(lineage: string): Promise<Held | undefined>
  /** The answers of a certificate that the store just gave. */
  of(record: CertificateRecord): Held
  /** Takes what the store now holds for a lineage; `key` is its PKCS#8 where that is at hand. */
  put(record: CertificateRecord, key?: Uint8Array): Held
  /** To be called after each change that takes a lineage's certificate out of service. */
  forget(lineage: string): void
  /** Grows with each change: whatever was put together at an equal count still holds. */
  changes(): number
}

export function createHoldings(deps: {
  readonly store: Pick<Store, 'findCurrent'>
  readonly keyring: Keyring
  now(): number
}): Holdings {
  const ready = new LRUCache<string, Held>({ max: MAX_READY })
  // Counts changes, so that a slow read does not bring back what was changed meanwhile.
  let changes = 0

  function keyOf({ sealedKey, certificate }: CertificateRecord): Uint8Array | undefined {
    return sealedKey ? deps.keyring.open(sealedKey, certificate) : undefined
  }

  function peek(lineage: string): Held | undefined {
    const held = ready.get(lineage)
    const now = deps.now()
    return held && held.record.notAfter > now && hasBegun(held.record, now) ? held : undefined
  }

  async function find(lineage: string): Promise<Held | undefined> {
    const before = changes
    const record = await deps.store.findCurrent(lineage)
    if (!record || record.notAfter <= deps.now()) return undefined
    const held = hold(record, keyOf(record))
    if (before === changes) ready.set(lineage, held)
    return held
  }

  function of(record: CertificateRecord): Held {
    const held = ready.get(record.lineage)
    return held?.record.id === record.id ? held : hold(record, keyOf(record))
  }

  function put(record: CertificateRecord, key = keyOf(record)): Held {
    const held = hold(record, key)
    changes += 1
    ready.set(record.lineage, held)
    return held
  }

  function forget(lineage: string): void {
    changes += 1
    ready.delete(lineage)
  }

  return { peek, find, of, put, forget, changes: () => changes }
}

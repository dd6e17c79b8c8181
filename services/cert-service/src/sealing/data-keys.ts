import { createSecretKey, type KeyObject } from 'node:crypto'
import { CertError } from '../errors.ts'
import { unavailable } from '../store/database.ts'
import type { DataKeyRecord, KeyringRecord, Store } from '../store/store.ts'
import type { MasterKey } from './master-key.ts'

/** What a sealed key is for; each has data keys of its own. */
export type Purpose = (typeof PURPOSES)[number]

/** The keys that seal, themselves wrapped by the master key in the store. */
export interface DataKeys {
  /** The data key for one more seal. @throws CertError CERT_STORE_UNAVAILABLE when it cannot be counted */
  take(purpose: Purpose): number
  /** @throws CertError CERT_SEAL_BROKEN */
  key(id: number): KeyObject
}

export interface DataKeysOptions {
  readonly store: Pick<Store, 'saveKeyring'>
  readonly stored: KeyringRecord | undefined
  readonly master: MasterKey
  readonly randomBytes: (size: number) => Buffer
}

/** What is sealed, each under data keys of its own. */
export const PURPOSES = ['leaf', 'account', 'intermediate', 'root'] as const
/** Random nonces of 96 bits serve 2^32 messages of one key (NIST SP 800-38D, 8.3). */
const MAX_SEALS = 2 ** 32
/** Seals are counted in the store in advance, this many at a time. */
const LEASE = 2 ** 16

interface Lease {
  readonly id: number
  left: number
  extending: boolean
}

export async function openDataKeys(options: DataKeysOptions): Promise<DataKeys> {
  const { store, stored, master, randomBytes } = options
  const records = new Map(stored?.dataKeys.map((record) => [record.id, record]))
  const opened = new Map<number, KeyObject>()
  const leases = new Map<Purpose, Lease>()
  let nextId = Math.max(0, ...records.keys()) + 1

  /** The newest data key of a purpose with the next seals counted, or a new one. */
  function extended(purpose: Purpose): DataKeyRecord {
    const newest = [...records.values()].findLast((record) => record.purpose === purpose)
    if (newest && newest.seals + LEASE <= MAX_SEALS) {
      return { ...newest, seals: newest.seals + LEASE }
    }
    const id = nextId++
    return {
      id,
      purpose,
      wrapped: master.wrap(randomBytes(32), label({ id, purpose })),
      seals: LEASE,
    }
  }

  async function lease(purposes: readonly Purpose[]): Promise<void> {
    const leased = purposes.map((purpose) => ({ purpose, record: extended(purpose) }))
    const dataKeys = leased.map(({ record }) => record)
    await store.saveKeyring({ check: master.check, dataKeys })
    for (const { purpose, record } of leased) {
      const old = leases.get(purpose)
      const left = LEASE + (old?.id === record.id ? old.left : 0)
      records.set(record.id, record)
      leases.set(purpose, { id: record.id, left, extending: false })
    }
  }

  await lease(PURPOSES)
  return {
    take(purpose) {
      const current = leases.get(purpose) as Lease
      if (current.left <= LEASE / 2 && !current.extending) {
        current.extending = true
        lease([purpose]).catch(() => {
          current.extending = false
        })
      }
      if (current.left === 0) throw unavailable('seals cannot be counted')
      current.left--
      return current.id
    },
    key(id) {
      const known = opened.get(id)
      if (known) return known
      const record = records.get(id)
      if (!record) throw new CertError('CERT_SEAL_BROKEN', `There is no data key ${id}.`)
      const bytes = master.unwrap(record.wrapped, label(record))
      const key = createSecretKey(bytes)
      bytes.fill(0)
      // The root's is in memory only while it is used.
      if (record.purpose !== 'root') opened.set(id, key)
      return key
    },
  }
}

/** What a wrapped data key is bound to, so that none can take the place of another. */
export function label({ id, purpose }: Pick<DataKeyRecord, 'id' | 'purpose'>): string {
  return `${purpose} ${id}`
}

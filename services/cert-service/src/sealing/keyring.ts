import { createSecretKey, type KeyObject, randomBytes as systemRandomBytes } from 'node:crypto'
import { CertError } from '../errors.ts'
import { unavailable } from '../store/database.ts'
import type { DataKeyRecord, KeyringRecord, Store } from '../store/store.ts'
import {
  createMasterKey,
  decrypt,
  encrypt,
  type MasterKey,
  matchMasterKey,
  NONCE_BYTES,
  readMasterKey,
  refuseBeside,
} from './master-key.ts'

type RandomBytes = (size: number) => Buffer

/** What is sealed. Each purpose has data keys of its own. */
export const PURPOSES = ['leaf', 'account', 'intermediate', 'root'] as const
export type Purpose = (typeof PURPOSES)[number]

export interface KeyringOptions {
  readonly masterKeyFile: string
  /** The data folder, which must not contain the master key. */
  readonly folder: string
  readonly store: Pick<Store, 'loadKeyring' | 'saveKeyring'>
  readonly randomBytes?: RandomBytes
}

export interface DataKeysOptions {
  readonly store: Pick<Store, 'saveKeyring'>
  readonly stored: KeyringRecord | undefined
  readonly master: MasterKey
  readonly randomBytes: RandomBytes
}

/** A sealed key begins with this version and the id of its data key in four bytes. */
const VERSION = 1
const HEADER_BYTES = 5
/** NIST SP 800-38D, section 8.3: 2^32 messages per key with random nonces of 96 bits. */
const MAX_SEALS = 2 ** 32
/** Seals are counted in the store in advance, this many at a time. */
const LEASE = 2 ** 16
/** Random bytes are drawn for this many nonces at a time. */
const NONCE_POOL = 256

/**
 * Opens the keyring of a store. A store without one gets a new keyring, and a master key if the file
 * does not exist; a store that has one never gets a new master key here.
 *
 * @throws CertError CERT_MASTER_KEY_MISPLACED, CERT_MASTER_KEY_MISSING, CERT_MASTER_KEY_WRONG,
 * CERT_MASTER_KEY_INVALID, CERT_MASTER_KEY_EXPOSED
 */
export async function openKeyring(options: KeyringOptions): Promise<Keyring> {
  const { masterKeyFile: file, folder, store, randomBytes = systemRandomBytes } = options
  refuseBeside(file, folder)
  const stored = await store.loadKeyring()
  const master = stored
    ? await matchMasterKey(file, stored.check)
    : ((await readMasterKey(file)) ?? (await createMasterKey(file)))
  return new Keyring(await openDataKeys({ store, stored, master, randomBytes }), randomBytes)
}

/** Seals private keys before they are stored, and opens them. */
export class Keyring {
  readonly #dataKeys: DataKeys
  readonly #randomBytes: RandomBytes
  #nonces: Buffer = Buffer.alloc(0)

  constructor(dataKeys: DataKeys, randomBytes: RandomBytes) {
    this.#dataKeys = dataKeys
    this.#randomBytes = randomBytes
  }

  /**
   * Encrypts a secret. It only opens with the same `context`, such as the DER of its certificate.
   *
   * @throws CertError CERT_STORE_UNAVAILABLE if seals can no longer be counted
   */
  seal(purpose: Purpose, secret: Uint8Array, context: Uint8Array): Buffer {
    const id = this.#dataKeys.take(purpose)
    const header = Buffer.alloc(HEADER_BYTES)
    header.writeUInt8(VERSION)
    header.writeUInt32BE(id, 1)
    const sealed = encrypt(this.#dataKeys.key(id), this.#nextNonce(), secret, [header, context])
    return Buffer.concat([header, sealed])
  }

  /** @throws CertError CERT_SEAL_BROKEN */
  open(sealed: Uint8Array, context: Uint8Array): Buffer {
    const header = Buffer.from(sealed.subarray(0, HEADER_BYTES))
    try {
      const key = this.#dataKeys.key(header.readUInt32BE(1))
      return decrypt(key, sealed.subarray(HEADER_BYTES), [header, context])
    } catch (cause) {
      throw new CertError('CERT_SEAL_BROKEN', 'A sealed key does not open.', { cause })
    }
  }

  #nextNonce(): Buffer {
    if (this.#nonces.length === 0) this.#nonces = this.#randomBytes(NONCE_BYTES * NONCE_POOL)
    const nonce = this.#nonces.subarray(0, NONCE_BYTES)
    this.#nonces = this.#nonces.subarray(NONCE_BYTES)
    return nonce
  }
}

/** Opens the data keys of a store and counts the first seals of each purpose. */
export async function openDataKeys(options: DataKeysOptions): Promise<DataKeys> {
  const dataKeys = new DataKeys(options)
  await dataKeys.lease(PURPOSES)
  return dataKeys
}

/** The keys that seal, stored wrapped by the master key. */
class DataKeys {
  readonly #options: DataKeysOptions
  readonly #records: Map<number, DataKeyRecord>
  readonly #opened = new Map<number, KeyObject>()
  readonly #leases = new Map<Purpose, { readonly id: number; left: number; extending: boolean }>()
  #nextId: number

  constructor(options: DataKeysOptions) {
    this.#options = options
    this.#records = new Map(options.stored?.dataKeys.map((record) => [record.id, record]))
    this.#nextId = Math.max(0, ...this.#records.keys()) + 1
  }

  /** Counts the next seals of each purpose in the store. */
  async lease(purposes: readonly Purpose[]): Promise<void> {
    const leased = purposes.map((purpose) => ({ purpose, record: this.#extend(purpose) }))
    const dataKeys = leased.map(({ record }) => record)
    await this.#options.store.saveKeyring({ check: this.#options.master.check, dataKeys })
    for (const { purpose, record } of leased) {
      const old = this.#leases.get(purpose)
      const left = LEASE + (old?.id === record.id ? old.left : 0)
      this.#records.set(record.id, record)
      this.#leases.set(purpose, { id: record.id, left, extending: false })
    }
  }

  /** The id of the data key for one more seal. @throws CertError CERT_STORE_UNAVAILABLE */
  take(purpose: Purpose): number {
    const current = this.#leases.get(purpose)
    if (!current) throw unavailable('seals cannot be counted')
    if (current.left <= LEASE / 2 && !current.extending) {
      current.extending = true
      this.lease([purpose]).catch(() => {
        current.extending = false
      })
    }
    if (current.left === 0) throw unavailable('seals cannot be counted')
    current.left--
    return current.id
  }

  /** @throws CertError CERT_SEAL_BROKEN */
  key(id: number): KeyObject {
    const known = this.#opened.get(id)
    if (known) return known
    const record = this.#records.get(id)
    if (!record) throw new CertError('CERT_SEAL_BROKEN', `There is no data key ${id}.`)
    const bytes = this.#options.master.unwrap(record.wrapped, dataKeyLabel(record))
    const key = createSecretKey(bytes)
    bytes.fill(0)
    // The data key of the root stays in memory only while it is used.
    if (record.purpose !== 'root') this.#opened.set(id, key)
    return key
  }

  /** The newest data key of a purpose with its next seals counted, or a new one if it is used up. */
  #extend(purpose: Purpose): DataKeyRecord {
    const newest = [...this.#records.values()].findLast((record) => record.purpose === purpose)
    if (newest && newest.seals + LEASE <= MAX_SEALS)
      return { ...newest, seals: newest.seals + LEASE }
    const { master, randomBytes } = this.#options
    const id = this.#nextId++
    const wrapped = master.wrap(randomBytes(32), dataKeyLabel({ id, purpose }))
    return { id, purpose, wrapped, seals: LEASE }
  }
}

/** What a wrapped data key is bound to, so that it cannot be swapped for another one. */
export function dataKeyLabel({ id, purpose }: Pick<DataKeyRecord, 'id' | 'purpose'>): string {
  return `${purpose} ${id}`
}

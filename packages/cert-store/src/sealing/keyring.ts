import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto'
import { StoreError, storeUnavailable } from '@gatehouse/store'
import type { DataKeyRecord, KeyringRecord, Store } from '../port/store.ts'

/** The purposes of keys. Each has its own data keys. */
export const PURPOSES = ['leaf', 'account', 'intermediate', 'root', 'acme'] as const
export type Purpose = (typeof PURPOSES)[number]

export interface DataKeysOptions {
  readonly store: Pick<Store, 'loadKeyring' | 'addDataKey' | 'countSeals'>
  readonly stored: KeyringRecord | undefined
  readonly master: MasterKey
}

/** A sealed key begins with this version and the id of its data key in four bytes. */
const VERSION = 1
const HEADER_BYTES = 5
/** NIST SP 800-38D, section 8.3: 2^32 messages per key with random nonces of 96 bits. */
const MAX_SEALS = 2 ** 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
export const KEY_BYTES = 32
/** Seals are counted in the store in advance, this many at a time. */
const LEASE = 2 ** 16
/** Replicas that add data keys at the same time: each try adds one of them. */
const MAX_TRIES = 100
/** Random bytes are drawn for this many nonces at a time. */
const NONCE_POOL = 256

/** The key that wraps the data keys. Its file lies outside of the data folder. */
export class MasterKey {
  /** Identifies this key without revealing anything about it. */
  readonly check: Buffer
  readonly #wrapping: KeyObject

  constructor(bytes: Buffer) {
    this.check = createHmac('sha256', derive(bytes, 'gatehouse check')).digest()
    this.#wrapping = derive(bytes, 'gatehouse wrap')
  }

  /** A data key only unwraps with the same `label`. */
  wrap(dataKey: Uint8Array, label: string): Buffer {
    return encrypt(this.#wrapping, randomBytes(NONCE_BYTES), dataKey, [Buffer.from(label)])
  }

  /** @throws StoreError STORE_CORRUPT */
  unwrap(wrapped: Uint8Array, label: string): Buffer {
    try {
      return decrypt(this.#wrapping, wrapped, [Buffer.from(label)])
    } catch (cause) {
      throw new StoreError('STORE_CORRUPT', `Data key ${label} was changed.`, { cause })
    }
  }
}

/** Seals private keys before they are stored, and opens them. */
export class Keyring {
  readonly #dataKeys: DataKeys
  #nonces: Buffer = Buffer.alloc(0)

  constructor(dataKeys: DataKeys) {
    this.#dataKeys = dataKeys
  }

  /**
   * Encrypts a secret. It only opens with the same `context`, such as the DER of its certificate.
   * @throws StoreError STORE_UNAVAILABLE if seals can no longer be counted
   */
  seal(purpose: Purpose, secret: Uint8Array, context: Uint8Array): Buffer {
    const id = this.#dataKeys.take(purpose)
    const header = Buffer.alloc(HEADER_BYTES)
    header.writeUInt8(VERSION)
    header.writeUInt32BE(id, 1)
    const sealed = encrypt(this.#dataKeys.key(id), this.#nextNonce(), secret, [header, context])
    return Buffer.concat([header, sealed])
  }

  /** @throws StoreError STORE_CORRUPT */
  open(sealed: Uint8Array, context: Uint8Array): Buffer {
    const header = Buffer.from(sealed.subarray(0, HEADER_BYTES))
    try {
      const key = this.#dataKeys.key(header.readUInt32BE(1))
      return decrypt(key, sealed.subarray(HEADER_BYTES), [header, context])
    } catch (cause) {
      throw new StoreError('STORE_CORRUPT', 'A sealed key cannot be decrypted.', { cause })
    }
  }

  /** Opens what another replica may have sealed, with a data key that is not known here yet. */
  async openAny(sealed: Uint8Array, context: Uint8Array): Promise<Buffer> {
    const header = Buffer.from(sealed.subarray(0, HEADER_BYTES))
    const isKnown = header.length < HEADER_BYTES || this.#dataKeys.knows(header.readUInt32BE(1))
    if (!isKnown) await this.refresh()
    return this.open(sealed, context)
  }

  /** Derives a secret that is the same at all replicas, over all starts: of the first data key of the purpose. */
  derive(purpose: Purpose, info: string): Buffer {
    const key = this.#dataKeys.key(this.#dataKeys.first(purpose))
    return Buffer.from(hkdfSync('sha256', key, '', info, KEY_BYTES))
  }

  /** Learns the data keys that other replicas have added, to open what they have sealed. */
  refresh(): Promise<void> {
    return this.#dataKeys.refresh()
  }

  #nextNonce(): Buffer {
    if (this.#nonces.length === 0) this.#nonces = randomBytes(NONCE_BYTES * NONCE_POOL)
    const nonce = this.#nonces.subarray(0, NONCE_BYTES)
    this.#nonces = this.#nonces.subarray(NONCE_BYTES)
    return nonce
  }
}

export async function openDataKeys(options: DataKeysOptions): Promise<DataKeys> {
  const dataKeys = new DataKeys(options)
  await dataKeys.lease(PURPOSES)
  return dataKeys
}

interface DataKeyLease {
  readonly id: number
  left: number
  extending: boolean
  /** The lease that takes over when no seal is left of this one. */
  readonly next?: DataKeyLease
}

/** The keys that seal, stored wrapped by the master key. */
class DataKeys {
  readonly #options: DataKeysOptions
  readonly #records: Map<number, DataKeyRecord>
  readonly #opened = new Map<number, KeyObject>()
  readonly #leases = new Map<Purpose, DataKeyLease>()

  constructor(options: DataKeysOptions) {
    this.#options = options
    this.#records = new Map(options.stored?.dataKeys.map((record) => [record.id, record]))
  }

  /** Counts the next seals of each purpose in the store. */
  async lease(purposes: readonly Purpose[]): Promise<void> {
    await Promise.all(
      purposes.map(async (purpose) => {
        const record = await this.#extend(purpose)
        this.#records.set(record.id, record)
        const old = this.#leases.get(purpose)
        const left = LEASE + (old?.id === record.id ? old.left : 0)
        const next = { id: record.id, left, extending: false }
        // Meanwhile the other replicas learn of a new data key.
        if (old && old.left > 0 && old.id !== next.id)
          Object.assign(old, { next, extending: false })
        else this.#leases.set(purpose, next)
      }),
    )
  }

  /**
   * Learns the data keys that other replicas have added, and adds those again that are gone: a failover may
   * have lost what was written last, while keys that they have sealed are in the store.
   */
  async refresh(): Promise<void> {
    const { store, master } = this.#options
    const stored = await store.loadKeyring()
    if (!stored) return
    const ids = new Set(stored.dataKeys.map(({ id }) => id))
    const lost = [...this.#records.values()].filter(({ id }) => !ids.has(id))
    for (const record of stored.dataKeys)
      if (!this.#records.has(record.id)) this.#records.set(record.id, record)
    await Promise.all(lost.map((record) => store.addDataKey(record, master.check)))
  }

  /** The id of the oldest data key of a purpose. */
  first(purpose: Purpose): number {
    const ids = [...this.#records.values()].filter((record) => record.purpose === purpose)
    return Math.min(...ids.map(({ id }) => id))
  }

  knows(id: number): boolean {
    return this.#records.has(id)
  }

  /** The id of the data key for one more seal. @throws StoreError STORE_UNAVAILABLE */
  take(purpose: Purpose): number {
    const lease = this.#leases.get(purpose)
    const current = lease?.left === 0 && lease.next ? lease.next : lease
    if (!current) throw storeUnavailable('seals cannot be counted')
    this.#leases.set(purpose, current)
    if (current.left <= LEASE / 2 && !current.extending && !current.next) {
      current.extending = true
      this.lease([purpose]).catch(() => {
        current.extending = false
      })
    }
    if (current.left === 0) throw storeUnavailable('seals cannot be counted')
    current.left--
    return current.id
  }

  /** @throws StoreError STORE_CORRUPT */
  key(id: number): KeyObject {
    const opened = this.#opened.get(id)
    if (opened) return opened
    const record = this.#records.get(id)
    if (!record) throw new StoreError('STORE_CORRUPT', `There is no data key ${id}.`)
    const bytes = this.#options.master.unwrap(record.wrapped, dataKeyLabel(record))
    const key = createSecretKey(bytes)
    bytes.fill(0)
    // The data key of the root stays in memory only while it is used.
    if (record.purpose !== 'root') this.#opened.set(id, key)
    return key
  }

  /** The newest data key of a purpose with its next seals counted, or a new one if it is used up. */
  async #extend(purpose: Purpose): Promise<DataKeyRecord> {
    const { store, master } = this.#options
    for (let tries = 0; tries < MAX_TRIES; tries += 1) {
      const newest = [...this.#records.values()].findLast((record) => record.purpose === purpose)
      if (newest && newest.seals + LEASE <= MAX_SEALS) {
        const seals = await store.countSeals(newest.id, LEASE)
        if (seals <= MAX_SEALS) return { ...newest, seals }
        this.#records.set(newest.id, { ...newest, seals })
      }
      const id = this.#nextId(purpose, newest)
      const wrapped = master.wrap(randomBytes(KEY_BYTES), dataKeyLabel({ id, purpose }))
      const added = { id, purpose, wrapped, seals: LEASE }
      if (await store.addDataKey(added, master.check)) return added
      // Another replica was faster, and its data key counts.
      await this.refresh()
    }
    throw storeUnavailable('no data key can be added, so the master key may have been replaced')
  }

  /** The next id, which is the same at all replicas, so that they have one new data key for a purpose. */
  #nextId(purpose: Purpose, newest: DataKeyRecord | undefined): number {
    let id = newest ? newest.id + PURPOSES.length : PURPOSES.indexOf(purpose) + 1
    while (this.#records.has(id)) id += PURPOSES.length
    return id
  }
}

/** The context that a wrapped data key is bound to, so that nobody can swap it for another one. */
export function dataKeyLabel({ id, purpose }: Pick<DataKeyRecord, 'id' | 'purpose'>): string {
  return `${purpose} ${id}`
}

/** AES-256-GCM: gives nonce, ciphertext and tag. `associated` is authenticated but not included. */
function encrypt(
  key: KeyObject,
  nonce: Uint8Array,
  plain: Uint8Array,
  associated: readonly Uint8Array[],
): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  for (const part of associated) cipher.setAAD(part)
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** @throws Error unless key, text and associated data are those of {@link encrypt} */
function decrypt(key: KeyObject, sealed: Uint8Array, associated: readonly Uint8Array[]): Buffer {
  const nonce = sealed.subarray(0, NONCE_BYTES)
  const tag = sealed.subarray(-TAG_BYTES)
  const cipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
  for (const part of associated) cipher.setAAD(part)
  cipher.setAuthTag(tag)
  return Buffer.concat([cipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), cipher.final()])
}

function derive(bytes: Buffer, info: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', bytes, '', info, KEY_BYTES)))
}

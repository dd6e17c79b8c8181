import { randomBytes as systemRandomBytes } from 'node:crypto'
import { CertError } from '../errors.ts'
import type { Store } from '../store/store.ts'
import { decrypt, encrypt, NONCE_BYTES } from './aes-gcm.ts'
import { openDataKeys, type Purpose } from './data-keys.ts'
import { createMasterKey, matchMasterKey, readMasterKey, refuseBeside } from './master-key.ts'

/** Seals private keys for the store, and opens them. Both are synchronous. */
export interface Keyring {
  /**
   * Encrypts a secret. `context` is what it belongs to, a certificate's DER: it opens with that only.
   * @throws CertError CERT_STORE_UNAVAILABLE when seals cannot be counted any more
   */
  seal(purpose: Purpose, secret: Uint8Array, context: Uint8Array): Buffer
  /** @throws CertError CERT_SEAL_BROKEN */
  open(sealed: Uint8Array, context: Uint8Array): Buffer
}

export interface KeyringOptions {
  readonly masterKeyFile: string
  /** The data folder, where the master key must not be. */
  readonly folder: string
  readonly store: Store
  readonly randomBytes?: (size: number) => Buffer
}

/** A sealed key begins with this and the number of its data key in four bytes. */
const VERSION = 1
const HEADER_BYTES = 5

/**
 * Opens the keyring of a store, or makes it together with its master key while the store has none.
 * A store that has one never gets a new master key here.
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
  const dataKeys = await openDataKeys({ store, stored, master, randomBytes })
  const nextNonce = createNonces(randomBytes)

  return {
    seal(purpose, secret, context) {
      const id = dataKeys.take(purpose)
      const header = Buffer.alloc(HEADER_BYTES)
      header.writeUInt8(VERSION)
      header.writeUInt32BE(id, 1)
      const sealed = encrypt(dataKeys.key(id), nextNonce(), secret, [header, context])
      return Buffer.concat([header, sealed])
    },
    open(sealed, context) {
      const header = Buffer.from(sealed.subarray(0, HEADER_BYTES))
      try {
        const key = dataKeys.key(header.readUInt32BE(1))
        return decrypt(key, sealed.subarray(HEADER_BYTES), [header, context])
      } catch (cause) {
        throw new CertError('CERT_SEAL_BROKEN', 'A sealed key does not open.', { cause })
      }
    },
  }
}

/** Nonces cut from a pool: many small draws of random bytes would cost more than the cipher. */
function createNonces(randomBytes: (size: number) => Buffer): () => Buffer {
  let pool: Buffer = Buffer.alloc(0)
  return () => {
    if (pool.length === 0) pool = randomBytes(NONCE_BYTES * 256)
    const nonce = pool.subarray(0, NONCE_BYTES)
    pool = pool.subarray(NONCE_BYTES)
    return nonce
  }
}

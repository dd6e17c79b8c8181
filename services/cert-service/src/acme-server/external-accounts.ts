import { hkdfSync } from 'node:crypto'
import type { AcmeServerStore } from '@gatehouse/cert-store/port'

const KEY_BYTES = 32
/** A caller with a longer name has no ACME accounts, as its key ID would be too long for clients. */
const MAX_CALLER = 100
/** Clients read key IDs from shells, from `ID:KEY` and as names of files, and `encodeURIComponent` leaves these. */
const UNSAFE = /[!'()*~.]|^-/g

/** A key by which a client binds its account to a caller (RFC 8555 section 7.3.4). */
export interface ExternalKey {
  readonly kid: string
  /** base64url. */
  readonly hmacKey: string
}

/** Derives the keys by which ACME clients bind their accounts to callers. None of them is stored. */
export class ExternalAccounts {
  readonly #secret: Uint8Array
  readonly #store: AcmeServerStore

  /** @param secret - the same at all replicas, over all starts */
  constructor(secret: Uint8Array, store: AcmeServerStore) {
    this.#secret = secret
    this.#store = store
  }

  /** The key of a caller now; undefined if its name is too long. */
  async keyOf(caller: string): Promise<ExternalKey | undefined> {
    if (caller.length > MAX_CALLER) return undefined
    return this.#derive(caller, await this.#store.counterOf(caller))
  }

  /** Replaces the key of a caller, and ends the accounts that are not kept. */
  async renew(caller: string, kept: readonly string[]): Promise<ExternalKey | undefined> {
    if (caller.length > MAX_CALLER) return undefined
    return this.#derive(caller, await this.#store.renewExternalAccount(caller, kept))
  }

  /** The caller and the key that a key ID stands for now; undefined for one that was replaced or is nobody's. */
  async find(kid: string): Promise<{ caller: string; key: Buffer } | undefined> {
    const caller = callerOf(kid)
    if (caller === undefined) return undefined
    const current = await this.keyOf(caller)
    return current?.kid !== kid
      ? undefined
      : { caller, key: Buffer.from(current.hmacKey, 'base64url') }
  }

  #derive(caller: string, counter: number): ExternalKey {
    const kid = `${encodeURIComponent(caller).replace(UNSAFE, escaped)}-${counter}`
    // A key that begins with a hyphen would be an option to command lines.
    for (let n = 0; ; n += 1) {
      const key = hkdfSync('sha256', this.#secret, '', `${kid} ${n}`, KEY_BYTES)
      const hmacKey = Buffer.from(key).toString('base64url')
      if (!hmacKey.startsWith('-')) return { kid, hmacKey }
    }
  }
}

function escaped(character: string): string {
  return `%${character.charCodeAt(0).toString(16)}`
}

function callerOf(kid: string): string | undefined {
  const end = kid.lastIndexOf('-')
  if (end < 1 || kid.length > 10 * MAX_CALLER) return undefined
  try {
    return decodeURIComponent(kid.slice(0, end))
  } catch {
    return undefined
  }
}

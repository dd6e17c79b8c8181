import { hkdfSync } from 'node:crypto'
import type { Callers, KeyCaller } from '@gatehouse/auth-core'
import type { AcmeServerStore, AuditEntry, ServedAccount } from '@gatehouse/cert-store/port'
import { attempt } from '@gatehouse/net'

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

/** The API key of a caller, by whose value its accounts are bound. */
export interface Owner {
  /** The name of the API key. */
  readonly caller: string
  /** SHA-256 of one of its values, hex. */
  readonly boundBy: string
}

type Kept = Pick<ServedAccount, 'caller' | 'boundBy'>

/**
 * Derives the keys by which ACME clients bind their accounts to callers. None of them is stored. Each hangs on a value
 * of the API key of its caller, and is void when that is.
 * @param secret - the same at all replicas, over all starts
 */
export function externalAccountsOf(secret: Uint8Array, store: AcmeServerStore, keys: Callers) {
  function namesOf(caller: string): string[] {
    const renamed = [...keys.renamed()]
    return [caller, ...renamed.flatMap(([former, name]) => (name === caller ? [former] : []))]
  }

  function derive(caller: string, counter: number, boundBy: string): ExternalKey {
    const escaped = (character: string) => `%${character.charCodeAt(0).toString(16)}`
    const kid = `${encodeURIComponent(caller).replace(UNSAFE, escaped)}-${counter}`
    const salt = Buffer.from(boundBy, 'hex')
    // A key that begins with a hyphen would be an option to command lines.
    for (let n = 0; ; n += 1) {
      const key = hkdfSync('sha256', secret, salt, `${kid} ${n}`, KEY_BYTES)
      const hmacKey = Buffer.from(key).toString('base64url')
      if (!hmacKey.startsWith('-')) return { kid, hmacKey }
    }
  }

  /** The caller for which an account acts: the API key that has the value by which it was bound, if there is one. */
  function callerOf({ caller, boundBy }: Kept): KeyCaller | undefined {
    if (caller === null || boundBy === null) return undefined
    const present = keys.findNamed(keys.renamed().get(caller) ?? caller)
    // Another replica may know it by a name that this one is not told of yet.
    if (!present) return keys.findKey(Buffer.from(boundBy, 'hex'))
    return keys.digestsOf(present.subject).includes(boundBy) ? present : undefined
  }

  /** Whether an account has not ended: neither by itself, nor with the value of its API key. */
  function isInForce(account: Kept & Pick<ServedAccount, 'status'>): boolean {
    if (account.status !== 'valid') return false
    return account.caller === null || callerOf(account) !== undefined
  }

  return {
    callerOf,
    isInForce,
    /** The key of a caller now; undefined if its name is too long. */
    async keyOf({ caller, boundBy }: Owner): Promise<ExternalKey | undefined> {
      if (caller.length > MAX_CALLER) return undefined
      return derive(caller, await store.counterOf(namesOf(caller)), boundBy)
    },
    /** Replaces the key of a caller, and ends the accounts that are not kept. */
    async renew(
      { caller, boundBy }: Owner,
      kept: readonly string[],
      entry: AuditEntry,
    ): Promise<ExternalKey | undefined> {
      if (caller.length > MAX_CALLER) return undefined
      const replaced = { names: namesOf(caller), digests: keys.digestsOf(caller), kept }
      return derive(caller, await store.renewExternalAccount(replaced, entry), boundBy)
    },
    /** The owners and the keys that a key ID stands for now: none for one that was replaced or is nobody's. */
    async find(kid: string): Promise<readonly (Owner & { readonly key: Buffer })[]> {
      const named = nameIn(kid)
      if (named === undefined) return []
      const caller = keys.renamed().get(named) ?? named
      const digests = keys.digestsOf(caller)
      if (digests.length === 0) return []
      const counter = await store.counterOf(namesOf(caller))
      return digests.flatMap((boundBy) => {
        const derived = derive(named, counter, boundBy)
        if (derived.kid !== kid) return []
        return [{ caller, boundBy, key: Buffer.from(derived.hmacKey, 'base64url') }]
      })
    },
    /** The IDs of those accounts of certificates that have not ended. */
    async findInForce(
      holders: readonly { readonly account?: string | null | undefined }[],
    ): Promise<ReadonlySet<unknown>> {
      const ids = holders.flatMap(({ account }) => account ?? [])
      const accounts = ids.length > 0 ? await store.findAccounts(ids) : []
      return new Set(accounts.filter(isInForce).map(({ id }) => id))
    },
  }
}

function nameIn(kid: string): string | undefined {
  const end = kid.lastIndexOf('-')
  if (end < 1 || kid.length > 10 * MAX_CALLER) return undefined
  return attempt(() => decodeURIComponent(kid.slice(0, end)))
}

import { hash, randomBytes } from 'node:crypto'
import type { KeyCaller } from '@gatehouse/auth-core'
import type { SignInRecord, Store } from '@gatehouse/cert-store/port'
import { hasBegun } from '@gatehouse/issuance/times'
import { parseIp } from '@gatehouse/net'
import { LRUCache } from 'lru-cache'
import { CertError } from '../errors.ts'

const MINUTE = 60_000
const IDLE = 15 * MINUTE
const ABSOLUTE = 60 * MINUTE
/** Milliseconds after which the store learns that a session was used again. */
const USED_EVERY = MINUTE
/** Invalid keys from one network in a minute. */
const MAX_WRONG = 10
const MAX_NETWORKS = 1_000

interface SignInDeps {
  readonly store: Pick<Store, 'addSignIn' | 'touchSignIn' | 'findSignIn' | 'deleteSignIn'>
  now(): number
  /** Finds the caller whose key has this SHA-256 now. */
  findKey(sha256: Uint8Array): KeyCaller | undefined
}

interface OpenedSession {
  readonly id: string
  readonly caller: KeyCaller
}

/** The short sessions of people at the inventory, which any replica knows. */
export function signInsOf({ store, now, findKey }: SignInDeps) {
  const wrong = new LRUCache<string, { count: number; until: number }>({ max: MAX_NETWORKS })

  /**
   * Opens a session with an API key and gives its random id and the caller; undefined if the key is not
   * valid. A valid key is never refused, however many invalid ones came from its address.
   * @throws CertError `CERT_SIGN_IN_LIMITED` after too many invalid keys from a network
   */
  async function open(key: string, address: string): Promise<OpenedSession | undefined> {
    const keySha256 = hash('sha256', key, 'buffer')
    const caller = findKey(keySha256)
    if (!caller) {
      countWrong(networkOf(address))
      return undefined
    }
    const id = randomBytes(32).toString('base64url')
    const time = now()
    await store.addSignIn({ id: rowOf(id), keySha256, openedAt: time, usedAt: time })
    return { id, caller }
  }

  /**
   * Finds the caller that signed in; undefined if the session has expired or the key is no longer valid. With
   * `isUsed` false, as for a page that refreshes itself, the session stays idle.
   */
  async function find(id: string, isUsed = true): Promise<KeyCaller | undefined> {
    if (id === '') return undefined
    const session = await store.findSignIn(rowOf(id))
    if (!session) return undefined
    const time = now()
    const caller = isLive(session, time) ? findKey(session.keySha256) : undefined
    if (!caller) await store.deleteSignIn(session.id)
    else if (isUsed && time - session.usedAt > USED_EVERY) await store.touchSignIn(session.id, time)
    return caller
  }

  async function close(id: string): Promise<void> {
    if (id !== '') await store.deleteSignIn(rowOf(id))
  }

  function countWrong(network: string): void {
    const time = now()
    const attempts = wrong.get(network)
    // Setting the clock back refuses nobody for longer.
    const isRecent = attempts && attempts.until > time && attempts.until <= time + MINUTE
    const { count, until } = isRecent ? attempts : { count: 0, until: time + MINUTE }
    wrong.set(network, { count: count + 1, until })
    if (count < MAX_WRONG) return
    const retryAfter = Math.ceil((until - time) / 1_000)
    const detail = `try again in ${retryAfter} seconds`
    throw new CertError('CERT_SIGN_IN_LIMITED', detail, { retryAfter })
  }

  return { open, find, close }
}

/** A session that a clock ahead of time opened has no known age, so it ends. */
function isLive({ openedAt, usedAt }: SignInRecord, now: number): boolean {
  const isFromFuture = !hasBegun({ notBefore: usedAt }, now)
  return !isFromFuture && now < Math.min(openedAt + ABSOLUTE, usedAt + IDLE)
}

/** The store does not have the ids that browsers send. */
function rowOf(id: string): string {
  return hash('sha256', id)
}

/** An IPv4 address, or the /64 of an IPv6 address, all of which belongs to one network. */
function networkOf(address: string): string {
  const ip = parseIp(address)
  return ip?.version === 6 ? String(ip.bytes.subarray(0, 8)) : (ip?.text ?? address)
}

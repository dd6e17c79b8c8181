import { hash, randomBytes } from 'node:crypto'
import type { KeyCaller } from '@gatehouse/auth-core'
import { parseIp } from '@gatehouse/net'
import { LRUCache } from 'lru-cache'
import { CertError } from './errors.ts'
import { hasBegun } from './issuers/issuer.ts'

const MINUTE = 60_000
const IDLE = 15 * MINUTE
const ABSOLUTE = 60 * MINUTE
const MAX_SESSIONS = 1_000
/** Invalid keys from one network in a minute. */
const MAX_WRONG = 10
const MAX_NETWORKS = 1_000

interface Session {
  readonly keySha256: Uint8Array
  readonly openedAt: number
  usedAt: number
}

interface SignInDeps {
  now(): number
  /** The caller whose key has this SHA-256 now. */
  findKey(sha256: Uint8Array): KeyCaller | undefined
}

/** The short sessions of people at the inventory, in memory only. */
export class SignIns {
  readonly #deps: SignInDeps
  /** By the hash of their ids, so that neither memory nor the time of a look-up reveals an id. */
  readonly #sessions = new LRUCache<string, Session>({ max: MAX_SESSIONS })
  readonly #wrong = new LRUCache<string, { count: number; until: number }>({ max: MAX_NETWORKS })

  constructor(deps: SignInDeps) {
    this.#deps = deps
  }

  /**
   * Opens a session with an API key and returns its random id; undefined if the key is not valid. A
   * valid key is never refused, however many invalid ones came from its address.
   * @throws CertError `CERT_SIGN_IN_LIMITED` after too many invalid keys from a network
   */
  open(key: string, address: string): string | undefined {
    const keySha256 = hash('sha256', key, 'buffer')
    if (!this.#deps.findKey(keySha256)) {
      this.#countWrong(networkOf(address))
      return undefined
    }
    const id = randomBytes(32).toString('base64url')
    const at = this.#deps.now()
    this.#sessions.set(hash('sha256', id), { keySha256, openedAt: at, usedAt: at })
    return id
  }

  /** The caller that signed in; undefined if the session has expired or the key is no longer valid. */
  find(id: string): KeyCaller | undefined {
    const name = hash('sha256', id)
    const session = this.#sessions.get(name)
    if (!session) return undefined
    const now = this.#deps.now()
    const caller = isLive(session, now) ? this.#deps.findKey(session.keySha256) : undefined
    if (caller) session.usedAt = now
    else this.#sessions.delete(name)
    return caller
  }

  close(id: string): void {
    this.#sessions.delete(hash('sha256', id))
  }

  #countWrong(network: string): void {
    const now = this.#deps.now()
    const known = this.#wrong.get(network)
    // Setting the clock back refuses nobody for longer.
    const isRecent = known && known.until > now && known.until <= now + MINUTE
    const { count, until } = isRecent ? known : { count: 0, until: now + MINUTE }
    this.#wrong.set(network, { count: count + 1, until })
    if (count < MAX_WRONG) return
    const retryAfter = Math.ceil((until - now) / 1_000)
    const detail = `try again in ${retryAfter} seconds`
    throw new CertError('CERT_SIGN_IN_LIMITED', detail, { retryAfter })
  }
}

/** A session that a clock ahead of time opened has no known age, so it ends. */
function isLive({ openedAt, usedAt }: Session, now: number): boolean {
  const isFromFuture = !hasBegun({ notBefore: usedAt }, now)
  return !isFromFuture && now < Math.min(openedAt + ABSOLUTE, usedAt + IDLE)
}

/** An IPv4 address, or the /64 of an IPv6 address, all of which belongs to one network. */
function networkOf(address: string): string {
  const ip = parseIp(address)
  return ip?.version === 6 ? String(ip.bytes.subarray(0, 8)) : (ip?.text ?? address)
}

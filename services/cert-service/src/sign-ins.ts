import { hash, randomBytes } from 'node:crypto'
import type { KeyCaller } from '@gatehouse/auth-core'
import { parseIp } from '@gatehouse/net'
import { LRUCache } from 'lru-cache'
import { hasBegun } from './clocks.ts'
import { CertError } from './errors.ts'

const MINUTE = 60_000
const IDLE = 15 * MINUTE
const ABSOLUTE = 60 * MINUTE
const MAX_SESSIONS = 1_000
/** Keys that are not valid, from one network in a minute. */
const MAX_WRONG = 10
const MAX_NETWORKS = 1_000

/** The short sessions of people who look at the inventory; they live in memory only. */
export interface SignIns {
  /**
   * Opens a session with an API key and gives its random id; undefined when the key is nobody's. A
   * valid key is never refused, however many wrong ones came from its address.
   *
   * @throws CertError `CERT_SIGN_IN_LIMITED` for one wrong key too many from an address
   */
  open(key: string, address: string): string | undefined
  /** Who signed in; undefined once that was too long ago, or the key is no longer that person's. */
  find(id: string): KeyCaller | undefined
  close(id: string): void
}

interface Session {
  readonly keySha256: Uint8Array
  readonly openedAt: number
  usedAt: number
}

/** @param findKey - whose the key with this SHA-256 is now */
export function createSignIns(
  now: () => number,
  findKey: (sha256: Uint8Array) => KeyCaller | undefined,
): SignIns {
  const sessions = new LRUCache<string, Session>({ max: MAX_SESSIONS })
  const wrong = new LRUCache<string, { count: number; until: number }>({ max: MAX_NETWORKS })

  /** Whoever reads the memory, or times a look-up, learns no id. */
  const nameOf = (id: string) => hash('sha256', id)

  /** Counts a wrong key. */
  function refuseTooMany(network: string): void {
    const known = wrong.get(network)
    // Nobody is refused for longer because the clock was set back.
    const isRecent = known && known.until > now() && known.until <= now() + MINUTE
    const { count, until } = isRecent ? known : { count: 0, until: now() + MINUTE }
    wrong.set(network, { count: count + 1, until })
    if (count < MAX_WRONG) return
    const retryAfter = Math.ceil((until - now()) / 1_000)
    throw new CertError('CERT_SIGN_IN_LIMITED', `try again in ${retryAfter} seconds`, {
      retryAfter,
    })
  }

  return {
    open(key, address) {
      const keySha256 = hash('sha256', key, 'buffer')
      if (!findKey(keySha256)) {
        refuseTooMany(networkOf(address))
        return undefined
      }
      const id = randomBytes(32).toString('base64url')
      sessions.set(nameOf(id), { keySha256, openedAt: now(), usedAt: now() })
      return id
    },
    find(id) {
      const session = sessions.get(nameOf(id))
      if (!session) return undefined
      const caller = isLive(session, now()) ? findKey(session.keySha256) : undefined
      if (caller) session.usedAt = now()
      else sessions.delete(nameOf(id))
      return caller
    },
    close: (id) => void sessions.delete(nameOf(id)),
  }
}

/** A session of a clock that was ahead ends with that clock: nobody knows how old it is. */
function isLive({ openedAt, usedAt }: Session, now: number): boolean {
  const isFromFuture = !hasBegun({ notBefore: usedAt }, now)
  return !isFromFuture && now < Math.min(openedAt + ABSOLUTE, usedAt + IDLE)
}

/** An IPv4 address, or the first half of an IPv6 one: whoever has one of those has all below it. */
function networkOf(address: string): string {
  const ip = parseIp(address)
  return ip?.version === 6 ? String(ip.bytes.subarray(0, 8)) : (ip?.text ?? address)
}

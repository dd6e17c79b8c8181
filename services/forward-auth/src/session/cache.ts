import { LRUCache } from 'lru-cache'
import type { Session } from './session.ts'

const MAX_SESSIONS = 50_000
/** Characters of tokens; a session takes some three bytes for each. */
const MAX_CHARACTERS = 33_554_432
const TAIL_LENGTH = 32

/** Sessions whose token was verified, by their token. */
export interface SessionCache {
  get(token: string): Session | undefined
  keep(session: Session): Session
}

/**
 * Makes a cache, bounded by number and size. The end of the signature finds the entry and the whole
 * token decides: hashing all of it would cost more than the rest of a hit.
 */
export function createSessionCache(): SessionCache {
  const known = new LRUCache<string, Session>({
    max: MAX_SESSIONS,
    maxSize: MAX_CHARACTERS,
    sizeCalculation: ({ token }) => token.length,
  })
  return {
    get(token) {
      const session = known.get(token.slice(-TAIL_LENGTH))
      return session?.token === token ? session : undefined
    },
    keep(session) {
      known.set(session.token.slice(-TAIL_LENGTH), session)
      return session
    },
  }
}

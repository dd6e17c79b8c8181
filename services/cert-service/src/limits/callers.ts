import { LRUCache } from 'lru-cache'
import type { Requester } from '../audit.ts'
import type { CallerLimits } from '../config/schema.ts'
import { CertError } from '../errors.ts'
import type { CertificateRequest } from '../issuance/request.ts'
import type { Store } from '../store/store.ts'
import { emptyAt, freeAt, type Limit, left, take } from './bucket.ts'

/** Who asked lately; whoever is forgotten has a full bucket again. */
const MAX_CALLERS = 10_000
const MINUTE = 60_000
const DAY = 86_400_000

/** Keeps what a caller may cost within bounds. */
export interface CallerGate {
  /**
   * Lets a caller have something issued, or refuses. What it gives is to be called once the
   * certificate is stored, or is not to come.
   *
   * @throws CertError `CERT_CALLER_LIMITED`
   */
  admit(request: CertificateRequest, by: Requester, isRenewal: boolean): Promise<() => void>
  /** Counts what was let through before a restart; gives what is to be called as that of `admit`. */
  resume(request: CertificateRequest, askedBy: string): () => void
}

interface GateDeps {
  readonly store: Pick<Store, 'countNames' | 'countKeysHeld'>
  limits(): CallerLimits
  now(): number
}

export function createCallerGate({ store, limits, now }: GateDeps): CallerGate {
  const buckets = new LRUCache<string, number>({ max: MAX_CALLERS })
  /** At most so many names are in use: as counted last, and what was let through since. */
  const known = new LRUCache<string, { names: number; at: number }>({ max: MAX_CALLERS })
  const underway = { names: createTally(), held: createTally() }

  function takeOne(actor: string, kind: string, limit: Limit): void {
    const at = now()
    // A clock that was set back finds the bucket empty at worst.
    const fullAt = Math.min(buckets.get(actor) ?? 0, emptyAt(limit, at))
    buckets.set(actor, fullAt)
    if (left(fullAt, limit, at) < 1)
      refuse(
        `${kind}.issuancesPerMinute`,
        'too many certificates at once',
        freeAt(fullAt, limit, 1) - at,
      )
    buckets.set(actor, take(fullAt, limit, at))
  }

  /** There is room for one more: for a CSR, whose certificate takes the place of another one for a CSR, too. */
  async function checkName(domain: string, isHeld: boolean): Promise<void> {
    const { certificates } = limits().perName
    const stored = await store.countKeysHeld(domain, now())
    const others = stored.certificates + underway.held.of(domain) - (isHeld ? 1 : 0)
    if (others < certificates) return
    const why = `${certificates} certificates are live whose first name is ${domain}`
    refuse('perName.certificates', why, untilOf(stored.until))
  }

  /** A count reads every row of the caller, so there is one only where the bound is near. */
  async function checkNames(
    actor: string,
    kind: string,
    wanted: number,
    allowed: number,
  ): Promise<void> {
    const at = now()
    const before = known.get(actor)
    // Where the clock was set back, certificates that had ended count again.
    if (before && before.at <= at && before.names + wanted <= allowed) {
      known.set(actor, { names: before.names + wanted, at })
      return
    }
    const stored = await store.countNames(actor, at)
    const names = stored.names + underway.names.of(actor)
    if (names <= allowed) {
      known.set(actor, { names, at })
      return
    }
    const why = `${stored.names} of ${allowed} names are in use, and this takes ${wanted}`
    refuse(`${kind}.names`, why, untilOf(stored.until))
  }

  function untilOf(until: number | null): number {
    return Math.min(DAY, Math.max(MINUTE, (until ?? 0) - now()))
  }

  function reserve(actor: string, domain: string, names: number, isHeld: boolean): () => void {
    const ends = [underway.names.add(actor, names), underway.held.add(domain, isHeld ? 1 : 0)]
    return () => {
      for (const end of ends) end()
    }
  }

  return {
    resume({ names, csr }, askedBy) {
      known.delete(askedBy)
      return reserve(askedBy, names[0]?.text ?? '', names.length, csr === null)
    },
    async admit({ names, csr }, { actor, isOperator = false }, isRenewal) {
      const { perCaller, perOperator } = limits()
      const mine = isOperator ? perOperator : perCaller
      const kind = isOperator ? 'perOperator' : 'perCaller'
      if (isRenewal) {
        if (mine) takeOne(actor, kind, limitOf(mine))
        return () => {}
      }
      const domain = names[0]?.text ?? ''
      // Before anything is looked up, so that requests at the same time see each other.
      const release = reserve(actor, domain, names.length, csr === null)
      try {
        await checkName(domain, csr === null)
        if (mine) await checkNames(actor, kind, names.length, mine.names)
        if (mine) takeOne(actor, kind, limitOf(mine))
        return release
      } catch (error) {
        release()
        throw error
      }
    },
  }
}

const limitOf = ({ issuancesPerMinute, burst }: CallerLimits['perCaller']): Limit => ({
  count: burst,
  per: (burst / issuancesPerMinute) * MINUTE,
})

function refuse(limit: string, why: string, waitMs: number): never {
  const retryAfter = Math.max(1, Math.ceil(waitMs / 1_000))
  throw new CertError('CERT_CALLER_LIMITED', why, { retryAfter, members: { limit } })
}

/** How much is under way for each key. */
function createTally() {
  const counts = new Map<string, number>()
  const change = (key: string, by: number) => {
    const count = (counts.get(key) ?? 0) + by
    if (count > 0) counts.set(key, count)
    else counts.delete(key)
  }
  return {
    of: (key: string) => counts.get(key) ?? 0,
    /** Gives what takes it back. */
    add(key: string, count: number): () => void {
      change(key, count)
      return () => change(key, -count)
    },
  }
}

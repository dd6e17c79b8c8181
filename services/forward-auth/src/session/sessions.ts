import { randomBytes } from 'node:crypto'
import { createVerifier, localSource } from '@gatehouse/auth-core'
import type { Clock } from '@gatehouse/service-kit'
import { FwaError } from '../errors.ts'
import type { Portal } from '../portals.ts'
import type { Sites } from '../sites.ts'
import { portalUrl } from '../sites.ts'
import { clearToken, MAX_TOKEN_LENGTH, readToken, writeToken } from './cookie.ts'
import { findingsAt } from './findings.ts'
import type { Keys } from './keys.ts'
import { openRevocations } from './revocations.ts'
import type { Session, Sessions } from './session.ts'
import { type Issuer, readSession, SESSION_TYPE, signSession } from './token.ts'

/** How far the clocks of instances may differ, in ms; as the verifier has it. */
const MAX_SKEW = 30_000

/** What sessions are made of; keys and portals are other objects after a reload. */
export interface SessionDeps {
  readonly keys: () => Keys
  readonly portals: () => ReadonlyMap<string, Portal>
  readonly sites: Pick<Sites, 'all'>
  /** Where the list of ended sessions is kept. */
  readonly folder: string
  readonly clock: Clock
  /** Milliseconds on a clock that nobody sets; default: that of the process. */
  readonly monotonic?: (() => number) | undefined
  readonly log: { error(fields: object, message: string): void }
}

/**
 * Opens {@link Sessions}: signed tokens, and a list of those that were ended early.
 *
 * @throws FwaError FWA_STORE_UNAVAILABLE
 */
export function createSessions(deps: SessionDeps): Sessions {
  const { keys, portals, sites, clock } = deps
  const revocations = openRevocations(deps)
  let reader: Reader | undefined

  /** Another one after a reload, so that nothing is known of what was removed. */
  function currentReader(): Reader {
    if (!reader?.isOf(keys(), portals())) reader = createReader(keys(), portals(), sites, clock)
    return reader
  }

  /** A long list is slow to search, and between most checks nobody has signed out. */
  function isRevoked(session: Session): boolean {
    const learned = revocations.learned()
    if (session.unrevokedAt === learned) return false
    if (revocations.has(session, session.unrevokedAt)) return true
    session.unrevokedAt = learned
    return false
  }

  function verify(portal: Portal, token: string): Session | undefined {
    const session = currentReader().read(token)
    const holds =
      session?.portal === portal.name &&
      isCurrent(session, clock.now()) &&
      findingsAt(portal, session).provider !== undefined &&
      !isRevoked(session)
    return holds ? session : undefined
  }

  return {
    verify,
    read(portal, site, cookieHeader) {
      const token = cookieHeader === undefined ? undefined : readToken(cookieHeader, portal)
      const session = token === undefined ? undefined : verify(portal, token)
      return session?.site.domain === site.domain ? session : undefined
    },
    create(portal, site, profile, cookieHeader, sign) {
      const sid = randomBytes(16).toString('base64url')
      const iat = Math.floor(clock.now() / 1_000)
      const generation = revocations.nextGeneration({ portal: portal.name, profile })
      const login = { portal, site, profile, sid, iat, generation }
      const token = signSession(sign, keys().session.first, login)
      if (token.length > MAX_TOKEN_LENGTH) throw tooLarge(profile.provider, token.length)
      const session = verify(portal, token)
      if (!session) throw new Error('a session that was just made cannot be read')
      const maxAge = session.exp * 1_000 - clock.now()
      return { session, setCookies: writeToken(token, portal, site, cookieHeader, maxAge) }
    },
    revoke: revocations.add,
    clear: clearToken,
    storeIsUp: revocations.storeIsUp,
    close: revocations.close,
  }
}

/** By the clock as it is now: what was read before may have been read by a clock that was wrong. */
function isCurrent({ iat, exp }: Session, now: number): boolean {
  return iat * 1_000 - MAX_SKEW <= now && now < exp * 1_000
}

/** Reads tokens with one set of keys and portals. */
interface Reader {
  isOf(keys: Keys, portals: ReadonlyMap<string, Portal>): boolean
  /** The session of a token that is ours, whether or not it still holds. */
  read(token: string): Session | undefined
}

function createReader(
  keys: Keys,
  portals: ReadonlyMap<string, Portal>,
  { all }: SessionDeps['sites'],
  clock: Clock,
): Reader {
  const issuers = [...portals.values()].flatMap((portal) =>
    all.map((site): Issuer => ({ portal, site, issuer: portalUrl(site, portal, '') })),
  )
  const byName = new Map(issuers.map((each) => [each.issuer, each]))
  const verify = createVerifier(
    issuers.map(({ issuer, site }) =>
      localSource({ issuer, audience: [site.domain], typ: SESSION_TYPE, keys: keys.session.all }),
    ),
    clock.now,
    // The verifier knows no other issuers.
    (caller, token) => readSession(token, byName.get(caller.issuer) as Issuer, caller),
  )

  return {
    isOf: (otherKeys, otherPortals) => otherKeys === keys && otherPortals === portals,
    read(token) {
      try {
        // Local keys: never a promise.
        return verify(token) as Session
      } catch {
        return undefined
      }
    },
  }
}

function tooLarge(provider: string, length: number): FwaError {
  return new FwaError(
    'FWA_SESSION_TOO_LARGE',
    `what ${provider} tells of you makes a session of ${length} characters; ${MAX_TOKEN_LENGTH} fit`,
  )
}

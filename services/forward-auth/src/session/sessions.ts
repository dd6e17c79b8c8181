import { randomBytes } from 'node:crypto'
import { createVerifier, localSource } from '@gatehouse/auth-core'
import type { Clock } from '@gatehouse/service-kit'
import { FwaError } from '../errors.ts'
import { type Portal, portalUrl } from '../portal.ts'
import type { Sites } from '../sites.ts'
import { clearToken, MAX_TOKEN_LENGTH, readToken, writeToken } from './cookie.ts'
import type { Keys } from './keys.ts'
import { openRevocations } from './revocations.ts'
import type { Session, Sessions } from './session.ts'
import { readSession, SESSION_TYPE, signSession } from './token.ts'

/** What sessions are made of; keys and portals are other objects after a reload. */
export interface SessionDeps {
  readonly keys: () => Keys
  readonly portals: () => ReadonlyMap<string, Portal>
  readonly sites: Pick<Sites, 'all'>
  /** Where the list of ended sessions is kept. */
  readonly folder: string
  readonly clock: Clock
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
  function isRevoked(known: Known): boolean {
    const learned = revocations.learned()
    if (known.unrevokedAt === learned) return false
    if (revocations.has(known.session.sid)) return true
    known.unrevokedAt = learned
    return false
  }

  function verify(portal: Portal, token: string): Session | undefined {
    const known = currentReader().read(token)
    if (!known) return undefined
    const { session } = known
    const holds =
      session.portal === portal.name &&
      clock.now() < session.expiresAt &&
      portal.providers.has(session.profile.provider) &&
      !isRevoked(known)
    return holds ? session : undefined
  }

  return {
    verify,
    read(portal, site, cookieHeader) {
      const token = cookieHeader === undefined ? undefined : readToken(cookieHeader, portal)
      const session = token === undefined ? undefined : verify(portal, token)
      return session?.domain === site.domain ? session : undefined
    },
    create(portal, site, profile, cookieHeader, sign) {
      const sid = randomBytes(16).toString('base64url')
      const login = { portal, site, profile, sid, now: clock.now() }
      const token = signSession(sign, keys().session.first, login)
      if (token.length > MAX_TOKEN_LENGTH) throw tooLarge(profile.provider, token.length)
      const session = verify(portal, token)
      if (!session) throw new Error('a session that was just made cannot be read')
      const maxAge = session.expiresAt - clock.now()
      return { session, setCookies: writeToken(token, portal, site, cookieHeader, maxAge) }
    },
    revoke: ({ sid, expiresAt }) => revocations.add(sid, expiresAt),
    clear: clearToken,
    storeIsUp: revocations.storeIsUp,
    close: revocations.close,
  }
}

interface Known {
  readonly session: Session
  /** What `Revocations.learned` said when the session was last looked for there. */
  unrevokedAt: number
}

/** Reads tokens with one set of keys and portals. */
interface Reader {
  isOf(keys: Keys, portals: ReadonlyMap<string, Portal>): boolean
  /** The session of a token that is ours, whether or not it still holds. */
  read(token: string): Known | undefined
}

function createReader(
  keys: Keys,
  portals: ReadonlyMap<string, Portal>,
  { all }: SessionDeps['sites'],
  clock: Clock,
): Reader {
  const places = [...portals.values()].flatMap((portal) =>
    all.map((site) => ({ portal: portal.name, site, issuer: portalUrl(site, portal, '') })),
  )
  const portalOf = new Map(places.map(({ issuer, portal }) => [issuer, portal]))
  const verify = createVerifier(
    places.map(({ issuer, site }) =>
      localSource({ issuer, audience: [site.domain], typ: SESSION_TYPE, keys: keys.session.all }),
    ),
    clock.now,
    (caller, token): Known => {
      const session = readSession(token, portalOf.get(caller.issuer) ?? '', caller)
      return { session, unrevokedAt: -1 }
    },
  )

  return {
    isOf: (otherKeys, otherPortals) => otherKeys === keys && otherPortals === portals,
    read(token) {
      try {
        // Local keys: never a promise.
        return verify(token) as Known
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

import { randomBytes } from 'node:crypto'
import jwt, { type JWT } from '@fastify/jwt'
import { fromClaims, type Profile } from '@gatehouse/profile'
import type { DecodedJwt } from 'fast-jwt'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import { FwaError } from '../errors.ts'
import { isSigned } from '../key-ring.ts'
import type { PortalSite } from '../portal-site.ts'
import type { Portal } from '../portals.ts'
import { pageUrl, type Site } from '../sites.ts'
import type { Revocation } from '../store/store.ts'
import { MAX_TOKEN_LENGTH, readSessionCookie } from './cookie.ts'
import { personOf } from './ended-sessions.ts'
import { Revocations } from './revocations.ts'
import type { Session } from './session.ts'
import { Visitor } from './visitor.ts'

/** Header `typ` of session tokens: nothing else that is signed passes for one. */
export const SESSION_TYPE = 'gatehouse-session+jwt'
/** The largest difference between the clocks of instances, in ms. */
export const MAX_SKEW = 30_000
/** A compact JWS (RFC 7515 section 7.1) whose signature has the 256 bits of HS256. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]{43}$/
/**
 * Bytes of memory for sessions: about 60,000 with tokens of 880 characters. Others are verified at each
 * check.
 */
const CACHE_BYTES = 134_217_728
/** Bytes that a session takes besides its token and the claims in it. */
const SESSION_BYTES = 500

declare module 'fastify' {
  interface FastifyInstance {
    readonly sessions: Sessions
  }
}

/** Claims of a session token: those of the person, as in an ID token, and our own. */
interface SessionClaims extends Record<string, unknown> {
  readonly iss: string
  readonly aud: string
  readonly sid: string
  /** NumericDates, in seconds. */
  readonly iat: number
  readonly nbf: number
  readonly exp: number
  readonly gatehouse_provider: string
  readonly gatehouse_generation?: number
}
const REQUIRED = ['iss', 'aud', 'sub', 'sid', 'iat', 'nbf', 'exp', 'gatehouse_provider']

/** The sessions of all portals: signed tokens, and a list of those that were revoked early. */
class Sessions {
  readonly #app: FastifyInstance
  readonly #jwt: JWT
  readonly #revocations: Revocations
  readonly #visitors = new LRUCache<string, Visitor>({
    maxSize: CACHE_BYTES,
    sizeCalculation: (_visitor, token) => 2 * token.length + SESSION_BYTES,
  })

  constructor(app: FastifyInstance, jwt: JWT, revocations: Revocations) {
    this.#app = app
    this.#jwt = jwt
    this.#revocations = revocations
  }

  /**
   * The person of the session in the cookies of a request, if the session may be used from its address.
   *
   * @throws FwaError FWA_STORE_STALE as {@link read}
   */
  async visitor(request: FastifyRequest, at: PortalSite): Promise<Visitor | undefined> {
    const visitor = await this.read(request, at)
    return visitor?.isAllowedAt(() => this.#app.trust.clientIp(request.raw)) ? visitor : undefined
  }

  /**
   * The session in the cookies of a request: of this portal and site, not expired, not revoked, and
   * of a provider that the portal has. A token that was seen before costs a lookup.
   *
   * @throws FwaError FWA_STORE_STALE if there is one, and nobody knows whether it was revoked
   */
  async read(request: FastifyRequest, at: PortalSite): Promise<Visitor | undefined> {
    return this.#current(await this.#inCookies(request, at))
  }

  /**
   * The session to sign out: as `read`, but also one that another instance may have revoked, and one whose
   * revocation here is not stored yet, so that nobody is told that it is.
   */
  async readToRevoke(request: FastifyRequest, at: PortalSite): Promise<Visitor | undefined> {
    const visitor = await this.#inCookies(request, at)
    if (!visitor || !this.#isInTime(visitor.session)) return undefined
    return this.#revocations.isStored(visitor.session) ? undefined : visitor
  }

  /**
   * The person of a session token of a portal.
   *
   * @throws FwaError FWA_STORE_STALE as {@link read}
   */
  async verify(portal: Portal, token: string): Promise<Visitor | undefined> {
    return this.#current(await this.#find(portal, token))
  }

  /**
   * Whether a session of a person has ended, as {@link EndedSessions.hasAny} says.
   *
   * @throws FwaError FWA_STORE_STALE as {@link read}
   */
  hasEnded(person: string, isMeant: (sid: string) => boolean): boolean {
    const hasEnded = this.#revocations.ended.hasAny(person, isMeant)
    if (!hasEnded) this.#assertFresh()
    return hasEnded
  }

  #assertFresh(): void {
    const error = this.#app.authStore.staleness?.()
    if (error) throw error
  }

  /** Learns what other instances have ended until now. A range must not include what is created next. */
  catchUp(): Promise<void> {
    return this.#app.authStore.catchUp()
  }

  create(portal: Portal, site: Site, profile: Profile): Session {
    const { kid, secret: key } = this.#app.keys.session.first
    const iat = Math.floor(this.#app.clock.now() / 1_000)
    const generation = this.#revocations.ended.nextGeneration(personOf(portal.name, profile))
    const claims = {
      ...profile.claims,
      iss: pageUrl({ portal, site }, ''),
      aud: site.domain,
      sub: profile.id,
      sid: randomBytes(16).toString('base64url'),
      iat,
      nbf: iat,
      exp: iat + Math.floor(portal.sessionLifetime / 1_000),
      gatehouse_provider: profile.provider,
      // Present even without a value, so that a claim of the provider cannot take its place.
      gatehouse_generation: generation === 0 ? undefined : generation,
    }
    const token = this.#jwt.sign(claims, { key, kid })
    if (token.length > MAX_TOKEN_LENGTH)
      throw new FwaError(
        'FWA_SESSION_TOO_LARGE',
        `what ${profile.provider} shares of you makes a session of ${token.length} characters; ${MAX_TOKEN_LENGTH} fit`,
      )
    const { payload } = this.#jwt.decode<{ payload: SessionClaims }>(token) ?? {}
    if (!payload) throw new Error('the new session token cannot be decoded')
    const session = readSession(token, portal, site, payload)
    this.#remember(session, portal)
    return session
  }

  /**
   * Revokes a session, on this instance at once. When the promise resolves, the revocation is
   * permanent and known to all workers, and reaches every instance on the same store within a second.
   *
   * @param onRange - called if the person has ended so many sessions that all in between end too
   */
  revoke(session: Session, onRange?: () => void): Promise<void> {
    return this.#revocations.add(session, onRange)
  }

  clear(): void {
    this.#visitors.clear()
  }

  async #inCookies(
    { headers: { cookie } }: FastifyRequest,
    { portal, site }: PortalSite,
  ): Promise<Visitor | undefined> {
    const token = cookie === undefined ? undefined : readSessionCookie(cookie, portal)
    if (token === undefined) return undefined
    const visitor = await this.#find(portal, token)
    return visitor?.session.site.domain === site.domain ? visitor : undefined
  }

  #find(portal: Portal, token: string) {
    const known = this.#visitors.get(token)
    // A reload replaces the portals.
    if (known?.portal === portal) return known
    if (token.length > MAX_TOKEN_LENGTH || !TOKEN.test(token)) return undefined
    return isSigned(token, this.#app.keys.session) ? this.#verifyToken(portal, token) : undefined
  }

  /** Checks what @fastify/jwt does not know: whose token it is, and the clock of the service. */
  async #verifyToken(portal: Portal, token: string): Promise<Visitor | undefined> {
    const { sites, log } = this.#app
    try {
      const claims = await this.#jwt.verify<SessionClaims>(token)
      const site = sites.all.find(({ domain }) => domain === claims.aud)
      if (!site || claims.iss !== pageUrl({ portal, site }, '')) return undefined
      if (!hasTimes(claims) || !this.#isInTime(claims)) return undefined
      // A copy, since the token may be a slice that keeps the whole Cookie header in memory.
      const copy = Buffer.from(token).toString()
      return this.#remember(readSession(copy, portal, site, claims), portal)
    } catch (error) {
      // Signed with our key, but for something else.
      log.debug({ err: error }, 'session token refused')
      return undefined
    }
  }

  #remember(session: Session, portal: Portal): Visitor | undefined {
    const provider = portal.providers.get(session.profile.provider)
    if (!provider) return undefined
    const visitor = new Visitor(session, portal, provider)
    this.#visitors.set(session.token, visitor)
    return visitor
  }

  #current(visitor: Visitor | undefined): Visitor | undefined {
    if (!visitor || !this.#isInTime(visitor.session)) return undefined
    if (this.#revocations.ended.has(visitor.session)) return undefined
    this.#assertFresh()
    return visitor
  }

  /** Compares with the clock as it is now, which may have been set since the token was verified. */
  #isInTime({ iat, exp }: Pick<Session, 'iat' | 'exp'>): boolean {
    const now = this.#app.clock.now()
    return now >= iat * 1_000 - MAX_SKEW && now < exp * 1_000
  }
}

/** Whether the times are numbers, and the session begins when it was issued. */
function hasTimes({ iat, nbf, exp }: SessionClaims): boolean {
  return Number.isFinite(iat) && Number.isFinite(exp) && nbf === iat
}

function readSession(
  token: string,
  portal: Portal,
  site: Site,
  { gatehouse_provider: provider, gatehouse_generation, ...claims }: SessionClaims,
): Session {
  const profile = fromClaims(provider, claims)
  Object.freeze(profile.claims)
  return Object.freeze({
    sid: claims.sid,
    portal: portal.name,
    issuer: claims.iss,
    site,
    profile: Object.freeze(profile),
    person: personOf(portal.name, profile),
    token,
    iat: claims.iat,
    exp: claims.exp,
    generation: gatehouse_generation ?? 0,
  })
}

export const sessions = fp(
  async (app: FastifyInstance) => {
    await app.register(jwt, {
      namespace: 'session',
      decoratorName: 'sessionClaims',
      decode: { complete: true },
      secret: {
        private: async () => app.keys.session.first.secret,
        public: async ({ header: { kid } }: DecodedJwt) => {
          const key = app.keys.session.all.find((each) => each.kid === kid)
          if (!key) throw new Error('the token is signed with an unknown key')
          return key.secret
        },
      },
      sign: { algorithm: 'HS256', header: { alg: 'HS256', typ: SESSION_TYPE } },
      verify: {
        algorithms: ['HS256'],
        checkTyp: SESSION_TYPE,
        requiredClaims: REQUIRED,
        // The times are compared with the clock of the service.
        ignoreExpiration: true,
        ignoreNotBefore: true,
      },
    })
    const jwts = app.jwt as unknown as Record<'session', JWT>
    const { workers } = app
    const share = (rows: readonly Revocation[]) => workers.broadcast('revoked', rows)
    const revocations = new Revocations(app.authStore, share)
    // Before the store is read, so that none is missed.
    workers.onBroadcast<readonly Revocation[]>('revoked', (rows) => revocations.learn(rows))
    await revocations.open()
    app.addHook('onClose', () => revocations.close())
    app.addHealthCheck(() => app.authStore.health())
    app.decorate('sessions', new Sessions(app, jwts.session, revocations))
    app.onReload(() => () => app.sessions.clear())
  },
  {
    fastify: '5.x',
    name: 'forward-auth/sessions',
    dependencies: [
      'forward-auth/trust',
      'forward-auth/keys',
      'forward-auth/sites',
      'forward-auth/store',
      'service-kit/clock',
      'service-kit/health',
      'service-kit/workers',
      'service-kit/reload',
    ],
  },
)

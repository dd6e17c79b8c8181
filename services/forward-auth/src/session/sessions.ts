import { randomBytes } from 'node:crypto'
import jwt, { type FastifyJwtNamespace, type JWT, type TokenOrHeader } from '@fastify/jwt'
import { fromClaims, type Profile } from '@gatehouse/profile'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import { Visitor } from '../check/visitor.ts'
import type { ForwardAuthConfig } from '../config/schema.ts'
import { FwaError } from '../errors.ts'
import type { Portal } from '../portals.ts'
import { portalUrl, type Site } from '../sites.ts'
import { MAX_TOKEN_LENGTH, readSessionCookie } from './cookie.ts'
import { personOf } from './ended-sessions.ts'
import type { Keys } from './keys.ts'
import { Revocations } from './revocations.ts'
import type { Session } from './session.ts'

/** Header `typ` of session tokens: nothing else that is signed passes for one. */
export const SESSION_TYPE = 'gatehouse-session+jwt'
/** How far the clocks of instances may differ, in ms. */
export const MAX_SKEW = 30_000
/** A compact JWS (RFC 7515 section 7.1) whose signature has the 256 bits of HS256. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]{43}$/
const CACHE_ENTRIES = 50_000
/** A session takes about three bytes of memory for each character of its token. */
const CACHE_CHARACTERS = 33_554_432

declare module 'fastify' {
  interface FastifyInstance {
    readonly sessions: Sessions
  }
  interface FastifyRequest extends FastifyJwtNamespace<{ namespace: 'session' }> {
    /** The session token of the request, its cookie chunks joined; not verified. */
    sessionToken: string | undefined
  }
}

/** Claims of a session token: those of the person, as in an ID token, and our own. */
interface SessionClaims extends Record<string, unknown> {
  readonly iss: string
  readonly aud: string
  readonly sid: string
  readonly iat: number
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
    max: CACHE_ENTRIES,
    maxSize: CACHE_CHARACTERS,
    sizeCalculation: (_visitor, token) => token.length,
  })

  constructor(app: FastifyInstance, jwt: JWT, revocations: Revocations) {
    this.#app = app
    this.#jwt = jwt
    this.#revocations = revocations
  }

  /**
   * The session in the cookies of a request: of this portal and site, not expired, not revoked, and
   * of a provider that the portal has. A token that was seen before costs a lookup.
   */
  async read(request: FastifyRequest, portal: Portal, site: Site): Promise<Visitor | undefined> {
    const token = readSessionCookie(request.headers.cookie, portal)
    if (token === undefined) return undefined
    const visitor = await this.verify(request, portal, token)
    return visitor?.session.site.domain === site.domain ? visitor : undefined
  }

  async verify(
    request: FastifyRequest,
    portal: Portal,
    token: string,
  ): Promise<Visitor | undefined> {
    const visitor = await this.#find(request, portal, token)
    return visitor && this.#isCurrent(visitor.session) ? visitor : undefined
  }

  create(portal: Portal, site: Site, profile: Profile): Session {
    const { kid, secret: key } = this.#app.keys.session.first
    const iat = Math.floor(this.#app.clock.now() / 1_000)
    const generation = this.#revocations.nextGeneration(personOf(portal.name, profile))
    const claims = {
      ...profile.claims,
      iss: portalUrl(site, portal, ''),
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
    if (token.length > MAX_TOKEN_LENGTH) throw tooLarge(profile.provider, token.length)
    const { payload } = this.#jwt.decode<{ payload: SessionClaims }>(token) ?? {}
    if (!payload) throw new Error('the new session token cannot be decoded')
    const session = readSession(token, portal, site, payload)
    this.#remember(session, portal)
    return session
  }

  /**
   * Revokes a session, on this instance at once. When the promise resolves, the revocation is
   * permanent and reaches every instance that shares the folder within a second.
   *
   * @param onRange - called if the person has ended so many sessions that all in between end too
   */
  revoke(session: Session, onRange?: () => void): Promise<void> {
    return this.#revocations.add(session, onRange)
  }

  /** How long the service has run on its folder, in ms, whatever its clock was set to. */
  runningTime(): number {
    return this.#revocations.runningTime()
  }

  clear(): void {
    this.#visitors.clear()
  }

  #find(request: FastifyRequest, portal: Portal, token: string) {
    const known = this.#visitors.get(token)
    // A reload replaces the portals.
    if (known?.portal === portal) return known
    if (token.length > MAX_TOKEN_LENGTH || !TOKEN.test(token)) return undefined
    return this.#verifyToken(request, portal, token)
  }

  async #verifyToken(
    request: FastifyRequest,
    portal: Portal,
    token: string,
  ): Promise<Visitor | undefined> {
    const { sites, clock } = this.#app
    request.sessionToken = token
    try {
      const claims = await request.sessionJwtVerify<SessionClaims>({
        decode: {},
        verify: {
          allowedIss: sites.all.map((site) => portalUrl(site, portal, '')),
          allowedAud: sites.all.map(({ domain }) => domain),
          clockTimestamp: clock.now(),
        },
      })
      const site = sites.all.find(({ domain }) => domain === claims.aud)
      if (!site || claims.iss !== portalUrl(site, portal, '')) return undefined
      // A copy, since the token may be a slice that keeps the whole Cookie header in memory.
      const copy = Buffer.from(token).toString()
      return this.#remember(readSession(copy, portal, site, claims), portal)
    } catch (error) {
      request.log.debug({ err: error }, 'session token refused')
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

  /** By the clock as it is now, which may have been set since the token was verified. */
  #isCurrent(session: Session): boolean {
    const now = this.#app.clock.now()
    if (now < session.iat * 1_000 - MAX_SKEW || now >= session.exp * 1_000) return false
    return !this.#revocations.ended.has(session)
  }
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

function tooLarge(provider: string, length: number): FwaError {
  const message = `what ${provider} shares of you makes a session of ${length} characters; ${MAX_TOKEN_LENGTH} fit`
  return new FwaError('FWA_SESSION_TOO_LARGE', message)
}

interface SessionsOptions extends Pick<ForwardAuthConfig, 'storage'> {
  /** Milliseconds on a clock that is never set. Default: that of the process. */
  readonly monotonic?: (() => number) | undefined
}

export const sessions = fp<SessionsOptions>(
  async (app: FastifyInstance, { storage, monotonic }) => {
    await app.register(jwt, {
      namespace: 'session',
      decoratorName: 'sessionClaims',
      decode: { complete: true },
      secret: {
        private: async () => app.keys.session.first.secret,
        public: async (_request: FastifyRequest, token: TokenOrHeader) => keyOf(token, app.keys),
      },
      sign: { algorithm: 'HS256', header: { alg: 'HS256', typ: SESSION_TYPE } },
      verify: {
        algorithms: ['HS256'],
        checkTyp: SESSION_TYPE,
        requiredClaims: REQUIRED,
        clockTolerance: MAX_SKEW,
        extractToken: ({ sessionToken }) => sessionToken,
      },
    })
    app.decorateRequest('sessionToken', undefined)
    const jwts = app.jwt as unknown as Record<'session', JWT>
    const { clock, log } = app
    const revocations = new Revocations({ folder: storage.path, clock, monotonic, log })
    app.addHook('onClose', () => revocations.close())
    app.addHealthCheck(() => ({ unready: revocations.storeIsUp() ? undefined : 'store' }))
    app.decorate('sessions', new Sessions(app, jwts.session, revocations))
    app.onReload(() => () => app.sessions.clear())
  },
  {
    fastify: '5.x',
    name: 'forward-auth/sessions',
    dependencies: ['forward-auth/keys', 'forward-auth/sites', 'service-kit/health'],
  },
)

function keyOf(token: TokenOrHeader, { session }: Keys): Buffer {
  const { kid } = 'header' in token ? token.header : token
  const key = session.all.find((each) => each.kid === kid)
  if (!key) throw new Error('the token is signed with an unknown key')
  return key.secret
}

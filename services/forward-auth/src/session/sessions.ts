import { randomBytes } from 'node:crypto'
import jwt, { type JWT, type SignOptions } from '@fastify/jwt'
import type { RedirectProvider, SignedIn } from '@gatehouse/identity-providers'
import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { DecodedJwt } from 'fast-jwt'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import { FwaError } from '../errors.ts'
import { isSigned } from '../keys/key-ring.ts'
import type { Portal } from '../portal/portals.ts'
import { issuerOf, type Site, type SiteHost } from '../sites.ts'
import { appCookieName, MAX_TOKEN_LENGTH, readCookie, sessionCookieName } from '../web/cookies.ts'
import type { Realm } from '../web/realm.ts'
import { MAX_SKEW } from './assertion-keys.ts'
import { signBounded } from './bounded.ts'
import { RE_READ_RESULTS, ReReading, type ReReadResult } from './re-reading.ts'
import { Records } from './records.ts'
import {
  type Authentication,
  authenticationsAfter,
  type Browser,
  digestsOf,
  openRow,
  type Session,
  type SessionContents,
  sealSession,
  sessionOf,
  Visitor,
} from './session.ts'

/** Header `typ` of tokens: nothing else that is signed passes for one. */
const TYPES = { session: 'gatehouse-session+jwt', app: 'gatehouse-app+jwt' } as const
type TokenKind = keyof typeof TYPES
/** A compact JWS (RFC 7515 section 7.1) whose signature has the 256 bits of HS256. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]{43}$/
/** A token as a header may hold it. */
const SENDABLE = /^[!-~]{1,8192}$/
/** The time for which a token of the provider is valid at least when an app gets it, in ms. */
const FRESH = 30_000
/** The time without a call after which the session of agents ends, in ms. */
const OFFLINE_IDLE = 14 * 86_400_000
/** Sessions of a person among which it is looked for. */
const MAX_OFFLINE = 200
/** Bytes of memory for tokens that were verified: about 80,000. Others are verified at each check. */
const CACHE_BYTES = 67_108_864
/** Bytes that one takes besides its characters. */
const CLAIMS_BYTES = 400
/** Series of a metric. */
const MAX_SERIES = 1_000

/** Whether tokens of a provider outlive its session: those of some have no end. */
export function isLasting({ refresh, access, accessUntil }: SignedIn['tokens']): boolean {
  return refresh !== undefined || (access !== undefined && accessUntil === undefined)
}

/** Whether a session has an authentication with the same `acr` that is as new. */
function isMet(
  { acr, auth_time: time = 0 }: Authentication,
  { authentications = [] }: SessionContents,
): boolean {
  return authentications.some((session) => session.acr === acr && (session.auth_time ?? 0) >= time)
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly sessions: Sessions
  }
}

/** The claims of a token that count: all else is in the store. NumericDates in seconds. */
export interface SessionToken {
  readonly iss: string
  /** A host, with the port unless it is that of the scheme, or the domain if its hosts share a cookie. */
  readonly aud: string
  readonly sid: string
  readonly exp: number
  /** The revision of the session that it was made of. */
  readonly rev: number
  /** The person of a session token. */
  readonly sub?: string | undefined
  readonly gatehouse_provider?: string | undefined
}

const REQUIRED = {
  session: ['iss', 'aud', 'sub', 'sid', 'rev', 'iat', 'nbf', 'exp', 'gatehouse_provider'],
  app: ['iss', 'aud', 'sid', 'rev', 'exp'],
}

type AppHost = Realm & Pick<SiteHost, 'authority'>

/** The result of a sign-in, from which a session is made. */
export interface NewSession extends Realm {
  readonly signedIn: SignedIn
  readonly browser: Browser
}

/** The sessions of all portals: records in the store, and signed tokens in cookies that name them. */
export class Sessions {
  readonly records: Records
  readonly reReading: ReReading
  readonly #app: FastifyInstance
  readonly #jwts: Readonly<Record<TokenKind, JWT>>
  #visitors = new WeakMap<Session, Visitor>()
  readonly #verified = new LRUCache<string, SessionToken & { readonly kind: TokenKind }>({
    maxSize: CACHE_BYTES,
    sizeCalculation: (_claims, token) => token.length + CLAIMS_BYTES,
  })

  constructor(app: FastifyInstance, records: Records, reReading: ReReading) {
    this.#app = app
    this.#jwts = app.jwt as unknown as Record<TokenKind, JWT>
    this.records = records
    this.reReading = reReading
  }

  /**
   * The person of the cookie that a request has for the host of an app.
   *
   * @throws StoreError STORE_UNAVAILABLE, also if nobody knows whether the session has ended
   */
  async atApp(
    { headers: { cookie }, raw }: FastifyRequest,
    { portal, site, authority }: AppHost,
  ): Promise<Visitor | undefined> {
    const token = cookie && readCookie(cookie, appCookieName(portal, site, authority))
    if (!token) return undefined
    const claims = this.#cachedClaims(token, 'app') ?? (await this.#verify(token, 'app'))
    if (claims?.aud !== audienceAt(site, authority)) return undefined
    return this.#use(await this.#visitorOf(claims, { portal, site }), raw)
  }

  /** The person of the session cookie, at the sign-in host. @throws FwaError as {@link atApp} */
  async atSignIn(request: FastifyRequest, realm: Realm): Promise<Visitor | undefined> {
    const claims = await this.tokenOf(request, realm)
    return claims && this.#use(await this.#visitorOf(claims, realm), request.raw)
  }

  /** The claims of the session cookie, whether or not its session has ended: a clock may be wrong about that. */
  async tokenOf(
    { headers: { cookie } }: FastifyRequest,
    { portal, site }: Realm,
  ): Promise<SessionToken | undefined> {
    const token = cookie && readCookie(cookie, sessionCookieName(portal))
    const claims = token ? await this.#verify(token, 'session') : undefined
    return claims && isOf(claims, { portal, site }) ? claims : undefined
  }

  /** The person of a session token of a portal. @throws FwaError as {@link atApp} */
  async verify(portal: Portal, token: string): Promise<Visitor | undefined> {
    const claims = await this.#verify(token, 'session')
    const site = claims && this.#app.sites.list.find((site) => isOf(claims, { portal, site }))
    return site && this.#visitorOf(claims, { portal, site })
  }

  /**
   * The person of a session, if it is of this portal and sign-in host, is not over, and may be believed: at once,
   * if neither the store nor the provider has to be asked.
   *
   * @throws FwaError as {@link atApp}
   */
  find(sid: string, realm: Realm): Visitor | undefined | Promise<Visitor | undefined> {
    const staleness = this.#app.authStore.staleness?.()
    if (staleness) throw staleness
    const session = this.records.find(sid)
    return session instanceof Promise
      ? session.then((read) => this.#believe(read, realm))
      : this.#believe(session, realm)
  }

  /** The person of a session that is not over. */
  #believe(session: Session | undefined, realm: Realm) {
    const visitor = session && this.#visitor(session, realm)
    const now = this.#app.clock.now()
    if (!visitor || now < session.begun - MAX_SKEW || now >= session.ends) return undefined
    return this.#isIdle(session) ? this.#unlessIdle(session, realm) : this.#asToday(visitor, realm)
  }

  #isIdle(session: Session): boolean {
    const { idle } = session
    return idle !== null && this.#app.clock.now() - this.records.lastSeen(session) > idle
  }

  /** The person as the provider says that they are, if it has to be asked. */
  #asToday(visitor: Visitor, realm: Realm) {
    const { session } = visitor
    if (!session.isReadable) return visitor
    const current = this.reReading.current(session, realm.portal)
    return current instanceof Promise
      ? current.then((read) => read && this.#visitor(read, realm))
      : current && visitor
  }

  /**
   * Gives a person a session: that of this browser renewed, if it is theirs. Undefined if the provider has
   * ended it meanwhile.
   *
   * @throws FwaError FWA_SESSION_TOO_LARGE, STORE_UNAVAILABLE
   */
  async begin(newSession: NewSession, browserSession?: Session): Promise<Session | undefined> {
    const { portal, site, signedIn } = newSession
    this.reReading.noteTokens(signedIn, portal)
    const { lifetime, idle = null } = portal.session
    const row = this.#newRow(newSession, lifetime, idle)
    const seal = (sid: string, rev: number, previous: Session['authentications'] = []) => {
      const contents = contentsOf(newSession, previous)
      const sealed = sealSession({ ...row, sid, rev }, contents, this.#app.keys.record)
      return { row: sealed, session: sessionOf(sealed, contents) }
    }
    const anew = seal(randomSid(), 1)
    // It throws for what no cookie could hold, before anything is written.
    this.sessionToken(anew.session, site)
    let current = browserSession?.person === row.person ? browserSession : undefined
    while (current) {
      const renewed = seal(current.sid, current.rev + 1, current.authentications)
      if (await this.records.update(renewed.row)) return renewed.session
      this.records.forget(current.sid)
      const newest = await this.records.find(current.sid)
      // Another tab of the browser was quicker.
      const isNewer: boolean = newest !== undefined && newest.rev > current.rev
      // It ended while its person signed in again. Its app cookies would stay valid, and no sign-out would end it.
      if (!isNewer) await this.records.endOne(current)
      current = isNewer ? newest : undefined
    }
    return (await this.#app.authStore.beginSession(anew.row)) ? anew.session : undefined
  }

  /**
   * Begins a session for the agents of a person, which no browser has: it lasts as long as the portal lets agents work, and
   * ends when the person does. It has no effect if the provider has given nothing by which they can be read again.
   *
   * @param previous - the authentications of the session of their browser
   * @throws FwaError FWA_SESSION_TOO_LARGE, STORE_UNAVAILABLE
   */
  async beginOffline(newSession: NewSession, previous: Session['authentications']): Promise<void> {
    const { portal, signedIn } = newSession
    if (!isLasting(signedIn.tokens)) return
    const { authStore, keys } = this.#app
    const lifetimes = portal.gate.programs.resources.map(({ lifetime = 0 }) => lifetime)
    const newRow = this.#newRow(newSession, Math.max(...lifetimes), OFFLINE_IDLE)
    // A session at the provider may end without it.
    const row = { ...newRow, providerSid: null, sid: randomSid(), rev: 1 }
    const contents = { ...contentsOf(newSession, previous), isOffline: true }
    await authStore.beginSession(sealSession(row, contents, keys.record))
  }

  /** The row of a session that begins now, but for its ID and revision. */
  #newRow({ portal, signedIn }: NewSession, lifetime: number, idle: number | null) {
    const { profile, sid, issuedAt } = signedIn
    const provider = portal.providers.get(profile.provider) as RedirectProvider | undefined
    const now = this.#app.clock.now()
    return {
      ...digestsOf(portal.name, profile, sid, provider?.relation),
      parent: null,
      portal: portal.name,
      issuedAt: issuedAt ?? Math.floor(now / 1_000),
      ...{ begun: now, lastSeen: now, reRead: now, ends: now + lifetime, idle, lease: 0 },
    }
  }

  /** The session of the agents of a person that lasts until a time at least, and is as good as that of their browser. */
  async findOffline(
    { person, portal, authentications }: Session,
    until: number,
  ): Promise<string | undefined> {
    const rows = await this.#app.authStore.listSessions({ person }, MAX_OFFLINE)
    return rows.find((row) => {
      if (row.portal !== portal || row.ends < until) return false
      const contents = openRow(row, this.#app.keys.record)
      return contents?.isOffline && authentications.every((level) => isMet(level, contents))
    })?.sid
  }

  /** A token of the provider that is valid for a while, for an app; undefined if there is none. */
  async providerToken({ session, portal }: Visitor, kind: 'access' | 'id') {
    const token = await this.#keptToken(session.sid, kind)
    if (token !== undefined) return token
    await this.reReading.renew(session, portal)
    return this.#keptToken(session.sid, kind)
  }

  async #keptToken(sid: string, kind: 'access' | 'id'): Promise<string | undefined> {
    const { access, accessUntil, id } = (await this.records.open(sid))?.contents.tokens ?? {}
    const token = kind === 'access' ? access : id
    const until = kind === 'access' ? accessUntil : id === undefined ? undefined : endOf(id)
    const isFresh = (until ?? Number.POSITIVE_INFINITY) > this.#app.clock.now() + FRESH
    return isFresh && SENDABLE.test(token ?? '') ? token : undefined
  }

  /** The session token of a session: its claims, as far as they fit into one cookie, are those of the person. */
  sessionToken({ profile, issuer, sid, rev, iat, exp }: Session, site: Site): string {
    const claims = {
      ...profile.claims,
      iss: issuer,
      aud: signInHost(site),
      sub: profile.id,
      sid,
      rev,
      iat,
      nbf: iat,
      exp,
      gatehouse_provider: profile.provider,
    }
    const optional = Object.keys(profile.claims)
      .filter((name) => name !== 'sub' && name !== '_claim_names')
      .map((name) => ({ name, length: JSON.stringify(profile.claims[name])?.length ?? 0 }))
      .sort((a, b) => b.length - a.length)
      .map(({ name }) => name)
    const sign = (kept: object) => this.#sign('session', kept)
    const token = signBounded(claims, optional, sign, MAX_TOKEN_LENGTH)
    if (token !== undefined) return token
    const text = `what ${profile.provider} says of you is too long for a cookie`
    throw new FwaError('FWA_SESSION_TOO_LARGE', text)
  }

  /** The token of a session for the host and port of an app, or for its domain. */
  appToken({ issuer, sid, rev, exp }: Session, site: Site, authority: string): string {
    return this.#sign('app', { iss: issuer, sid, rev, aud: audienceAt(site, authority), exp })
  }

  clear(): void {
    this.records.forgetAll()
    this.#verified.clear()
    this.#visitors = new WeakMap()
  }

  #sign(kind: TokenKind, claims: object): string {
    const { kid, secret: key } = this.#app.keys.session.first
    return this.#jwts[kind].sign(claims, { key, kid } as Partial<SignOptions>)
  }

  #cachedClaims(token: string, kind: TokenKind): SessionToken | undefined {
    const claims = this.#verified.get(token)
    return claims?.kind === kind ? claims : undefined
  }

  /** Checks the signature and the type of a token. Callers check its times, and whose it is. */
  async #verify(token: string, kind: TokenKind): Promise<SessionToken | undefined> {
    const cachedClaims = this.#cachedClaims(token, kind)
    if (cachedClaims) return cachedClaims
    if (token.length > MAX_TOKEN_LENGTH || !TOKEN.test(token)) return undefined
    if (!isSigned(token, this.#app.keys.session)) return undefined
    try {
      const { iss, aud, sid, exp, sub, gatehouse_provider, rev } =
        await this.#jwts[kind].verify<SessionToken>(token)
      if (typeof exp !== 'number' || typeof rev !== 'number') return undefined
      const claims = { kind, iss, aud, sid, exp, sub, gatehouse_provider, rev }
      // A copy, since the token may be a slice that keeps the whole Cookie header in memory.
      this.#verified.set(Buffer.from(token).toString(), claims)
      return claims
    } catch (error) {
      // The token is signed with our key, but for another purpose.
      this.#app.log.debug({ err: error }, 'token refused')
      return undefined
    }
  }

  async #visitorOf(claims: SessionToken, realm: Realm): Promise<Visitor | undefined> {
    const { sid, rev, exp } = claims
    if (this.#app.clock.now() >= exp * 1_000) return undefined
    const pendingVisitor = this.find(sid, realm)
    const visitor = pendingVisitor instanceof Promise ? await pendingVisitor : pendingVisitor
    if (visitor?.session.issuer !== claims.iss) return undefined
    if (rev <= visitor.session.rev) return visitor
    // Another instance has just changed it, or the store was set back and knows less than the token.
    this.records.forget(sid)
    const newest = await this.find(sid, realm)
    return newest && rev <= newest.session.rev ? newest : undefined
  }

  /** Notes the use of a session by a request, unless it may not be used from the address: undefined then. */
  #use(visitor: Visitor | undefined, raw: FastifyRequest['raw']) {
    if (!visitor?.isAllowedAt(() => this.#app.trust.clientIp(raw))) return undefined
    this.records.noteUse(visitor.session)
    return visitor
  }

  /** The person of a session, if it is of this portal and sign-in host. */
  #visitor(session: Session, { portal, site }: Realm): Visitor | undefined {
    const cached = this.#visitors.get(session)
    // A reload replaces the portals.
    if (cached?.portal === portal && cached.authOrigin === site.authOrigin) return cached
    const provider = portal.providers.get(session.profile.provider)
    const isOurs = session.portal === portal.name && session.issuer === issuerOf({ portal, site })
    // The session of an agent signs in no person.
    if (!provider || !isOurs || session.agent) return undefined
    const visitor = new Visitor(session, portal, provider, site.authOrigin)
    this.#visitors.set(session, visitor)
    return visitor
  }

  /** Memory alone does not decide that a session is idle: other instances are used too. Its row is pruned later. */
  async #unlessIdle({ sid }: Session, realm: Realm) {
    this.records.forget(sid)
    const newest = await this.records.find(sid)
    const visitor = newest && !this.#isIdle(newest) && this.#visitor(newest, realm)
    return visitor ? this.#asToday(visitor, realm) : undefined
  }
}

function randomSid(): string {
  return randomBytes(16).toString('base64url')
}

/** What a session keeps of a sign-in, after the authentications of before. */
function contentsOf(
  { signedIn, browser, ...realm }: NewSession,
  previous: Session['authentications'],
) {
  const { profile, tokens } = signedIn
  const { provider, claims } = profile
  const authentications = authenticationsAfter(previous, claims)
  return { issuer: issuerOf(realm), provider, claims, authentications, tokens, browser }
}

/** The end of an ID token that was verified, in ms. */
function endOf(token: string): number {
  const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
  return Number(claims.exp) * 1_000
}

/** The name of the sign-in host. Cookies know no ports. */
export function signInHost({ authOrigin }: Site): string {
  return new URL(authOrigin).hostname
}

/** Whether a session token is of a portal, at a sign-in host. */
function isOf({ iss, aud }: SessionToken, realm: Realm): boolean {
  return iss === issuerOf(realm) && aud === signInHost(realm.site)
}

/** The claim `aud` of a token for an app. */
function audienceAt({ scope, domain }: Site, authority: string): string {
  return scope === 'domain' ? domain : authority
}

/** @fastify/jwt for one type of tokens, in a namespace of its own. */
async function registerJwt(app: FastifyInstance, kind: TokenKind): Promise<void> {
  await app.register(jwt, {
    namespace: kind,
    decoratorName: `${kind}Claims`,
    secret: {
      private: async () => app.keys.session.first.secret,
      public: async ({ header: { kid } }: DecodedJwt) => {
        const key = app.keys.session.keys.find((candidate) => candidate.kid === kid)
        if (!key) throw new Error('the token is signed with an unknown key')
        return key.secret
      },
    },
    decode: { complete: true },
    sign: {
      algorithm: 'HS256',
      header: { alg: 'HS256', typ: TYPES[kind] },
      // It would remove the `iat` that we give, too.
      noTimestamp: kind === 'app',
    },
    verify: {
      algorithms: ['HS256'],
      checkTyp: TYPES[kind],
      requiredClaims: REQUIRED[kind],
      // The times are compared with the clock of the service.
      ignoreExpiration: true,
      ignoreNotBefore: true,
    },
  })
}

function countReReads(app: FastifyInstance, metrics: Metrics) {
  const counter = metrics.counter({
    name: 'gatehouse_auth_sessions_read_again_total',
    help: 'Times that a provider was asked again about a session, by portal and answer.',
    labels: { portal: () => [...app.portals.keys()], result: RE_READ_RESULTS },
  })
  return (portal: string, result: ReReadResult) => counter.inc({ portal, result })
}

export const sessions = fp<{ readonly metrics?: Metrics | undefined }>(
  async (app: FastifyInstance, { metrics }) => {
    await registerJwt(app, 'session')
    await registerJwt(app, 'app')
    const records = new Records(app.authStore, () => app.keys.record)
    await records.start()
    app.addHook('onClose', () => records.close())
    app.addHealthCheck(() => app.authStore.health())
    const reReading = new ReReading(app, records, metrics && countReReads(app, metrics))
    app.addHealthCheck(() => reReading.health())
    metrics?.gauges({
      name: 'gatehouse_auth_questions',
      help: 'Questions to providers about sessions, by portal, provider and state: waiting or running.',
      labels: ['portal', 'provider', 'state'],
      max: MAX_SERIES,
      collect: async () => reReading.load(),
    })
    app.decorate('sessions', new Sessions(app, records, reReading))
    app.onReload(() => () => app.sessions.clear())
  },
  {
    name: 'forward-auth/sessions',
    dependencies: [
      'service-kit/trust',
      'forward-auth/keys',
      'forward-auth/sites',
      'forward-auth/store',
      'forward-auth/portals',
      'forward-auth/audit',
      'service-kit/clock',
      'service-kit/health',
      'service-kit/reload',
    ],
  },
)

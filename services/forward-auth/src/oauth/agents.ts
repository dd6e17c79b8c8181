import { randomBytes } from 'node:crypto'
import type { Resource } from '@gatehouse/gate'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Ender } from '../audit/audit.ts'
import { isProven } from '../client-metadata.ts'
import { sealValue, unsealValue } from '../keys/key-ring.ts'
import { portalOf } from '../portal/portals.ts'
import { endSessions, recordEnd } from '../session/ends.ts'
import type { OpenedRow } from '../session/records.ts'
import {
  type Consent,
  openRow,
  type Session,
  sealSession,
  type Visitor,
} from '../session/session.ts'
import { issuerOf, purposeAt, siteOfIssuer } from '../sites.ts'
import type { SessionRow } from '../store/store.ts'
import type { Realm } from '../web/realm.ts'
import { Agent } from './agent.ts'
import { findResource, scopesIn } from './authorization-request.ts'
import { OAuthError } from './oauth-error.ts'
import { ownResources } from './own-resources.ts'
import type { Redemption, Renewal, Revocation, TokenAnswer } from './token.ts'
import { ACCESS_LIFETIME, type AccessClaims, accessTokensOf, isVerifierOf } from './tokens.ts'

/** The time to redeem a code, in ms. */
const CODE_LIFETIME = 60_000
/** The time in which a client that has not got an answer may send the refresh token before again, in ms. */
const REPEAT = 10_000
/**
 * The time in which a refresh token that is spent gives an access token still, in ms, and how many of them do: a client of
 * several processes has one in each, and only one of them is the first.
 */
const LATE = 120_000
const MAX_LATE = 8
/** Agents of one person that are looked through. */
const MAX_AGENTS = 1_000
const REUSE: Ender = { endedBy: 'reuse' }
const REPLACED: Ender = { endedBy: 'sign-in' }

/** The request that a person is asked to allow. */
export interface ConsentRequest {
  readonly redirectUri: string
  readonly challenge: string
  readonly consent: Consent
  /** The end of its validity, in ms since the epoch. */
  readonly until: number
}

interface AuthorizationCode extends ConsentRequest {
  /** ID of the agent to be. */
  readonly sid: string
  /** ID of the session of the person. */
  readonly parent: string
}

/** The contents of a refresh token: an agent, and the number of tokens that it has had. */
type RefreshToken = Pick<SessionRow, 'sid' | 'rev'>

/**
 * The agents of all portals: programs that act for a person. Each is a row of the store below a session, and ends with it:
 * that in which the person has allowed it, or one for agents alone.
 */
class Agents {
  readonly #app: FastifyInstance
  readonly #tokens: ReturnType<typeof accessTokensOf>
  /** The agents by the claims of their tokens, as they and their people were last. */
  readonly #agents = new WeakMap<AccessClaims, Agent>()

  constructor(app: FastifyInstance) {
    this.#app = app
    this.#tokens = accessTokensOf(app)
  }

  /**
   * The agent that has a token for a resource; undefined if the token, the agent or the session of its person is
   * not valid any more.
   *
   * @throws StoreError STORE_UNAVAILABLE
   */
  async find(
    token: string,
    resource: Resource,
    request: FastifyRequest,
  ): Promise<Agent | undefined> {
    const claims = this.#tokens.verify(token)
    const agent =
      claims?.aud === resource.url ? await this.#findByClaims(claims, request) : undefined
    if (!agent) return undefined
    const { records } = this.#app.sessions
    // The session that the agent belongs to is in use, too.
    for (const session of [agent.session, agent.visitor.session]) records.noteUse(session)
    return agent
  }

  /**
   * The agent as it is now, whatever its token says of its end: a call that has begun goes on while the agent does. That
   * is no use of its session.
   *
   * @throws StoreError STORE_UNAVAILABLE
   */
  renewed({ claims }: Agent, request: FastifyRequest): Promise<Agent | undefined> {
    return this.#findByClaims(claims, request)
  }

  async #findByClaims(claims: AccessClaims, request: FastifyRequest): Promise<Agent | undefined> {
    const { sessions, sites, trust, clock } = this.#app
    const portal = portalOf(request)
    const site = siteOfIssuer(sites, portal, claims.iss)
    if (!site) return undefined
    const session = await sessions.records.find(claims.sid)
    const consent = session?.agent
    if (!session || consent?.clientId !== claims.client_id) return undefined
    if (consent.resource !== claims.aud || clock.now() >= session.ends) return undefined
    const visitor = await sessions.find(consent.parent, { portal, site })
    if (!visitor?.isAllowedAt(() => trust.clientIp(request.raw))) return undefined
    return this.#agentOf(claims, visitor, session)
  }

  /** Undefined if its client may not be used any more: a reload makes other visitors. */
  #agentOf(claims: AccessClaims, visitor: Visitor, session: Session): Agent | undefined {
    const cached = this.#agents.get(claims)
    if (cached?.visitor === visitor && cached.session === session) return cached
    if (!this.#app.clients.isAllowed(visitor.portal, claims.client_id)) return undefined
    const agent = new Agent(visitor, claims, session)
    this.#agents.set(claims, agent)
    return agent
  }

  /**
   * A code for what a person has allowed a client. It is good once, for a minute, together with the verifier.
   *
   * @param parent - ID of the session that the agent ends with
   */
  codeFor(
    realm: Realm,
    parent: string,
    { redirectUri, challenge, consent }: Omit<ConsentRequest, 'until'>,
  ): string {
    const { keys, clock } = this.#app
    const code: AuthorizationCode = {
      redirectUri,
      challenge,
      consent,
      parent,
      sid: randomBytes(16).toString('base64url'),
      until: clock.now() + CODE_LIFETIME,
    }
    return sealValue(code, keys.login, purposeAt(realm, 'code'))
  }

  /**
   * Redeems a code (RFC 6749 section 4.1.3). A code that is used twice ends the agent that it began.
   *
   * @throws OAuthError invalid_grant, invalid_target; StoreError STORE_UNAVAILABLE
   */
  async begin(realm: Realm, redemption: Redemption, request: FastifyRequest): Promise<TokenAnswer> {
    const { sessions, authStore, clients } = this.#app
    const { sid, parent, until, redirectUri, ...code } = this.#openCode(realm, redemption)
    const consent = { ...code.consent, redirectUri }
    await clients.authenticate(realm, consent, redemption, request)
    const opened = await sessions.records.open(parent)
    const visitor = opened && (await sessions.find(parent, realm))
    if (!opened || !visitor?.isAdmitted) throw invalidGrant('the person has signed out')
    const scopes = this.#scopesOf(realm, consent)
    const ends = this.#endOf(realm, visitor, consent, this.#app.clock.now())
    const own = { sid, parent, subject: null, providerSid: null, idle: null, ends, rev: 1 }
    const row = this.#sealed({ ...opened.row, ...own }, opened, consent)
    if (!(await authStore.beginAgent(row, { id: sid, until }))) {
      await endSessions(this.#app, [{ sid }], REUSE, request)
      request.log.warn({ client: consent.clientId }, 'a code was reused, or its session has ended')
      throw invalidGrant('the code was used before, or the person has signed out')
    }
    await this.#replace(row, consent, request)
    this.#app.auditTrail.record(request, {
      event: 'agent-allowed',
      portal: realm.portal.name,
      profile: visitor.session.profile,
      host: new URL(consent.resource).host,
      client: consent.clientId,
    })
    return this.#answer(realm, visitor, { sid, rev: 1 }, consent, scopes)
  }

  /**
   * The end of an agent: that of its session, or for a session of agents alone, by the lifetime of the resource.
   * @throws OAuthError invalid_grant if that is over
   */
  #endOf(
    realm: Realm,
    { session: { ends, isOffline } }: Visitor,
    { resource }: Consent,
    begun: number,
  ): number {
    if (!isOffline) return ends
    const resources = ownResources(this.#app, realm)
    const { lifetime = 0 } = resources.find(({ url }) => url === resource) ?? {}
    const end = Math.min(ends, begun + lifetime)
    if (this.#app.clock.now() < end) return end
    throw invalidGrant('agents of this resource do not work without their person for so long')
  }

  /**
   * Ends what the client had for the same person and resource: it has a new grant in its place. What a program of a
   * device has stays, since the same one may be on another device.
   */
  async #replace({ sid, person, begun }: SessionRow, consent: Consent, request: FastifyRequest) {
    const { authStore, keys, sessions } = this.#app
    const { clientId, resource, redirectUri = '' } = consent
    if (!isProven(redirectUri)) return
    for (const row of await authStore.listSessions({ person, agents: true }, MAX_AGENTS)) {
      const agent = openRow(row, keys.record)?.agent
      const isSame = agent?.clientId === clientId && agent.redirectUri === redirectUri
      // One of two at once stays.
      const isOlder = row.begun < begun || (row.begun === begun && row.sid < sid)
      if (!isOlder || !isSame || agent.resource !== resource) continue
      for (const ended of await sessions.records.end({ sid: row.sid }))
        recordEnd(this.#app, ended, REPLACED, request)
    }
  }

  /** Opens a code for the client that sends it. */
  #openCode(realm: Realm, redemption: Redemption): AuthorizationCode {
    const { keys, clock } = this.#app
    const purpose = purposeAt(realm, 'code')
    const code = unsealValue<AuthorizationCode>(redemption.code, keys.login, purpose)
    if (!code || clock.now() >= code.until) throw invalidGrant('the code is unknown or has expired')
    const { consent } = code
    // One message for all: whoever has stolen a code does not learn whom it is for.
    const isOf =
      redemption.clientId === consent.clientId &&
      redemption.redirect_uri === code.redirectUri &&
      isVerifierOf(redemption.code_verifier, code.challenge)
    if (!isOf) throw invalidGrant('the code is for another client, redirect_uri or code_verifier')
    this.#assertTarget(realm, redemption.resource, consent.resource)
    return code
  }

  /**
   * Gives an agent new tokens, and revokes the old refresh token (RFC 9700 section 4.14.2). A spent one ends the agent,
   * unless its answer may have been lost just now, or another process of the client was quicker: that gets an access
   * token alone.
   *
   * @throws OAuthError invalid_grant, invalid_scope, invalid_target; StoreError STORE_UNAVAILABLE
   */
  async renew(realm: Realm, renewal: Renewal, request: FastifyRequest): Promise<TokenAnswer> {
    const { sessions, signInRate, clients } = this.#app
    const token = this.#openRefresh(realm, renewal.refresh_token)
    if (!token) throw invalidGrant('the refresh token is unknown')
    signInRate.require(`tokens of ${token.sid}`, 'too many tokens')
    const { opened, consent } = await this.#open(token, renewal.clientId)
    await clients.authenticate(realm, consent, renewal, request)
    this.#assertTarget(realm, renewal.resource, consent.resource)
    const scopes = this.#scopesOf(realm, consent, renewal.scope)
    const visitor = await sessions.find(opened.row.parent ?? '', realm)
    if (!visitor?.isAdmitted) throw invalidGrant('the session of the person has ended')
    const ends = this.#endOf(realm, visitor, consent, opened.row.begun)
    const next = await this.#next(token, opened, consent, ends)
    if (next) return this.#answer(realm, visitor, next, consent, scopes)
    await endSessions(this.#app, [{ sid: token.sid }], REUSE, request)
    request.log.warn(
      { client: consent.clientId },
      'a refresh token was reused: its agent was signed out',
    )
    throw invalidGrant('the refresh token was used before, so that all tokens of it have ended')
  }

  /** The scopes of new tokens: of those that the person has allowed, what the client requests and is still configured. */
  #scopesOf(realm: Realm, { resource, scopes }: Consent, scope = ''): string[] {
    const configured = ownResources(this.#app, realm).find(({ url }) => url === resource)
    if (!configured) throw invalidGrant('the resource is not one of this portal any more')
    const names = configured.grantableScopes.map(({ name }) => name)
    const granted = names.filter((name) => scopes.includes(name))
    const requested = new Set(scopesIn(scope))
    // A scope that the resource does not have, such as `offline_access`, is ignored.
    if (names.some((name) => requested.has(name) && !scopes.includes(name)))
      throw new OAuthError('invalid_scope', 'the person has not allowed this scope')
    const fewer = granted.filter((name) => requested.has(name))
    return fewer.length > 0 ? fewer : granted
  }

  /** @throws OAuthError invalid_target unless a client names the resource that the person has allowed, or none */
  #assertTarget(realm: Realm, resource: string | undefined, url: string): void {
    const resources = [...ownResources(this.#app, realm), { url }]
    if (resource === undefined || findResource(resources, resource)?.url === url) return
    throw new OAuthError('invalid_target', 'resource is not the one that the person has allowed')
  }

  /** The successor of a refresh token, without a revision if only an access token follows: undefined if it was used before. */
  async #next(
    token: RefreshToken,
    opened: OpenedRow,
    consent: Consent,
    ends: number,
  ): Promise<Pick<RefreshToken, 'sid'> | RefreshToken | undefined> {
    const { sessions, clock } = this.#app
    const { row } = opened
    // Both before and after, so that a clock that was set back gives no client more time.
    if (token.rev === row.rev - 1 && Math.abs(clock.now() - row.reRead) < REPEAT) return row
    if (token.rev !== row.rev) return this.#isLate(token, opened) ? { sid: token.sid } : undefined
    const now = clock.now()
    const next = { ...row, rev: row.rev + 1, ends, reRead: now }
    const spent = [...(opened.contents.spent ?? []), now].slice(-MAX_LATE)
    if (await sessions.records.update(this.#sealed(next, opened, consent, spent))) return next
    // Another request with the same token was quicker.
    const { opened: newest } = await this.#open(token, consent.clientId)
    return this.#next(token, newest, consent, ends)
  }

  /** Whether a refresh token was spent so lately that another process of the client may have done it. */
  #isLate({ rev }: RefreshToken, { row, contents: { spent = [] } }: OpenedRow): boolean {
    const spentAt = rev < row.rev ? spent.at(rev - row.rev) : undefined
    const age = this.#app.clock.now() - (spentAt ?? Number.NEGATIVE_INFINITY)
    // A clock that was set back gives no client more time.
    return age > -REPEAT && age < LATE
  }

  /** Ends the agent of a refresh or access token, if it is of this client (RFC 7009 section 2.1). */
  async revoke(realm: Realm, revocation: Revocation, request: FastifyRequest) {
    const { token, clientId } = revocation
    const { sid } = this.#openRefresh(realm, token) ?? this.#tokens.verify(token) ?? {}
    const { row, contents } = (sid && (await this.#app.sessions.records.open(sid))) || {}
    const consent = contents?.agent
    if (consent?.clientId !== clientId || row?.portal !== realm.portal.name) return
    await this.#app.clients.authenticate(realm, consent, revocation, request)
    const ender = { endedBy: 'program', actor: clientId } as const
    await endSessions(this.#app, [{ sid: row.sid }], ender, request)
  }

  #openRefresh(realm: Realm, text: string): RefreshToken | undefined {
    return unsealValue(text, this.#app.keys.login, purposeAt(realm, 'refresh'))
  }

  async #open({ sid }: RefreshToken, clientId: string) {
    const opened = await this.#app.sessions.records.open(sid)
    const consent = opened?.contents.agent
    if (!opened || consent?.clientId !== clientId)
      throw invalidGrant('the refresh token has ended, or is of another client')
    return { opened, consent }
  }

  /** The row of an agent: it is of the person, and knows nothing of what the provider says. */
  #sealed(
    { sealed: _, ...row }: SessionRow,
    { contents }: OpenedRow,
    consent: Consent,
    spent?: readonly number[],
  ): SessionRow {
    const { issuer, provider, claims } = contents
    const now = this.#app.clock.now()
    const isNew = row.rev === 1
    return sealSession(
      // A renewal is no call.
      { ...row, lease: 0, ...(isNew && { begun: now, lastSeen: now, reRead: now }) },
      {
        issuer,
        provider,
        claims: { sub: String(claims.sub) },
        tokens: {},
        browser: { userAgent: '', address: undefined },
        agent: consent,
        spent,
      },
      this.#app.keys.record,
    )
  }

  /** @param token - without a revision there is no refresh token */
  #answer(
    realm: Realm,
    { session: { profile } }: Visitor,
    { sid, rev }: Pick<RefreshToken, 'sid'> & Partial<RefreshToken>,
    { clientId, resource }: Consent,
    scopes: readonly string[],
  ): TokenAnswer {
    const scope = scopes.join(' ')
    const access = this.#tokens.sign({
      iss: issuerOf(realm),
      aud: resource,
      sub: `${profile.provider}:${profile.id}`,
      client_id: clientId,
      scope,
      sid,
    })
    const { login } = this.#app.keys
    return {
      access_token: access,
      token_type: 'Bearer',
      expires_in: ACCESS_LIFETIME,
      ...(rev !== undefined && {
        refresh_token: sealValue({ sid, rev }, login, purposeAt(realm, 'refresh')),
      }),
      scope,
    }
  }
}

function invalidGrant(why: string): OAuthError {
  return new OAuthError('invalid_grant', why)
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly agents: Agents
  }
}

export const agents = fp(
  async (app: FastifyInstance) => {
    app.decorate('agents', new Agents(app))
  },
  {
    name: 'forward-auth/agents',
    dependencies: [
      'forward-auth/keys',
      'forward-auth/sites',
      'forward-auth/store',
      'service-kit/trust',
      'forward-auth/portals',
      'forward-auth/audit',
      'forward-auth/sessions',
      'forward-auth/logins',
      'forward-auth/clients',
      'service-kit/clock',
    ],
  },
)

import { randomBytes } from 'node:crypto'
import type { Resource } from '@gatehouse/gate'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Ender } from '../audit/audit.ts'
import type { PortalSite } from '../portal-site.ts'
import { portalOf } from '../portals.ts'
import { sealValue, unsealValue } from '../seal.ts'
import { endSessions } from '../session/ends.ts'
import type { OpenedRow } from '../session/records.ts'
import { type Consent, sealSession } from '../session/session.ts'
import type { Visitor } from '../session/visitor.ts'
import { issuerOf, purposeAt, siteOfIssuer } from '../sites.ts'
import type { SessionRow } from '../store/store.ts'
import { Agent } from './agent.ts'
import { isSameUrl, scopesIn } from './authorization-request.ts'
import { OAuthError } from './oauth-error.ts'
import { ownResources } from './own-resources.ts'
import type { Redemption, Renewal, Revocation, TokenAnswer } from './token.ts'
import { ACCESS_LIFETIME, type AccessClaims, AccessTokens, isVerifierOf } from './tokens.ts'

/** The time to redeem a code, in ms. */
const CODE_LIFETIME = 60_000
/** The time in which a client that has not got an answer may send the refresh token before again, in ms. */
const REPEAT = 10_000
const REUSE: Ender = { endedBy: 'reuse' }

/** What a person is asked to allow. */
export interface Demand {
  readonly redirectUri: string
  readonly challenge: string
  readonly consent: Consent
  /** Until when it is good, in ms since the epoch. */
  readonly until: number
}

/** What a code stands for. */
interface Code extends Demand {
  /** ID of the agent to be. */
  readonly sid: string
  /** ID of the session of the person. */
  readonly parent: string
}

/** What a refresh token stands for: an agent, and the number of tokens that it has had. */
type RefreshToken = Pick<SessionRow, 'sid' | 'rev'>

/**
 * The agents of all portals: programs that act for a person, until the session in which the person has allowed it
 * ends. Each is a row of the store below that session.
 */
class Agents {
  readonly #app: FastifyInstance
  readonly #tokens: AccessTokens
  /** By the claims of a token; another visitor is another agent. */
  readonly #agents = new WeakMap<
    AccessClaims,
    { readonly visitor: Visitor; readonly agent: Agent }
  >()

  constructor(app: FastifyInstance) {
    this.#app = app
    this.#tokens = new AccessTokens(app)
  }

  /**
   * The agent that has a token for a resource; undefined if the token, the agent or the session of its person is
   * not valid any more.
   *
   * @throws FwaError FWA_STORE_STALE, FWA_STORE_UNAVAILABLE
   */
  async find(
    token: string,
    resource: Resource,
    request: FastifyRequest,
  ): Promise<Agent | undefined> {
    const claims = this.#tokens.verify(token)
    if (claims?.aud !== resource.url) return undefined
    const { sessions, sites, trust } = this.#app
    const portal = portalOf(request)
    const site = siteOfIssuer(sites, portal, claims.iss)
    if (!site) return undefined
    const { agent } = (await sessions.records.find(claims.sid)) ?? {}
    if (agent?.clientId !== claims.client_id || agent.resource !== claims.aud) return undefined
    const visitor = await sessions.find(agent.parent, { portal, site })
    if (!visitor?.isAllowedAt(() => trust.clientIp(request.raw))) return undefined
    // Whoever uses an agent uses the session that it belongs to.
    for (const sid of [claims.sid, agent.parent]) sessions.records.see(sid, undefined)
    return this.#agentOf(claims, visitor)
  }

  #agentOf(claims: AccessClaims, visitor: Visitor): Agent {
    const known = this.#agents.get(claims)
    if (known?.visitor === visitor) return known.agent
    const agent = new Agent(visitor, claims)
    this.#agents.set(claims, { visitor, agent })
    return agent
  }

  /** A code for what a person has allowed a client. It is good once, for a minute, together with the verifier. */
  codeFor(
    at: PortalSite,
    visitor: Visitor,
    { redirectUri, challenge, consent }: Omit<Demand, 'until'>,
  ): string {
    const { keys, clock } = this.#app
    const code: Code = {
      redirectUri,
      challenge,
      consent,
      parent: visitor.session.sid,
      sid: randomBytes(16).toString('base64url'),
      until: clock.now() + CODE_LIFETIME,
    }
    return sealValue(code, keys.login, purposeAt(at, 'code'))
  }

  /**
   * Redeems a code (RFC 6749 section 4.1.3). A code that comes twice ends what it has brought.
   *
   * @throws OAuthError invalid_grant, invalid_target; FwaError FWA_STORE_UNAVAILABLE
   */
  async begin(at: PortalSite, sent: Redemption, request: FastifyRequest): Promise<TokenAnswer> {
    const { sessions, authStore } = this.#app
    const { sid, parent, consent, until } = this.#openCode(at, sent)
    const person = await sessions.records.open(parent)
    const visitor = person && (await sessions.find(parent, at))
    if (!person || !visitor?.isAdmitted) throw invalidGrant('the person has signed out')
    const scopes = this.#scopesOf(at, consent, undefined)
    const row = this.#sealed(
      { ...person.row, sid, parent, subject: null, providerSid: null, idle: null, rev: 1 },
      person,
      consent,
    )
    if (!(await authStore.beginAgent(row, { id: sid, until }))) {
      await endSessions(this.#app, [{ sid }], REUSE, request)
      request.log.warn({ client: consent.clientId }, 'a code came twice, or its session has ended')
      throw invalidGrant('the code was used before, or the person has signed out')
    }
    this.#app.auditTrail.record(request, {
      event: 'agent-allowed',
      portal: at.portal.name,
      profile: visitor.session.profile,
      host: new URL(consent.resource).host,
      client: consent.clientId,
    })
    return this.#answer(at, visitor, { sid, rev: 1 }, consent, scopes)
  }

  /** What a code stands for, if it is for whoever sends it. */
  #openCode(at: PortalSite, sent: Redemption): Code {
    const { keys, clock } = this.#app
    const code = unsealValue<Code>(sent.code, keys.login, purposeAt(at, 'code'))
    if (!code || clock.now() >= code.until) throw invalidGrant('the code is unknown or has expired')
    const { consent } = code
    // In one sentence: whoever has stolen a code learns nothing of whom it is for.
    const isOf =
      sent.client_id === consent.clientId &&
      sent.redirect_uri === code.redirectUri &&
      isVerifierOf(sent.code_verifier, code.challenge)
    if (!isOf) throw invalidGrant('the code is for another client, redirect_uri or code_verifier')
    assertTarget(sent.resource, consent.resource)
    return code
  }

  /**
   * Gives an agent new tokens, and takes back the old refresh token (RFC 9700 section 4.14.2). The one before ends
   * the agent, unless its answer may have been lost just now.
   *
   * @throws OAuthError invalid_grant, invalid_scope, invalid_target; FwaError FWA_STORE_UNAVAILABLE
   */
  async renew(at: PortalSite, sent: Renewal, request: FastifyRequest): Promise<TokenAnswer> {
    const { sessions, signInRate } = this.#app
    const token = this.#openRefresh(at, sent.refresh_token)
    if (!token) throw invalidGrant('the refresh token is unknown')
    signInRate.require(`tokens of ${token.sid}`, 'too many tokens')
    const { opened, consent } = await this.#open(token, sent.client_id)
    assertTarget(sent.resource, consent.resource)
    const scopes = this.#scopesOf(at, consent, sent.scope)
    const visitor = await sessions.find(opened.row.parent ?? '', at)
    if (!visitor?.isAdmitted) throw invalidGrant('the session of the person has ended')
    const current = await this.#next(token, opened, consent, visitor.session.ends)
    if (current) return this.#answer(at, visitor, current, consent, scopes)
    await endSessions(this.#app, [{ sid: token.sid }], REUSE, request)
    request.log.warn(
      { client: consent.clientId },
      'a refresh token came again: its agent has ended',
    )
    throw invalidGrant('the refresh token was used before, so that all tokens of it have ended')
  }

  /** The scopes of new tokens: of those that the person has allowed, what is asked for and still configured. */
  #scopesOf(at: PortalSite, { resource, scopes }: Consent, wanted: string | undefined): string[] {
    const configured = ownResources(this.#app, at).find(({ url }) => url === resource)
    if (!configured) throw invalidGrant('the resource is not one of this portal any more')
    const asked = new Set(wanted === undefined ? scopes : scopesIn(wanted))
    if (![...asked].every((scope) => scopes.includes(scope)))
      throw new OAuthError('invalid_scope', 'the person has not allowed this scope')
    return configured.allowed.map(({ name }) => name).filter((name) => asked.has(name))
  }

  /** The refresh token that follows one: undefined if it was used before. */
  async #next(
    token: RefreshToken,
    opened: OpenedRow,
    consent: Consent,
    ends: number,
  ): Promise<RefreshToken | undefined> {
    const { sessions, clock } = this.#app
    const { row } = opened
    // Either way, so that a clock that was set back gives nobody more time.
    if (token.rev === row.rev - 1 && Math.abs(clock.now() - row.reRead) < REPEAT) return row
    if (token.rev !== row.rev) return undefined
    const next = { ...row, rev: row.rev + 1, ends, reRead: clock.now() }
    if (await sessions.records.update(this.#sealed(next, opened, consent))) return next
    // Another request with the same token was quicker.
    const { row: newest } = (await this.#open(token, consent.clientId)).opened
    return newest.rev === next.rev ? newest : undefined
  }

  /** Ends the agent of a refresh or access token, if it is of this client (RFC 7009 section 2.1). */
  async revoke(
    at: PortalSite,
    { token, client_id: clientId }: Revocation,
    request: FastifyRequest,
  ) {
    const sid = (this.#openRefresh(at, token) ?? this.#tokens.verify(token))?.sid
    const found = sid && (await this.#app.sessions.records.open(sid))
    const isOf =
      found && found.said.agent?.clientId === clientId && found.row.portal === at.portal.name
    const ender = { endedBy: 'program', actor: clientId } as const
    if (isOf) await endSessions(this.#app, [{ sid: found.row.sid }], ender, request)
  }

  #openRefresh(at: PortalSite, text: string): RefreshToken | undefined {
    return unsealValue(text, this.#app.keys.login, purposeAt(at, 'refresh'))
  }

  async #open({ sid }: RefreshToken, clientId: string) {
    const opened = await this.#app.sessions.records.open(sid)
    const consent = opened?.said.agent
    if (!opened || consent?.clientId !== clientId)
      throw invalidGrant('the refresh token has ended, or is of another client')
    return { opened, consent }
  }

  /** The row of an agent: it is of the person, and knows nothing of what the provider says. */
  #sealed({ sealed: _, ...row }: SessionRow, { said }: OpenedRow, consent: Consent): SessionRow {
    const { issuer, provider, claims } = said
    const now = this.#app.clock.now()
    const isNew = row.rev === 1
    return sealSession(
      { ...row, lastSeen: now, lease: 0, ...(isNew && { begun: now, reRead: now }) },
      {
        issuer,
        provider,
        claims: { sub: String(claims.sub) },
        tokens: {},
        browser: { userAgent: '', address: undefined },
        agent: consent,
      },
      this.#app.keys.record,
    )
  }

  #answer(
    at: PortalSite,
    { session: { profile } }: Visitor,
    { sid, rev }: RefreshToken,
    { clientId, resource }: Consent,
    scopes: readonly string[],
  ): TokenAnswer {
    const scope = scopes.join(' ')
    const access = this.#tokens.sign({
      iss: issuerOf(at),
      aud: resource,
      sub: `${profile.provider}:${profile.id}`,
      client_id: clientId,
      scope,
      sid,
    })
    return {
      access_token: access,
      token_type: 'Bearer',
      expires_in: ACCESS_LIFETIME,
      refresh_token: sealValue({ sid, rev }, this.#app.keys.login, purposeAt(at, 'refresh')),
      scope,
    }
  }
}

function assertTarget(wanted: string | undefined, url: string): void {
  if (wanted !== undefined && !isSameUrl(url, wanted))
    throw new OAuthError('invalid_target', 'resource is not the one that the person has allowed')
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
    fastify: '5.x',
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
      'service-kit/clock',
    ],
  },
)

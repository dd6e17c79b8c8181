import { type Claims, fromClaims, type Profile } from '@gatehouse/profile'
import { compactVerify } from 'jose'
import {
  buildEndSessionUrl,
  type Configuration,
  fetchUserInfo,
  refreshTokenGrant,
  type TokenEndpointResponse,
  type TokenEndpointResponseHelpers,
} from 'openid-client'
import type { Static } from 'typebox'
import { type ClaimPaths, lacksClaims, mergeClaims, profileAgain } from './claims.ts'
import { createKeyRenewal, discover, type Registration } from './client.ts'
import { Discovery } from './discovery.ts'
import { isOutage, isUnauthorized, toLogoutError, toProviderError, toReRead } from './failure.ts'
import { isId, parseLogoutToken } from './logout-token.ts'
import { authorizationRequest, type Exchange, inExchange, redeemCode } from './oauth.ts'
import type { trustEmail } from './options.ts'
import type { Preset } from './presets/index.ts'
import type {
  AuthorizationOptions,
  Behaviour,
  ProviderDeps,
  ProviderTokens,
  RedirectProvider,
  ReRead,
  SignedIn,
} from './provider.ts'
import { keepRefresh, keepTokens } from './tokens.ts'

/** The tolerance of openid-client. */
const CLOCK_SKEW_SECONDS = 30
/** An answer that comes too late costs the session where refresh tokens are valid once, and nobody waits for it. */
const MIN_REFRESH_TIMEOUT_MS = 30_000

export type OidcOptions = ClaimPaths &
  Registration & {
    readonly title: string
    /** Default: `openid`, `profile`, `email`, and `groups` if the provider supports it. */
    readonly scopes?: readonly string[]
    readonly trustEmail?: Static<typeof trustEmail>
  }

/** The answer of a token endpoint; without `claims`, an access token alone. */
type Answer = TokenEndpointResponse & Partial<TokenEndpointResponseHelpers>
type Session = Pick<SignedIn, 'profile' | 'tokens'>

/** Creates a provider of OpenID Connect. It keeps nothing of a login. */
export function createOidc(
  options: OidcOptions,
  preset: Preset,
  deps: ProviderDeps,
): Behaviour<RedirectProvider> {
  const { name, title, ca, timeout, clientId } = options
  const issuer = preset.issuer(options)
  const { clock } = deps
  const fetch = deps.createFetch({ timeoutMs: timeout, ...(ca !== undefined && { ca }) })
  const fail = (error: unknown) => Promise.reject(toProviderError(title, error))
  const discovery = new Discovery(name, () => discover(options, issuer, fetch).catch(fail), deps)
  const withKeys = createKeyRenewal(clock)

  function noteOutage(error: unknown): void {
    if (isOutage(error)) discovery.reportFailure(toProviderError(title, error))
  }

  /** Reads the person of an ID token, and of UserInfo if claims that are wanted are not in it. */
  async function read(configuration: Configuration, answer: Answer, session?: Session) {
    const idToken = answer.claims?.() as Claims | undefined
    if (idToken) checkIdToken(idToken, clientId)
    const url = preset.userInfo !== 'nothing' && configuration.serverMetadata().userinfo_endpoint
    if (!idToken && !url) throw new Error('the answer has no ID token')
    const isAsked = idToken
      ? !preset.userInfo && lacksClaims(idToken, options, scopesOf(configuration, options))
      : true
    const isAccessNeeded = (refresh: unknown) =>
      deps.keepsAccess || (refresh === undefined && Boolean(url))
    const subject = String(idToken?.sub ?? session?.profile.id)
    const userInfo =
      url && isAsked ? await fetchUserInfo(configuration, answer.access_token, subject) : {}
    const claims = readClaims(idToken ?? {}, userInfo, options, preset)
    return {
      profile: session ? profileAgain(name, claims, session.profile) : fromClaims(name, claims),
      tokens: keepTokens(answer, session?.tokens ?? {}, isAccessNeeded, clock),
      ...(idToken && { issuedAt: Number(idToken.iat) }),
      ...(isId(idToken?.sid) && { sid: idToken.sid }),
    }
  }

  async function askAgain(session: Session, exchange: Exchange): Promise<SignedIn> {
    const server = await discovery.get()
    const { refresh, access = '' } = session.tokens
    if (refresh === undefined) {
      const answer = { access_token: access, token_type: 'bearer' } as const
      return {
        ...(await read(server.client.configuration, answer, session)),
        tokens: session.tokens,
      }
    }
    const answer = await inExchange(exchange, () =>
      withKeys(server, ({ configuration }) => refreshTokenGrant(configuration, refresh)),
    )
    return read(server.client.configuration, answer, session)
  }

  async function reRead(tokens: ProviderTokens, storedProfile: Profile): Promise<ReRead> {
    const { refresh, access, accessUntil } = tokens
    const isUsable = access !== undefined && (accessUntil ?? Infinity) > clock.now()
    if (refresh === undefined && !isUsable) return { kind: 'impossible' }
    const exchange: Exchange = { timeoutMs: Math.max(timeout, MIN_REFRESH_TIMEOUT_MS) }
    try {
      const signedIn = await askAgain({ tokens, profile: storedProfile }, exchange)
      return signedIn.profile.id === storedProfile.id
        ? { kind: 'read', signedIn }
        : { kind: 'ended', why: 'the provider tells of somebody else (claim "sub")' }
    } catch (error) {
      noteOutage(error)
      const isOver = clock.now() >= (accessUntil ?? 0) - CLOCK_SKEW_SECONDS * 1_000
      // A refusal says nothing about a token that may have expired.
      if (refresh === undefined && isOver && isUnauthorized(error)) return { kind: 'impossible' }
      const answer = toReRead(title, error, refresh !== undefined && !exchange.answer)
      const renewed = keepRefresh(tokens, exchange.answer)
      return answer.kind === 'fault' && renewed ? { ...answer, tokens: renewed } : answer
    }
  }

  return {
    type: 'redirect',
    relation: { issuer, clientId },
    reReads: reReads(options, preset),
    failing: () => discovery.failing(),
    async authorizationUrl(login) {
      const { configuration } = (await discovery.get()).client
      return authorizationRequest(configuration, login, {
        ...preset.parameters,
        ...options.authorizationParameters,
        scope: scopesOf(configuration, options, login.offlinePrompt !== undefined).join(' '),
        nonce: login.nonce,
        ...stepUpParameters(login),
        ...(login.chooseAccount && { prompt: promptOf(configuration, preset) }),
        ...(login.offlinePrompt && { prompt: login.offlinePrompt }),
      })
    },
    async finish(callback, login) {
      try {
        const server = await discovery.get()
        const answer = await inExchange({}, () =>
          withKeys(server, ({ configuration }) =>
            redeemCode(configuration, callback, login, login.nonce),
          ),
        )
        return await read(server.client.configuration, answer)
      } catch (error) {
        noteOutage(error)
        throw toProviderError(title, error)
      }
    },
    reRead,
    async readLogoutToken(token) {
      try {
        const server = await discovery.get()
        const { algorithms } = server
        const read = parseLogoutToken(token, { issuer, clientId, algorithms })
        await withKeys(server, ({ keys }) => compactVerify(token, keys, { algorithms }))
        return read
      } catch (error) {
        noteOutage(error)
        throw toLogoutError(title, error)
      }
    },
    async logoutUrl(postLogoutRedirectUri, idToken) {
      // Signing out here does not wait for a provider that is down.
      if (discovery.failing()) return undefined
      const { configuration } = (await discovery.get().catch(() => undefined))?.client ?? {}
      if (!configuration?.serverMetadata().end_session_endpoint) return undefined
      // With `client_id`, since a hint alone may be too old to name the client.
      return buildEndSessionUrl(configuration, {
        post_logout_redirect_uri: postLogoutRedirectUri,
        ...(idToken !== undefined && { id_token_hint: idToken }),
      })
    },
    async close() {
      discovery.close()
      await fetch.close()
    },
  }
}

/** Whether people can be read again, as far as the configuration tells: by UserInfo, or with a refresh token. */
export function reReads({ scopes = [] }: Pick<OidcOptions, 'scopes'>, { userInfo }: Preset) {
  return userInfo !== 'nothing' || scopes.includes('offline_access')
}

/** The claims of a person as the configuration of a provider reads them. */
export function readClaims(
  idToken: Claims,
  userInfo: Claims,
  options: ClaimPaths & Pick<OidcOptions, 'trustEmail'>,
  { claimsOf = (claims) => claims }: Pick<Preset, 'claimsOf'>,
): Claims {
  const merged = mergeClaims(idToken, userInfo, options)
  return withTrust(claimsOf(merged, options), options.trustEmail)
}

/** The claims with an address that is verified if the configuration trusts it. */
export function withTrust(claims: Claims, trustEmail: OidcOptions['trustEmail']): Claims {
  const isSilent = (claims.email_verified ?? claims.verified_email) == null
  const isTrusted = trustEmail === 'unlessFalse' ? isSilent : trustEmail
  return isTrusted ? { ...claims, email_verified: true } : claims
}

/** The checks of OpenID Connect Core section 3.1.3.7 that openid-client leaves out. */
function checkIdToken({ azp, iat }: Claims, clientId: string): void {
  if (azp !== undefined && azp !== clientId)
    throw new Error(`the ID token was issued to another client: its claim "azp" is not ${clientId}`)
  // Date.now, since openid-client compares the other times with it.
  if (Number(iat) > Date.now() / 1_000 + CLOCK_SKEW_SECONDS)
    throw new Error('the ID token is from the future (claim "iat"): compare the clocks')
}

function scopesOf(
  configuration: Configuration,
  { scopes }: OidcOptions,
  isOffline = false,
): readonly string[] {
  const { scopes_supported: supported } = configuration.serverMetadata()
  const has = (scope: string) => Array.isArray(supported) && supported.includes(scope)
  const groups = has('groups') ? ['groups'] : []
  const offline = isOffline && has('offline_access') ? ['offline_access'] : []
  return [...new Set(['openid', ...(scopes ?? ['profile', 'email', ...groups]), ...offline])]
}

/** OpenID Connect Core section 3.1.2.1. */
function stepUpParameters({ stepUp }: AuthorizationOptions) {
  const { acr = [], maxAge } = stepUp ?? {}
  return {
    ...(acr.length > 0 && { acr_values: acr.join(' ') }),
    ...(maxAge !== undefined && { max_age: String(Math.floor(maxAge / 1_000)) }),
  }
}

/** The `prompt` that lets the person use another account (OpenID Connect Core section 3.1.2.1). */
function promptOf(configuration: Configuration, { choosesAccount = false }: Preset): string {
  const { prompt_values_supported: supported } = configuration.serverMetadata()
  const canChoose = Array.isArray(supported) && supported.includes('select_account')
  return choosesAccount || canChoose ? 'select_account' : 'login'
}

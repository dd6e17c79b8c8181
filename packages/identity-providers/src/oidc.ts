import { type BoundedFetch, parseAdvertisedUrl, parseEndpointUrl } from '@gatehouse/net'
import { type Claims, fromClaims } from '@gatehouse/profile'
import type { Clock } from '@gatehouse/service-kit/clock'
import {
  allowInsecureRequests,
  buildEndSessionUrl,
  type Configuration,
  enableNonRepudiationChecks,
  fetchUserInfo,
  type ServerMetadata,
} from 'openid-client'
import { type Static, type TObject, Type } from 'typebox'
import { type ClaimPaths, lacksClaims, mergeClaims } from './claims.ts'
import { Discovery } from './discovery.ts'
import { isOutage, toProviderError } from './failure.ts'
import {
  assertionAuthentication,
  authorizationRequest,
  configure,
  redeemCode,
  secretAuthentication,
} from './oauth.ts'
import type { clientOptions, secretOrAssertion, trustEmail } from './options.ts'
import type {
  AuthorizationOptions,
  Behaviour,
  Login,
  ProviderDeps,
  RedirectProvider,
} from './provider.ts'
import { requestJson } from './request.ts'

const ALGORITHM = /^(RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA|Ed25519)$/
/** The tolerance of openid-client. */
const CLOCK_SKEW_SECONDS = 30
/** Minimum time between two key requests that ID tokens with an unknown key cause. */
const KEYS_COOLDOWN_MS = 10_000

const Url = Type.String({ minLength: 1 })
const Strings = Type.Array(Type.String())
const MetadataSchema = Type.Object({
  issuer: Url,
  authorization_endpoint: Url,
  token_endpoint: Url,
  jwks_uri: Url,
  userinfo_endpoint: Type.Optional(Url),
  end_session_endpoint: Type.Optional(Url),
  id_token_signing_alg_values_supported: Type.Optional(Strings),
  token_endpoint_auth_methods_supported: Type.Optional(Strings),
})
const ENDPOINTS = [
  'authorization_endpoint',
  'token_endpoint',
  'jwks_uri',
  'userinfo_endpoint',
  'end_session_endpoint',
] as const

type ClientOptions = ClaimPaths &
  Static<TObject<typeof clientOptions & typeof secretOrAssertion>> & {
    readonly title: string
    /** Default: `openid`, `profile`, `email`, and `groups` if the provider supports it. */
    readonly scopes?: readonly string[]
    readonly trustEmail?: Static<typeof trustEmail>
  }

/** The differences between kinds of OpenID providers. */
export interface OidcKind {
  /** Exactly as the provider writes it. */
  readonly issuer: string
  /** Whether UserInfo has claims that the ID token lacks. Default: true. */
  readonly hasUserInfo?: boolean
  /** Whether it supports `prompt=select_account` without saying so. */
  readonly choosesAccount?: boolean
  readonly claimsOf?: (claims: Claims) => Claims
}

/** Creates a provider of OpenID Connect. It keeps nothing of a login. */
export function createOidc(
  options: ClientOptions,
  kind: OidcKind,
  deps: ProviderDeps,
): Behaviour<RedirectProvider> {
  const { name, title, ca, timeout, trustEmail = false } = options
  const fetch = deps.createFetch({ timeoutMs: timeout, ...(ca !== undefined && { ca }) })
  const fail = (error: unknown) => Promise.reject(toProviderError(title, error))
  const discovery = new Discovery(name, () => discover(options, kind, fetch).catch(fail), deps)
  const renewKeys = createKeyRenewal(deps.clock)
  return {
    type: 'redirect',
    failing: () => discovery.failing(),
    async authorizationUrl(login) {
      const { configuration } = await discovery.get()
      return authorizationRequest(configuration, login, {
        ...options.authorizationParameters,
        scope: scopesOf(configuration, options).join(' '),
        nonce: login.nonce,
        ...stepUpParameters(login),
        ...(login.chooseAccount && { prompt: promptOf(configuration, kind) }),
      })
    },
    async finish(callback, login) {
      try {
        const client = await discovery.get()
        const sent = await readClaims(client, callback, login, renewKeys, { ...options, ...kind })
        const claims = kind.claimsOf?.(sent) ?? sent
        return fromClaims(name, withTrust(claims, trustEmail))
      } catch (error) {
        const failure = toProviderError(title, error)
        if (isOutage(error)) discovery.reportFailure(failure)
        throw failure
      }
    },
    logoutUrl: (postLogoutRedirectUri) => logoutUrl(discovery, postLogoutRedirectUri),
    async close() {
      discovery.close()
      await fetch.close()
    },
  }
}

/** The claims with an address that is verified if the configuration trusts it. */
export function withTrust(claims: Claims, trustEmail: ClientOptions['trustEmail']): Claims {
  const isSilent = (claims.email_verified ?? claims.verified_email) == null
  const isTrusted = trustEmail === 'unlessFalse' ? isSilent : trustEmail
  return isTrusted ? { ...claims, email_verified: true } : claims
}

/** The configuration of openid-client, which caches the keys, and a function that makes a fresh one. */
interface Client {
  configuration: Configuration
  readonly configure: () => Configuration
}

type KeyRenewal = ReturnType<typeof createKeyRenewal>

/**
 * Fetches the keys again if none of them verifies an ID token, as after a rotation. Tokens with
 * unknown keys cause at most one request per cooldown.
 */
function createKeyRenewal({ now }: Clock) {
  let renewedAt = Number.NEGATIVE_INFINITY
  return (client: Client, failed: Configuration): Configuration | undefined => {
    if (client.configuration !== failed) return client.configuration
    const age = now() - renewedAt
    // A negative age, after the clock was set back, does not extend the cooldown.
    if (age >= 0 && age < KEYS_COOLDOWN_MS) return undefined
    renewedAt = now()
    client.configuration = client.configure()
    return client.configuration
  }
}

/** The claims of the ID token and, if it lacks some that are wanted, of UserInfo. */
async function readClaims(
  client: Client,
  callback: URL,
  login: Login,
  renewKeys: KeyRenewal,
  { hasUserInfo = true, ...options }: Pick<OidcKind, 'hasUserInfo'> & ClientOptions,
): Promise<Claims> {
  const { configuration } = client
  const renew = () => renewKeys(client, configuration)
  const tokens = await redeemCode(configuration, callback, login, login.nonce, renew)
  const idToken = tokens.claims() as Claims
  checkIdToken(idToken, configuration.clientMetadata().client_id)
  const isAsked = hasUserInfo && lacksClaims(idToken, options, scopesOf(configuration, options))
  const userInfo =
    isAsked && configuration.serverMetadata().userinfo_endpoint
      ? await fetchUserInfo(configuration, tokens.access_token, String(idToken.sub))
      : {}
  return mergeClaims(idToken, userInfo, options)
}

/** The checks of OpenID Connect Core section 3.1.3.7 that openid-client leaves out. */
function checkIdToken({ azp, iat }: Claims, clientId: string): void {
  if (azp !== undefined && azp !== clientId)
    throw new Error(`the ID token was issued to another client: its claim "azp" is not ${clientId}`)
  // Date.now, since openid-client compares the other times with it.
  if (Number(iat) > Date.now() / 1_000 + CLOCK_SKEW_SECONDS)
    throw new Error('the ID token is from the future (claim "iat"): compare the clocks')
}

async function logoutUrl(
  discovery: Discovery<Client>,
  postLogoutRedirectUri: string,
): Promise<URL | undefined> {
  // Signing out here does not wait for a provider that is down.
  if (discovery.failing()) return undefined
  const { configuration } = (await discovery.get().catch(() => undefined)) ?? {}
  if (!configuration?.serverMetadata().end_session_endpoint) return undefined
  return buildEndSessionUrl(configuration, { post_logout_redirect_uri: postLogoutRedirectUri })
}

/** OpenID Connect Discovery 1.0 section 4. */
async function discover(
  { clientId, clientSecret, clientAssertion }: ClientOptions,
  { issuer }: OidcKind,
  fetch: BoundedFetch,
): Promise<Client> {
  const url = parseEndpointUrl(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  const metadata = await requestJson(fetch, url, MetadataSchema)
  // Compared as text: openid-client would compare URLs.
  if (metadata.issuer !== issuer)
    throw new Error(`${url} names the issuer ${JSON.stringify(metadata.issuer)}, not "${issuer}"`)
  for (const name of ENDPOINTS)
    if (metadata[name] !== undefined) parseAdvertisedUrl(metadata[name], { from: url })

  const { id_token_signing_alg_values_supported: algorithms = ['RS256'] } = metadata
  const server = {
    ...metadata,
    id_token_signing_alg_values_supported: algorithms.filter((name) => ALGORITHM.test(name)),
  }
  const authentication = clientAssertion
    ? assertionAuthentication(clientAssertion, fetch)
    : secretAuthentication(clientSecret, server.token_endpoint_auth_methods_supported)
  function configureClient(): Configuration {
    const configuration = configure(server as ServerMetadata, clientId, authentication, fetch)
    // By default openid-client does not verify the signature of a token from the token endpoint.
    enableNonRepudiationChecks(configuration)
    // Only for loopback: `request` refuses http elsewhere.
    if (url.protocol === 'http:') allowInsecureRequests(configuration)
    return configuration
  }
  return { configuration: configureClient(), configure: configureClient }
}

function scopesOf(configuration: Configuration, { scopes }: ClientOptions): readonly string[] {
  if (scopes) return ['openid', ...scopes.filter((scope) => scope !== 'openid')]
  const { scopes_supported: supported } = configuration.serverMetadata()
  const hasGroups = Array.isArray(supported) && supported.includes('groups')
  return ['openid', 'profile', 'email', ...(hasGroups ? ['groups'] : [])]
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
function promptOf(configuration: Configuration, { choosesAccount = false }: OidcKind): string {
  const { prompt_values_supported: supported } = configuration.serverMetadata()
  const canChoose = Array.isArray(supported) && supported.includes('select_account')
  return choosesAccount || canChoose ? 'select_account' : 'login'
}

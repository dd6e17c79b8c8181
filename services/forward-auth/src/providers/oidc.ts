import { type BoundedFetch, parseAdvertisedUrl, parseEndpointUrl } from '@gatehouse/net'
import { type Claims, fromClaims } from '@gatehouse/profile'
import {
  allowInsecureRequests,
  buildEndSessionUrl,
  type Configuration,
  enableNonRepudiationChecks,
  fetchUserInfo,
  type ServerMetadata,
} from 'openid-client'
import { Type } from 'typebox'
import { askJson } from './ask.ts'
import { assertionAuthentication, secretAuthentication } from './client-authentication.ts'
import type { ProviderDeps } from './deps.ts'
import { createDiscovery } from './discovery.ts'
import { isOutage, toFwaError } from './failure.ts'
import { authorizationRequest, configure, redeemCode } from './oauth.ts'
import type { ClientAssertion } from './options.ts'
import { type Presentation, present } from './present.ts'
import type { RedirectProvider } from './provider.ts'

/** Those that need a public key to verify. */
const ALGORITHM = /^(RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA|Ed25519)$/

/** As much as openid-client allows clocks to differ. */
const CLOCK_SKEW_SECONDS = 30
/** Least time between two readings of the keys that an unknown key has caused. */
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

/** What the configuration of every kind of OpenID provider has. */
interface ClientOptions extends Presentation {
  readonly clientId: string
  readonly clientSecret?: string
  readonly clientAssertion?: ClientAssertion
  readonly ca?: string
  readonly timeout: number
  /** Absent: what most need, and groups where the provider offers them. */
  readonly scopes?: readonly string[]
}

/** What the kinds of OpenID providers differ in. */
export interface OidcKind {
  /** Exactly as the provider writes it. */
  readonly issuer: string
  readonly isPublic?: boolean
  /** Whether UserInfo says what the ID token leaves out; default true. */
  readonly hasUserInfo?: boolean
  /** Whether it can be asked to let the person choose an account, though it does not say so. */
  readonly choosesAccount?: boolean
  /** The claims of the profile; default: as the provider has sent them. */
  readonly claimsOf?: (claims: Claims) => Claims
}

/** A provider of OpenID Connect. Nothing of a login stays in it. */
export function createOidcProvider(
  options: ClientOptions,
  kind: OidcKind,
  deps: ProviderDeps,
): RedirectProvider {
  const { ca, timeout } = options
  const shown = present(options)
  const fetch = deps.createFetch({ timeoutMs: timeout, ...(ca !== undefined && { ca }) })
  const fail = (error: unknown) => toFwaError(shown.title, error)
  const discovery = createDiscovery(
    options.name,
    () =>
      discover(options, kind, fetch).catch((error) => {
        throw fail(error)
      }),
    deps,
  )

  const renewKeys = createKeyRenewal(deps.clock)

  async function readClaims(callback: URL, login: Parameters<RedirectProvider['finish']>[1]) {
    const client = await discovery.get()
    const { configuration } = client
    const renew = () => renewKeys(client, configuration)
    const tokens = await redeemCode(configuration, callback, login, login.nonce, renew)
    const claims = tokens.claims() as Claims
    checkIdToken(claims, options.clientId)
    if (kind.hasUserInfo === false || 'groups' in claims) return claims
    if (!configuration.serverMetadata().userinfo_endpoint) return claims
    return merge(
      claims,
      await fetchUserInfo(configuration, tokens.access_token, String(claims.sub)),
    )
  }

  return {
    ...shown,
    type: 'redirect',
    isPublic: kind.isPublic ?? false,
    failing: discovery.failing,
    async authorizationUrl(login) {
      const { configuration } = await discovery.get()
      return authorizationRequest(configuration, login, {
        scope: scopesOf(configuration, options).join(' '),
        nonce: login.nonce,
        ...(login.chooseAccount && { prompt: promptOf(configuration, kind) }),
      })
    },
    async finish(callback, login) {
      try {
        const claims = await readClaims(callback, login)
        return fromClaims(options.name, kind.claimsOf?.(claims) ?? claims)
      } catch (error) {
        const failure = fail(error)
        if (isOutage(error)) discovery.lost(failure)
        throw failure
      }
    },
    async logoutUrl(postLogoutRedirectUri) {
      // While it is down nobody signs out there, nor waits for it to sign out here.
      if (discovery.failing()) return undefined
      const { configuration } = (await discovery.get().catch(() => undefined)) ?? {}
      if (!configuration?.serverMetadata().end_session_endpoint) return undefined
      return buildEndSessionUrl(configuration, { post_logout_redirect_uri: postLogoutRedirectUri })
    },
    async close() {
      discovery.close()
      await fetch.close()
    },
  }
}

/** What openid-client knows of a provider; `configure` makes the same without its keys. */
interface Client {
  configuration: Configuration
  readonly configure: () => Configuration
}

/**
 * Has the keys read anew for logins whose ID token none of them verifies, as after a rotation. A
 * provider that signs with made-up keys causes one reading per cooldown.
 */
function createKeyRenewal({ now }: ProviderDeps['clock']) {
  let renewedAt = Number.NEGATIVE_INFINITY
  return (client: Client, failed: Configuration): Configuration | undefined => {
    if (client.configuration !== failed) return client.configuration
    const age = now() - renewedAt
    // A clock that was set back must not make it wait.
    if (age >= 0 && age < KEYS_COOLDOWN_MS) return undefined
    renewedAt = now()
    client.configuration = client.configure()
    return client.configuration
  }
}

/** OpenID Connect Core section 3.1.3.7, as far as openid-client leaves it out. */
function checkIdToken({ azp, iat }: Claims, clientId: string): void {
  if (azp !== undefined && azp !== clientId)
    throw new Error(`the ID token was made for another client: its claim "azp" is not ${clientId}`)
  // Like the other times of the token, by the clock that openid-client uses.
  if (Number(iat) > Date.now() / 1_000 + CLOCK_SKEW_SECONDS)
    throw new Error('the ID token is from the future (claim "iat"): compare the clocks')
}

/** OpenID Connect Discovery 1.0 section 4. */
async function discover(
  { clientId, clientSecret, clientAssertion }: ClientOptions,
  { issuer }: OidcKind,
  fetch: BoundedFetch,
): Promise<Client> {
  const url = parseEndpointUrl(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  const metadata = await askJson(fetch, url, MetadataSchema)
  // Character by character: openid-client would compare as URLs.
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
    // By default openid-client trusts a token that came from the token endpoint without its signature.
    enableNonRepudiationChecks(configuration)
    // `ask` sees to https; this is for loopback.
    if (url.protocol === 'http:') allowInsecureRequests(configuration)
    return configuration
  }
  return { configuration: configureClient(), configure: configureClient }
}

/** What UserInfo adds to the ID token; an address and whether it is verified are of one source. */
function merge(idToken: Claims, userInfo: Claims): Claims {
  return 'email' in idToken
    ? { ...withoutEmail(userInfo), ...idToken }
    : { ...userInfo, ...withoutEmail(idToken) }
}

function withoutEmail({ email, email_verified, verified_email, ...claims }: Claims): Claims {
  return claims
}

function scopesOf(configuration: Configuration, { scopes }: ClientOptions): readonly string[] {
  if (scopes) return ['openid', ...scopes.filter((scope) => scope !== 'openid')]
  const { scopes_supported: supported } = configuration.serverMetadata()
  const hasGroups = Array.isArray(supported) && supported.includes('groups')
  return ['openid', 'profile', 'email', ...(hasGroups ? ['groups'] : [])]
}

/** What lets a person sign in as somebody else (OpenID Connect Core section 3.1.2.1). */
function promptOf(configuration: Configuration, { choosesAccount = false }: OidcKind): string {
  const { prompt_values_supported: supported } = configuration.serverMetadata()
  const canChoose = Array.isArray(supported) && supported.includes('select_account')
  return choosesAccount || canChoose ? 'select_account' : 'login'
}

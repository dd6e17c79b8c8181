import { AsyncLocalStorage } from 'node:async_hooks'
import { readFile } from 'node:fs/promises'
import { type BoundedFetch, type FetchAnswer, parseJson } from '@gatehouse/net'
import { createRemoteJWKSet, customFetch as keysFetch } from 'jose'
import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  type CustomFetch,
  type CustomFetchOptions,
  calculatePKCECodeChallenge,
  customFetch,
  type ServerMetadata,
} from 'openid-client'
import { Type } from 'typebox'
import { ProviderError } from './errors.ts'
import type { ClientAssertion } from './options.ts'
import type { Login } from './provider.ts'
import { readJson, request } from './request.ts'

/** Success, and the errors of RFC 6749 section 5.2 and RFC 6750 section 3.1. */
const STATUSES = [200, 400, 401, 403]
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
/** The instance metadata service of Azure: link-local, without TLS by design. */
const AZURE_IDENTITY = 'http://169.254.169.254/metadata/identity/oauth2/token'
const AzureTokenSchema = Type.Object({ access_token: Type.String({ minLength: 1 }) })

/** The configuration of openid-client for one client of one server. All requests go through `fetch`. */
export function configure(
  server: ServerMetadata,
  clientId: string,
  authentication: ClientAuth,
  fetch: BoundedFetch,
): Configuration {
  const configuration = new Configuration(server, clientId, {}, authentication)
  configuration[customFetch] = boundedFetch(fetch)
  return configuration
}

/** The authorization request (RFC 6749 section 4.1.1), with state and PKCE. */
export async function authorizationRequest(
  configuration: Configuration,
  { state, codeVerifier, redirectUri }: Login,
  parameters: Readonly<Record<string, string>>,
): Promise<URL> {
  return buildAuthorizationUrl(configuration, {
    ...parameters,
    redirect_uri: redirectUri,
    state,
    code_challenge: await calculatePKCECodeChallenge(codeVerifier),
    code_challenge_method: 'S256',
  })
}

/** A request to the token endpoint, and its answer as soon as it is there. */
export interface Exchange {
  /** The timeout of the request, if not the one of the provider. */
  readonly timeoutMs?: number
  answer?: FetchAnswer
}

const exchanges = new AsyncLocalStorage<Exchange>()

/** Runs attempts that share one token request, since a code or refresh token may be valid once. */
export function inExchange<T>(exchange: Exchange, attempts: () => Promise<T>): Promise<T> {
  return exchanges.run(exchange, attempts)
}

/** Exchanges the code of a callback for tokens (RFC 6749 section 4.1.3). @param nonce - of the ID token, if one comes */
export function redeemCode(
  configuration: Configuration,
  callback: URL,
  { state, codeVerifier, redirectUri }: Login,
  nonce?: string,
) {
  const url = new URL(redirectUri)
  url.search = callback.search
  return authorizationCodeGrant(configuration, url, {
    expectedState: state,
    pkceCodeVerifier: codeVerifier,
    ...(nonce !== undefined && { expectedNonce: nonce }),
  })
}

/** The keys at this URL, for jose. They are cached as long as openid-client caches its own. */
export function readKeys(url: string, fetch: BoundedFetch): Keys {
  return createRemoteJWKSet(new URL(url), {
    [keysFetch]: async () =>
      toResponse(await request(fetch, url, { headers: { accept: 'application/json' } })),
    cacheMaxAge: 300_000,
    // Who verifies decides when an unknown key is worth a request.
    cooldownDuration: Number.POSITIVE_INFINITY,
  })
}

export type Keys = ReturnType<typeof createRemoteJWKSet>

function boundedFetch(fetch: BoundedFetch): CustomFetch {
  const reading = new Map<string, Promise<FetchAnswer>>()

  /** Concurrent logins share one request for the keys. */
  function readOnce(url: string): Promise<FetchAnswer> {
    const answer =
      reading.get(url) ??
      request(fetch, url, { headers: { accept: 'application/json' }, status: STATUSES }).finally(
        () => reading.delete(url),
      )
    reading.set(url, answer)
    return answer
  }

  async function read(url: string, { method, headers, body }: CustomFetchOptions) {
    if (method !== 'POST')
      return 'authorization' in headers ? request(fetch, url, { headers }) : readOnce(url)
    const exchange: Exchange = exchanges.getStore() ?? {}
    const { timeoutMs } = exchange
    exchange.answer ??= withError(
      await request(fetch, url, {
        method,
        headers,
        ...(body != null && { body: String(body) }),
        ...(timeoutMs !== undefined && { timeoutMs }),
        status: STATUSES,
      }),
    )
    return exchange.answer
  }
  return async (url, options) => toResponse(await read(url, options))
}

function toResponse({ status, headers, body }: FetchAnswer): Response {
  const type = headers['content-type']
  return new Response(body, {
    status,
    ...(type !== undefined && { headers: { 'content-type': type } }),
  })
}

/** RFC 6749 section 5.2: a 401 of the token endpoint means `invalid_client`, even without a JSON body. */
function withError(answer: FetchAnswer): FetchAnswer {
  if (answer.status !== 401 || typeof Object(parseJson(answer.body)).error === 'string')
    return answer
  const headers = { ...answer.headers, 'content-type': 'application/json' }
  return { ...answer, headers, body: Buffer.from('{"error":"invalid_client"}') }
}

/** Authenticates with a secret, by a method that the server supports. */
export function secretAuthentication(
  secret: string | undefined,
  supported: readonly string[] = ['client_secret_basic'],
): ClientAuth {
  return supported.includes('client_secret_basic')
    ? ClientSecretBasic(secret)
    : ClientSecretPost(secret)
}

/** Authenticates with a token of the platform (RFC 7523 section 2.2), which is read for each login. */
export function assertionAuthentication(
  assertion: ClientAssertion,
  fetch: BoundedFetch,
): ClientAuth {
  return async (_server, { client_id: clientId }, body) => {
    const token = await readAssertion(assertion, fetch).catch((cause) => {
      const message = 'the client assertion could not be made'
      throw new ProviderError('FWA_CLIENT_ASSERTION', message, { cause })
    })
    body.set('client_id', clientId)
    body.set('client_assertion_type', ASSERTION_TYPE)
    body.set('client_assertion', token)
  }
}

async function readAssertion(assertion: ClientAssertion, fetch: BoundedFetch): Promise<string> {
  if (assertion.type === 'azureManagedIdentity') return requestAzureToken(assertion, fetch)
  const token = (await readFile(assertion.file, 'utf8')).trim()
  if (token === '') throw new Error(`${assertion.file} is empty`)
  return token
}

async function requestAzureToken(
  { clientId }: { readonly clientId?: string },
  fetch: BoundedFetch,
): Promise<string> {
  const url = new URL(AZURE_IDENTITY)
  url.searchParams.set('api-version', '2018-02-01')
  url.searchParams.set('resource', 'api://AzureADTokenExchange')
  if (clientId !== undefined) url.searchParams.set('client_id', clientId)
  const answer = await fetch(url, { headers: { metadata: 'true' }, json: true })
  return readJson(answer, AzureTokenSchema, AZURE_IDENTITY).access_token
}

import { AsyncLocalStorage } from 'node:async_hooks'
import type { BoundedFetch, FetchAnswer } from '@gatehouse/net'
import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type ClientAuth,
  ClientError,
  Configuration,
  type CustomFetch,
  calculatePKCECodeChallenge,
  customFetch,
  type ServerMetadata,
} from 'openid-client'
import { ask, parseJson } from './ask.ts'
import type { LoginSecrets } from './provider.ts'

/** Success, and the errors of RFC 6749 section 5.2 and RFC 6750 section 3.1. */
const STATUSES = [200, 400, 401, 403]

/** One login, and where the provider sends the browser back to. */
export type Login = LoginSecrets & { readonly redirectUri: string }

/** What openid-client needs for one client of one server; every request goes through `fetch`. */
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

/** The authorization request (RFC 6749 section 4.1.1), always with state and PKCE. */
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

/** What the token endpoint has answered to one login. */
interface Redeeming {
  answer?: FetchAnswer
}
const redeeming = new AsyncLocalStorage<Redeeming>()

/**
 * Takes the code of the callback to the server (RFC 6749 section 4.1.3); with a nonce for OpenID.
 *
 * @param renew - when no key fits the ID token: a configuration that reads the keys anew, or undefined.
 * The token endpoint is not asked again, as a code counts once.
 */
export function redeemCode(
  configuration: Configuration,
  callback: URL,
  { state, codeVerifier, redirectUri }: Login,
  nonce?: string,
  renew?: () => Configuration | undefined,
) {
  const answered = new URL(redirectUri)
  answered.search = callback.search
  const redeem = (client: Configuration) =>
    authorizationCodeGrant(client, answered, {
      expectedState: state,
      pkceCodeVerifier: codeVerifier,
      ...(nonce !== undefined && { expectedNonce: nonce }),
    })
  return redeeming.run({}, () =>
    redeem(configuration).catch((error) => {
      const renewed = isKeyMiss(error) ? renew?.() : undefined
      if (!renewed) throw error
      return redeem(renewed)
    }),
  )
}

/** Whether the known keys do not verify an ID token: new ones may do so. */
function isKeyMiss(error: unknown): boolean {
  if (!(error instanceof ClientError)) return false
  if (error.code === 'OAUTH_KEY_SELECTION_FAILED') return true
  return error.cause instanceof Error && /signature verification failed/.test(error.cause.message)
}

/** What openid-client calls to make a request. */
function boundedFetch(fetch: BoundedFetch): CustomFetch {
  const reading = new Map<string, Promise<FetchAnswer>>()

  /** Logins that need the keys at the same time read them once. */
  function readOnce(url: string): Promise<FetchAnswer> {
    const answer =
      reading.get(url) ??
      ask(fetch, url, { headers: { accept: 'application/json' }, status: STATUSES }).finally(() =>
        reading.delete(url),
      )
    reading.set(url, answer)
    return answer
  }

  return async (url, { method, headers, body }) => {
    if (method !== 'POST' && !('authorization' in headers)) return toResponse(await readOnce(url))
    if (method !== 'POST') return toResponse(await ask(fetch, url, { headers, status: STATUSES }))
    const login = redeeming.getStore() ?? {}
    login.answer ??= withError(
      await ask(fetch, url, {
        method,
        headers,
        ...(body != null && { body: String(body) }),
        status: STATUSES,
      }),
    )
    return toResponse(login.answer)
  }
}

function toResponse({ status, headers, body }: FetchAnswer): Response {
  const type = headers['content-type']
  return new Response(body, {
    status,
    ...(type !== undefined && { headers: { 'content-type': type } }),
  })
}

/** RFC 6749 section 5.2: with 401 a token endpoint refuses the client, whatever else it says. */
function withError(answer: FetchAnswer): FetchAnswer {
  if (answer.status !== 401 || typeof Object(parseJson(answer.body)).error === 'string')
    return answer
  const headers = { ...answer.headers, 'content-type': 'application/json' }
  return { ...answer, headers, body: Buffer.from('{"error":"invalid_client"}') }
}

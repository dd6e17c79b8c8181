import type { BoundedFetch } from '@gatehouse/net'
import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type ClientAuth,
  Configuration,
  type CustomFetch,
  calculatePKCECodeChallenge,
  customFetch,
  type ServerMetadata,
} from 'openid-client'
import { ask } from './ask.ts'
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

/** Takes the code of the callback to the server (RFC 6749 section 4.1.3); with a nonce for OpenID. */
export async function redeemCode(
  configuration: Configuration,
  callback: URL,
  { state, codeVerifier, redirectUri }: Login,
  nonce?: string,
) {
  const answered = new URL(redirectUri)
  answered.search = callback.search
  return authorizationCodeGrant(configuration, answered, {
    expectedState: state,
    pkceCodeVerifier: codeVerifier,
    ...(nonce !== undefined && { expectedNonce: nonce }),
  })
}

/** What openid-client calls to make a request. */
function boundedFetch(fetch: BoundedFetch): CustomFetch {
  return async (url, { method, headers, body }) => {
    const answer = await ask(fetch, url, {
      method: method === 'POST' ? 'POST' : 'GET',
      headers,
      ...(body != null && { body: String(body) }),
      status: STATUSES,
    })
    const type = answer.headers['content-type']
    return new Response(answer.body, {
      status: answer.status,
      ...(type !== undefined && { headers: { 'content-type': type } }),
    })
  }
}

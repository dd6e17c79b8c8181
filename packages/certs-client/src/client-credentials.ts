import { type BoundedFetch, parseAdvertisedUrl, parseEndpointUrl } from '@gatehouse/net'
import {
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  Configuration,
  type CustomFetch,
  clientCredentialsGrant,
  customFetch,
  discovery,
  ResponseBodyError,
} from 'openid-client'
import { ClientError } from './errors.ts'

export interface ClientCredentials {
  readonly clientId: string
  /** The OpenID issuer that is asked for its token endpoint, or that endpoint. */
  readonly issuer?: string | undefined
  readonly tokenUrl?: string | undefined
  readonly scope?: string | undefined
  readonly audience?: string | undefined
  /** RFC 8707, instead of an audience. */
  readonly resource?: string | undefined
}

/** A token, and when it ends in epoch milliseconds. */
export interface Token {
  readonly text: string
  readonly expiresAt: number | undefined
}

/** Success, and the errors of RFC 6749 section 5.2. */
const STATUSES = [200, 400, 401, 403]

export interface TokenContext {
  readonly fetch: BoundedFetch
  readonly now: () => number
}

/**
 * Gets a token by the client credentials grant (RFC 6749 section 4.4).
 * @throws ClientError CERT_CLIENT_CREDENTIALS, CERT_CLIENT_UNREACHABLE
 */
export async function requestToken(
  client: ClientCredentials,
  secret: string,
  { fetch, now }: TokenContext,
): Promise<Token> {
  const { scope, audience, resource } = client
  try {
    const configuration = await configure(client, secret, toFetch(fetch))
    const { access_token, expires_in } = await clientCredentialsGrant(configuration, {
      ...(scope !== undefined && { scope }),
      ...(audience !== undefined && { audience }),
      ...(resource !== undefined && { resource }),
    })
    return {
      text: access_token,
      expiresAt: expires_in === undefined ? undefined : now() + expires_in * 1_000,
    }
  } catch (cause) {
    throw failure(cause)
  }
}

async function configure(
  { clientId, issuer, tokenUrl }: ClientCredentials,
  secret: string,
  fetch: CustomFetch,
): Promise<Configuration> {
  const metadata = issuer === undefined ? undefined : await discover(issuer, clientId, fetch)
  const endpoint =
    tokenUrl === undefined
      ? parseAdvertisedUrl(metadata?.token_endpoint ?? '', { from: issuer ?? '' })
      : parseEndpointUrl(tokenUrl)
  const server = { issuer: issuer ?? endpoint.origin, token_endpoint: endpoint.href }
  const supported = metadata?.token_endpoint_auth_methods_supported
  const configuration = new Configuration(server, clientId, {}, authentication(secret, supported))
  configuration[customFetch] = fetch
  // This check refuses plain HTTP but to this machine.
  allowInsecureRequests(configuration)
  return configuration
}

async function discover(issuer: string, clientId: string, fetch: CustomFetch) {
  const server = parseEndpointUrl(issuer)
  const configuration = await discovery(server, clientId, undefined, undefined, {
    [customFetch]: fetch,
    execute: [allowInsecureRequests],
  })
  return configuration.serverMetadata()
}

const BASIC = 'client_secret_basic'

/** The way to send the secret: what the server supports, else its default (RFC 8414 section 2). */
function authentication(secret: string, supported: readonly string[] = [BASIC]): ClientAuth {
  return supported.includes(BASIC) ? ClientSecretBasic(secret) : ClientSecretPost(secret)
}

function toFetch(fetch: BoundedFetch): CustomFetch {
  return async (url, { method, headers, body }) => {
    const answer = await fetch(parseEndpointUrl(url), {
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

/** Converts an error of openid-client. It has tokens and responses attached, so only its message is told. */
function failure(error: unknown): ClientError {
  if (error instanceof ResponseBodyError)
    return new ClientError('CERT_CLIENT_CREDENTIALS', `the issuer sent no token: ${error.error}`)
  const why = `the issuer sent no token: ${(error as Error).message}`
  return new ClientError('CERT_CLIENT_UNREACHABLE', why, { isTransient: true })
}

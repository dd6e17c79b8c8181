import { type BoundedFetch, parseAdvertisedUrl, parseEndpointUrl } from '@gatehouse/net'
import type { Clock } from '@gatehouse/service-kit/clock'
import { errors } from 'jose'
import {
  allowInsecureRequests,
  ClientError,
  type Configuration,
  enableNonRepudiationChecks,
  type ServerMetadata,
} from 'openid-client'
import { type Static, type TObject, Type } from 'typebox'
import {
  assertionAuthentication,
  configure,
  type Keys,
  readKeys,
  secretAuthentication,
} from './oauth.ts'
import type { clientOptions, secretOrAssertion } from './options.ts'
import { requestJson } from './request.ts'

const ALGORITHM = /^(RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA|Ed25519)$/
/** Minimum time between two key requests that tokens with an unknown key cause. */
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

export type Registration = Static<TObject<typeof clientOptions & typeof secretOrAssertion>>

/** The configuration of openid-client, and keys for what it does not verify. Both cache the keys. */
interface Client {
  readonly configuration: Configuration
  readonly keys: Keys
}

/** A provider as it describes itself: the client that is used, and a function that makes a fresh one. */
export interface Server {
  client: Client
  readonly algorithms: string[]
  readonly configure: () => Client
}

/** OpenID Connect Discovery 1.0 section 4. */
export async function discover(
  { clientId, clientSecret, clientAssertion }: Registration,
  issuer: string,
  fetch: BoundedFetch,
): Promise<Server> {
  const url = parseEndpointUrl(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
  const metadata = await requestJson(fetch, url, MetadataSchema)
  // Compared as text: openid-client would compare URLs.
  if (metadata.issuer !== issuer)
    throw new Error(`${url} names the issuer ${JSON.stringify(metadata.issuer)}, not "${issuer}"`)
  for (const name of ENDPOINTS)
    if (metadata[name] !== undefined) parseAdvertisedUrl(metadata[name], { from: url })

  const { id_token_signing_alg_values_supported: supported = ['RS256'] } = metadata
  const algorithms = supported.filter((name) => ALGORITHM.test(name))
  const server = { ...metadata, id_token_signing_alg_values_supported: algorithms }
  const authentication = clientAssertion
    ? assertionAuthentication(clientAssertion, fetch)
    : secretAuthentication(clientSecret, server.token_endpoint_auth_methods_supported)
  function configureClient(): Client {
    const configuration = configure(server as ServerMetadata, clientId, authentication, fetch)
    // By default openid-client does not verify the signature of a token from the token endpoint.
    enableNonRepudiationChecks(configuration)
    // Only for loopback: `request` refuses http elsewhere.
    if (url.protocol === 'http:') allowInsecureRequests(configuration)
    return { configuration, keys: readKeys(server.jwks_uri, fetch) }
  }
  return { client: configureClient(), algorithms, configure: configureClient }
}

/** Verifies again, with keys that are fetched again, if no known key fits, as after a rotation: once per cooldown. */
export function createKeyRenewal({ now }: Clock) {
  let renewedAt = Number.NEGATIVE_INFINITY

  function isRenewed(server: Server, failed: Client): boolean {
    if (server.client !== failed) return true
    const age = now() - renewedAt
    // A negative age, after the clock was set back, does not extend the cooldown.
    if (age >= 0 && age < KEYS_COOLDOWN_MS) return false
    renewedAt = now()
    server.client = server.configure()
    return true
  }

  return async <T>(server: Server, attempt: (client: Client) => Promise<T>): Promise<T> => {
    const { client } = server
    try {
      return await attempt(client)
    } catch (error) {
      if (!isKeyMiss(error) || !isRenewed(server, client)) throw error
      return attempt(server.client)
    }
  }
}

function isKeyMiss(error: unknown): boolean {
  if (error instanceof errors.JWKSNoMatchingKey) return true
  if (error instanceof errors.JWSSignatureVerificationFailed) return true
  if (!(error instanceof ClientError)) return false
  if (error.code === 'OAUTH_KEY_SELECTION_FAILED') return true
  return error.cause instanceof Error && /signature verification failed/.test(error.cause.message)
}

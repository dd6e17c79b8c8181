import type { Test } from 'tap'
import {
  authorizationServer,
  forBearer,
  type RegisteredClient,
  tokenClaims,
} from './authorization-server.ts'
import { startServer } from './server.ts'
import { signingKey, signToken } from './tokens.ts'

type Claims = Readonly<Record<string, unknown>>

/** An OpenID provider as one product has it: where it is, and what it tells of a person. */
export interface OpenIdProduct {
  /** A configuration of its preset, beside the client. */
  readonly config?: { readonly type: string; readonly [option: string]: unknown }
  /** Parts of the profile that this configuration makes. */
  readonly profile?: object
  readonly issuer: string
  readonly scopesSupported?: readonly string[]
  /** Claims about the person, besides those that every ID token has. */
  readonly idToken: Claims & { readonly sub: string }
  readonly userInfo?: Claims
  /** Claims that are only there for a scope. */
  readonly forScope?: Readonly<Record<string, Claims>>
}

/** Starts it on loopback for one client. Gives where the origin of its issuer is. */
export async function startProduct(
  t: Test,
  { issuer, scopesSupported, idToken, userInfo = idToken, forScope = {} }: OpenIdProduct,
  client: RegisteredClient,
): Promise<Record<string, string>> {
  const key = signingKey('product-1', 'RS256')
  const { origin, pathname } = new URL(issuer)
  const base = pathname.replace(/\/$/, '')
  const scoped = (scopes: readonly string[]) =>
    Object.assign({}, ...scopes.map((scope) => forScope[scope]))
  const server = await startServer(t, () =>
    authorizationServer({
      client,
      paths: { authorize: '/authorize', token: '/token' },
      issuerInCallback: issuer,
      authentication: ['basic', 'post'],
      tokens: ({ nonce, scopes }) => ({
        id_token: signToken(key, {
          ...tokenClaims(issuer, idToken.sub, nonce, client),
          ...idToken,
          ...scoped(scopes),
        }),
      }),
      resources: {
        [`${base}/.well-known/openid-configuration`]: () => ({
          json: {
            issuer,
            authorization_endpoint: `${origin}/authorize`,
            token_endpoint: `${origin}/token`,
            userinfo_endpoint: `${origin}/userinfo`,
            jwks_uri: `${origin}/keys`,
            id_token_signing_alg_values_supported: ['RS256'],
            scopes_supported: scopesSupported,
            authorization_response_iss_parameter_supported: true,
          },
        }),
        '/keys': () => ({ json: { keys: [key.publicJwk] } }),
        '/userinfo': forBearer(({ scopes }) => ({
          ...{ sub: idToken.sub, ...userInfo },
          ...scoped(scopes),
        })),
      },
    }),
  )
  return { [origin]: server.origin }
}

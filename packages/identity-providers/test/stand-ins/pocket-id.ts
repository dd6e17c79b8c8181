import type { Test } from 'tap'
import { authorizationServer, forBearer, tokenClaims } from './authorization-server.ts'
import { startServer } from './server.ts'
import { signingKey, signToken } from './tokens.ts'

const SUBJECT = '9f1c3d1a-6b0e-4f0d-8f57-3a2f6d1f9b10'
const person = {
  email: 'alice@acme.example',
  email_verified: true,
  given_name: 'Alice',
  family_name: 'Arden',
  name: 'Alice Arden',
  preferred_username: 'alice',
  picture: 'https://id.acme.example/api/users/alice/profile-picture.png',
}

/** A Pocket ID instance. */
export async function startPocketId(t: Test) {
  const key = signingKey('pocket-1')
  const claims = (scopes: readonly string[]) => ({
    sub: SUBJECT,
    ...person,
    ...(scopes.includes('groups') && { groups: ['family'] }),
  })
  const { origin } = await startServer(t, (origin) =>
    authorizationServer({
      paths: { authorize: '/authorize', token: '/api/oidc/token' },
      issuerInCallback: origin,
      authentication: ['basic', 'post'],
      tokens: ({ nonce, scopes }) => ({
        id_token: signToken(key, { ...tokenClaims(origin, SUBJECT, nonce), ...claims(scopes) }),
      }),
      resources: {
        '/.well-known/openid-configuration': () => ({
          json: {
            issuer: origin,
            authorization_endpoint: `${origin}/authorize`,
            token_endpoint: `${origin}/api/oidc/token`,
            userinfo_endpoint: `${origin}/api/oidc/userinfo`,
            end_session_endpoint: `${origin}/api/oidc/end-session`,
            jwks_uri: `${origin}/.well-known/jwks.json`,
            id_token_signing_alg_values_supported: ['ES256'],
            authorization_response_iss_parameter_supported: true,
            prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
            token_endpoint_auth_methods_supported: [
              'client_secret_basic',
              'client_secret_post',
              'none',
            ],
          },
        }),
        '/.well-known/jwks.json': () => ({ json: { keys: [key.publicJwk] } }),
        '/api/oidc/userinfo': forBearer(({ scopes }) => claims(scopes)),
      },
    }),
  )
  return { url: origin }
}

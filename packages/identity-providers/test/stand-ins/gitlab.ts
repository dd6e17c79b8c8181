import type { Test } from 'tap'
import { authorizationServer, forBearer, tokenClaims } from './authorization-server.ts'
import { startServer } from './server.ts'
import { signingKey, signToken } from './tokens.ts'

const person = {
  sub: '4711',
  name: 'Alice Arden',
  nickname: 'alice',
  preferred_username: 'alice',
  email: 'alice@acme.example',
  email_verified: true,
  picture: 'https://gitlab.example/uploads/alice.png',
  groups_direct: ['acme/ops'],
}

/** A GitLab instance. */
export async function startGitlab(t: Test) {
  const key = signingKey('gitlab-1', 'RS256')
  const { origin } = await startServer(t, (origin) =>
    authorizationServer({
      paths: { authorize: '/oauth/authorize', token: '/oauth/token' },
      authentication: ['basic', 'post'],
      tokens: ({ nonce }) => ({
        id_token: signToken(key, { ...tokenClaims(origin, '4711', nonce), ...person }),
      }),
      resources: {
        '/.well-known/openid-configuration': () => ({
          json: {
            issuer: origin,
            authorization_endpoint: `${origin}/oauth/authorize`,
            token_endpoint: `${origin}/oauth/token`,
            userinfo_endpoint: `${origin}/oauth/userinfo`,
            jwks_uri: `${origin}/oauth/discovery/keys`,
            id_token_signing_alg_values_supported: ['RS256'],
            token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
          },
        }),
        '/oauth/discovery/keys': () => ({ json: { keys: [key.publicJwk] } }),
        '/oauth/userinfo': forBearer(() => ({
          ...person,
          groups: ['acme', 'acme/ops', 'acme-fans', 'admin'],
          'https://gitlab.org/claims/groups/owner': ['acme-fans'],
        })),
      },
    }),
  )
  return { url: origin }
}

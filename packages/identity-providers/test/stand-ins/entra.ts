import type { Test } from 'tap'
import { authorizationServer, tokenClaims } from './authorization-server.ts'
import { startServer } from './server.ts'
import { signingKey, signToken } from './tokens.ts'

export const TENANT = '7d6e6b2c-2f0b-4b0e-9a55-0c5d0a6f3e11'
export const ASSERTION = 'token-of-the-platform'

const people: Readonly<Record<string, object>> = {
  alice: {
    oid: '0d3f3b1e-5a0f-4b8e-b7a4-6c2f1e9d8a01',
    name: 'Alice Arden',
    preferred_username: 'alice@acme.example',
    email: 'alice@acme.example',
    groups: ['b1f7…ops'],
    roles: ['Admin'],
    wids: ['62e90394-69f5-4237-9190-012177145e10'],
  },
  verified: {
    oid: '0d3f3b1e-5a0f-4b8e-b7a4-6c2f1e9d8a02',
    email: 'v@acme.example',
    xms_edov: true,
  },
  // In too many groups for a token.
  overage: {
    oid: '0d3f3b1e-5a0f-4b8e-b7a4-6c2f1e9d8a03',
    _claim_names: { groups: 'src1' },
    _claim_sources: { src1: { endpoint: 'https://graph.microsoft.com/v1.0/users/…' } },
  },
  stranger: { tid: '11111111-2222-3333-4444-555555555555' },
}

/** One tenant of Microsoft Entra ID, version 2.0. */
export async function startEntra(t: Test, issued = (issuer: string) => issuer) {
  const key = signingKey('entra-1', 'RS256')
  const { origin } = await startServer(t, (origin) => {
    const issuer = `${origin}/${TENANT}/v2.0`
    const base = `/${TENANT}`
    return authorizationServer({
      paths: { authorize: `${base}/oauth2/v2.0/authorize`, token: `${base}/oauth2/v2.0/token` },
      authentication: ['post', 'assertion', 'basic'],
      assertion: ASSERTION,
      tokens: ({ person, nonce }) => ({
        id_token: signToken(key, {
          ...tokenClaims(issued(issuer), `pairwise-of-${person}`, nonce),
          ...{ tid: TENANT, ver: '2.0', uti: 'uti', rh: 'rh', aio: 'aio' },
          ...people[person],
        }),
      }),
      resources: {
        [`${base}/v2.0/.well-known/openid-configuration`]: () => ({
          json: {
            issuer,
            authorization_endpoint: `${origin}${base}/oauth2/v2.0/authorize`,
            token_endpoint: `${origin}${base}/oauth2/v2.0/token`,
            end_session_endpoint: `${origin}${base}/oauth2/v2.0/logout`,
            jwks_uri: `${origin}${base}/discovery/v2.0/keys`,
            userinfo_endpoint: 'https://graph.microsoft.com/oidc/userinfo',
            id_token_signing_alg_values_supported: ['RS256'],
            token_endpoint_auth_methods_supported: [
              'client_secret_post',
              'private_key_jwt',
              'client_secret_basic',
            ],
          },
        }),
        [`${base}/discovery/v2.0/keys`]: () => ({ json: { keys: [key.publicJwk] } }),
      },
    })
  })
  return { authority: origin }
}

import type { Test } from 'tap'
import { authorizationServer, tokenClaims } from './authorization-server.ts'
import { startServer } from './server.ts'
import { signingKey, signToken } from './tokens.ts'

const ISSUER = 'https://accounts.google.com'
const people: Readonly<Record<string, object>> = {
  alice: {
    sub: '110169484474386276334',
    email: 'alice@acme.example',
    email_verified: true,
    hd: 'acme.example',
    name: 'Alice Arden',
    given_name: 'Alice',
    family_name: 'Arden',
    picture: 'https://lh3.googleusercontent.com/a/alice',
  },
  mallory: { sub: '110169484474386276335', email: 'mallory@acme.example', email_verified: true },
}

/** Google's sign-in, of which each part has a host of its own. */
export async function startGoogle(t: Test) {
  const key = signingKey('google-1', 'RS256')
  const { origin } = await startServer(t, () =>
    authorizationServer({
      paths: { authorize: '/o/oauth2/v2/auth', token: '/token' },
      issuerInCallback: ISSUER,
      checkAuthorization: (parameters) =>
        ['', 'select_account', 'none', 'consent'].includes(parameters.get('prompt') ?? ''),
      authentication: ['post', 'basic'],
      tokens: ({ person, nonce, prompt }) => ({
        expires_in: 3_599,
        id_token: signToken(key, { ...tokenClaims(ISSUER, '', nonce), ...people[person] }),
        // At a consent alone, and with `access_type=offline`.
        ...(prompt === 'consent' && { refresh_token: `1//${person}` }),
      }),
      resources: {
        '/.well-known/openid-configuration': () => ({ json: metadata }),
        '/oauth2/v3/certs': () => ({ json: { keys: [key.publicJwk] } }),
      },
    }),
  )
  const hosts = [ISSUER, 'https://oauth2.googleapis.com', 'https://www.googleapis.com']
  return { origins: Object.fromEntries(hosts.map((host) => [host, origin])) }
}

const metadata = {
  issuer: ISSUER,
  authorization_endpoint: `${ISSUER}/o/oauth2/v2/auth`,
  token_endpoint: 'https://oauth2.googleapis.com/token',
  userinfo_endpoint: 'https://openidconnect.googleapis.com/v1/userinfo',
  jwks_uri: 'https://www.googleapis.com/oauth2/v3/certs',
  id_token_signing_alg_values_supported: ['RS256'],
  token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic'],
  authorization_response_iss_parameter_supported: true,
  code_challenge_methods_supported: ['plain', 'S256'],
}

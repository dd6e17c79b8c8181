import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Provider } from 'oidc-provider'
import type { Test } from 'tap'
import { startServer } from '../../../../packages/identity-providers/test/stand-ins/server.ts'
import { signingKey } from '../../../../packages/identity-providers/test/stand-ins/tokens.ts'

export const CALLBACK = 'http://localhost:1/callback'
/** A client that is registered, and may ask for every scope. */
export const REGISTERED = { client_id: 'registered' }

/** What is used here of the context of a request. */
interface Context {
  readonly oidc: {
    readonly provider: Provider
    readonly client: { readonly clientId: string }
    readonly session: { readonly accountId: string }
  }
}

/**
 * A real authorization server (oidc-provider) on loopback: clients may register themselves (RFC 7591), and
 * get access tokens for one of the resources (RFC 8707). It signs alice in, and grants whatever is asked for.
 */
export async function startAuthorizationServer(
  t: Test,
  { resources, scopes }: { resources: readonly string[]; scopes: readonly string[] },
) {
  const scope = scopes.join(' ')
  const { origin } = await startServer(t, (issuer) => {
    const provider = new Provider(issuer, {
      jwks: { keys: [signingKey('first').privateJwk] },
      clients: [
        {
          ...REGISTERED,
          redirect_uris: [CALLBACK],
          ...PUBLIC,
          id_token_signed_response_alg: 'ES256',
        },
      ],
      clientDefaults: { id_token_signed_response_alg: 'ES256' },
      cookies: { keys: [randomBytes(32).toString('base64url')] },
      scopes: ['openid', ...scopes],
      features: {
        devInteractions: { enabled: false },
        registration: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo(_context, resource) {
            if (!resources.includes(resource)) throw new Error(`unknown resource: ${resource}`)
            const jwt = { sign: { alg: 'ES256' } }
            return { scope, audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 300, jwt }
          },
        },
      },
      ttl: { AccessToken: 300, AuthorizationCode: 60, Grant: 600, Interaction: 600, Session: 600 },
      findAccount: (_context: unknown, accountId: string) => ({
        accountId,
        claims: () => ({ sub: accountId }),
      }),
      interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
      async loadExistingGrant({ oidc: { provider, client, session } }: Context) {
        const { clientId } = client
        const grant = new provider.Grant({ clientId, accountId: session.accountId })
        grant.addOIDCScope(`openid ${scope}`)
        for (const resource of resources) grant.addResourceScope(resource, scope)
        await grant.save()
        return grant
      },
    })
    const handle = provider.callback()
    const result = { login: { accountId: 'alice' }, consent: {} }
    return (request: IncomingMessage, response: ServerResponse) => {
      if (!request.url?.startsWith('/interaction/')) return handle(request, response)
      void provider.interactionFinished(request, response, result)
    }
  })
  return origin
}

const PUBLIC = {
  token_endpoint_auth_method: 'none',
  application_type: 'native',
  grant_types: ['authorization_code'],
  response_types: ['code'],
}

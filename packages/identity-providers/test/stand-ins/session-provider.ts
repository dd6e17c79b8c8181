import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { PEOPLE, type Person } from '@gatehouse/demo-idp'
import { Provider } from 'oidc-provider'
import type { Test } from 'tap'
import { type Hostility, hostile } from './hostility.ts'
import { CLIENT } from './openid-provider.ts'
import { startServer } from './server.ts'
import { readToken, signingKey, signToken } from './tokens.ts'

interface Context {
  readonly oidc: {
    readonly session: { readonly accountId: string }
    readonly provider: Provider
  }
}

const SCOPES = ['openid', 'profile', 'email', 'groups', 'offline_access']
const BACK_CHANNEL = 'https://auth.example.com/portals/main/providers/corp/backchannel-logout'

/**
 * An OpenID provider (oidc-provider) with sessions, refresh tokens and back-channel logout. `people` may
 * change after they have signed in. `state` says how refresh tokens come.
 */
export async function startSessionProvider(t: Test) {
  const key = signingKey('first')
  const people = new Map<string, Partial<Person>>(PEOPLE)
  const state = { refreshes: true as boolean | 'offline_access', rotates: false }
  const hostility: Record<string, Hostility | undefined> = {}
  const asked: Record<string, number> = {}
  const logoutTokens: string[] = []
  let listener: RequestListener
  const server = await startServer(t, () =>
    hostile(
      (request, response) => listener(request, response),
      (path) => {
        asked[path] = (asked[path] ?? 0) + 1
        return hostility[path]
      },
    ),
  )
  const provider = new Provider(server.origin, {
    claims: {
      profile: ['name', 'given_name', 'family_name'],
      email: ['email', 'email_verified'],
      groups: ['groups'],
    },
    clients: [
      {
        client_id: CLIENT.clientId,
        client_secret: CLIENT.clientSecret,
        grant_types: ['authorization_code', 'refresh_token'],
        id_token_signed_response_alg: key.alg,
        redirect_uris: CLIENT.redirectUris,
        post_logout_redirect_uris: CLIENT.postLogoutRedirectUris,
        backchannel_logout_uri: BACK_CHANNEL,
        backchannel_logout_session_required: true,
      },
    ],
    cookies: { keys: ['secret'] },
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      revocation: { enabled: true },
    },
    async fetch(_url: URL, { body }: { body: URLSearchParams }) {
      logoutTokens.push(String(new URLSearchParams(body).get('logout_token')))
      return new Response(null, { status: 200 })
    },
    findAccount: (_context: unknown, accountId: string) =>
      people.has(accountId)
        ? { accountId, claims: () => ({ sub: accountId, ...people.get(accountId) }) }
        : undefined,
    interactions: {
      url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}`,
    },
    issueRefreshToken: (
      _context: unknown,
      _client: unknown,
      { scopes }: { scopes: Set<string> },
    ) => (state.refreshes === 'offline_access' ? scopes.has('offline_access') : state.refreshes),
    jwks: { keys: [key.privateJwk] },
    async loadExistingGrant({ oidc: { session, provider } }: Context) {
      const grant = new provider.Grant({
        clientId: CLIENT.clientId,
        accountId: session.accountId,
      })
      grant.addOIDCScope(SCOPES.join(' '))
      await grant.save()
      return grant
    },
    rotateRefreshToken: () => state.rotates,
    ttl: { AccessToken: 300, Grant: 3_600, IdToken: 300, RefreshToken: 3_600, Session: 3_600 },
  })
  const handle = provider.callback()
  async function signIn(request: IncomingMessage, response: ServerResponse) {
    const { params, prompt } = await provider.interactionDetails(request, response)
    const login = { accountId: params.login_hint ?? 'alice', amr: ['pwd'], acr: 'one' }
    const isConsent = prompt.name === 'consent'
    await provider.interactionFinished(request, response, isConsent ? { consent: {} } : { login })
  }
  listener = (request, response) =>
    request.url?.startsWith('/interaction/')
      ? void signIn(request, response)
      : handle(request, response)

  return {
    issuer: server.origin,
    key,
    people,
    state,
    /** By path: `/token`, `/me`, `/jwks`. */
    hostility,
    asked,
    stop: server.stop,
    restart: server.restart,
    /** Changes the claims of ID tokens that come from now on. */
    forge(claims: object): void {
      hostility['/token'] = ({ id_token, ...answer }) => ({
        ...answer,
        id_token: signToken(key, { ...readToken(String(id_token)), ...claims }),
      })
    },
    /** From now on another key signs, and only it is published. */
    rotate(kid: string): void {
      const next = signingKey(kid)
      hostility['/jwks'] = () => ({ keys: [next.publicJwk] })
      hostility['/token'] = ({ id_token, ...answer }) => ({
        ...answer,
        id_token: signToken(next, readToken(String(id_token))),
      })
    },
    /** Revokes a token (RFC 7009). */
    async revoke(token = ''): Promise<void> {
      const { clientId, clientSecret } = CLIENT
      const body = new URLSearchParams({ token })
      const secret = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`
      const authorization = `Basic ${Buffer.from(secret).toString('base64')}`
      const headers = { authorization }
      await fetch(`${server.origin}/token/revocation`, { method: 'POST', headers, body })
    },
    /** The logout token that the provider sends when a session ends. */
    async endSession(sub: string, sid: string): Promise<string> {
      await (await provider.Client.find(CLIENT.clientId))?.backchannelLogout(sub, sid)
      return logoutTokens.at(-1) ?? ''
    },
    options: {
      type: 'openIDConnect' as const,
      name: 'corp',
      issuerUrl: server.origin,
      clientId: CLIENT.clientId,
      clientSecret: CLIENT.clientSecret,
      scopes: ['openid', 'profile', 'email', 'groups'],
      trustEmail: false,
      timeout: 20_000,
    },
  }
}

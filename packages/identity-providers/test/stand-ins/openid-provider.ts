import type { RequestListener } from 'node:http'
import { createDemoIdp, type DemoClient, type Person } from '@gatehouse/demo-idp'
import type { Test } from 'tap'
import { type Hostility, hostile } from './hostility.ts'
import { startServer } from './server.ts'
import { readToken, signingKey, signToken } from './tokens.ts'

const ENDPOINTS = {
  discovery: '/.well-known/openid-configuration',
  authorization: '/auth',
  token: '/token',
  keys: '/jwks',
  userInfo: '/me',
} as const

type Endpoint = keyof typeof ENDPOINTS

export const REDIRECT_URI = 'https://auth.example.com/portals/main/providers/corp/callback'

export const CLIENT: DemoClient = {
  clientId: 'gatehouse',
  clientSecret: 'the-secret-of-gatehouse: with +%&',
  redirectUris: [REDIRECT_URI],
  postLogoutRedirectUris: ['https://auth.example.com/portals/main/logout'],
}

export interface OpenIdProviderOptions {
  readonly clients?: readonly DemoClient[]
  readonly people?: ReadonlyMap<string, Person>
}

/**
 * A real OpenID provider (oidc-provider) on loopback. Who signs in is told by `login_hint`, else it is
 * alice; `hostility` makes an endpoint misbehave, `forge` what stands in ID tokens.
 */
export async function startOpenIdProvider(
  t: Test,
  { clients = [CLIENT], ...options }: OpenIdProviderOptions = {},
) {
  let keys = [signingKey('first')]
  let listener: RequestListener
  /** Requests so far, by endpoint. */
  const asked: Partial<Record<string, number>> = {}
  const hostility: Partial<Record<Endpoint, Hostility>> = {}

  function hostilityAt(path: string): Hostility | undefined {
    const found = Object.entries(ENDPOINTS).find(([, at]) => at === path)
    const endpoint = found?.[0] as Endpoint | undefined
    if (!endpoint) return undefined
    asked[endpoint] = (asked[endpoint] ?? 0) + 1
    return hostility[endpoint]
  }

  const server = await startServer(t, () =>
    hostile((request, response) => listener(request, response), hostilityAt),
  )

  function use(added: typeof keys): void {
    keys = added
    listener = createDemoIdp({
      issuer: server.origin,
      clients,
      keys: keys.map(({ privateJwk }) => privateJwk),
      signsIn: (hint = 'alice') => hint,
      ...options,
    })
  }
  use(keys)

  /** Puts these claims and headers into every ID token; `by` signs it instead of the provider's key. */
  function forge(claims: object, header: Record<string, unknown> = {}, by = keys[0]!): void {
    hostility.token = (answer) => ({
      ...answer,
      id_token: signToken(by, { ...readToken(String(answer.id_token)), ...claims }, header),
    })
  }

  return {
    issuer: server.origin,
    stop: server.stop,
    restart: server.restart,
    asked,
    hostility,
    forge,
    /** From now on another key signs, and only it is published. */
    rotate: (kid: string) => use([signingKey(kid)]),
    /** How the first of the clients is configured with us. */
    options: {
      type: 'openIDConnect' as const,
      name: 'corp',
      issuerUrl: server.origin,
      clientId: clients[0]!.clientId,
      clientSecret: clients[0]!.clientSecret,
      scopes: ['openid', 'profile', 'email', 'groups'],
      trustEmail: false,
      timeout: 20_000,
    },
  }
}

export type OpenIdProvider = Awaited<ReturnType<typeof startOpenIdProvider>>

import { type Static, Type } from 'typebox'
import { CONSUMERS } from './microsoft-entra-id.ts'
import { createOidcProvider } from './oidc.ts'
import {
  clientOptions,
  clientSecret,
  commonOptions,
  discoveredScopes,
  Scopes,
  secretOrAssertion,
  trustEmail,
  withTrustedEmail,
} from './options.ts'
import type { ProviderKind } from './provider.ts'

export const OpenIdConnectSchema = Type.Object({
  type: Type.Literal('openIDConnect', {
    description: 'Kind of the provider. Each kind has its own keys.',
  }),
  ...commonOptions,
  ...clientOptions,
  ...secretOrAssertion,
  issuerUrl: Type.String({
    minLength: 1,
    description: 'The issuer, exactly as in the claim `iss`, including a trailing slash.',
  }),
  scopes: discoveredScopes,
  trustEmail,
})

/** Known issuers where anybody can get an account. */
const PUBLIC_HOSTS = new Set([
  'accounts.google.com',
  'api.login.yahoo.com',
  'appleid.apple.com',
  'gitlab.com',
  'id.twitch.tv',
  'slack.com',
  'www.facebook.com',
  'www.linkedin.com',
])

/** Any provider of OpenID Connect. */
export const openIDConnect: ProviderKind<Static<typeof OpenIdConnectSchema>> = {
  icon: 'openid',
  isPublic: ({ issuerUrl }) =>
    PUBLIC_HOSTS.has(URL.parse(issuerUrl)?.hostname ?? '') || issuerUrl.includes(CONSUMERS),
  create(options, deps) {
    const { issuerUrl: issuer, trustEmail } = options
    const kind = trustEmail ? { issuer, claimsOf: withTrustedEmail } : { issuer }
    return createOidcProvider(options, kind, deps)
  },
}

export const GoogleSchema = Type.Object({
  type: Type.Literal('google'),
  ...commonOptions,
  ...clientOptions,
  clientSecret,
  scopes: Scopes(['openid', 'profile', 'email']),
})

/** Google accounts. The claim `hd` names the organisation of an account; the address does not. */
export const google: ProviderKind<Static<typeof GoogleSchema>> = {
  title: 'Google',
  icon: 'google',
  isPublic: () => true,
  create(options, deps) {
    const issuer = 'https://accounts.google.com'
    return createOidcProvider(options, { issuer, hasUserInfo: false, choosesAccount: true }, deps)
  },
}

export const PocketIdSchema = Type.Object({
  type: Type.Literal('pocketID'),
  ...commonOptions,
  ...clientOptions,
  ...secretOrAssertion,
  url: Type.String({ minLength: 1, description: 'URL of the Pocket ID instance.' }),
  scopes: Scopes(['openid', 'profile', 'email', 'groups']),
})

/** An instance of Pocket ID. */
export const pocketID: ProviderKind<Static<typeof PocketIdSchema>> = {
  title: 'Pocket ID',
  icon: 'pocket-id',
  create: (options, deps) =>
    createOidcProvider(options, { issuer: options.url.replace(/\/$/, '') }, deps),
}

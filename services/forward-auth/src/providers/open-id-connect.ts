import type { ConfigOf } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import type { ProviderDeps } from './deps.ts'
import { CONSUMERS } from './microsoft-entra-id.ts'
import { createOidcProvider } from './oidc.ts'
import {
  clientOptions,
  commonOptions,
  discoveredScopes,
  secretOrAssertion,
  trustEmail,
  withTrustedEmail,
} from './options.ts'
import type { RedirectProvider } from './provider.ts'

export const OpenIdConnectSchema = Type.Object({
  type: Type.Literal('openIDConnect', {
    description: 'Kind of provider; each has keys of its own.',
  }),
  ...commonOptions,
  ...clientOptions,
  ...secretOrAssertion,
  issuerUrl: Type.String({
    minLength: 1,
    description: 'The issuer, exactly as in the claim `iss`, to the last slash.',
  }),
  scopes: discoveredScopes,
  trustEmail,
})

/** Issuers that give an account to anybody, as far as they are known. */
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
export function createOpenIdConnect(
  options: ConfigOf<typeof OpenIdConnectSchema>,
  deps: ProviderDeps,
): RedirectProvider {
  const { issuerUrl: issuer, trustEmail } = options
  return createOidcProvider(
    options,
    {
      issuer,
      isPublic: isPublicIssuer(options),
      ...(trustEmail && { claimsOf: withTrustedEmail }),
    },
    deps,
  )
}

export function isPublicIssuer({ issuerUrl }: { readonly issuerUrl: string }): boolean {
  return PUBLIC_HOSTS.has(URL.parse(issuerUrl)?.hostname ?? '') || issuerUrl.includes(CONSUMERS)
}

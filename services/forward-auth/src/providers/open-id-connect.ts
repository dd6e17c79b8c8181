import type { ConfigOf } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import type { ProviderDeps } from './deps.ts'
import { createOidcProvider } from './oidc.ts'
import {
  clientOptions,
  commonOptions,
  Scopes,
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
  scopes: Scopes(['openid', 'profile', 'email']),
  trustEmail,
})

/** Any provider of OpenID Connect. */
export function createOpenIdConnect(
  options: ConfigOf<typeof OpenIdConnectSchema>,
  deps: ProviderDeps,
): RedirectProvider {
  const { issuerUrl: issuer, trustEmail } = options
  return createOidcProvider(
    options,
    { issuer, ...(trustEmail && { claimsOf: withTrustedEmail }) },
    deps,
  )
}

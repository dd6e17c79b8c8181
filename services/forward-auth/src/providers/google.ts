import type { ConfigOf } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import type { ProviderDeps } from './deps.ts'
import { createOidcProvider } from './oidc.ts'
import { clientOptions, clientSecret, commonOptions, Scopes } from './options.ts'
import type { RedirectProvider } from './provider.ts'

export const GoogleSchema = Type.Object({
  type: Type.Literal('google'),
  ...commonOptions,
  ...clientOptions,
  clientSecret,
  scopes: Scopes(['openid', 'profile', 'email']),
})

/** Google accounts. Whose organisation it is, the claim `hd` says, not the address. */
export function createGoogle(
  options: ConfigOf<typeof GoogleSchema>,
  deps: ProviderDeps,
): RedirectProvider {
  return createOidcProvider(
    options,
    {
      issuer: 'https://accounts.google.com',
      isPublic: true,
      hasUserInfo: false,
      choosesAccount: true,
    },
    deps,
  )
}

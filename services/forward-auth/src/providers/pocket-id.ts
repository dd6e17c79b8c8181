import type { ConfigOf } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import type { ProviderDeps } from './deps.ts'
import { createOidcProvider } from './oidc.ts'
import { clientOptions, commonOptions, Scopes, secretOrAssertion } from './options.ts'
import type { RedirectProvider } from './provider.ts'

export const PocketIdSchema = Type.Object({
  type: Type.Literal('pocketID'),
  ...commonOptions,
  ...clientOptions,
  ...secretOrAssertion,
  url: Type.String({ minLength: 1, description: 'Address of the Pocket ID instance.' }),
  scopes: Scopes(['openid', 'profile', 'email', 'groups']),
})

/** An instance of Pocket ID. */
export function createPocketId(
  options: ConfigOf<typeof PocketIdSchema>,
  deps: ProviderDeps,
): RedirectProvider {
  return createOidcProvider(options, { issuer: options.url.replace(/\/$/, '') }, deps)
}

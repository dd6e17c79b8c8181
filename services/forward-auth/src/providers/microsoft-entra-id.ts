import type { Claims } from '@gatehouse/profile'
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

/** The tenant of all personal accounts. */
export const CONSUMERS = '9188040d-6c67-4c5b-b112-36a304b66dad'

export const MicrosoftEntraIdSchema = Type.Object({
  type: Type.Literal('microsoftEntraID'),
  ...commonOptions,
  ...clientOptions,
  ...secretOrAssertion,
  tenantId: Type.String({
    pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$',
    description:
      'Directory (tenant) ID, in lower case; not `common`, `organizations` or `consumers`.',
  }),
  authority: Type.String({
    default: 'https://login.microsoftonline.com',
    description: 'Sign-in address of the cloud, such as `https://login.microsoftonline.us`.',
  }),
  scopes: Scopes(['openid', 'profile', 'email']),
  trustEmail,
})

/** One tenant of Microsoft Entra ID. */
export function createMicrosoftEntraId(
  options: ConfigOf<typeof MicrosoftEntraIdSchema>,
  deps: ProviderDeps,
): RedirectProvider {
  const { authority, tenantId, trustEmail } = options
  const claimsOf = (claims: Claims) =>
    trustEmail ? withTrustedEmail(readClaims(claims)) : readClaims(claims)
  return createOidcProvider(
    options,
    {
      issuer: `${authority.replace(/\/$/, '')}/${tenantId}/v2.0`,
      hasUserInfo: false,
      choosesAccount: true,
      claimsOf,
    },
    deps,
  )
}

/** `sub` is another one in each application; `oid` is the person in the whole tenant. */
function readClaims({ aio, rh, uti, ver, xms_edov, ...claims }: Claims): Claims {
  if (typeof claims.oid !== 'string') throw new Error('the ID token has no claim "oid"')
  // Addresses are what an administrator, or a guest's tenant, has written; this says that it is theirs.
  return { ...claims, sub: claims.oid, email_verified: xms_edov === true }
}

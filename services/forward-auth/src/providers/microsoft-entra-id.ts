import type { Claims } from '@gatehouse/profile'
import { type Static, Type } from 'typebox'
import { createOidcProvider } from './oidc.ts'
import {
  clientOptions,
  commonOptions,
  Scopes,
  secretOrAssertion,
  trustEmail,
  withTrustedEmail,
} from './options.ts'
import type { ProviderKind } from './provider.ts'

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
      'Directory (tenant) ID in lower case. `common`, `organizations` and `consumers` are not allowed.',
  }),
  authority: Type.String({
    default: 'https://login.microsoftonline.com',
    description:
      'URL of the sign-in service of the cloud, such as `https://login.microsoftonline.us`.',
  }),
  scopes: Scopes(['openid', 'profile', 'email']),
  trustEmail,
})

/** One tenant of Microsoft Entra ID. */
export const microsoftEntraID: ProviderKind<Static<typeof MicrosoftEntraIdSchema>> = {
  title: 'Microsoft',
  icon: 'microsoft',
  create(options, deps) {
    const { authority, tenantId, trustEmail } = options
    const issuer = `${authority.replace(/\/$/, '')}/${tenantId}/v2.0`
    const claimsOf = (claims: Claims) =>
      trustEmail ? withTrustedEmail(readClaims(claims)) : readClaims(claims)
    const kind = { issuer, hasUserInfo: false, choosesAccount: true, claimsOf }
    return createOidcProvider(options, kind, deps)
  },
}

/** Uses `oid`, the ID of the person in the tenant, as the subject. `sub` differs in each application. */
function readClaims({ aio, rh, uti, ver, xms_edov, ...claims }: Claims): Claims {
  if (typeof claims.oid !== 'string') throw new Error('the ID token has no claim "oid"')
  // An administrator or the tenant of a guest may enter any address. `xms_edov` says that it is verified.
  return { ...claims, sub: claims.oid, email_verified: xms_edov === true }
}

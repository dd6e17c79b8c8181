import { faultIf } from '@gatehouse/service-kit/rules'
import { Type } from 'typebox'
import { preset, withoutSlash } from './preset.ts'

/** The tenant of all personal accounts. */
export const CONSUMERS = '9188040d-6c67-4c5b-b112-36a304b66dad'

export const microsoftEntraID = preset({
  type: 'microsoftEntraID',
  description: 'One tenant of Microsoft Entra ID. The subject of a person is the claim `oid`.',
  title: 'Microsoft',
  icon: {
    name: 'microsoft',
    color: '#0067b8',
    path: 'M4.5 4.5h6v6h-6zM13.5 4.5h6v6h-6zM4.5 13.5h6v6h-6zM13.5 13.5h6v6h-6z',
  },
  options: {
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
  },
  issuer: ({ authority, tenantId }) => `${withoutSlash(authority)}/${tenantId}/v2.0`,
  scopes: ['openid', 'profile', 'email', 'offline_access'],
  // UserInfo knows no `oid`.
  userInfo: 'nothing',
  choosesAccount: true,
  /** Uses `oid`, the ID of the person in the tenant, as the subject. `sub` differs in each application. */
  claimsOf({ aio, rh, uti, ver, xms_edov, ...claims }) {
    if (typeof claims.oid !== 'string') throw new Error('the ID token has no claim "oid"')
    // An administrator or the tenant of a guest may enter any address. `xms_edov` alone says that it is verified.
    return { ...claims, sub: claims.oid, email_verified: xms_edov === true || undefined }
  },
  check: ({ tenantId }) =>
    faultIf(tenantId === CONSUMERS, '/tenantId', 'is the tenant of all personal accounts'),
})

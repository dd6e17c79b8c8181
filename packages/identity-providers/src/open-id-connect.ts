import { isPublicIssuer } from '@gatehouse/auth-core'
import type { Claims } from '@gatehouse/profile'
import { type Static, Type } from 'typebox'
import { createOidc } from './oidc.ts'
import {
  claimPaths,
  clientOptions,
  clientSecret,
  discoveredScopes,
  Scopes,
  secretOrAssertion,
  trustEmail,
} from './options.ts'
import type { ProviderKind } from './provider.ts'

export const OpenIdConnectSchema = Type.Object({
  type: Type.Literal('openIDConnect', {
    description: 'Any provider that follows OpenID Connect.',
  }),
  ...clientOptions,
  ...secretOrAssertion,
  issuerUrl: Type.String({
    minLength: 1,
    description: 'The issuer, exactly as in the claim `iss`, including a trailing slash.',
  }),
  scopes: discoveredScopes,
  ...claimPaths,
  trustEmail,
})

/** The Microsoft tenant of all personal accounts. */
export const CONSUMERS = '9188040d-6c67-4c5b-b112-36a304b66dad'

export const openIDConnect: ProviderKind<Static<typeof OpenIdConnectSchema>> = {
  icon: 'openid',
  stepsUp: true,
  isPublic: ({ issuerUrl }) => isPublicIssuer(issuerUrl),
  create: (options, deps) => createOidc(options, { issuer: options.issuerUrl }, deps),
}

export const GoogleSchema = Type.Object({
  type: Type.Literal('google'),
  ...clientOptions,
  clientSecret,
  scopes: Scopes(['openid', 'profile', 'email']),
})

/** Google accounts. The claim `hd` names the organisation of an account; the address does not. */
export const google: ProviderKind<Static<typeof GoogleSchema>> = {
  title: 'Google',
  icon: 'google',
  stepsUp: true,
  isPublic: () => true,
  create: (options, deps) => createOidc(options, GOOGLE, deps),
}
const GOOGLE = {
  issuer: 'https://accounts.google.com',
  userInfo: 'without ID token',
  choosesAccount: true,
  // Google's own way to ask for a refresh token.
  parameters: { access_type: 'offline' },
} as const

export const PocketIdSchema = Type.Object({
  type: Type.Literal('pocketID'),
  ...clientOptions,
  ...secretOrAssertion,
  url: Type.String({ minLength: 1, description: 'URL of the Pocket ID instance.' }),
  scopes: Scopes(['openid', 'profile', 'email', 'groups']),
})

export const pocketID: ProviderKind<Static<typeof PocketIdSchema>> = {
  title: 'Pocket ID',
  icon: 'pocket-id',
  stepsUp: true,
  create: (options, deps) => createOidc(options, { issuer: withoutSlash(options.url) }, deps),
}

export const MicrosoftEntraIdSchema = Type.Object({
  type: Type.Literal('microsoftEntraID'),
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
  scopes: Scopes(['openid', 'profile', 'email', 'offline_access']),
  ...claimPaths,
  trustEmail,
})

export const microsoftEntraID: ProviderKind<Static<typeof MicrosoftEntraIdSchema>> = {
  title: 'Microsoft',
  icon: 'microsoft',
  stepsUp: true,
  claimsOf: readMicrosoftClaims,
  create(options, deps) {
    const issuer = `${withoutSlash(options.authority)}/${options.tenantId}/v2.0`
    const claimsOf = readMicrosoftClaims
    // UserInfo knows no `oid`.
    const kind = { issuer, userInfo: 'nothing', choosesAccount: true, claimsOf } as const
    return createOidc(options, kind, deps)
  },
}

/** Uses `oid`, the ID of the person in the tenant, as the subject. `sub` differs in each application. */
function readMicrosoftClaims({ aio, rh, uti, ver, xms_edov, ...claims }: Claims): Claims {
  if (typeof claims.oid !== 'string') throw new Error('the ID token has no claim "oid"')
  // An administrator or the tenant of a guest may enter any address. `xms_edov` alone says that it is verified.
  return { ...claims, sub: claims.oid, email_verified: xms_edov === true || undefined }
}

export const GitlabSchema = Type.Object({
  type: Type.Literal('gitlab'),
  ...clientOptions,
  clientSecret,
  url: Type.String({ default: 'https://gitlab.com', description: 'URL of the GitLab instance.' }),
  groups: Type.Array(Type.String({ minLength: 1 }), {
    default: [],
    description:
      'Full paths of the groups to include in the profile, with their subgroups. All others are left out.',
  }),
  scopes: Scopes(['openid', 'profile', 'email']),
})

export const gitlab: ProviderKind<Static<typeof GitlabSchema>> = {
  title: 'GitLab',
  icon: 'gitlab',
  stepsUp: true,
  isPublic: ({ url }) => URL.parse(url)?.hostname === 'gitlab.com',
  claimsOf: readGitlabClaims,
  create(options, deps) {
    const claimsOf = (claims: Claims) => readGitlabClaims(claims, options)
    return createOidc(options, { issuer: withoutSlash(options.url), claimsOf }, deps)
  },
}

/** Leaves out groups that are not configured, since anybody can create a group with an unused name. */
function readGitlabClaims(
  sent: Claims,
  { groups: configured }: { readonly groups: readonly string[] },
): Claims {
  const { groups, groups_direct, ...claims } = sent
  const person = Object.entries(claims).filter(([name]) => !name.startsWith('https://gitlab.org/'))
  const isConfigured = (path: unknown) =>
    configured.some((group) => path === group || String(path).startsWith(`${group}/`))
  return {
    ...Object.fromEntries(person),
    groups: Array.isArray(groups) ? groups.filter(isConfigured) : undefined,
  }
}

function withoutSlash(url: string): string {
  return url.replace(/\/$/, '')
}

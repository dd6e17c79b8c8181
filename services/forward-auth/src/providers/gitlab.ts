import type { Claims } from '@gatehouse/profile'
import { type Static, Type } from 'typebox'
import { createOidcProvider } from './oidc.ts'
import { clientOptions, clientSecret, commonOptions, Scopes } from './options.ts'
import type { ProviderKind } from './provider.ts'

export const GitlabSchema = Type.Object({
  type: Type.Literal('gitlab'),
  ...commonOptions,
  ...clientOptions,
  clientSecret,
  url: Type.String({
    default: 'https://gitlab.com',
    description: 'URL of the GitLab instance.',
  }),
  groups: Type.Array(Type.String({ minLength: 1 }), {
    default: [],
    description:
      'Full paths of the groups to include in the profile, with their subgroups. All others are left out.',
  }),
  scopes: Scopes(['openid', 'profile', 'email']),
})

/** gitlab.com or another GitLab instance. */
export const gitlab: ProviderKind<Static<typeof GitlabSchema>> = {
  title: 'GitLab',
  icon: 'gitlab',
  isPublic: ({ url }) => URL.parse(url)?.hostname === 'gitlab.com',
  create(options, deps) {
    const issuer = options.url.replace(/\/$/, '')
    const claimsOf = (claims: Claims) => readClaims(claims, options.groups)
    return createOidcProvider(options, { issuer, claimsOf }, deps)
  },
}

/** Leaves out groups that are not configured, since anybody can create a group with an unused name. */
function readClaims(sent: Claims, configured: readonly string[]): Claims {
  const { groups, groups_direct, ...claims } = sent
  const person = Object.entries(claims).filter(([name]) => !name.startsWith('https://gitlab.org/'))
  const memberOf = Array.isArray(groups) ? groups : []
  return {
    ...Object.fromEntries(person),
    groups: memberOf.filter((path) =>
      configured.some((group) => path === group || String(path).startsWith(`${group}/`)),
    ),
  }
}

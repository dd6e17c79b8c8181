import type { Claims } from '@gatehouse/profile'
import type { ConfigOf } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import type { ProviderDeps } from './deps.ts'
import { createOidcProvider } from './oidc.ts'
import { clientOptions, clientSecret, commonOptions, Scopes } from './options.ts'
import type { RedirectProvider } from './provider.ts'

export const GitlabSchema = Type.Object({
  type: Type.Literal('gitlab'),
  ...commonOptions,
  ...clientOptions,
  clientSecret,
  url: Type.String({
    default: 'https://gitlab.com',
    description: 'Address of the GitLab instance.',
  }),
  groups: Type.Array(Type.String({ minLength: 1 }), {
    default: [],
    description:
      'Full paths of the groups that count, with those below them; others are left out of the profile.',
  }),
  scopes: Scopes(['openid', 'profile', 'email']),
})

/** gitlab.com, or an instance of one's own. */
export function createGitlab(
  options: ConfigOf<typeof GitlabSchema>,
  deps: ProviderDeps,
): RedirectProvider {
  const issuer = options.url.replace(/\/$/, '')
  const claimsOf = (claims: Claims) => readClaims(claims, options.groups)
  return createOidcProvider(options, { issuer, isPublic: isPublicGitlab(options), claimsOf }, deps)
}

export function isPublicGitlab({ url }: { readonly url: string }): boolean {
  return URL.parse(url)?.hostname === 'gitlab.com'
}

/** Anybody can make groups, of any name that is free: only those that are configured mean anything. */
function readClaims(sent: Claims, counted: readonly string[]): Claims {
  const { groups, groups_direct, ...claims } = sent
  const person = Object.entries(claims).filter(([name]) => !name.startsWith('https://gitlab.org/'))
  const member = Array.isArray(groups) ? groups : []
  return {
    ...Object.fromEntries(person),
    groups: member.filter((path) =>
      counted.some((group) => path === group || String(path).startsWith(`${group}/`)),
    ),
  }
}

import { Type } from 'typebox'
import { preset, withoutSlash } from './preset.ts'

export const gitlab = preset({
  type: 'gitlab',
  description: 'gitlab.com, or a GitLab instance.',
  title: 'GitLab',
  icon: {
    name: 'gitlab',
    color: '#c9401a',
    path: 'M6 4 3.5 13 12 20.5 20.5 13 18 4l-2.5 6h-7z',
  },
  options: {
    url: Type.String({ default: 'https://gitlab.com', description: 'URL of the GitLab instance.' }),
    groups: Type.Array(Type.String({ minLength: 1 }), {
      default: [],
      description:
        'Full paths of the groups to include in the profile, with their subgroups. All others are left out.',
    }),
  },
  issuer: ({ url }) => withoutSlash(url),
  scopes: ['openid', 'profile', 'email'],
  /** Leaves out groups that are not configured, since anybody can create a group with an unused name. */
  claimsOf({ groups, groups_direct, ...claims }, { groups: configured }) {
    const entries = Object.entries(claims)
    const person = entries.filter(([name]) => !name.startsWith('https://gitlab.org/'))
    const isConfigured = (path: unknown) =>
      configured.some((group) => path === group || String(path).startsWith(`${group}/`))
    return {
      ...Object.fromEntries(person),
      groups: Array.isArray(groups) ? groups.filter(isConfigured) : undefined,
    }
  },
})

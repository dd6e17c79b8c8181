import { parseCidr } from '@gatehouse/net'
import type { Draft } from '../draft.ts'
import type { ReadFile } from '../foreign.ts'
import {
  type Access,
  accessByEmail,
  accessByMembership,
  allOf,
  allowOf,
  listOf,
  PORTAL,
  PROVIDER,
} from '../forward-auth/access.ts'
import { refuseAll, setCondition } from '../forward-auth/settings.ts'
import { placeOf, type SourceConfig, type SourceSetting } from '../source.ts'

/** Providers that take the user principal name of people without an address. */
const BY_UPN = ['adfs', 'azure']

/** A restriction of access, with the settings that it comes from. */
interface Restriction {
  readonly access: Access | undefined
  readonly sources: readonly (SourceSetting | undefined)[]
}

/** Sets who may come in. Where that cannot be known, nobody may before a person has decided. */
export function setAccess(
  source: SourceConfig,
  draft: Draft,
  kind: string,
  readFile: ReadFile,
): void {
  const emails = readEmails(source, readFile)
  const membership = typeof emails === 'string' ? emails : readMembership(source, draft, kind)
  if (typeof emails === 'string' || typeof membership === 'string') {
    refuseAll(draft, String(membership))
    return
  }
  const path = [...PORTAL, 'allow']
  const settings = [...emails.sources, ...membership.sources].flatMap((setting) => setting ?? [])
  const sources = settings.map(placeOf).join(' and ')
  if (setCondition(draft, path, allowOf(allOf([emails.access, membership.access])), sources))
    draft.comment(path, `Who may come in, from ${sources}.`)
  if (BY_UPN.includes(kind))
    draft.comment(
      path,
      'For people without a claim email, upn counted before: send email, or read claims["upn"] in a condition.',
    )
  if (!membership.access && source.list('email-domain').includes('*'))
    draft.comment(path, 'Everybody with an account at the provider, as before.')
}

/** Reads the domains and the file of addresses, of which one has to have the address. */
function readEmails(source: SourceConfig, readFile: ReadFile): Restriction | string {
  const domains = source.take('email-domain')
  const file = source.take('authenticated-emails-file')
  if (!domains && !file)
    return 'neither email_domains nor authenticated_emails_file is set, so say who may come in.'
  const addresses = file ? readFile(file.values[0] ?? '') : ''
  if (file && addresses === undefined)
    return (
      `authenticated_emails_file (line ${file.line}) cannot be read here: put the command on the machine that ` +
      'has it, or list the addresses in a condition, such as EmailVerified() && claims.email in ["ada@example.com"].'
    )
  // A file of CSV whose first column is the address.
  const listed = (addresses ?? '')
    .split(/\r?\n/)
    .map((line) => line.split(',')[0]?.trim().replaceAll('"', '') ?? '')
    .filter((line) => line.includes('@') && !line.startsWith('#'))
  const claim = source.text('oidc-email-claim') ?? source.text('user-id-claim')
  return {
    sources: [domains, file],
    access: accessByEmail({
      domains: domains?.values.filter((value) => value !== '') ?? [],
      addresses: listed,
      ...(claim !== undefined && { claim }),
    }),
  }
}

function readMembership(source: SourceConfig, draft: Draft, kind: string): Restriction | string {
  if (kind === 'github') return readGithub(source, draft)
  const names = ['allowed-group', 'keycloak-group', 'gitlab-group', 'allowed-role']
  const sources = names.map((name) => source.take(name))
  const [groups, keycloak, gitlab, roles] = sources
  const [first] = sources.flatMap((setting) => setting ?? [])
  if (first && kind === 'google') return `${first.spelling} cannot be met: Google sends no groups.`
  const groupNames = [groups, keycloak, gitlab].flatMap((setting) => setting?.values ?? [])
  if (first && kind === 'gitlab')
    draft.set([...PROVIDER, 'groups'], topGroups(groupNames), gitlab ?? groups)
  const conditions = readRoles(roles, draft)
  if (typeof conditions === 'string') return conditions
  return { access: accessByMembership(groupNames, conditions), sources }
}

/** Finds the outermost groups: with each, its subgroups are in the profile. */
const topGroups = (groups: readonly string[]) =>
  groups.filter(
    (group) => !groups.some((parent) => parent !== group && group.startsWith(`${parent}/`)),
  )

/** Reads roles of the realm, or of one client as `client:role`. Gatehouse reads them from one claim. */
function readRoles(roles: SourceSetting | undefined, draft: Draft): readonly string[] | string {
  if (!roles) return []
  const parts = roles.values.map((role) => role.split(':'))
  const clients = new Set(parts.map((part) => (part.length > 1 ? part[0] : '')))
  const [client] = clients
  if (clients.size > 1)
    return `${placeOf(roles)} names roles of the realm and of clients, and rolesClaim is one of them.`
  const claim = client ? `resource_access.${client}.roles` : 'realm_access.roles'
  draft.set([...PROVIDER, 'rolesClaim'], claim, roles)
  draft.comment([...PROVIDER, 'rolesClaim'], 'Keycloak has to add this claim to the ID token.')
  return parts.map((part) => `Role(${JSON.stringify(part.at(-1))})`)
}

function readGithub(source: SourceConfig, draft: Draft): Restriction {
  const settings = ['github-org', 'github-team', 'github-user', 'allowed-group']
  const sources = settings.map((name) => source.take(name))
  const [org, team, users, groups] = sources
  const organization = org?.values[0]
  const teams = (team?.values[0] ?? '').split(',').filter((text) => text !== '')
  // A team is `slug` of the organization, or `organization:slug`.
  const names = teams.map((text) => (text.includes(':') ? text : `${organization}:${text.trim()}`))
  if (teams.length === 0 && organization !== undefined) names.push(organization)
  const groupNames = [...names, ...(groups?.values ?? [])].map((name) => name.replace(':', '/'))
  const organizations = [...new Set(groupNames.map((group) => group.split('/')[0] ?? ''))]
  if (organizations.length > 0)
    draft.set([...PROVIDER, 'organizations'], organizations, org ?? team ?? groups)
  const byName = users ? [`claims.preferred_username in ${listOf(users.values)}`] : []
  return { access: accessByMembership(groupNames, byName), sources }
}

/** Sets the rules for whoever needs no session. What is not certain to open the same keeps asking for one. */
export function setOpenRules(source: SourceConfig, draft: Draft): void {
  const rules: object[] = []
  const trusted = source.take('trusted-ip')
  const networks = trusted?.values.filter((text) => parseCidr(text)) ?? []
  if (networks.length > 0) rules.push({ from: networks, require: 'anyone' })
  if (trusted && networks.length < trusted.values.length)
    draft.remark(trusted, 'has entries that are no addresses or networks, which are left out')
  for (const name of ['skip-auth-route', 'skip-auth-regex']) {
    const routes = source.take(name)
    for (const route of routes?.values ?? []) {
      const rule = readRoute(name === 'skip-auth-regex' ? `=${route}` : route)
      if (rule) rules.push(rule)
      else if (routes)
        draft.remark(routes, `${route} is no rule here, so a session is needed; write one in rules`)
    }
  }
  if (rules.length === 0) return
  draft.set([...PORTAL, 'rules'], rules)
  draft.comment(
    [...PORTAL, 'rules'],
    'For these requests nobody has to sign in. /x is that path, with or without a slash at its end; /x/*/* only what is below it.',
  )
}

/** Reads `METHOD=regex` or `regex`, as far as the expression says the same as a pattern of paths. */
function readRoute(route: string): object | undefined {
  const [, method = '', regex = ''] = /^(?:([A-Z]*)=)?(\^.*)$/.exec(route) ?? []
  const path = readPattern(regex)
  if (path === undefined) return undefined
  const methods = method === '' ? {} : { methods: [method] }
  return { paths: [path], ...methods, require: 'anyone' }
}

/** Reads `^/x$`, and whatever begins with `^/x/`. An expression without an end also opens `/x-admin`: refused. */
function readPattern(regex: string): string | undefined {
  const [, path, suffix, end] =
    /^\^((?:\/(?:[\w~-]|\\[./-])+)+)(\/(?:\.[*+])?)?(\$)?$/.exec(regex) ?? []
  if (path === undefined) return regex === '^/$' ? '/' : undefined
  const plain = path.replaceAll('\\', '')
  if (/\/\.{1,2}(\/|$)|\/\//.test(plain)) return undefined
  if (suffix === undefined) return end ? plain : undefined
  return suffix === '/' && end ? plain : `${plain}/*/*`
}

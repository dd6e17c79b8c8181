import { parseCidr } from '@gatehouse/net'
import type { Draft } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import { PORTAL, PROVIDER } from '../forward-auth/access.ts'
import {
  askForIssuer,
  ONLY_HERE,
  readAddress,
  readDuration,
  redirectStep,
  setCondition,
  setDomains,
} from '../forward-auth/settings.ts'
import type { SourceConfig } from '../source.ts'
import { expandRules, isAdmitting, requirementOf, SECOND_FACTOR, type TheirRule } from './rules.ts'

export const translateAuthelia: Translate = (source, draft) => {
  draft.set(PORTAL, { name: 'main', headers: 'remote-*', userHeader: 'username' })
  setServer(source, draft)
  const cookies = (key: string) =>
    source.itemsOf('session.cookies').flatMap((n) => source.list(`session.cookies.${n}.${key}`))
  const url = URL.parse(cookies('authelia_url')[0] ?? '')
  const domains = [...cookies('domain'), ...source.list('session.domain')]
  const authHost = setDomains(draft, domains, url?.host)
  const client = { clientId: 'gatehouse', clientSecretFile: 'client-secret' }
  draft.set(PROVIDER, { type: 'openIDConnect', name: 'corp', ...client })
  askForIssuer(draft, 'Authelia. It can stay as one, at another host than authHost')
  setRules(source, draft)
  const clients = source.settings.flatMap(({ name, values }) =>
    /clients\.\d+\.(client_)?id$/.test(name) ? values : [],
  )
  return [
    'Find an OpenID Connect provider, since accounts and passwords of Authelia cannot move. Authelia itself can be one.',
    'Register a client gatehouse, write its secret to client-secret, with mode 0600, and have groups and preferred_username sent.',
    `Apps that sign in at Authelia itself stay there, or move to the provider: ${clients.join(', ') || 'none'}.`,
    redirectStep(authHost, 'corp'),
    'Save this file, and check it: gatehouse-auth check-config --config config.yaml',
    'Have your proxy ask /portals/main, or /portals/main/authz/nginx from nginx, in place of /api/authz/ or /api/verify.',
  ]
}

function setServer(source: SourceConfig, draft: Draft): void {
  const address = source.take('server.address')
  const older = `${source.text('server.host') ?? ''}:${source.text('server.port') ?? 9091}`
  const text = address?.values[0]?.replace(/^tcp[46]?:\/\//, '').split('/')[0] ?? older
  draft.set(['server'], readAddress(text), address)
  draft.comment(['server'], ONLY_HERE)
  const setting = (key: string) =>
    source.take(`session.cookies.0.${key}`) ?? source.take(`session.${key}`)
  draft.copy(['session', 'lifetime'], setting('expiration'), (time) => readDuration(time), '1h')
  const idleOf = (time: string) => readDuration(time, 300_000)
  draft.copy([...PORTAL, 'session', 'idle'], setting('inactivity'), idleOf, '5m')
}

/** What is required until a person has decided. No policy has this name, so that the file is refused. */
const UNDECIDED = 'undecided'

/** Sets rules and policies, by which nobody comes in whom theirs refuse. */
function setRules(source: SourceConfig, draft: Draft): void {
  const policies = new Map<string, string>()
  const nameOf = (condition: string) => {
    const newName = condition === 'false' ? 'nobody' : `people-${policies.size + 1}`
    const name = policies.get(condition) ?? newName
    policies.set(condition, name)
    return name
  }
  for (const { name } of source.settings) if (name.startsWith('access_control.')) source.take(name)
  const rules = source.itemsOf('access_control.rules').flatMap((item) => readRule(source, item))
  const policy = source.text('access_control.default_policy') ?? 'deny'
  rules.push({ name: 'default_policy', place: {}, policy })
  const rows = expandRules(rules).map(({ place, chain }) => ({
    place,
    names: chain.map(({ name }) => name).join(', then '),
    task: chain.at(-1)?.task,
    require: requirementOf(chain, nameOf),
  }))
  draft.set(
    [...PORTAL, 'rules'],
    rows.map(({ place, task, require }) => ({ ...place, require: task ? UNDECIDED : require })),
  )
  for (const [index, { place, names, task, require }] of rows.entries()) {
    const [member = 'require'] = Object.keys(place)
    draft.comment([...PORTAL, 'rules', index, member], names)
    const text = `${task}. Then require ${[require].flat().join(', ')}.`
    if (task) draft.todo([...PORTAL, 'rules', index, 'require'], text)
  }
  for (const [condition, name] of policies)
    setCondition(draft, [...PORTAL, 'policies', name], condition, `the subjects of ${name}`)
  if (!rows.some(({ require }) => require.includes(SECOND_FACTOR))) return
  draft.set([...PORTAL, 'policies', SECOND_FACTOR], {})
  draft.todo([...PORTAL, 'policies', SECOND_FACTOR], SECOND_FACTOR_TASK)
}

const SECOND_FACTOR_TASK =
  'say how the provider tells of a second factor: { acr: [mfa] }, ClaimContains("amr", "mfa") for Authelia, ' +
  'or "true" if it always asks for one. Where only some people needed it, all do: remove it there if one is enough.'

/** Reads a rule. The part of it that has no counterpart is a task. */
function readRule(source: SourceConfig, item: number): TheirRule[] {
  const start = `access_control.rules.${item}`
  const list = (key: string) => source.list(`${start}.${key}`)
  const policy = source.text(`${start}.policy`) ?? 'deny'
  const subject = subjectOf(source, `${start}.subject`)
  const odd = [...list('domain').filter((text) => !HOST.test(text)), ...list('domain_regex')]
  const hosts = odd.length > 0 ? [] : list('domain').map((text) => text.toLowerCase())
  const from = list('networks').flatMap((text) => networksOf(source, text))
  const isForPeople = subject === undefined || (isAdmitting(policy) && !subject.includes('oauth2:'))
  const tasks = [
    ...odd.map((text) => `write the hosts of ${text}`),
    ...from.filter((text) => !parseCidr(text)).map((text) => `write the networks of ${text}`),
    ...(source.has(`${start}.query`) ? ['it reads the query, which no rule does here'] : []),
    ...(isForPeople ? [] : [`write a policy for ${subject}`]),
  ]
  const decision = isForPeople ? { policy, subject } : { policy: 'deny' }
  const rule = { name: `rule ${item + 1}`, ...decision }
  if (tasks.length > 0) return [{ ...rule, place: { hosts: orAll(hosts) }, task: tasks.join('; ') }]
  const methods = list('methods').map((method) => method.toUpperCase())
  const place = { hosts: orAll(hosts), methods: orAll(methods), from: orAll(from) }
  const resources = list('resources')
  if (resources.length === 0) return [{ ...rule, place }]
  const unread = resources.filter((text) => pathOf(text, policy) === undefined)
  const task = `write the paths of ${unread.join(' and ')}, which are compared with the query too`
  return [
    {
      ...rule,
      place: { ...place, paths: resources.flatMap((text) => pathOf(text, policy) ?? []) },
    },
    ...(unread.length > 0 ? [{ ...rule, place, task }] : []),
  ]
}

const HOST = /^(\*\.)?[\w.-]+$/
const orAll = (texts: readonly string[]) => (texts.length > 0 ? texts : undefined)

function networksOf(source: SourceConfig, text: string): readonly string[] {
  const lists = 'access_control.networks'
  const item = source.itemsOf(lists).find((other) => source.text(`${lists}.${other}.name`) === text)
  const name = item === undefined ? `definitions.network.${text}` : `${lists}.${item}.networks`
  return orAll(source.list(name)) ?? [text]
}

/** The people of a rule: those who are all subjects of one of the lists. */
function subjectOf(source: SourceConfig, name: string): string | undefined {
  const lists = [
    ...source.list(name).map((text) => [text]),
    ...source.itemsOf(name).map((item) => source.list(`${name}.${item}`)),
  ]
  const conditions = lists.map((texts) => texts.map(testOf).join(' && '))
  return orAll(conditions)?.join(' || ')
}

/** A client of Authelia is no person, and stays as it is written. */
function testOf(text: string): string {
  const [, kind, name = ''] = /^(user|group):(.*)$/.exec(text) ?? []
  if (kind === undefined) return text
  const literal = JSON.stringify(name.trim())
  return kind === 'group' ? `Group(${literal})` : `claims.preferred_username == ${literal}`
}

/** The path at the start of an expression. */
const START = /^\^(?:\/(?:[\w~-]|\\[./-])+)*/

/** Reads an expression that Authelia looks for in a path with its query. A rule may open less than it, and deny more. */
function pathOf(text: string, policy: string): string | undefined {
  const [start = ''] = START.exec(text) ?? []
  const end = text.slice(start.length)
  const path = start.replaceAll(/[\\^]/g, '')
  if (end === '([/?].*)?$' || (path === '' && /^\/?(\.\*\$?)?$/.test(end))) return `${path}/*`
  if (policy === 'bypass' && path !== '' && /^\/(\.[*+]\$?)?$/.test(end)) return `${path}/*/*`
  if (policy === 'bypass' && path !== '' && /^(\.\*\$?)?$/.test(end)) return `${path}/*`
  const isDenied = !isAdmitting(policy) && path !== ''
  return isDenied && /^((\/\??)?\$|\/(\.[*+]\$?)?)$/.test(end) ? `${path}/*` : undefined
}

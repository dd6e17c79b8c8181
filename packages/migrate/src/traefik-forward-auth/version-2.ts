import type { Draft } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import { type Access, accessByEmail, allowOf, PORTAL, PROVIDER } from '../forward-auth/access.ts'
import {
  askForIssuer,
  isOn,
  ONLY_HERE,
  redirectStep,
  refuseAll,
  secondsText,
  setClientSecret,
  setCondition,
  setDomains,
  slug,
  trustEmail,
} from '../forward-auth/settings.ts'
import { plainUrl, type SourceConfig, type SourceSetting } from '../source.ts'
import { readMatchers } from './matchers.ts'

/** Translates the settings of thomseddon/traefik-forward-auth 2. */
export const translateVersion2: Translate = (source, draft) => {
  draft.set(['server', 'host'], '0.0.0.0')
  draft.copy(['server', 'port'], source.take('port'), Number, '4181')
  draft.comment(['server'], ONLY_HERE)
  draft.copy(['session', 'lifetime'], source.take('lifetime'), secondsText, '43200')
  setLog(source, draft)
  const host = source.text('auth-host')
  const domains = [...source.list('cookie-domain'), ...source.list('cookie-domains')]
  setDomains(draft, domains, host)
  draft.set([...PORTAL, 'name'], 'main')
  const providerName = source.text('default-provider') ?? 'google'
  setProvider(source, draft, providerName)
  draft.set([...PORTAL, 'userHeader'], 'email')
  const rules = rulesOf(source)
  const strayRules = rules.filter(
    ({ action, provider }) =>
      action !== 'allow' && provider !== undefined && provider !== providerName,
  )
  setAccess(source, draft, rules)
  if (strayRules.length > 0)
    refuseAll(
      draft,
      `rules sign in at another provider than ${providerName}: make a portal for each, and have Traefik ask it.`,
    )
  const isHere =
    host !== undefined && domains.some((domain) => isOn(host, domain.replace(/^\./, '')))
  return [
    redirectStep(isHere ? host : undefined, slug(providerName, 24)),
    'Save this file, and check it: gatehouse-auth check-config --config config.yaml',
    'In Traefik, have the middleware ask /portals/main, set trustForwardHeader: true, and route the host ' +
      'of the sign-in pages to Gatehouse.',
  ]
}

function setLog(source: SourceConfig, draft: Draft): void {
  const levelOf = (text: string) => text.toLowerCase().replace(/^panic$/, 'fatal')
  draft.copy(['log', 'level'], source.take('log-level'), levelOf, 'warn')
  const format = source.take('log-format')
  draft.copy(['log', 'format'], format, (text) => (text === 'json' ? 'json' : 'pretty'))
}

function setProvider(source: SourceConfig, draft: Draft, providerName: string): void {
  const path = (key: string) => [...PROVIDER, key]
  const isGoogle = providerName === 'google'
  draft.set(path('type'), isGoogle ? 'google' : 'openIDConnect', source.take('default-provider'))
  draft.set(path('name'), slug(providerName, 24) || 'corp')
  const isOidc = providerName === 'oidc'
  if (isOidc) draft.copy(path('issuerUrl'), source.take('providers.oidc.issuer-url'), plainUrl)
  const old =
    isGoogle && !source.has('providers.google.client-id') ? '' : `providers.${providerName}.`
  draft.copy(path('clientId'), source.take(`${old}client-id`))
  setClientSecret(source, draft, PROVIDER, [`${old}client-secret`])
  const parameter = (name: string) => [...path('authorizationParameters'), name]
  if (isGoogle)
    draft.copy(parameter('prompt'), source.take('providers.google.prompt') ?? source.take('prompt'))
  if (isOidc) draft.copy(parameter('resource'), source.take('providers.oidc.resource'))
  if (isGoogle) return
  trustEmail(draft, 'unlessFalse')
  askForIssuer(draft, providerName)
}

interface TheirRule {
  readonly name: string
  readonly action: string
  readonly provider: string | undefined
  readonly matcher: SourceSetting | undefined
  /** The lists of the rule, which replace those for all. */
  readonly lists: Lists | undefined
}

interface Lists {
  readonly addresses: readonly string[]
  readonly domains: readonly string[]
}

function rulesOf(source: SourceConfig): TheirRule[] {
  const names = source.settings.flatMap(({ name }) => /^rule\.([^.]+)\./.exec(name)?.[1] ?? [])
  return [...new Set(names)].map((name) => {
    const addresses = source.list(`rule.${name}.whitelist`)
    const domains = source.list(`rule.${name}.domains`)
    const lists = addresses.length + domains.length > 0 ? { addresses, domains } : undefined
    return {
      name,
      action: source.text(`rule.${name}.action`) ?? 'auth',
      provider: source.text(`rule.${name}.provider`),
      matcher: source.take(`rule.${name}.rule`),
      lists,
    }
  })
}

/** Grants access by lists: to everybody if they are empty. Without the switch, domains count only if nobody is listed. */
function accessOf({ addresses, domains }: Lists, isEither: boolean): Access | undefined {
  if (addresses.length + domains.length === 0) return undefined
  const counted = addresses.length === 0 || isEither ? domains : []
  // A star or a dot has no meaning there, and must not get one here.
  return accessByEmail({ addresses, domains: counted.filter((domain) => /^\w/.test(domain)) })
}

function setAccess(source: SourceConfig, draft: Draft, rules: readonly TheirRule[]): void {
  const isEither = source.ifOn('match-whitelist-or-domain') !== undefined
  const global = accessOf(
    { addresses: source.list('whitelist'), domains: source.list('domain') },
    isEither,
  )
  const isOpen = source.text('default-action') === 'allow'
  const listRules = rules.filter(({ action, lists }) => action !== 'allow' && lists)
  const accessByRule = new Map(
    listRules.map(({ name, lists }) => [name, lists && accessOf(lists, isEither)]),
  )
  const signedIn = rules.filter(({ action }) => action !== 'allow')
  const isUsed = !isOpen || signedIn.length === 0 || signedIn.some(({ lists }) => !lists)
  const accesses = [...(isUsed ? [global] : []), ...accessByRule.values()]
  const allow = accesses.some((access) => access === undefined)
    ? undefined
    : anyOf(accesses as Access[])
  setCondition(draft, [...PORTAL, 'allow'], allow && allowOf(allow), LISTED)
  const printed = rulesFor(rules, draft, {
    isOpen,
    hasLists: listRules.length > 0,
    hasGlobal: global !== undefined,
  })
  if (listRules.length > 0) {
    for (const [name, access] of accessByRule) setPolicy(draft, policyOf(name), access)
    setPolicy(draft, DEFAULT_POLICY, global)
  }
  if (printed.length > 0) draft.set([...PORTAL, 'rules'], printed)
}

const LISTED = 'the lists of addresses'

function setPolicy(draft: Draft, name: string, access: Access | undefined): void {
  setCondition(draft, [...PORTAL, 'policies', name], access && conditionOf(access), LISTED)
}

const DEFAULT_POLICY = 'others'
const policyOf = (name: string) => `rule-${slug(name, 24)}`

interface Defaults {
  readonly isOpen: boolean
  readonly hasLists: boolean
  readonly hasGlobal: boolean
}

/** Translates rules, the stricter ones first. Theirs have no order. */
function rulesFor(
  rules: readonly TheirRule[],
  draft: Draft,
  { isOpen, hasLists, hasGlobal }: Defaults,
) {
  const defaultPolicy = hasLists && hasGlobal ? DEFAULT_POLICY : 'signedIn'
  const relevant = rules.filter(
    ({ action, lists }) => action === 'allow' || isOpen || lists || hasLists,
  )
  const printed = relevant
    .toSorted((a, b) => Number(a.action === 'allow') - Number(b.action === 'allow'))
    .flatMap(({ name, action, matcher, lists }) => {
      const isAllow = action === 'allow'
      const require = isAllow ? 'anyone' : lists ? policyOf(name) : defaultPolicy
      const matchers = readMatchers(matcher?.values[0] ?? '', isAllow)
      if (matchers) return matchers.map((fits) => ({ ...fits, require }))
      if (matcher && isAllow)
        draft.remark(matcher, 'is no rule here, so a session is needed; write one in rules')
      else
        refuseAll(
          draft,
          `rule ${name} cannot be translated: write it in rules, and say who may come in.`,
        )
      return []
    })
  const fallback = isOpen ? 'anyone' : defaultPolicy
  return fallback === 'signedIn' ? printed : [...printed, { require: fallback }]
}

function conditionOf({ condition, emailDomains = [] }: Access): string {
  const ends = emailDomains.map(
    (domain) => `claims.email.endsWith(${JSON.stringify(`@${domain}`)})`,
  )
  return condition ?? `EmailVerified() && (${ends.join(' || ')})`
}

function anyOf(accesses: readonly Access[]): Access {
  const [first] = accesses
  if (first && accesses.length === 1) return first
  return { condition: accesses.map((access) => `(${conditionOf(access)})`).join(' || ') }
}

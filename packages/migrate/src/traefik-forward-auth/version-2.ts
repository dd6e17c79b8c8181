import type { Draft } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import {
  type Access,
  accessByEmail,
  allowOf,
  anyOf,
  conditionOf,
  PORTAL,
  PROVIDER,
} from '../forward-auth/access.ts'
import {
  askForIssuer,
  ONLY_HERE,
  readDuration,
  redirectStep,
  refuseAll,
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
  draft.copy(['session', 'lifetime'], source.take('lifetime'), (text) => readDuration(text), '12h')
  setLog(source, draft)
  const domains = [...source.list('cookie-domain'), ...source.list('cookie-domains')]
  const authHost = setDomains(draft, domains, source.text('auth-host'))
  draft.set([...PORTAL, 'name'], 'main')
  const providerName = source.text('default-provider') ?? 'google'
  setProvider(source, draft, providerName)
  draft.set([...PORTAL, 'userHeader'], 'email')
  const rules = rulesOf(source)
  setAccess(source, draft, rules)
  if (rules.some(({ isOpen, provider = providerName }) => !isOpen && provider !== providerName))
    refuseAll(
      draft,
      `rules sign in at another provider than ${providerName}: make a portal for each, and have Traefik ask it.`,
    )
  return [
    redirectStep(authHost, slug(providerName, 24)),
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
  readonly isOpen: boolean
  readonly provider: string | undefined
  readonly matcher: SourceSetting | undefined
  /** Those whom its lists let in, in place of the lists for all. */
  readonly access: Access | undefined
}

function rulesOf(source: SourceConfig): TheirRule[] {
  const names = source.settings.flatMap(({ name }) => /^rule\.([^.]+)\./.exec(name)?.[1] ?? [])
  return [...new Set(names)].map((name) => ({
    name,
    isOpen: source.text(`rule.${name}.action`) === 'allow',
    provider: source.text(`rule.${name}.provider`),
    matcher: source.take(`rule.${name}.rule`),
    access: accessOf(source, `rule.${name}.whitelist`, `rule.${name}.domains`),
  }))
}

/** Grants access by lists; undefined if they are empty. Without the switch, domains count only if nobody is listed. */
function accessOf(source: SourceConfig, whitelist: string, domain: string): Access | undefined {
  const addresses = source.list(whitelist)
  const isCounted = source.ifOn('match-whitelist-or-domain') || addresses.length === 0
  const listedDomains = source.list(domain)
  if (addresses.length + listedDomains.length === 0) return undefined
  // A star or a dot has no meaning there, and must not get one here.
  const domains = isCounted ? listedDomains.filter((text) => /^\w/.test(text)) : []
  return accessByEmail({ addresses, domains })
}

function setAccess(source: SourceConfig, draft: Draft, rules: readonly TheirRule[]): void {
  const access = accessOf(source, 'whitelist', 'domain')
  const isOpen = source.text('default-action') === 'allow'
  const signedIn = rules.filter((rule) => !rule.isOpen)
  const listed = signedIn.filter((rule) => rule.access)
  const isUsed = !isOpen || signedIn.length === 0 || listed.length < signedIn.length
  const allow = anyOf([...(isUsed ? [access] : []), ...listed.map((rule) => rule.access)])
  setCondition(draft, [...PORTAL, 'allow'], allow && allowOf(allow), LISTED)
  const defaultPolicy = access && listed.length > 0 ? 'others' : 'signedIn'
  const relevant = isOpen || listed.length > 0 ? rules : rules.filter((rule) => rule.isOpen)
  const fallback = isOpen ? 'anyone' : defaultPolicy
  const printed = [
    ...rulesFor(relevant, draft, defaultPolicy),
    ...(fallback === 'signedIn' ? [] : [{ require: fallback }]),
  ]
  const policies = listed.map((rule) => [policyOf(rule.name), rule.access] as const)
  if (listed.length > 0) policies.push(['others', access])
  for (const [name, granted] of policies)
    setCondition(draft, [...PORTAL, 'policies', name], granted && conditionOf(granted), LISTED)
  if (printed.length > 0) draft.set([...PORTAL, 'rules'], printed)
}

const LISTED = 'the lists of addresses'
const policyOf = (name: string) => `rule-${slug(name, 24)}`

/** Translates rules, the stricter ones first. Theirs have no order. */
function rulesFor(rules: readonly TheirRule[], draft: Draft, defaultPolicy: string) {
  return rules
    .toSorted((a, b) => Number(a.isOpen) - Number(b.isOpen))
    .flatMap(({ name, isOpen, matcher, access }) => {
      const require = isOpen ? 'anyone' : access ? policyOf(name) : defaultPolicy
      const matchers = readMatchers(matcher?.values[0] ?? '', isOpen)
      if (matchers) return matchers.map((fits) => ({ ...fits, require }))
      if (matcher && isOpen)
        draft.remark(matcher, 'is no rule here, so a session is needed; write one in rules')
      else
        refuseAll(
          draft,
          `rule ${name} cannot be translated: write it in rules, and say who may come in.`,
        )
      return []
    })
}

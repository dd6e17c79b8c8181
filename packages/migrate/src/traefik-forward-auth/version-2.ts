import type { Draft } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import { type Access, accessByEmail, allowOf, PORTAL, PROVIDER } from '../forward-auth/access.ts'
import {
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
import { type Given, type GivenSetting, plainUrl } from '../given.ts'
import { readMatchers } from './matchers.ts'

/** Translates the settings of thomseddon/traefik-forward-auth 2. */
export const translateVersion2: Translate = (given, draft) => {
  draft.set(['server', 'host'], '0.0.0.0')
  draft.copy(['server', 'port'], given.take('port'), Number, '4181')
  draft.comment(['server'], ONLY_HERE)
  draft.copy(['session', 'lifetime'], given.take('lifetime'), secondsText, '43200')
  setLog(given, draft)
  const host = given.text('auth-host')
  const domains = [...given.list('cookie-domain'), ...given.list('cookie-domains')]
  setDomains(draft, domains, host)
  draft.set([...PORTAL, 'name'], 'main')
  const theirs = given.text('default-provider') ?? 'google'
  setProvider(given, draft, theirs)
  draft.set([...PORTAL, 'userHeader'], 'email')
  const rules = rulesOf(given)
  const others = rules.filter(
    ({ action, provider }) => action !== 'allow' && provider !== undefined && provider !== theirs,
  )
  setAccess(given, draft, rules)
  if (others.length > 0)
    refuseAll(
      draft,
      `rules sign in at another provider than ${theirs}: make a portal for each, and have Traefik ask it.`,
    )
  const isHere =
    host !== undefined && domains.some((domain) => isOn(host, domain.replace(/^\./, '')))
  return [
    redirectStep(isHere ? host : undefined, slug(theirs, 24)),
    'Save this file, and check it: gatehouse-auth check-config --config config.yaml',
    'In Traefik, have the middleware ask /portals/main, set trustForwardHeader: true, and route the host ' +
      'of the sign-in pages to Gatehouse.',
  ]
}

function setLog(given: Given, draft: Draft): void {
  const levelOf = (text: string) => text.toLowerCase().replace(/^panic$/, 'fatal')
  draft.copy(['log', 'level'], given.take('log-level'), levelOf, 'warn')
  const format = given.take('log-format')
  draft.copy(['log', 'format'], format, (text) => (text === 'json' ? 'json' : 'pretty'))
}

function setProvider(given: Given, draft: Draft, theirs: string): void {
  const at = (key: string) => [...PROVIDER, key]
  const isGoogle = theirs === 'google'
  draft.set(at('type'), isGoogle ? 'google' : 'openIDConnect', given.take('default-provider'))
  draft.set(at('name'), slug(theirs, 24) || 'corp')
  const isOidc = theirs === 'oidc'
  if (isOidc) draft.copy(at('issuerUrl'), given.take('providers.oidc.issuer-url'), plainUrl)
  const old = isGoogle && !given.has('providers.google.client-id') ? '' : `providers.${theirs}.`
  draft.copy(at('clientId'), given.take(`${old}client-id`))
  setClientSecret(given, draft, PROVIDER, [`${old}client-secret`])
  const parameter = (name: string) => [...at('authorizationParameters'), name]
  if (isGoogle)
    draft.copy(parameter('prompt'), given.take('providers.google.prompt') ?? given.take('prompt'))
  if (isOidc) draft.copy(parameter('resource'), given.take('providers.oidc.resource'))
  if (!isGoogle) trustEmail(draft, 'unlessFalse')
  if (!isGoogle && !draft.has(at('issuerUrl')))
    draft.todo(
      at('type'),
      `issuerUrl is missing: give the issuer of an OpenID Connect provider in place of ${theirs}.`,
    )
}

interface TheirRule {
  readonly name: string
  readonly action: string
  readonly provider: string | undefined
  readonly matcher: GivenSetting | undefined
  /** The lists of the rule, which replace those for all. */
  readonly lists: Lists | undefined
}

interface Lists {
  readonly addresses: readonly string[]
  readonly domains: readonly string[]
}

function rulesOf(given: Given): TheirRule[] {
  const names = given.all.flatMap(({ name }) => /^rule\.([^.]+)\./.exec(name)?.[1] ?? [])
  return [...new Set(names)].map((name) => {
    const addresses = given.list(`rule.${name}.whitelist`)
    const domains = given.list(`rule.${name}.domains`)
    const lists = addresses.length + domains.length > 0 ? { addresses, domains } : undefined
    return {
      name,
      action: given.text(`rule.${name}.action`) ?? 'auth',
      provider: given.text(`rule.${name}.provider`),
      matcher: given.take(`rule.${name}.rule`),
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

function setAccess(given: Given, draft: Draft, rules: readonly TheirRule[]): void {
  const isEither = given.ifOn('match-whitelist-or-domain') !== undefined
  const global = accessOf(
    { addresses: given.list('whitelist'), domains: given.list('domain') },
    isEither,
  )
  const isOpen = given.text('default-action') === 'allow'
  const own = rules.filter(({ action, lists }) => action !== 'allow' && lists)
  const byRule = new Map(own.map(({ name, lists }) => [name, lists && accessOf(lists, isEither)]))
  const signedIn = rules.filter(({ action }) => action !== 'allow')
  const isUsed = !isOpen || signedIn.length === 0 || signedIn.some(({ lists }) => !lists)
  const all = [...(isUsed ? [global] : []), ...byRule.values()]
  const allow = all.some((access) => access === undefined) ? undefined : anyOf(all as Access[])
  setCondition(draft, [...PORTAL, 'allow'], allow && allowOf(allow), LISTED)
  const printed = rulesFor(rules, draft, {
    isOpen,
    hasOwn: own.length > 0,
    hasGlobal: global !== undefined,
  })
  if (own.length > 0) {
    for (const [name, access] of byRule) setPolicy(draft, policyOf(name), access)
    setPolicy(draft, OTHERS, global)
  }
  if (printed.length > 0) draft.set([...PORTAL, 'rules'], printed)
}

const LISTED = 'the lists of addresses'

function setPolicy(draft: Draft, name: string, access: Access | undefined): void {
  setCondition(draft, [...PORTAL, 'policies', name], access && conditionOf(access), LISTED)
}

const OTHERS = 'others'
const policyOf = (name: string) => `rule-${slug(name, 24)}`

interface Defaults {
  readonly isOpen: boolean
  readonly hasOwn: boolean
  readonly hasGlobal: boolean
}

/** Translates rules, the stricter ones first. Theirs have no order. */
function rulesFor(
  rules: readonly TheirRule[],
  draft: Draft,
  { isOpen, hasOwn, hasGlobal }: Defaults,
) {
  const forOthers = hasOwn && hasGlobal ? OTHERS : 'signedIn'
  const needed = rules.filter(
    ({ action, lists }) => action === 'allow' || isOpen || lists || hasOwn,
  )
  const printed = needed
    .toSorted((a, b) => Number(a.action === 'allow') - Number(b.action === 'allow'))
    .flatMap(({ name, action, matcher, lists }) => {
      const isAllow = action === 'allow'
      const require = isAllow ? 'anyone' : lists ? policyOf(name) : forOthers
      const matchers = readMatchers(matcher?.values[0] ?? '', isAllow)
      if (matchers) return matchers.map((one) => ({ ...one, require }))
      if (matcher && isAllow)
        draft.remark(matcher, 'is no rule here, so a session is needed; write one in rules')
      else
        refuseAll(
          draft,
          `rule ${name} cannot be translated: write it in rules, and say who may come in.`,
        )
      return []
    })
  const last = isOpen ? 'anyone' : forOthers
  return last === 'signedIn' ? printed : [...printed, { require: last }]
}

function conditionOf({ condition, emailDomains = [] }: Access): string {
  const ends = emailDomains.map(
    (domain) => `claims.email.endsWith(${JSON.stringify(`@${domain}`)})`,
  )
  return condition ?? `EmailVerified() && (${ends.join(' || ')})`
}

function anyOf(all: readonly Access[]): Access {
  const [one] = all
  if (one && all.length === 1) return one
  return { condition: all.map((access) => `(${conditionOf(access)})`).join(' || ') }
}

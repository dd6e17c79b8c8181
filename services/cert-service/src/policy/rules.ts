import type { Caller, KeyCaller, TokenCaller } from '@gatehouse/auth-core'
import type { Scope } from '@gatehouse/cert-store/port'
import { CLIENT_ISSUER } from '@gatehouse/issuance/request'
import {
  type Profile as CertificateProfile,
  compileReach,
  compileRules,
  type Name,
  type NameRule,
  PkiError,
  parseNameRule,
} from '@gatehouse/pki'
import type { Profile } from '@gatehouse/profile'
import { compileMembership, isUnknown } from '@gatehouse/profile/allow'
import { type KeyRow, limitsTokens, type PolicyRule, RIGHTS, type Right } from '../config/auth.ts'
import type { CertificateCaller } from '../config/certificate-callers.ts'

/** The rights of a rule, claim or limited key by default; `revoke` and `delete` must be named. */
const DEFAULT_RIGHTS: readonly Right[] = ['issue', 'read', 'renew']

/** The rights by which one gets a new certificate or its key. */
const MAKING: readonly Right[] = ['issue', 'renew']

/** The kinds of names that lead to the address of a device, which its challenges prove. */
const PROVABLE: readonly Name['kind'][] = ['dns', 'ip']

/** Patterns that a listing is narrowed by. With more, each entry is looked at. */
const MAX_PATTERNS = 20

const OF_CALLER = 'it makes a caller of `auth.mtls`, so only an operator or that caller gets it'

export interface PolicyOptions {
  /** The rights of API keys, by name. */
  readonly keys?: ReadonlyMap<string, KeyRow> | undefined
  /** The claim that grants names, of servers only. */
  readonly domainsClaim?: string | undefined
  readonly rules?: readonly PolicyRule[] | undefined
  /** The callers with a client certificate, by the name in it. */
  readonly certificateCallers?: ReadonlyMap<string, CertificateCaller> | undefined
}

/** `reason` is a plain sentence for the caller, `lifetime` the longest of a certificate in ms, or `Infinity`. */
type PolicyDecision =
  | { readonly allowed: true; readonly lifetime: number }
  | { readonly allowed: false; readonly name: Name; readonly reason: string }

/** A person at the inventory, from the assertion of forward-auth. */
export type Person = Profile

/** A device with an ACME account of an open network: it has what its address answers for. */
interface Device {
  readonly method: 'acme'
  /** Its address. */
  readonly subject: string
}

export type Program = Caller | CertificateCaller | Device

/** The authenticated one that a request comes from. */
export type Principal = Program | Person

export interface Policy {
  (
    caller: Principal,
    right: Right,
    names: readonly Name[],
    profile: CertificateProfile,
  ): PolicyDecision
  /** The rules for names by which a caller has this right, as they were written. One that is denied all has none. */
  namesOf(caller: Principal, right: Right, profile: CertificateProfile): readonly string[]
  /** The names for which a caller may have this right at most, and whether for all of them. */
  scopeOf(caller: Principal, right: Right): Scope & { readonly isAll: boolean }
}

type NameTest = (name: Name) => boolean

/** The longest lifetime of a certificate with one of some names. */
interface Bound {
  readonly isFor: (name: Name) => unknown
  readonly lifetime: number
}

interface Grants {
  readonly granted: NameTest
  /** The rules by which names are granted, and perhaps more. */
  readonly rules: readonly NameRule[]
  readonly denied: (name: Name) => NameRule | undefined
  readonly reason: string
  /** The lifetimes of rules, and of the caller itself. */
  readonly lifetimes: readonly Bound[]
}

/**
 * Compiles the policy. API keys may have all names, or those in their `domains`. Tokens may have all
 * names while neither a claim nor rules are configured; with either, only what the claim or an allow
 * rule grants. Deny rules take precedence, also over API keys if they have no condition, and apply to
 * wildcards that cover a denied name. People may have only what a rule with `people` grants, and for
 * certificates of clients tokens only what an allow rule of that profile grants. Callers with a certificate
 * are like keys, and may have that one too; the certificate of a caller is for it and operators alone.
 */
export function createPolicy(options: PolicyOptions): Policy {
  const { rules = [], certificateCallers: owners } = options
  const compiled = rules.map((rule) => ({
    rule,
    names: rule.names.map(parseNameRule),
    isMeant: rule.people === 'anyone' ? everything : rule.people && compileMembership(rule.people),
  }))
  const find = remembering(grantsOf)
  const decide = (...[caller, right, names, profile]: Parameters<Policy>): PolicyDecision => {
    const { granted, denied, reason, lifetimes } = find(caller, right, profile)
    for (const name of names) {
      // Checked first, so that deny rules are revealed only for names that are granted.
      if (!granted(name)) return { allowed: false, name, reason }
      const owner = profile === 'client' ? owners?.get(name.text) : undefined
      if (owner && MAKING.includes(right) && !isOperator(caller) && !isSame(caller, owner))
        return { allowed: false, name, reason: OF_CALLER }
      const rule = denied(name)
      if (rule) return { allowed: false, name, reason: denialOf(rule, name) }
    }
    const bounds = lifetimes.filter(({ isFor }) => names.some(isFor))
    return { allowed: true, lifetime: Math.min(...bounds.map(({ lifetime }) => lifetime)) }
  }
  const scopeOf: Policy['scopeOf'] = (caller, right) => {
    const [server, client] = [find(caller, right, 'server'), find(caller, right, 'client')]
    const isOfServers = client.rules.length === 0
    const names = searchOf([...server.rules, ...client.rules])
    const isAll = isOfAll(server) && (isOfServers || isOfAll(client))
    return { ...(isOfServers && { without: CLIENT_ISSUER }), ...(names && { names }), isAll }
  }
  const namesOf: Policy['namesOf'] = (caller, right, profile) =>
    find(caller, right, profile).rules.map(({ text }) => text)
  return Object.assign(decide, { scopeOf, namesOf })

  function grantsOf(caller: Principal, right: Right, profile: CertificateProfile): Grants {
    const rulesOf = (effect: PolicyRule['effect'], byDefault: readonly Right[]) =>
      compiled
        .filter(({ rule }) => rule.effect === effect && (rule.rights ?? byDefault).includes(right))
        .filter(({ rule }) => isAbout(rule, profile))
        .filter(({ rule, isMeant }) => meetsConditions(caller, rule, isMeant))
    const deniedNames = rulesOf('deny', RIGHTS).flatMap(({ names }) => names)
    const denied = deniedNames.length > 0 ? compileReach(deniedNames) : undenied
    const isDeniedAll = deniedNames.some(({ kind }) => kind === 'any')
    const allowing = rulesOf('allow', DEFAULT_RIGHTS)
    const allowed = allowing.flatMap(({ names }) => names)
    // Also for wildcards that cover one of the names.
    const bounds = allowing.flatMap(({ rule: { lifetime }, names }) =>
      lifetime === undefined ? [] : { isFor: compileReach(names), lifetime },
    )
    const describe = ({ rules, reason, lifetimes = bounds }: Grant) => ({
      granted: testOfRules(rules),
      rules: isDeniedAll ? [] : rules,
      denied,
      reason,
      lifetimes,
    })
    if (isPerson(caller))
      return describe({ rules: allowed, reason: 'no rule with `people` grants it' })
    if (caller.method === 'acme') {
      const byRule = compileRules(allowed)
      const reason = 'no rule with `acme` grants it, or no challenge proves it'
      const granted: NameTest = (name) => PROVABLE.includes(name.kind) && byRule(name)
      return { ...describe({ rules: allowed, reason }), granted }
    }
    if (caller.method !== 'jwt') return describe(grantOfKey(caller, right, profile, options))
    if (profile === 'server' && isOpenToTokens(options))
      return describe({ rules: [ANY], reason: '' })

    const claim = readClaim(caller.claims, profile === 'server' ? options.domainsClaim : undefined)
    const claimed = DEFAULT_RIGHTS.includes(right) ? claim.rules : []
    return describe({ rules: [...allowed, ...claimed], reason: claim.reason })
  }
}

type GrantsOf = (caller: Principal, right: Right, profile: CertificateProfile) => Grants

function remembering(grantsOf: GrantsOf): GrantsOf {
  // auth-core has one object per key, per cached token and per cached assertion.
  const cached = {
    server: new WeakMap<Principal, Partial<Record<Right, Grants>>>(),
    client: new WeakMap<Principal, Partial<Record<Right, Grants>>>(),
  }
  return (caller, right, profile) => {
    const cachedGrants = cached[profile].get(caller) ?? {}
    if (!cachedGrants[right]) {
      cachedGrants[right] = grantsOf(caller, right, profile)
      cached[profile].set(caller, cachedGrants)
    }
    return cachedGrants[right]
  }
}

/** Tells whether every name is granted, and none denied. */
function isOfAll({ granted, denied }: Grants): boolean {
  return denied === undenied && granted === everything
}

/** Tells whether tokens may have all names of servers because nothing limits them. */
export function isOpenToTokens({ domainsClaim, rules = [] }: PolicyOptions): boolean {
  return domainsClaim === undefined && !rules.some(limitsTokens)
}

/** Tells whether a caller is not limited to names: an API key, or row of `auth.mtls`, without `domains`. */
export function isOperator(caller: Principal): boolean {
  if (isPerson(caller) || caller.method === 'jwt' || caller.method === 'acme') return false
  return !caller.domains
}

function isSame(caller: Principal, owner: CertificateCaller): boolean {
  return !isPerson(caller) && caller.method === 'mtls' && caller.subject === owner.subject
}

export function isPerson(caller: Principal): caller is Person {
  return 'provider' in caller
}

/** A denial that names no profile is about both. */
function isAbout({ effect, profile }: PolicyRule, certificateProfile: CertificateProfile): boolean {
  return (profile ?? (effect === 'deny' ? certificateProfile : 'server')) === certificateProfile
}

/** Tells whether a rule is about a person; undefined if that is not known. */
type PersonTest = (person: Person) => boolean | undefined

function meetsConditions(caller: Principal, rule: PolicyRule, isMeant: PersonTest | undefined) {
  const { issuer, subject, claim, scope, acme } = rule
  // A fact that is not known admits nobody, but denies.
  const isDenial = rule.effect === 'deny'
  if (isMeant) return isPerson(caller) && (isMeant(caller) ?? isDenial)
  if (acme) return !isPerson(caller) && caller.method === 'acme'
  if (issuer === undefined && subject === undefined && !claim && scope === undefined)
    return isDenial
  return (
    !isPerson(caller) &&
    caller.method === 'jwt' &&
    (issuer === undefined || caller.issuer === issuer) &&
    (subject === undefined || caller.subject === subject) &&
    (claim === undefined || (holds(caller.claims, claim) ?? isDenial)) &&
    (scope === undefined || caller.scopes.includes(scope))
  )
}

function holds(claims: TokenCaller['claims'], { name, value }: Claim): boolean | undefined {
  const claim = claims[name]
  if (claim === undefined && isUnknown(claims, name)) return undefined
  return Array.isArray(claim) ? claim.includes(value) : claim === value
}

type Claim = NonNullable<PolicyRule['claim']>
type Grant = Pick<Grants, 'rules' | 'reason'> & Partial<Pick<Grants, 'lifetimes'>>

function readClaim(claims: Readonly<Record<string, unknown>>, name: string | undefined): Grant {
  if (name === undefined) return { rules: [], reason: 'no rule grants it' }
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined
  const entries = typeof value === 'string' ? value.split(',').map((part) => part.trim()) : value
  if (entries === undefined) return { rules: [], reason: `the token has no claim \`${name}\`` }
  const illTyped = { rules: [], reason: `the claim \`${name}\` is not a list of name rules` }
  if (!Array.isArray(entries) || !entries.every((entry) => typeof entry === 'string'))
    return illTyped
  const reason = `neither the claim \`${name}\` nor a rule grants it`
  try {
    return { rules: entries.map(parseNameRule), reason }
  } catch (error) {
    if (error instanceof PkiError) return illTyped
    throw error
  }
}

function grantOfKey(
  caller: KeyCaller | CertificateCaller,
  right: Right,
  profile: CertificateProfile,
  { keys, certificateCallers: owners }: PolicyOptions,
): Grant {
  const { method, subject, domains } = caller
  const isKey = method === 'psk'
  const what = isKey ? 'key' : 'caller'
  const row: KeyRow = (isKey ? keys?.get(subject) : caller) ?? {}
  const rights = row.rights ?? (domains ? DEFAULT_RIGHTS : RIGHTS)
  if (!rights.includes(right))
    return { rules: [], reason: `the ${what} does not have the right \`${right}\`` }
  const isOther = (row.profile ?? 'server') !== profile
  const hasOwn = !isKey && domains && profile === 'client'
  const ownNames = hasOwn ? [...(owners ?? [])].filter(([, owner]) => isSame(caller, owner)) : []
  const byDomains = domains ? (isOther ? [] : domains.map(parseNameRule)) : [ANY]
  const rules = [...byDomains, ...ownNames.map(([name]) => parseNameRule(name))]
  const lifetimes = [{ isFor: everything, lifetime: row.lifetime ?? Infinity }]
  return { rules, reason: `it is not in the domains of the ${what}`, lifetimes }
}

function denialOf({ text }: NameRule, name: Name): string {
  const isHeld = compileRules([parseNameRule(text)])(name)
  return `${isHeld ? 'it is' : 'it covers a name that is'} in the deny rule \`${text}\``
}

/** Compiles rules; {@link everything} where they match all names, so that this is known. */
function testOfRules(rules: readonly NameRule[]): NameTest {
  return rules.some(({ kind }) => kind === 'any') ? everything : compileRules(rules)
}

/** The texts and patterns of SQL that the names of rules have. Other names may have them too. Undefined for all names. */
function searchOf(rules: readonly NameRule[]): Scope['names'] | undefined {
  const texts = rules.map((rule) => {
    if (rule.kind === 'wildcard') return rule.text.slice(1)
    if (rule.kind !== 'cidr') return rule.text.replace(/^=?\*+(?=[.@]|$)|\*$/, '%')
    const { network, prefix } = rule.cidr
    if (prefix === network.bytes.length * 8) return network.text
    const octets = network.text.split('.').slice(0, prefix >> 3)
    return network.version === 6 ? '%:%' : [...octets, '%'].join('.')
  })
  const patterns = texts.filter((text) => text.includes('%'))
  if (patterns.includes('%') || patterns.length > MAX_PATTERNS) return undefined
  return { exact: texts.filter((text) => !text.includes('%')), patterns }
}

const ANY = parseNameRule('*')
const everything = (): boolean => true
const undenied = (): undefined => undefined

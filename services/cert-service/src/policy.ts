import type { Caller, KeyCaller } from '@gatehouse/auth-core'
import {
  compileReach,
  compileRules,
  type Name,
  type NameRule,
  PkiError,
  parseNameRule,
} from '@gatehouse/pki'

export const RIGHTS = ['issue', 'read', 'renew', 'revoke', 'delete'] as const

/** What callers may do with names. */
export type Right = (typeof RIGHTS)[number]

/** The rights of a rule, claim or limited key by default; `revoke` and `delete` must be named. */
const DEFAULT_RIGHTS: readonly Right[] = ['issue', 'read', 'renew']

export interface PolicyOptions {
  /** Rights of API keys, by name; all other keys have the default rights. */
  readonly keyRights?: ReadonlyMap<string, readonly Right[]> | undefined
  /** Claim that lists name rules. */
  readonly domainsClaim?: string | undefined
  readonly rules?: readonly PolicyRule[] | undefined
}

/** Allows or denies names to the callers that meet all of its conditions. */
interface PolicyRule {
  readonly effect: 'allow' | 'deny'
  /** Name rules. */
  readonly names: readonly string[]
  readonly rights?: readonly Right[] | undefined
  readonly issuer?: string | undefined
  readonly subject?: string | undefined
  readonly claim?: { readonly name: string; readonly value: string } | undefined
  readonly scope?: string | undefined
}

/** `reason` is a plain sentence for the caller. */
type PolicyDecision =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly name: Name; readonly reason: string }

/** Decides whether a caller may do this with all of the names. */
export type Policy = (caller: Caller, right: Right, names: readonly Name[]) => PolicyDecision

type NameTest = (name: Name) => boolean
type PerRight<T> = Readonly<Record<Right, T>>

interface Access {
  readonly granted: PerRight<NameTest>
  /** The rule that denies a name, if any. */
  readonly denied: PerRight<(name: Name) => NameRule | undefined>
  /** Why other names are not granted. */
  readonly reason: PerRight<string>
}

const ALLOWED: PolicyDecision = { allowed: true }

/**
 * Compiles the policy. API keys may have all names, or those in their `domains`. Tokens may have all
 * names while neither a claim nor rules are configured; with either, only what the claim or an allow
 * rule grants. Deny rules take precedence, also over API keys if they have no condition, and apply to
 * wildcards that cover a denied name.
 */
export function createPolicy({ domainsClaim, rules = [], keyRights }: PolicyOptions): Policy {
  const compiled = rules.map((rule) => ({ rule, names: rule.names.map(parseNameRule) }))
  const open = domainsClaim === undefined && rules.length === 0
  // auth-core has one caller object per key and per cached token.
  const cached = new WeakMap<Caller, Access>()

  return (caller, right, names) => {
    let access = cached.get(caller)
    if (!access) {
      access = accessOf(caller)
      cached.set(caller, access)
    }
    for (const name of names) {
      // Checked first, so that deny rules are revealed only for names that are granted.
      if (!access.granted[right](name))
        return { allowed: false, name, reason: access.reason[right] }
      const rule = access.denied[right](name)
      if (rule) return { allowed: false, name, reason: denialOf(rule, name) }
    }
    return ALLOWED
  }

  function accessOf(caller: Caller): Access {
    const meets = compiled.filter(({ rule }) => meetsConditions(caller, rule))
    const denied = deniedBy(meets.filter(({ rule }) => rule.effect === 'deny'))
    if (caller.method === 'psk') return { ...grantsOfKey(caller, keyRights), denied }
    if (open) return { granted: perRight(() => everything), denied, reason: perRight(() => '') }

    const claim = readClaim(caller.claims, domainsClaim)
    const granted = perRight<NameTest>((right) => {
      const allowing = meets.filter(
        ({ rule }) => rule.effect === 'allow' && (rule.rights ?? DEFAULT_RIGHTS).includes(right),
      )
      const byRule = compileRules(allowing.flatMap(({ names }) => names))
      if (!DEFAULT_RIGHTS.includes(right)) return byRule
      return (name) => byRule(name) || claim.test(name)
    })
    return { granted, denied, reason: perRight(() => claim.reason) }
  }
}

/** Whether tokens may have all names because nothing limits them. */
export function isOpenToTokens({ domainsClaim, rules = [] }: PolicyOptions): boolean {
  return domainsClaim === undefined && rules.length === 0
}

function meetsConditions(caller: Caller, rule: PolicyRule): boolean {
  const { issuer, subject, claim, scope } = rule
  if (issuer === undefined && subject === undefined && !claim && scope === undefined)
    return rule.effect === 'deny'
  return (
    caller.method === 'jwt' &&
    (issuer === undefined || caller.issuer === issuer) &&
    (subject === undefined || caller.subject === subject) &&
    (claim === undefined || holds(caller.claims[claim.name], claim.value)) &&
    (scope === undefined || caller.scopes.includes(scope))
  )
}

function holds(claim: unknown, value: string): boolean {
  return Array.isArray(claim) ? claim.includes(value) : claim === value
}

function readClaim(
  claims: Readonly<Record<string, unknown>>,
  name: string | undefined,
): { test: NameTest; reason: string } {
  if (name === undefined) return { test: nothing, reason: 'no rule grants it' }
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined
  const entries = typeof value === 'string' ? value.split(',').map((part) => part.trim()) : value
  if (entries === undefined) return { test: nothing, reason: `the token has no claim \`${name}\`` }
  const illTyped = { test: nothing, reason: `the claim \`${name}\` is not a list of name rules` }
  if (!Array.isArray(entries) || !entries.every((entry) => typeof entry === 'string'))
    return illTyped
  try {
    return { test: testOf(entries), reason: `neither the claim \`${name}\` nor a rule grants it` }
  } catch (error) {
    if (error instanceof PkiError) return illTyped
    throw error
  }
}

function grantsOfKey(
  { subject, domains }: KeyCaller,
  keyRights: PolicyOptions['keyRights'],
): Pick<Access, 'granted' | 'reason'> {
  const rights = keyRights?.get(subject) ?? (domains ? DEFAULT_RIGHTS : RIGHTS)
  const names = domains ? testOf(domains) : everything
  return {
    granted: perRight((right) => (rights.includes(right) ? names : nothing)),
    reason: perRight((right) =>
      rights.includes(right)
        ? 'it is not in the domains of the key'
        : `the key does not have the right \`${right}\``,
    ),
  }
}

function deniedBy(
  rules: readonly { readonly rule: PolicyRule; readonly names: readonly NameRule[] }[],
): Access['denied'] {
  return perRight((right) =>
    compileReach(
      rules
        .filter(({ rule }) => (rule.rights ?? RIGHTS).includes(right))
        .flatMap(({ names }) => names),
    ),
  )
}

function denialOf({ text }: NameRule, name: Name): string {
  const isHeld = compileRules([parseNameRule(text)])(name)
  return `${isHeld ? 'it is' : 'it covers a name that is'} in the deny rule \`${text}\``
}

function perRight<T>(make: (right: Right) => T): PerRight<T> {
  return {
    issue: make('issue'),
    read: make('read'),
    renew: make('renew'),
    revoke: make('revoke'),
    delete: make('delete'),
  }
}

function testOf(rules: readonly string[]): NameTest {
  return compileRules(rules.map(parseNameRule))
}

function everything(): boolean {
  return true
}

function nothing(): boolean {
  return false
}

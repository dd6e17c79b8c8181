import type { Caller } from '@gatehouse/auth-core'
import { compileRules, type Name, PkiError, parseNameRule } from '@gatehouse/pki'

export const RIGHTS = ['issue', 'read', 'renew', 'revoke', 'delete'] as const

/** What a caller may do with names. */
export type Right = (typeof RIGHTS)[number]

/** What a rule or claim grants unless it says more: taking out of service has to be named. */
export const DEFAULT_RIGHTS: readonly Right[] = ['issue', 'read', 'renew']

export interface PolicyOptions {
  /** Claim that lists the name rules of a token's holder. */
  readonly domainsClaim?: string | undefined
  readonly rules?: readonly PolicyRule[] | undefined
}

/** Allows or denies names to the callers that meet every condition given. */
export interface PolicyRule {
  readonly effect: 'allow' | 'deny'
  /** Name rules. */
  readonly names: readonly string[]
  readonly rights?: readonly Right[] | undefined
  readonly issuer?: string | undefined
  readonly subject?: string | undefined
  readonly claim?: { readonly name: string; readonly value: string } | undefined
  readonly scope?: string | undefined
}

/** `reason` is one plain sentence for the audit trail and for whoever was refused. */
export type Decision =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly name: Name; readonly reason: string }

/** Whether a caller may do this to each of the names. */
export type Policy = (caller: Caller, right: Right, names: readonly Name[]) => Decision

type NameTest = (name: Name) => boolean
type Grants = Readonly<Record<Right, NameTest>>

interface Access {
  readonly granted: Grants
  readonly denied: Grants
  /** Why a name that is not granted is not. */
  readonly reason: string
}

const ALLOWED: Decision = { allowed: true }

/**
 * Compiles the policy. API keys may have everything, or what their `domains` hold. Tokens may have
 * everything while neither a claim nor rules are configured; with either, only what the claim or
 * an allow rule grants. Deny rules win over both, for API keys too where they name no condition.
 */
export function createPolicy({ domainsClaim, rules = [] }: PolicyOptions): Policy {
  const compiled = rules.map((rule) => ({ rule, names: testOf(rule.names) }))
  const open = domainsClaim === undefined && rules.length === 0
  // auth-core hands out one caller object per key and per cached token.
  const known = new WeakMap<Caller, Access>()

  return (caller, right, names) => {
    const access = known.get(caller) ?? remember(caller)
    for (const name of names) {
      if (access.denied[right](name))
        return { allowed: false, name, reason: 'a deny rule holds it' }
      if (!access.granted[right](name)) return { allowed: false, name, reason: access.reason }
    }
    return ALLOWED
  }

  function remember(caller: Caller): Access {
    const access = accessOf(caller)
    known.set(caller, access)
    return access
  }

  function accessOf(caller: Caller): Access {
    const meets = compiled.filter(({ rule }) => meetsConditions(caller, rule))
    const denied = grantsOf(
      meets.filter(({ rule }) => rule.effect === 'deny'),
      RIGHTS,
    )
    if (caller.method === 'psk') {
      const granted = caller.domains ? testOf(caller.domains) : everything
      return { granted: allRights(granted), denied, reason: 'it is not in the domains of the key' }
    }
    if (open) return { granted: allRights(everything), denied, reason: '' }

    const claim = readClaim(caller.claims, domainsClaim)
    const allowed = meets.filter(({ rule }) => rule.effect === 'allow')
    const byClaim = { rule: { rights: DEFAULT_RIGHTS }, names: claim.test }
    return {
      granted: grantsOf([...allowed, byClaim], DEFAULT_RIGHTS),
      denied,
      reason: claim.reason,
    }
  }
}

/** Whether tokens may have everything, as nothing limits them. */
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

function grantsOf(
  grants: readonly {
    readonly rule: Pick<PolicyRule, 'rights'>
    readonly names: NameTest
  }[],
  unnamed: readonly Right[],
): Grants {
  return perRight((right) => {
    const tests = grants
      .filter(({ rule }) => (rule.rights ?? unnamed).includes(right))
      .map(({ names }) => names)
    return (name) => tests.some((test) => test(name))
  })
}

function allRights(test: NameTest): Grants {
  return perRight(() => test)
}

function perRight(test: (right: Right) => NameTest): Grants {
  return {
    issue: test('issue'),
    read: test('read'),
    renew: test('renew'),
    revoke: test('revoke'),
    delete: test('delete'),
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

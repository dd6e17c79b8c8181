import { type Cidr, cidrContains, parseCidr } from '@gatehouse/net'
import { PkiError } from './errors.ts'
import { type Name, parseName, quote } from './names.ts'

/**
 * A set of names: `exact` is x itself, `below` any depth below x (neither x nor a wildcard),
 * `wildcard` the certificate for `*.x`, `any` everything, `cidr` the addresses of a network.
 */
export type NameRule =
  | { readonly kind: 'any'; readonly text: '*' }
  | { readonly kind: 'cidr'; readonly text: string; readonly cidr: Cidr }
  | {
      readonly kind: 'exact' | 'below' | 'wildcard'
      /** Canonical: `x`, `*.x` or `=*.x`. */
      readonly text: string
      /** Of x, left to right. */
      readonly labels: readonly string[]
    }

/**
 * Reads `x`, `*.x`, `=*.x`, `*`, an IP address or a network.
 *
 * @throws PkiError `PKI_RULE_INVALID`
 */
export function parseNameRule(text: string): NameRule {
  if (text === '*') return { kind: 'any', text }
  const cidr = parseCidr(text)
  if (cidr) return { kind: 'cidr', text: cidr.text, cidr }

  const wildcardOnly = text.startsWith('=')
  const name = parseRuleName(wildcardOnly ? text.slice(1) : text)
  if (wildcardOnly && name.kind !== 'wildcard')
    throw new PkiError('PKI_RULE_INVALID', `${quote(text)} has \`=\` before other than \`*.\``)
  if (wildcardOnly) return { kind: 'wildcard', text: `=${name.text}`, labels: name.labels }
  const kind = name.kind === 'wildcard' ? 'below' : 'exact'
  return { kind, text: name.text, labels: name.labels }
}

function parseRuleName(text: string): Name {
  try {
    return parseName(text)
  } catch (cause) {
    throw new PkiError('PKI_RULE_INVALID', (cause as Error).message, { cause })
  }
}

/** Whether the rule holds the name. */
export function matchesRule(rule: NameRule, name: Name): boolean {
  return compileRules([rule])(name)
}

/**
 * One test for many rules: does any of them hold the name? Costs one look-up per label of the
 * name, however many rules there are; networks are tried one by one.
 */
export function compileRules(rules: readonly NameRule[]): (name: Name) => boolean {
  const texts = new Set<string>(rules.map((rule) => rule.text))
  const cidrs = rules.flatMap((rule) => (rule.kind === 'cidr' ? rule.cidr : []))
  if (texts.has('*')) return () => true
  return ({ kind, text, ip }) => {
    if (ip) return cidrs.some((cidr) => cidrContains(cidr, ip))
    if (kind === 'wildcard') return texts.has(`=${text}`)
    if (texts.has(text)) return true
    // Canonical text has dots between labels only, so each slice from a dot is a whole parent.
    for (let dot = text.indexOf('.'); dot !== -1; dot = text.indexOf('.', dot + 1))
      if (texts.has(`*${text.slice(dot)}`)) return true
    return false
  }
}

/**
 * Finds a rule that reaches a name: the rule holds it, or the name is a wildcard whose certificate
 * is also valid for a name that the rule holds. For rules that deny. Costs one look-up per label
 * of the name, as {@link compileRules} does.
 */
export function compileReach(rules: readonly NameRule[]): (name: Name) => NameRule | undefined {
  const byText = new Map(rules.map((rule) => [rule.text as string, rule]))
  const networks = rules.filter((rule) => rule.kind === 'cidr')
  const exactUnder = new Map(
    rules.flatMap((rule) =>
      rule.kind === 'exact' ? [[rule.labels.slice(1).join('.'), rule] as const] : [],
    ),
  )
  const any = byText.get('*')

  return ({ kind, text, labels, ip }) => {
    if (any) return any
    if (ip) return networks.find(({ cidr }) => cidrContains(cidr, ip))
    // A wildcard stands for exactly one label (RFC 9525 section 6.3), whatever that is.
    const covered =
      kind === 'wildcard' ? (byText.get(`=${text}`) ?? exactUnder.get(labels.join('.'))) : undefined
    return covered ?? byText.get(text) ?? belowRule(text)
  }

  function belowRule(text: string): NameRule | undefined {
    for (let dot = text.indexOf('.'); dot !== -1; dot = text.indexOf('.', dot + 1)) {
      const rule = byText.get(`*${text.slice(dot)}`)
      if (rule) return rule
    }
    return undefined
  }
}

import { attempt, type Cidr } from '@gatehouse/net'
import { readFields, readX509 } from './certificate.ts'
import {
  CLIENT_NAMES,
  children,
  context,
  type Der,
  DNS_NAME,
  type Element,
  element,
  IP_ADDRESS,
  OID,
  readGeneralName,
  sequence,
} from './der.ts'
import { PkiError } from './errors.ts'
import { compileReach, compileRules, type Name, type NameRule, parseNameRule } from './names.ts'

const EXCLUDED = 0xa1
const DIRECTORY_NAME = 0xa4

/**
 * Reads the name constraints of authorities (RFC 5280 section 4.2.1.10). Where software differs, the
 * narrower reading counts.
 * @param certificates - DER
 * @throws PkiError `PKI_CA_INVALID` for constraints that cannot be read
 */
export function readConstraints(certificates: readonly Uint8Array[]) {
  const constraints = certificates.flatMap(
    (der) => readFields(readX509(der)).extension(OID.nameConstraints) ?? [],
  )
  const groups = constraints.flatMap(children).map((group) => {
    const isExcluded = group.tag === EXCLUDED
    const bases = children(group).map(baseOf)
    const rules = bases.flatMap((base) => rulesOf(base, isExcluded))
    const holds = compileGroup(rules, isExcluded)
    // What constraints say about addresses of mail and URIs is not read, so none is within.
    const limited = new Set(bases.map(({ tag }) => tag))
    const permits = (name: Name) =>
      name.kind === 'email' || name.kind === 'uri'
        ? !limited.has(CLIENT_NAMES[name.kind])
        : holds(name)
    return { isExcluded, bases, rules, permits }
  })
  return {
    /** Whether clients accept the name below these authorities. */
    permits: (name: Name) => groups.every(({ permits }) => permits(name)),
    /** The names that they permit and exclude, as name rules; empty without constraints. */
    text: groups
      .map(
        ({ isExcluded, rules }) =>
          `${isExcluded ? 'all but' : 'only'} ${rules.map(({ text }) => text).join(', ')}`,
      )
      .join('; '),
    /** Whether there are any. */
    isLimited: groups.length > 0,
    /** Whether they are about subjects as well. An empty subject is always within. */
    isSubjectLimited: groups.some(({ bases }) => bases.some(({ tag }) => tag === DIRECTORY_NAME)),
  }
}

/** Constraints of one kind of names say nothing about the other. */
function compileGroup(rules: readonly NameRule[], isExcluded: boolean): (name: Name) => boolean {
  const [domains, networks] = [false, true].map((isNetwork) => {
    const ofKind = rules.filter(({ kind }) => (kind === 'cidr') === isNetwork)
    const covers = compileReach(ofKind)
    const holds = compileRules(ofKind)
    if (isExcluded) return (name: Name) => covers(name) === undefined
    return (name: Name) => ofKind.length === 0 || holds(name)
  })
  return (name) => (name.ip ? networks : domains)?.(name) === true
}

/** Minimum and maximum have no meaning but 0 and absent. */
function baseOf(subtree: Element): Element {
  const [base, ...range] = children(subtree)
  const isWhole = range.every(
    ({ tag, content }) => tag === 0x80 && content.every((byte) => byte === 0),
  )
  return base && isWhole ? base : fail()
}

/** The rules of a constraint; none for kinds of names that no certificate of ours has. */
function rulesOf({ tag, content }: Element, isExcluded: boolean): NameRule[] {
  if (tag === IP_ADDRESS) return [networkOf(content)]
  if (tag !== DNS_NAME) return []
  const text = content.toString('latin1')
  const domain = text.replace(/^\./, '')
  if (domain === '') return [ruleOf('*')]
  // Some software reads a leading dot as "only what is below".
  const itself = text === domain || isExcluded ? [domain] : []
  return [...itself, `*.${domain}`, `=**.${domain}`].map(ruleOf)
}

function networkOf(range: Buffer): NameRule {
  const half = range.length / 2
  const mask = [...range.subarray(half)].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const prefix = mask.slice(0, mask.lastIndexOf('1') + 1)
  if (![4, 16].includes(half) || prefix.includes('0')) return fail()
  const content = range.subarray(0, half).map((byte, i) => byte & (range[half + i] ?? 0))
  return ruleOf(`${readGeneralName({ tag: IP_ADDRESS, content } as Element).text}/${prefix.length}`)
}

function ruleOf(text: string): NameRule {
  return attempt(() => parseNameRule(text)) ?? fail()
}

function fail(): never {
  throw new PkiError('PKI_CA_INVALID', 'its name constraints cannot be read')
}

/**
 * The name constraint (RFC 5280 section 4.2.1.10) that is closest to the rules; none for an empty
 * list or one with `*`. A constraint can only express "x and everything below", so `x`, `*.x` and
 * `=*.x` all become that. Rules for e-mail addresses and URIs are not part of it. It limits the damage of
 * a stolen key; the rules themselves are enforced before signing.
 */
export function nameConstraint(permitted: readonly NameRule[]): Der | undefined {
  if (permitted.length === 0 || permitted.some(({ kind }) => kind === 'any')) return undefined
  // A constraint applies only to the kinds of names in it, so each absent kind has to be in it as well.
  const expressible = permitted.filter((rule) => 'labels' in rule || rule.kind === 'cidr')
  const kinds = new Set(expressible.map(kindOf))
  const isOfDomains = kinds.size === 1 && kinds.has('dns')
  const nobody = isOfDomains ? [] : NOBODY.filter((rule) => !kinds.has(kindOf(rule)))
  const rules = [...expressible, ...nobody]
  const domains = rules.flatMap((rule) => ('labels' in rule ? rule.labels.join('.') : []))
  const cidrs = rules
    .flatMap((rule) => (rule.kind === 'cidr' ? rule.cidr : []))
    .sort((a, b) => (a.text < b.text ? -1 : 1))
  const allowed = [
    ...[...new Set(domains)].sort().map(dnsSubtree),
    ...cidrs.map((cidr) => ipSubtree(ipRange(cidr))),
  ]
  const noAddress = context(1, ipSubtree(Buffer.alloc(8)), ipSubtree(Buffer.alloc(32)))
  return sequence(context(0, ...allowed), ...(isOfDomains ? [noAddress] : []))
}

/**
 * One name of each kind that nobody has. To permit it is as good as to exclude the kind, which ends in
 * an exception of Java 17 beside networks of the other kind (JDK-8267617), and for the empty domain. Java
 * compares the start of an IPv6 address with an IPv4 network, so that 0.0.0.0 would permit ::1.
 */
const NOBODY = ['invalid', '255.255.255.255', '100::1'].map(parseNameRule)

const kindOf = (rule: NameRule) => (rule.kind === 'cidr' ? rule.cidr.network.version : 'dns')

const dnsSubtree = (domain: string) => sequence(element(DNS_NAME, domain))
const ipSubtree = (range: Uint8Array) => sequence(element(IP_ADDRESS, range))

/** The address and the mask of a network. */
function ipRange({ network, prefix }: Cidr): Buffer {
  const mask = network.bytes.map((_, i) => 0xff00 >> Math.min(8, Math.max(0, prefix - 8 * i)))
  return Buffer.concat([network.bytes, mask])
}

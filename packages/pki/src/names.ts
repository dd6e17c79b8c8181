import { domainToASCII, domainToUnicode } from 'node:url'
import { type Cidr, cidrContains, type IpAddress, parseCidr, parseIp } from '@gatehouse/net'
import { PkiError } from './errors.ts'

/** A name that a certificate can hold, in its canonical form. */
export interface Name {
  /** A-labels in lower case without trailing dot, `*.x`, or a canonical IP address, e-mail address or URI. */
  readonly text: string
  readonly kind: 'dns' | 'wildcard' | 'ip' | 'email' | 'uri'
  /**
   * Left to right, without the `*`; of an e-mail address those of its domain, of a URI those of its trust
   * domain; empty for an IP address.
   */
  readonly labels: readonly string[]
  /** Present if `kind` is `ip`. */
  readonly ip?: IpAddress
}

const MAX_LENGTH = 253
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const NON_ASCII = /[^\0-\x7f]/
// A last label with which URL parsers expect an IPv4 address (WHATWG URL, "ends in a number").
const NUMERIC = /^(\d+|0x[0-9a-f]*)$/

/** No name that is none of these is an IP address. */
const MAYBE_IP = /:|\d$/

/**
 * Parses a DNS name, a wildcard or an IP address. Letter case, one trailing dot and Unicode are
 * normalised (UTS 46); single labels and private suffixes are allowed.
 * @throws PkiError `PKI_NAME_INVALID`
 */
export function parseName(text: string): Name {
  if (text.length > MAX_LENGTH + 1) fail(text, `is longer than ${MAX_LENGTH} characters`)
  const ip = MAYBE_IP.test(text) ? parseIp(text) : undefined
  if (ip) return { text: ip.text, kind: 'ip', labels: [], ip }

  const wildcard = text.startsWith('*.')
  const host = toAscii(wildcard ? text.slice(2) : text, text)
  const labels = host.split('.')
  for (const label of labels) checkLabel(label, text)
  if (NUMERIC.test(labels.at(-1) ?? '')) fail(text, 'ends in a number but is no IP address')

  const canonical = wildcard ? `*.${host}` : host
  if (canonical.length > MAX_LENGTH) fail(text, `is longer than ${MAX_LENGTH} characters`)
  return { text: canonical, kind: wildcard ? 'wildcard' : 'dns', labels }
}

const URI = /^[a-z][a-z0-9+.-]*:\/\//i
const SPIFFE = /^spiffe:\/\/([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)((?:\/[\w.-]+)+)$/
const MAX_URI = 2048
const MAX_TRUST_DOMAIN = 255
/** The mailboxes that mail servers and TLS servers read in one way only: no quotes, no routes, no upper case. */
const MAILBOX = /^[a-z0-9&'+=_~-]+(\.[a-z0-9&'+=_~-]+)*$/
const MAX_MAILBOX = 64

/**
 * Parses a name of a TLS client: a DNS name, an e-mail address (RFC 5321; its local part in lower case,
 * as software disagrees about case), or a SPIFFE ID with a path. Texts of different kinds never are equal.
 * @throws PkiError `PKI_NAME_INVALID`
 */
export function parseClientName(text: string): Name {
  if (text.length > MAX_URI) fail(text, `is longer than ${MAX_URI} characters`)
  if (URI.test(text)) return parseSpiffeId(text)
  const atSign = text.indexOf('@')
  const name = parseName(text.slice(atSign + 1))
  if (name.kind !== 'dns')
    fail(text, 'is a wildcard or an IP address, which is no name of a client')
  if (atSign === -1) return name
  const localPart = text.slice(0, atSign)
  if (localPart.length > MAX_MAILBOX || !MAILBOX.test(localPart) || text.endsWith('.'))
    fail(
      text,
      "is not an e-mail address of lower-case letters, digits and `.&'+=_~-` before the `@`",
    )
  const address = `${localPart}@${name.text}`
  if (address.length > MAX_LENGTH + 1) fail(text, `is longer than ${MAX_LENGTH + 1} characters`)
  return { text: address, kind: 'email', labels: name.labels }
}

/** The SPIFFE ID of a workload (SPIFFE-ID section 2): its path is not empty (X509-SVID section 3). */
function parseSpiffeId(text: string): Name {
  const [, domain = '', path = ''] = SPIFFE.exec(text) ?? []
  const isRelative = path.split('/').some((segment) => segment === '.' || segment === '..')
  if (domain === '' || domain.length > MAX_TRUST_DOMAIN || isRelative)
    fail(
      text,
      'is not `spiffe://`, a trust domain in lower case and a path of letters, digits and `._-`',
    )
  return { text, kind: 'uri', labels: domain.split('.') }
}

function toAscii(host: string, text: string): string {
  const ascii = NON_ASCII.test(host) ? mapUnicode(host, text) : host.toLowerCase()
  return ascii.endsWith('.') ? ascii.slice(0, -1) : ascii
}

function mapUnicode(host: string, text: string): string {
  // domainToASCII interprets `/`, `:` and `%` as a URL parser does, so they must not reach it.
  if (/[^a-z0-9.-]/i.test(host.replace(/[^\0-\x7f]/g, ''))) fail(text, 'has a forbidden character')
  return domainToASCII(host) || fail(text, 'is not a valid internationalised name')
}

function checkLabel(label: string, text: string): void {
  if (label === '') fail(text, 'has an empty label')
  if (label.includes('*')) fail(text, 'may have `*` only as its whole first label')
  if (label.length > 63) fail(text, 'has a label longer than 63 characters')
  if (!LABEL.test(label))
    fail(text, 'has a label with other characters than letters, digits and inner hyphens')
  if (label.startsWith('xn--')) checkALabel(label, text)
  else if (label.slice(2, 4) === '--') fail(text, 'has a reserved label (`--` in third place)')
}

/** An `xn--` label must decode to non-ASCII text and be the canonical encoding of it. */
function checkALabel(label: string, text: string): void {
  const unicode = domainToUnicode(label)
  if (!NON_ASCII.test(unicode) || domainToASCII(unicode) !== label)
    fail(text, 'has an `xn--` label that is not valid punycode')
}

function fail(text: string, why: string): never {
  throw new PkiError('PKI_NAME_INVALID', `${quote(text)} ${why}`)
}

/** Escapes and shortens a value for an error message. */
function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}

/**
 * A set of names: `exact` is x itself, `below` every name below x at any depth (neither x nor a
 * wildcard), `wildcard` the wildcard certificate `*.x`, `wildcards` those for x and every name below x,
 * `any` everything, `cidr` the addresses of a network, `email` and `uri` one name, `emails` all of a
 * domain, `uris` all below a path. No rule but `any` matches names of two kinds.
 */
export type NameRule =
  | { readonly kind: 'any'; readonly text: '*' }
  | { readonly kind: 'cidr'; readonly text: string; readonly cidr: Cidr }
  /** Canonical: `a@x`, `*@x`, `spiffe://x/a`, `spiffe://x/*` or `spiffe://x/a/*`. */
  | { readonly kind: 'email' | 'emails' | 'uri' | 'uris'; readonly text: string }
  | {
      readonly kind: 'exact' | 'below' | 'wildcard' | 'wildcards'
      /** Canonical: `x`, `*.x`, `=*.x` or `=**.x`. */
      readonly text: string
      /** The labels of x, left to right. */
      readonly labels: readonly string[]
    }

/**
 * Parses `x`, `*.x`, `=*.x`, `=**.x`, `*`, an IP address or a network; for names of clients `a@x`, `*@x`,
 * `spiffe://x/a`, and `spiffe://x/*` or `spiffe://x/a/*` for all below it, at any depth.
 * @throws PkiError `PKI_RULE_INVALID`
 */
export function parseNameRule(text: string): NameRule {
  if (text === '*') return { kind: 'any', text }
  const cidr = parseCidr(text)
  if (cidr) return { kind: 'cidr', text: cidr.text, cidr }
  if (text.includes('@') || URI.test(text)) return parseClientRule(text)

  const wildcardOnly = text.startsWith('=')
  const atAnyDepth = text.startsWith('=**.')
  const name = parseRuleName(atAnyDepth ? text.slice(2) : wildcardOnly ? text.slice(1) : text)
  if (wildcardOnly && name.kind !== 'wildcard')
    throw new PkiError('PKI_RULE_INVALID', `${quote(text)} has \`=\` before other than \`*.\``)
  if (atAnyDepth) return { kind: 'wildcards', text: `=*${name.text}`, labels: name.labels }
  if (wildcardOnly) return { kind: 'wildcard', text: `=${name.text}`, labels: name.labels }
  const kind = name.kind === 'wildcard' ? 'below' : 'exact'
  return { kind, text: name.text, labels: name.labels }
}

function parseClientRule(text: string): NameRule {
  // What `*` stands for is put in its place, so that one parser checks both.
  const isOfAll = text.startsWith('*@') || text.endsWith('/*')
  const sample = text.replace(/^\*@/, 'all@').replace(/\/\*$/, '/all')
  const { kind, text: canonical } = parseRuleName(sample, parseClientName)
  if (!isOfAll) return { kind: kind as 'email' | 'uri', text: canonical }
  return kind === 'email'
    ? { kind: 'emails', text: `*${canonical.slice('all'.length)}` }
    : { kind: 'uris', text: `${canonical.slice(0, -'all'.length)}*` }
}

function parseRuleName(text: string, parse = parseName): Name {
  try {
    return parse(text)
  } catch (cause) {
    throw new PkiError('PKI_RULE_INVALID', (cause as Error).message, { cause })
  }
}

/**
 * Compiles rules into a test whether any of them matches a name. It takes one lookup per label of
 * the name, however many rules there are; networks are tried one by one.
 */
export function compileRules(rules: readonly NameRule[]): (name: Name) => boolean {
  const find = compileSearch(rules, { isReach: false })
  return (name) => find(name) !== undefined
}

const BELOW = '*'
const WILDCARDS = '=**'

/** The rule for all below a parent. In canonical text dots only separate labels. */
function ruleAbove(
  byText: ReadonlyMap<string, NameRule>,
  prefix: typeof BELOW | typeof WILDCARDS,
  text: string,
): NameRule | undefined {
  for (let dot = text.indexOf('.'); dot !== -1; dot = text.indexOf('.', dot + 1)) {
    const rule = byText.get(prefix + text.slice(dot))
    if (rule) return rule
  }
  return undefined
}

/** The rule for all of the domain of an e-mail address, or for all below a part of the path of a URI. */
function ruleOfAll(byText: ReadonlyMap<string, NameRule>, { kind, text }: Name) {
  if (kind === 'email') return byText.get(`*${text.slice(text.indexOf('@'))}`)
  for (
    let slash = text.lastIndexOf('/');
    slash > 'spiffe://'.length;
    slash = text.lastIndexOf('/', slash - 1)
  ) {
    const rule = byText.get(`${text.slice(0, slash)}/*`)
    if (rule) return rule
  }
  return undefined
}

/**
 * Compiles rules that deny into a search for one that affects a name: the rule matches the name, or
 * the name is a wildcard whose certificate is also valid for a name that the rule matches. It takes
 * one lookup per label of the name, as {@link compileRules} does.
 */
export function compileReach(rules: readonly NameRule[]): (name: Name) => NameRule | undefined {
  return compileSearch(rules, { isReach: true })
}

function compileSearch(
  rules: readonly NameRule[],
  { isReach }: { readonly isReach: boolean },
): (name: Name) => NameRule | undefined {
  const byText = new Map(rules.map((rule) => [rule.text, rule]))
  const networks = rules.filter((rule) => rule.kind === 'cidr')
  const exactUnder = new Map(
    rules.flatMap((rule) =>
      isReach && rule.kind === 'exact' ? [[rule.labels.slice(1).join('.'), rule] as const] : [],
    ),
  )
  const any = byText.get('*')

  return (name) => {
    const { kind, text, labels, ip } = name
    if (any) return any
    if (kind === 'email' || kind === 'uri') return byText.get(text) ?? ruleOfAll(byText, name)
    if (ip) return networks.find(({ cidr }) => cidrContains(cidr, ip))
    // A wildcard matches exactly one label (RFC 9525 section 6.3).
    const covered =
      kind === 'wildcard'
        ? (byText.get(`=${text}`) ??
          exactUnder.get(labels.join('.')) ??
          ruleAbove(byText, WILDCARDS, text))
        : undefined
    if (covered || (kind === 'wildcard' && !isReach)) return covered
    return byText.get(text) ?? ruleAbove(byText, BELOW, text)
  }
}

import { isDeepStrictEqual } from 'node:util'
import { DNS_PROVIDER_RULES, parseResolver } from '@gatehouse/acme'
import { attempt, parseEndpointUrl } from '@gatehouse/net'
import {
  compileRules,
  type KeyType,
  type Name,
  type NameRule,
  parseName,
  parseNameRule,
} from '@gatehouse/pki'
import {
  applyRules,
  applyToEach,
  type ConfigRule,
  type Fault,
  faultIf,
  faultOf,
} from '@gatehouse/service-kit/rules'
import {
  ACME_KEY_TYPES,
  accountOf,
  type ChallengeConfig,
  canProve,
  DIRECTORIES,
  directoryOf,
  ENDED,
  type IssuerConfig,
  isEmbedded,
} from './issuers.ts'

/** The parts of a configuration that an issuer is checked against. */
interface Surroundings {
  readonly issuers: readonly IssuerConfig[]
  readonly server: { readonly plainHttp?: unknown }
  readonly ca: { readonly permitted: readonly string[] }
}

/** Checks the issuer at `index` of a configuration. */
export function checkIssuer(
  issuer: IssuerConfig,
  index: number,
  { issuers, server, ca }: Surroundings,
): Fault[] {
  return applyRules(issuer, [
    ({ directory }) => faultOf('/directory', () => checkDirectory(directory)),
    ({ name }) => checkName(name, issuers.slice(0, index)),
    (issuer) => checkAccount(issuer, issuers.slice(0, index)),
    (issuer) => checkFallback(issuer, issuers),
    (issuer) => checkFallbackNames(issuer, issuers, ca.permitted),
    (issuer) => checkLimits(issuer, issuers),
    ({ names, challenges }) =>
      applyToEach(names, '/names', [(rule) => faultOf('', () => checkRule(rule, challenges))]),
    ({ challenges }) =>
      applyToEach(challenges, '/challenges', [
        ({ type }, index) =>
          challenges.findIndex((challenge) => challenge.type === type) < index
            ? [{ path: '', message: 'is of the same type as another' }]
            : [],
        (challenge) =>
          challenge.type === 'http-01' && !challenge.listen && !server.plainHttp
            ? [{ path: '', message: 'needs `listen`, as there is no server.plainHttp' }]
            : [],
        (challenge) =>
          challenge.type === 'dns-01' ? applyRules(challenge, DNS_CHALLENGE_RULES) : [],
      ]),
  ])
}

/** Issuers of one CA share its limits, even with separate accounts. */
function checkLimits({ directory, limits }: IssuerConfig, issuers: readonly IssuerConfig[]) {
  const first = issuers.find((issuer) => directoryOf(issuer.directory) === directoryOf(directory))
  if (!first || isDeepStrictEqual(first.limits, limits)) return []
  const message = `must be those of ${first.name}, which orders from the same CA`
  return [{ path: '/limits', message }]
}

function checkName(name: string, earlier: readonly IssuerConfig[]): Fault[] {
  const isTaken = isEmbedded(name) || earlier.some((issuer) => issuer.name === name)
  return isTaken ? [{ path: '/name', message: 'is the name of another issuer' }] : []
}

/** Issuers with one directory share an account unless they name another. */
function checkAccount(issuer: IssuerConfig, earlier: readonly IssuerConfig[]): Fault[] {
  const same = earlier.find((candidate) => accountOf(candidate) === accountOf(issuer))
  if (!same || isDeepStrictEqual(ownerOf(same), ownerOf(issuer))) return []
  const message = `needs the email, caFile and externalAccount of ${same.name}, which has the same account, or an \`account\` of its own`
  return [{ path: '/directory', message }]
}

function ownerOf({ externalAccount, caFile, email }: IssuerConfig) {
  return { externalAccount, caFile, email }
}

function checkDirectory(directory: string): void {
  const ended = ENDED[directory] ?? ENDED[URL.parse(directory)?.hostname ?? '']
  if (ended !== undefined)
    throw new Error(
      `is a CA that has issued no certificate since ${ended}: use another, such as letsencrypt`,
    )
  if (!URL.canParse(directory) && !Object.hasOwn(DIRECTORIES, directory))
    throw new Error(`must be a URL or one of ${Object.keys(DIRECTORIES).join(', ')}`)
  parseEndpointUrl(directoryOf(directory))
}

function checkFallback({ name, fallback }: IssuerConfig, issuers: readonly IssuerConfig[]) {
  const path = '/fallback'
  const seen = new Set([name])
  for (let next = fallback; next !== undefined && next !== 'ca'; ) {
    const issuer = issuers.find(({ name }) => name === next)
    if (!issuer) return next === fallback ? [{ path, message: 'is not an issuer' }] : []
    if (seen.has(next)) return [{ path, message: 'goes in a circle' }]
    seen.add(next)
    next = issuer.fallback
  }
  return []
}

/** The embedded CA is of no use as a fallback for names that it may not sign. */
function checkFallbackNames(
  { names, fallback }: IssuerConfig,
  issuers: readonly IssuerConfig[],
  permitted: readonly string[],
): Fault[] {
  let end = fallback
  // A circle is told by another rule.
  for (const _ of issuers) end = issuers.find(({ name }) => name === end)?.fallback ?? end
  const signed = nameRulesOf(permitted).filter((rule) => !isOfClients(rule))
  if (end !== 'ca' || permitted.length === 0) return []
  return nameRulesOf(names)
    .filter((rule) => !isOfClients(rule) && !signed.some((permit) => haveCommonName(rule, permit)))
    .map(({ text }) => {
      const message = `leads to \`ca\`, which signs no name of \`${text}\`: add that to ca.permitted, or use another fallback`
      return { path: '/fallback', message }
    })
}

function haveCommonName(a: NameRule, b: NameRule): boolean {
  const isAny = a.kind === 'any' || b.kind === 'any'
  return isAny || compileRules([a])(nameOf(b)) || compileRules([b])(nameOf(a))
}

/** A name that a rule matches, and so does each one above it. */
const nameOf = ({ text }: NameRule): Name =>
  parseName(
    text
      .replace(/^\*/, 'any')
      .replace('=**', '*.any')
      .replace(/^=|\/.*/, ''),
  )

/** Whether a rule is about names that only client certificates have. */
export function isOfClients(rule: NameRule): boolean {
  return rule.kind !== 'any' && rule.kind !== 'cidr' && !('labels' in rule)
}

function checkRule(text: string, challenges: IssuerConfig['challenges']): void {
  const rule = parseNameRule(text)
  const { kind } = rule
  if (isOfClients(rule))
    throw new Error('is for client certificates, which only the embedded CA signs')
  if (kind.startsWith('wildcard') && !canProve({ challenges }, 'wildcard'))
    throw new Error('is for a wildcard certificate, which takes a dns-01 challenge')
  if (kind === 'cidr' && !canProve({ challenges }, 'ip'))
    throw new Error('is for IP addresses, which take an http-01 or tls-alpn-01 challenge')
}

const DNS_CHALLENGE_RULES: readonly ConfigRule<Extract<ChallengeConfig, { type: 'dns-01' }>>[] = [
  ({ providers }) => applyToEach(providers, '/providers', DNS_PROVIDER_RULES),
  ({ propagation: { resolvers = [] } }) =>
    applyToEach(resolvers, '/propagation/resolvers', [
      (text) => faultIf(!parseResolver(text), '', 'must be an IP address, and maybe a port'),
    ]),
]

/** Parses name rules, without those that do not parse: another rule reports them. */
export function nameRulesOf(texts: readonly string[]): NameRule[] {
  return texts.flatMap((text) => attempt(() => parseNameRule(text)) ?? [])
}

/** The issuer for these names; `undefined` for the embedded CA. */
export function issuerFor(
  names: readonly string[],
  { issuers }: Pick<Surroundings, 'issuers'>,
): IssuerConfig | undefined {
  const parsed = names.map(parseName)
  return issuers.find(({ names: rules }) => parsed.every(compileRules(nameRulesOf(rules))))
}

/** @throws Error unless a challenge of the issuer can prove the name */
export function provableName(text: string, issuer: IssuerConfig): void {
  if (!canProve(issuer, parseName(text).kind))
    throw new Error(`cannot be proven by a challenge of the issuer ${issuer.name}`)
}

export function checkKeyType(
  keyType: KeyType | undefined,
  issuer: IssuerConfig | undefined,
): Fault[] {
  if (!issuer || keyType === undefined || ACME_KEY_TYPES.includes(keyType)) return []
  const message = `is not certified by the issuer ${issuer.name}: use ${ACME_KEY_TYPES.join(', ')}`
  return [{ path: '/keyType', message }]
}

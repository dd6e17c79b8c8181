import { relative } from 'node:path'
import {
  type ClaimOf,
  checkIssuer,
  checkKeyType,
  issuerFor,
  loadClaims,
  nameRulesOf,
  provableName,
} from '@gatehouse/issuance/options'
import { isLoopback, parseHost } from '@gatehouse/net'
import { compileRules, parseName, parseNameRule } from '@gatehouse/pki'
import { compileMembership } from '@gatehouse/profile/allow'
import { type Loaded, type LoadSettings, loadConfig } from '@gatehouse/service-kit/config'
import { checkEvents } from '@gatehouse/service-kit/events'
import {
  applyToEach,
  type ConfigRule,
  checkListeners,
  checkNetwork,
  checkTrustedProxies,
  type Fault,
  faultIf,
  faultOf,
  ifKnown,
  type Listener,
} from '@gatehouse/service-kit/rules'
import { parsePostgresUrl } from '@gatehouse/store'
import { AUTH_RULES, checkProfile, type PolicyRule } from './auth.ts'
import { checkMtls } from './certificate-callers.ts'
import { checkProbe } from './probe.ts'
import { type CertServiceConfig, CertServiceSchema } from './schema.ts'

const HOUR = 3_600_000

interface CertLoadSettings extends Pick<LoadSettings, 'withoutSecrets' | 'looksUp'> {
  /** The rules for what only a start needs, which are not checked without them. */
  readonly startRules?: readonly ConfigRule<CertServiceConfig>[] | undefined
}

/** Reads a configuration file. @throws ConfigError with all of its errors */
export async function loadCertConfig(
  file: string,
  env: Readonly<Record<string, string | undefined>>,
  { startRules, ...options }: CertLoadSettings = {},
): Promise<Loaded<CertServiceConfig>> {
  const rules = [...RULES, ...(startRules ?? [])]
  const load = (rules: readonly ConfigRule<CertServiceConfig>[]) =>
    loadConfig({ schema: CertServiceSchema, file, env, rules, ...options })
  const loaded = await load(rules)
  const { ca, certificates, issuers } = loaded.value
  if (!startRules || issuers.length * certificates.length === 0 || ca.permitted.length > 0)
    return loaded
  const claimOf = await loadClaims(issuers)
  return load([...rules, (config) => checkClaims(config, claimOf)])
}

/** The embedded CA signs no name that an ACME issuer is there for. */
function checkClaims(config: CertServiceConfig, claimOf: ClaimOf): Fault[] {
  return applyToEach(config.certificates, '/certificates', [
    ({ names }) =>
      issuerFor(names, config)
        ? []
        : faultsOf(names, '/names', (text) => {
            const issuer = claimOf(parseName(text))
            if (issuer === undefined) return
            const cure = 'a rule there, or other certificates for the other names'
            throw new Error(`is in a domain of the issuer ${issuer}, which needs ${cure}`)
          }),
  ])
}

/**
 * The rules for a configuration beyond its schema. A rule that reads an invalid part reports nothing,
 * so each one reads as little as possible.
 */
const RULES: readonly ConfigRule<CertServiceConfig>[] = [
  ({ server }) => checkTrustedProxies(server.trustedProxies, '/server/trustedProxies'),
  checkAcme,
  ...AUTH_RULES,
  ({ auth, server }) => (auth.mtls ? checkMtls(auth.mtls, auth.method, server) : []),
  checkAccessRules,
  ({ server }) => faultsOf(server.names, '/server/names', parseName),
  checkCertificates,
  ({ ca }) => faultsOf(ca.permitted, '/ca/permitted', parseNameRule),
  checkCrlUrl,
  checkLifetimes,
  (config) =>
    applyToEach(config.issuers, '/issuers', [
      (issuer, index) => checkIssuer(issuer, index, config),
    ]),
  ({ probe }) => (probe ? checkProbe(probe) : []),
  checkEvents,
  checkOwnTls,
  checkPlainHttp,
  (config) => checkListeners(listenersOf(config)),
  checkStorage,
]

function checkAccessRules({ auth, rules }: CertServiceConfig): Fault[] {
  return applyToEach(rules, '/rules', [
    ({ names }) => faultsOf(names, '/names', parseNameRule),
    ({ names, effect, acme, profile = effect === 'allow' && !acme ? 'server' : '' }) =>
      checkProfile(names, '/names', profile),
    ({ effect, lifetime }) =>
      faultIf(effect === 'deny' && lifetime !== undefined, '/lifetime', 'is for an allow rule'),
    ({ effect, names, issuer, subject, claim, scope, people, acme }) => {
      const conditional = subject !== undefined || claim !== undefined || scope !== undefined
      if (people !== undefined) {
        if (auth.assertion) return checkPeople(people, effect)
        return [{ path: '/people', message: 'needs `auth.assertion`, which says who they are' }]
      }
      if (acme !== undefined) return effect === 'allow' ? faultsOf(names, '/names', deviceRule) : []
      const several = (auth.jwt?.issuers?.length ?? 0) > 1
      const isUnclear = several && issuer === undefined && (conditional || effect === 'allow')
      return faultIf(isUnclear, '', 'needs an `issuer`, as there are several')
    },
  ])
}

/** @throws Error for a rule that no name of a device matches */
function deviceRule(text: string): void {
  const [rule] = nameRulesOf([text])
  if (rule && !['any', 'cidr', 'exact', 'below'].includes(rule.kind))
    throw new Error('is about what http-01 and tls-alpn-01 cannot prove, so no device gets it')
}

function checkAcme({ acme: { open = [], terms, profiles = {} } }: CertServiceConfig): Fault[] {
  const isUrl = terms === undefined || URL.parse(terms)?.protocol === 'https:'
  return [
    ...applyToEach(open, '/acme/open', [(text) => checkNetwork(text)]),
    ...faultIf(!isUrl, '/acme/terms', 'must be an https URL'),
    ...faultIf('server' in profiles, '/acme/profiles/server', 'is there already'),
    ...faultIf('client' in profiles, '/acme/profiles/client', 'is there already'),
  ]
}

function checkPeople(
  people: NonNullable<PolicyRule['people']>,
  effect: PolicyRule['effect'],
): Fault[] {
  if (people === 'anyone') return []
  const message =
    'also denies people without a verified address, whom some providers send: whether they are of the domain is not known'
  const isBroad = effect === 'deny' && people.emailDomains !== undefined
  return [
    ...faultOf('/people', () => compileMembership(people)),
    ...(isBroad ? [{ path: '/people/emailDomains', message, isWarning: true }] : []),
  ]
}

function checkCertificates(config: CertServiceConfig): Fault[] {
  return applyToEach(config.certificates, '/certificates', [
    ({ names }) => faultsOf(names, '/names', parseName),
    ({ names, keyType }) =>
      areNames(names) ? checkKeyType(keyType, issuerFor(names, config)) : [],
    ({ names }) => {
      if (!areNames(names)) return []
      const issuer = issuerFor(names, config)
      return faultsOf(names, '/names', (text) =>
        issuer ? provableName(text, issuer) : permittedName(text, config.ca.permitted),
      )
    },
  ])
}

/** Invalid names are reported by another rule. */
function areNames(texts: readonly string[]): boolean {
  return faultsOf(texts, '', parseName).length === 0
}

function checkCrlUrl({ ca: { crlUrl } }: CertServiceConfig): Fault[] {
  const isSound = crlUrl === undefined || URL.parse(crlUrl)?.protocol === 'http:'
  return faultIf(!isSound, '/ca/crlUrl', 'must be an http URL')
}

/** No lifetime is longer than the longest of all. */
function checkLifetimes({ ca, rules, auth, acme: { profiles = {} } }: CertServiceConfig): Fault[] {
  const { leafLifetime, maxLifetime = leafLifetime } = ca
  const why = `is longer than \`ca.maxLifetime\`, which is ${maxLifetime / HOUR}h (by default \`ca.leafLifetime\`)`
  const check = ({ lifetime = 0 }: { readonly lifetime?: number }) =>
    faultIf(lifetime > maxLifetime, '/lifetime', why)
  const named = Object.entries(profiles).map(([name, { lifetime }]) =>
    faultIf(lifetime > maxLifetime, `/acme/profiles/${name}/lifetime`, why),
  )
  return [
    ...faultIf(leafLifetime > maxLifetime, '/ca/maxLifetime', 'is shorter than `leafLifetime`'),
    ...applyToEach(rules, '/rules', [check]),
    ...applyToEach(auth.psk?.keys ?? [], '/auth/psk/keys', [check]),
    ...applyToEach(auth.mtls?.callers ?? [], '/auth/mtls/callers', [check]),
    ...named.flat(),
  ]
}

/** The certificate of the server needs a name that the CA may sign. */
function checkOwnTls({ server, ca: { permitted } }: CertServiceConfig): Fault[] {
  if (server.tls !== 'own' || server.names.length > 0 || permitted.length === 0) return []
  const faults = faultsOf(['localhost'], '', (text) => permittedName(text, permitted))
  const message = '`own` needs a name of `ca.permitted` in server.names'
  return faults.map(() => ({ path: '/server/tls', message }))
}

/** Answers contain private keys. */
function checkPlainHttp({ server }: CertServiceConfig): Fault[] {
  if (server.tls !== 'off') return []
  const host = parseHost(server.host)
  const isReached = host !== undefined && !isLoopback(host)
  const message =
    'would send private keys in plain text: only a loopback server.host may have it, or write `insecure`'
  return faultIf(isReached, '/server/tls', message)
}

function listenersOf(config: CertServiceConfig): Listener[] {
  const sections: readonly (() => Listener[])[] = [
    () => [{ path: '/server', address: config.server }],
    () => optionalListener('/server/plainHttp', config.server.plainHttp),
    () => optionalListener('/metrics', config.metrics.enabled ? config.metrics : undefined),
    () =>
      [...config.issuers.keys()].flatMap(
        (index) => ifKnown(() => challengeListeners(config, index)) ?? [],
      ),
  ]
  return sections.flatMap((section) => ifKnown(section) ?? [])
}

function challengeListeners({ issuers }: CertServiceConfig, index: number): Listener[] {
  return (issuers[index]?.challenges ?? []).flatMap((challenge, position) =>
    challenge.type === 'dns-01'
      ? []
      : optionalListener(
          `/issuers/${index}/challenges/${position}/listen`,
          challenge.listen,
          challenge.type,
        ),
  )
}

function optionalListener(
  path: string,
  address: Listener['address'] | undefined,
  kind?: string,
): Listener[] {
  return address ? [{ path, address, ...(kind !== undefined && { kind }) }] : []
}

function checkStorage({ storage }: CertServiceConfig): Fault[] {
  const { url, masterKey } = storage
  if (url !== undefined) return faultOf('/storage/url', () => parsePostgresUrl(url))
  if (masterKey !== undefined) return []
  const isInside = !/^(\.\.|\/)/.test(relative(storage.path, storage.masterKeyFile))
  return faultIf(isInside, '/storage/masterKeyFile', 'must lie outside of storage.path')
}

function permittedName(text: string, permitted: readonly string[]): void {
  const name = parseName(text)
  const rules = nameRulesOf(permitted)
  if (rules.length > 0 && !compileRules(rules)(name))
    throw new Error(`${name.text} is outside of ca.permitted`)
}

function faultsOf(texts: readonly string[], path: string, parse: (text: string) => unknown) {
  return applyToEach(texts, path, [(text) => faultOf('', () => parse(text))])
}

import { isIP } from 'node:net'
import { checkDnsProvider } from '@gatehouse/acme'
import { parseEndpointUrl } from '@gatehouse/net'
import { compileRules, parseName, parseNameRule } from '@gatehouse/pki'
import { type Fault, faultOf } from '@gatehouse/service-kit'
import { DIRECTORIES, directoryOf, type IssuerConfig } from './issuers.ts'
import type { CertServiceConfig } from './schema.ts'

/** The faults of `issuers` that their schema cannot tell. */
export function checkIssuers(config: CertServiceConfig): readonly Fault[] {
  return config.issuers.flatMap((issuer, index) =>
    checkIssuer(issuer, config).map(({ path, message }) => ({
      path: `/issuers/${index}${path}`,
      message,
    })),
  )
}

function checkIssuer(issuer: IssuerConfig, config: CertServiceConfig): Fault[] {
  return [
    ...checkIdentity(issuer, config),
    ...checkFallback(issuer, config),
    ...issuer.names.flatMap((rule, index) =>
      faultOf(`/names/${index}`, () => checkRule(rule, issuer)),
    ),
    ...checkChallenges(issuer, config),
  ]
}

function checkIdentity(issuer: IssuerConfig, { issuers }: CertServiceConfig): Fault[] {
  const { name, directory, externalAccount, caFile, email } = issuer
  const earlier = issuers.slice(0, issuers.indexOf(issuer))
  const faults = faultOf('/directory', () => checkDirectory(directory))
  if (name === 'ca' || earlier.some((other) => other.name === name))
    faults.push({ path: '/name', message: 'is the name of another issuer' })
  // They share one account.
  const same = earlier.find((other) => directoryOf(other.directory) === directoryOf(directory))
  const account = JSON.stringify([externalAccount, caFile, email])
  if (same && JSON.stringify([same.externalAccount, same.caFile, same.email]) !== account)
    faults.push({
      path: '/directory',
      message: `needs the email, caFile and externalAccount of ${same.name}, which has the same account`,
    })
  return faults
}

function checkDirectory(directory: string): void {
  if (!URL.canParse(directory) && !Object.hasOwn(DIRECTORIES, directory))
    throw new Error(`must be a URL or one of ${Object.keys(DIRECTORIES).join(', ')}`)
  parseEndpointUrl(directoryOf(directory))
}

function checkFallback({ name, fallback }: IssuerConfig, { issuers }: CertServiceConfig): Fault[] {
  const path = '/fallback'
  const seen = new Set([name])
  for (let next = fallback; next !== undefined && next !== 'ca'; ) {
    const issuer = issuers.find((other) => other.name === next)
    if (!issuer) return next === fallback ? [{ path, message: 'is not an issuer' }] : []
    if (seen.has(next)) return [{ path, message: 'goes in a circle' }]
    seen.add(next)
    next = issuer.fallback
  }
  return []
}

function checkRule(text: string, issuer: IssuerConfig): void {
  const { kind } = parseNameRule(text)
  if (kind === 'wildcard' && !canProve(issuer, 'wildcard'))
    throw new Error('is for a wildcard certificate, which takes a dns-01 challenge')
  if (kind === 'cidr' && !canProve(issuer, 'ip'))
    throw new Error('is for IP addresses, which take an http-01 or tls-alpn-01 challenge')
}

/** Whether one of its challenges can prove a name of that kind. */
export function canProve(
  { challenges }: Pick<IssuerConfig, 'challenges'>,
  kind: 'dns' | 'wildcard' | 'ip',
): boolean {
  return challenges.some(({ type }) =>
    kind === 'wildcard' ? type === 'dns-01' : kind === 'dns' || type !== 'dns-01',
  )
}

function checkChallenges({ challenges }: IssuerConfig, { server }: CertServiceConfig): Fault[] {
  return challenges.flatMap((challenge, index) => {
    const path = `/challenges/${index}`
    if (challenges.findIndex(({ type }) => type === challenge.type) < index)
      return [{ path, message: 'is of the same type as another' }]
    if (challenge.type === 'http-01' && !challenge.listen && !server.plainHttp)
      return [{ path, message: 'needs `listen`, as there is no server.plainHttp' }]
    if (challenge.type !== 'dns-01') return []
    const resolvers = challenge.propagation.resolvers ?? []
    return [
      ...challenge.providers.flatMap((provider, at) =>
        checkDnsProvider(provider).map((fault) => ({
          path: `${path}/providers/${at}${fault.path}`,
          message: fault.message,
        })),
      ),
      ...resolvers.flatMap((resolver, at) =>
        isResolver(resolver)
          ? []
          : [
              {
                path: `${path}/propagation/resolvers/${at}`,
                message: 'must be an IP address, and maybe a port',
              },
            ],
      ),
    ]
  })
}

function isResolver(text: string): boolean {
  const host =
    /^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? (isIP(text) ? text : text.replace(/:\d+$/, ''))
  return isIP(host) > 0
}

/** The issuer that a certificate of these names falls to; undefined: the embedded CA, or a fault. */
export function issuerFor(
  names: readonly string[],
  { issuers }: CertServiceConfig,
): IssuerConfig | undefined {
  const parsed = resultOf(() => names.map(parseName))
  return issuers.find(({ names: rules }) => {
    const holds = resultOf(() => compileRules(rules.map(parseNameRule)))
    return holds && parsed?.every(holds)
  })
}

/** @throws Error unless a challenge of the issuer can prove the name */
export function provableName(text: string, issuer: IssuerConfig): void {
  if (!canProve(issuer, parseName(text).kind))
    throw new Error(`cannot be proven by a challenge of the issuer ${issuer.name}`)
}

function resultOf<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

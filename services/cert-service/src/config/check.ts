import { relative } from 'node:path'
import { checkAuthOptions } from '@gatehouse/auth-core'
import { compileRules, parseName, parseNameRule } from '@gatehouse/pki'
import { type Fault, faultOf } from '@gatehouse/service-kit'
import { pluginOptionsOf } from './auth.ts'
import { checkEvents } from './check-events.ts'
import { checkIssuers, issuerFor, provableName } from './check-issuers.ts'
import { checkLimits } from './check-limits.ts'
import { checkPublicIssuers } from './public-issuers.ts'
import type { CertServiceConfig } from './schema.ts'

const HOUR = 3_600_000

/** The faults of a configuration that its schema cannot tell. */
export function checkConfig(config: CertServiceConfig): readonly Fault[] {
  return [
    ...checkAuth(config),
    ...checkRules(config),
    ...checkPublicIssuers(config),
    ...checkNames(config),
    ...checkCa(config),
    ...checkIssuers(config),
    ...checkLimits(config),
    ...checkEvents(config),
    ...checkOwnTls(config),
    ...checkStorage(config),
  ]
}

function checkAuth({ auth }: CertServiceConfig): Fault[] {
  const both = auth.domainsClaim !== undefined && auth.jwt?.domainsClaim !== undefined
  const keys = (auth.psk?.keys ?? []).flatMap(({ domains = [] }, key) =>
    faultsOf(domains, `/auth/psk/keys/${key}/domains`, parseNameRule),
  )
  return [
    ...checkAuthOptions(pluginOptionsOf(auth)).map(({ path, message }) => ({
      path: `/auth${path}`,
      message,
    })),
    ...(both ? [{ path: '/auth/domainsClaim', message: 'is also given as jwt.domainsClaim' }] : []),
    ...keys,
  ]
}

function checkRules({ auth, rules }: CertServiceConfig): Fault[] {
  const several = (auth.jwt?.issuers?.length ?? 0) > 1
  return rules.flatMap((rule, index) => {
    const path = `/rules/${index}`
    const { effect, issuer, subject, claim, scope, names } = rule
    const conditional = subject !== undefined || claim !== undefined || scope !== undefined
    const faults = faultsOf(names, `${path}/names`, parseNameRule)
    if (several && issuer === undefined && (conditional || effect === 'allow'))
      faults.push({ path, message: 'needs an `issuer`, as there are several' })
    else if (effect === 'allow' && issuer === undefined && !conditional)
      faults.push({ path, message: 'needs an `issuer`, `subject`, `claim` or `scope`' })
    return faults
  })
}

function checkNames(config: CertServiceConfig): Fault[] {
  const { server, certificates, ca } = config
  const listed = certificates.flatMap(({ names }, index) => {
    const issuer = issuerFor(names, config)
    return faultsOf(names, `/certificates/${index}/names`, (text) =>
      issuer ? provableName(text, issuer) : permittedName(text, ca.permitted),
    )
  })
  return [...faultsOf(server.names, '/server/names', parseName), ...listed]
}

function checkCa({ ca }: CertServiceConfig): Fault[] {
  const faults = faultsOf(ca.permitted, '/ca/permitted', parseNameRule)
  if (ca.leafLifetime < 2 * HOUR || ca.leafLifetime > 180 * 24 * HOUR)
    faults.push({ path: '/ca/leafLifetime', message: 'must be from 2h to 180d' })
  if (ca.crlUrl !== undefined && URL.parse(ca.crlUrl)?.protocol !== 'http:')
    faults.push({ path: '/ca/crlUrl', message: 'must be an http URL' })
  return faults
}

/** The own certificate needs a name that the CA may sign. */
function checkOwnTls({ server, ca }: CertServiceConfig): Fault[] {
  if (server.tls !== 'own' || server.names.length > 0) return []
  return faultsOf(['localhost'], '/server/tls', (text) => permittedName(text, ca.permitted)).map(
    ({ path }) => ({ path, message: '`own` needs a name of `ca.permitted` in server.names' }),
  )
}

function checkStorage({ storage }: CertServiceConfig): Fault[] {
  const inside = relative(storage.path, storage.masterKeyFile)
  if (inside.startsWith('..') || inside.startsWith('/')) return []
  return [{ path: '/storage/masterKeyFile', message: 'must lie outside of storage.path' }]
}

function permittedName(text: string, permitted: readonly string[]): void {
  const name = parseName(text)
  const rules = permitted.flatMap((rule) => ruleOrNone(rule))
  if (rules.length > 0 && !compileRules(rules)(name))
    throw new Error(`${name.text} is outside of ca.permitted`)
}

/** What is wrong with each of the texts. */
function faultsOf(
  texts: readonly string[],
  path: string,
  parse: (text: string) => unknown,
): Fault[] {
  return texts.flatMap((text, index) => faultOf(`${path}/${index}`, () => parse(text)))
}

/** Rules that cannot be read are told of where they stand. */
function ruleOrNone(text: string) {
  try {
    return [parseNameRule(text)]
  } catch {
    return []
  }
}

import { relative } from 'node:path'
import { compileRules, parseName, parseNameRule } from '@gatehouse/pki'
import {
  applyRules,
  applyToEach,
  checkTrustedProxies,
  type Fault,
  faultOf,
  type Rule,
} from '@gatehouse/service-kit'
import { AUTH_RULES } from './check-auth.ts'
import { checkEvents } from './check-events.ts'
import { checkIssuers, checkKeyType, issuerFor, provableName } from './check-issuers.ts'
import { checkLimits } from './check-limits.ts'
import { checkPublicIssuers } from './public-issuers.ts'
import type { CertServiceConfig } from './schema.ts'

const HOUR = 3_600_000

/**
 * What has to hold of a configuration beyond its schema. Each rule reads as little as it can: one that
 * meets a part with a fault of its own finds nothing.
 */
export const CONFIG_RULES: readonly Rule<CertServiceConfig>[] = [
  ({ server }) => checkTrustedProxies(server.trustedProxies, '/server/trustedProxies'),
  ...AUTH_RULES,
  checkAccessRules,
  checkPublicIssuers,
  checkServerNames,
  checkCertificates,
  checkPermitted,
  checkLeafLifetime,
  checkCrlUrl,
  checkIssuers,
  checkLimits,
  checkEvents,
  checkOwnTls,
  checkStorage,
]

function checkAccessRules({ auth, rules }: CertServiceConfig): Fault[] {
  return applyToEach(rules, '/rules', [
    ({ names }) => faultsOf(names, '/names', parseNameRule),
    ({ effect, issuer, subject, claim, scope }) => {
      const conditional = subject !== undefined || claim !== undefined || scope !== undefined
      const several = (auth.jwt?.issuers?.length ?? 0) > 1
      if (several && issuer === undefined && (conditional || effect === 'allow'))
        return [{ path: '', message: 'needs an `issuer`, as there are several' }]
      if (effect === 'allow' && issuer === undefined && !conditional)
        return [{ path: '', message: 'needs an `issuer`, `subject`, `claim` or `scope`' }]
      return []
    },
  ])
}

function checkServerNames({ server }: CertServiceConfig): Fault[] {
  return faultsOf(server.names, '/server/names', parseName)
}

function checkCertificates(config: CertServiceConfig): Fault[] {
  return applyToEach(config.certificates, '/certificates', [
    ({ names }) => faultsOf(names, '/names', parseName),
    ({ names, keyType }) => checkKeyType(keyType, issuerFor(names, config)),
    ({ names }) => {
      // A name that cannot be read has its fault from the rule above.
      if (applyRules(names, [(all) => faultsOf(all, '', parseName)]).length > 0) return []
      const issuer = issuerFor(names, config)
      return faultsOf(names, '/names', (text) =>
        issuer ? provableName(text, issuer) : permittedName(text, config.ca.permitted),
      )
    },
  ])
}

function checkPermitted({ ca }: CertServiceConfig): Fault[] {
  return faultsOf(ca.permitted, '/ca/permitted', parseNameRule)
}

function checkLeafLifetime({ ca }: CertServiceConfig): Fault[] {
  const isSound = ca.leafLifetime >= 2 * HOUR && ca.leafLifetime <= 180 * 24 * HOUR
  return isSound ? [] : [{ path: '/ca/leafLifetime', message: 'must be from 2h to 180d' }]
}

function checkCrlUrl({ ca: { crlUrl } }: CertServiceConfig): Fault[] {
  const isSound = crlUrl === undefined || URL.parse(crlUrl)?.protocol === 'http:'
  return isSound ? [] : [{ path: '/ca/crlUrl', message: 'must be an http URL' }]
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
export function faultsOf(
  texts: readonly string[],
  path: string,
  parse: (text: string) => unknown,
): Fault[] {
  return applyToEach(texts, path, [(text) => faultOf('', () => parse(text))])
}

/** Rules that cannot be read are told of where they stand. */
function ruleOrNone(text: string) {
  try {
    return [parseNameRule(text)]
  } catch {
    return []
  }
}

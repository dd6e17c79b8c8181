import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { ProviderConfig } from '@gatehouse/identity-providers'
import { parseHost } from '@gatehouse/net'
import { checkEventFiles } from '@gatehouse/service-kit/events'
import {
  applyToEach,
  type ConfigRule,
  checkCertificateFile,
  checkFolder,
  checkText,
  checkTlsFiles,
  checkTokenFile,
  type Fault,
  faultIf,
  ifKnown,
} from '@gatehouse/service-kit/rules'
import { assertStoredSecret, SECRET_FILES } from '../store/sqlite/secret-file.ts'
import { STATE_FILE } from '../store/sqlite/sqlite-store.ts'
import type { SecretName } from '../store/store.ts'
import type { ForwardAuthConfig, PortalConfig } from './schema.ts'

/**
 * Rules for the files and folders that a start needs, and the rule that needs the public suffix
 * list. They write nothing, so they can be applied while the service is running.
 */
export async function loadStartRules(): Promise<readonly ConfigRule<ForwardAuthConfig>[]> {
  // A large list that a health check does not need.
  const { isPublicSuffix, isRegistrySuffix } = await import('@gatehouse/net/suffixes')

  const checkSuffix: ConfigRule<ForwardAuthConfig['domains'][number]> = ({ domain, session }) => {
    const name = parseHost(domain)?.name ?? ''
    const hint = isRegistrySuffix(name)
      ? 'below which anybody can get names: use your own domain'
      : `for which browsers refuse cookies: use a name below it, such as lab.${name}, or session.scope: host`
    const isRefused = isRegistrySuffix(name) || (session.scope === 'domain' && isPublicSuffix(name))
    return faultIf(isRefused, '/domain', `is a public suffix, ${hint}`)
  }
  return [...START_RULES, ({ domains }) => applyToEach(domains, '/domains', [checkSuffix])]
}

const START_RULES: readonly ConfigRule<ForwardAuthConfig>[] = [
  ({ server }) => (server.tls ? checkTlsFiles('/server/tls', server.tls) : []),
  ({ server }) => checkCertificateFile('/server/tls/clientCaFile', server.tls?.clientCaFile),
  checkStorage,
  checkEventFiles,
  ({ portals }) =>
    applyToEach(portals, '/portals', [
      ({ providers }) => applyToEach(providers, '/providers', [checkAssertion]),
      ({ resources }) =>
        applyToEach(resources, '/resources', [
          ({ upstream }) => checkCertificateFile('/upstream/caFile', upstream?.caFile),
        ]),
      checkRuleHosts,
    ]),
]

/** Warns of a rule without hosts, which applies to its paths at every host. */
function checkRuleHosts({ rules, apps = [] }: PortalConfig): Fault[] {
  const ruleHosts = rules.flatMap(({ hosts = [] }) => hosts)
  const hosts = new Set([...ruleHosts, ...apps.map(({ url }) => URL.parse(url)?.hostname)])
  if (hosts.size <= 1 && !ruleHosts.some((host) => host.startsWith('*.'))) return []
  const message =
    'is also demanded at all other hosts, of paths that apps read in several ways: name its `hosts`'
  return applyToEach(rules, '/rules', [
    ({ hosts, paths, require }) =>
      hosts || !paths || require === 'anyone' || require === 'signedIn'
        ? []
        : [{ path: '/paths', message, isWarning: true }],
  ])
}

function checkStorage({ storage, session }: ForwardAuthConfig): readonly Fault[] {
  if ('url' in storage) return checkCertificateFile('/storage/caFile', storage.caFile)
  const { path } = storage
  return [
    ...checkFolder('/storage/path', path),
    ...(ifKnown(() => session.keys) ? [] : checkStoredSecret(path, 'session')),
    ...checkStoredSecret(path, 'assertion'),
    ...checkStateFile(path),
  ]
}

function checkStateFile(folder: string): readonly Fault[] {
  const file = join(folder, STATE_FILE)
  const stats = statSync(file, { throwIfNoEntry: false })
  const isOther = stats !== undefined && !stats.isFile()
  return faultIf(isOther, '/storage/path', `contains something other than a file: ${file}`)
}

function checkStoredSecret(folder: string, name: SecretName): readonly Fault[] {
  const file = join(folder, SECRET_FILES[name])
  return existsSync(file) ? checkText('/storage/path', file, assertStoredSecret) : []
}

function checkAssertion(provider: ProviderConfig): Fault[] {
  const assertion = 'clientAssertion' in provider ? provider.clientAssertion : undefined
  if (!assertion || assertion.type === 'azureManagedIdentity') return []
  return checkTokenFile('/clientAssertion/file', assertion.file)
}

import { existsSync, readFileSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import type { DnsProviderConfig } from '@gatehouse/acme'
import { isFirstStart, STORAGE_RULES } from '@gatehouse/cert-store'
import { loadOwnAuthority } from '@gatehouse/issuance/issuers'
import { fromPem, keyPairFromPem, readConstraints } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import { readNamedFile } from '@gatehouse/service-kit/config'
import { checkEventFiles } from '@gatehouse/service-kit/events'
import {
  applyRules,
  applyToEach,
  type ConfigRule,
  checkCertificateFile,
  checkText,
  checkTlsFiles,
  checkTokenFile,
  type Fault,
  faultOf,
  ifKnown,
} from '@gatehouse/service-kit/rules'
import type { CertServiceConfig } from '../config/schema.ts'

/** The rules for the files and folders that a start needs. They are only read, as the service may be running. */
export const START_RULES: readonly ConfigRule<CertServiceConfig>[] = [
  ({ server }) => (typeof server.tls === 'object' ? checkTlsFiles('/server/tls', server.tls) : []),
  ({ storage }) => applyRules(storage, STORAGE_RULES, '/storage'),
  checkRoot,
  checkIntermediate,
  ({ issuers }) =>
    applyToEach(issuers, '/issuers', [
      checkCaFile,
      ({ challenges }) =>
        applyToEach(challenges, '/challenges', [
          (challenge) =>
            challenge.type === 'dns-01'
              ? applyToEach(challenge.providers, '/providers', [checkProvider])
              : [],
        ]),
    ]),
  checkEventFiles,
  ({ auth }) => applyRules(auth.mtls ?? {}, [checkCaFile], '/auth/mtls'),
  ({ auth }) => applyRules(auth.jwt ?? {}, KEY_SOURCE_RULES, '/auth/jwt'),
  ({ auth }) => applyRules(auth.assertion ?? {}, KEY_SOURCE_RULES, '/auth/assertion'),
  ({ auth }) => applyToEach(auth.jwt?.issuers ?? [], '/auth/jwt/issuers', KEY_SOURCE_RULES),
]

const KEY_SOURCE_RULES = [
  checkCaFile,
  ({ tokenFile }: { readonly tokenFile?: string }) => checkTokenFile('/tokenFile', tokenFile),
]

function checkCaFile({ caFile }: { readonly caFile?: string }): Fault[] {
  return checkCertificateFile('/caFile', caFile)
}

/** Whether it is known that there is no store yet; with one, less is demanded. */
const hasNoStore = (storage: CertServiceConfig['storage']): boolean =>
  ifKnown(() => isFirstStart(storage)) ?? false

/** Checks the root. Its key is only read to sign an intermediate, so it may be offline with a store. */
function checkRoot({ ca: { root, intermediate }, storage }: CertServiceConfig): Fault[] {
  if (!root) return []
  const { certFile, keyFile } = root
  const isFirst = hasNoStore(storage)
  if (keyFile === undefined && isFirst && !intermediate)
    return [
      { path: '/ca/root', message: 'needs a keyFile at the first start, to sign an intermediate' },
    ]
  const isOffline = keyFile !== undefined && !isFirst && !existsSync(keyFile)
  return checkAuthority('/ca/root', isOffline ? { certFile } : root, !isFirst)
}

/** Checks a CA. An expired one does not prevent a start with a store: stored certificates are answered. */
function checkAuthority(
  path: string,
  { certFile, keyFile }: { readonly certFile: string; readonly keyFile?: string },
  mayBeOver: boolean,
): Fault[] {
  const now = systemClock.now()
  const chainText = checkText(`${path}/certFile`, certFile, (certificate) =>
    loadOwnAuthority({ certificate }, now, { mayBeOver }),
  )
  if (keyFile === undefined) return chainText
  const certificate = readNamedFile(certFile)
  const key = checkText(`${path}/keyFile`, keyFile, (key) => {
    if (chainText.length > 0 || !('text' in certificate)) keyPairFromPem(key)
    else loadOwnAuthority({ certificate: certificate.text, key }, now, { mayBeOver })
  })
  return [...chainText, ...key]
}

/** Checks the intermediate, and warns which names it may sign. */
function checkIntermediate({ ca: { intermediate }, storage }: CertServiceConfig): Fault[] {
  if (!intermediate) return []
  const faults = checkAuthority('/ca/intermediate', intermediate, !hasNoStore(storage))
  if (faults.length > 0) return faults
  const path = '/ca/intermediate/certFile'
  return faultOf(path, () => {
    const pem = readFileSync(intermediate.certFile, 'utf8')
    const { text } = readConstraints(fromPem(pem, 'CERTIFICATE'))
    if (text) faults.push({ path, message: `limits what is issued: ${text}`, isWarning: true })
  }).concat(faults)
}

function checkProvider(provider: DnsProviderConfig): Fault[] {
  if (provider.type === 'azure') return checkTokenFile('/tokenPath', provider.tokenPath)
  if (provider.type === 'acmesh') return checkScript(provider)
  if (provider.type === 'exec') return checkProgram(provider.command[0] ?? '')
  return []
}

function checkScript({ path, script }: { path: string; script: string }): Fault[] {
  if (!existsSync(join(path, 'acme.sh')))
    return [{ path: '/path', message: `names a folder without acme.sh: ${path}`, absent: true }]
  return checkText('/script', join(path, 'dnsapi', `${script}.sh`), () => {})
}

/** Checks only that it exists, as another user may run it. A name without a path is looked up at each use. */
function checkProgram(file: string): Fault[] {
  if (!isAbsolute(file)) return []
  const path = '/command/0'
  try {
    const isFolder = statSync(file).isDirectory()
    return isFolder ? [{ path, message: `names a program that is a folder: ${file}` }] : []
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    const message = `names a program that does not exist: ${file}`
    return code === 'ENOENT' || code === 'ENOTDIR' ? [{ path, message, absent: true }] : []
  }
}

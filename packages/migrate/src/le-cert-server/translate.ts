import { hash } from 'node:crypto'
import { isLoopback, parseHost } from '@gatehouse/net'
import type { Draft, Path } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import { lower, setLog, setTls } from '../server.ts'
import { plainUrl, type SourceConfig } from '../source.ts'

const ISSUER: Path = ['issuers', 0]
const CHALLENGE: Path = [...ISSUER, 'challenges', 0]
const DNS: Path = [...CHALLENGE, 'providers', 0]

export const translateLeCertServer: Translate = (source, draft) => {
  setServer(source, draft)
  setLog(source, draft)
  draft.set(['storage'], { path: 'data', masterKeyFile: 'keys/master.key' })
  draft.comment(['storage'], 'New: certificates are issued anew. Keep a copy of the master key.')
  setAuth(source, draft)
  setIssuer(source, draft)
  return [
    'Save this file, and check it: gatehouse-certs check-config --config config.yaml',
    'Give clients the header Content-Type: application/json, and the new address and root if these change.',
  ]
}

/** Refuses every caller before a person has decided: without a method, the file is refused. */
export function refuseCallers(draft: Draft, why: string): void {
  draft.set(['auth'], {})
  draft.todo(['auth'], why)
}

function setServer(source: SourceConfig, draft: Draft): void {
  const host = source.text('server.bind') ?? '127.0.0.1'
  draft.set(['server', 'host'], host, source.take('server.bind'))
  draft.copy(['server', 'port'], source.take('server.port'), Number, '7401')
  const name = source.take('server.tls.letsEncryptDomain')
  draft.copy(['server', 'names'], name, (text) => [text])
  if (setTls(source, draft, ['server.tls.path', 'server.tls.certPEM', 'server.tls.keyPEM'])) return
  const tls = ['server', 'tls']
  const parsed = parseHost(host)
  const isPlain = !name && parsed !== undefined && isLoopback(parsed)
  draft.set(tls, isPlain ? 'off' : 'own')
  draft.comment(
    tls,
    isPlain
      ? 'Plain HTTP on this machine, as before. For HTTPS, remove the line.'
      : 'A certificate of the own CA, for host and names. Clients need its root: /ca/root.pem.',
  )
}

function setAuth(source: SourceConfig, draft: Draft): void {
  const method = source.text('auth.method')?.toLowerCase()
  const key = source.take('auth.psk.key')
  const issuer = source.take('auth.jwt.issuerUrl') ?? source.take('auth.issuerUrl')
  if (key && method !== 'jwt') {
    const keySha256 = hash('sha256', key.values[0] ?? '', 'hex')
    draft.set(['auth', 'psk', 'keys'], [{ name: 'default', keySha256 }], key)
    draft.comment(['auth', 'psk', 'keys'], 'The hash of the key, which clients go on to send.')
  } else if (issuer && method !== 'psk') {
    const path = (name: string) => ['auth', 'jwt', name]
    draft.copy(path('issuerUrl'), issuer, plainUrl)
    for (const name of ['audience', 'requiredScopes', 'domainsClaim']) {
      const setting = source.take(`auth.jwt.${name}`) ?? source.take(`auth.${name}`)
      const value = name === 'requiredScopes' ? setting?.values : setting?.values[0]
      draft.set(path(name), value, setting)
    }
  } else
    refuseCallers(
      draft,
      `there is no key and no issuer of tokens${method ? ` for the method ${method}` : ''}: say who may call.`,
    )
}

function setIssuer(source: SourceConfig, draft: Draft): void {
  const path = (key: string) => [...ISSUER, key]
  const staging = source.ifOn('letsEncrypt.staging')
  draft.set(path('name'), 'letsencrypt')
  draft.set(path('type'), 'acme')
  draft.set(path('directory'), staging ? 'letsencrypt-staging' : 'letsencrypt', staging)
  draft.copy(path('email'), source.take('letsEncrypt.email'))
  draft.set(path('agreeToTerms'), true)
  draft.comment(
    path('agreeToTerms'),
    'le-cert-server agreed to the terms of the CA without asking.',
  )
  draft.set([...CHALLENGE, 'type'], 'dns-01')
  setDnsProvider(source, draft)
}

/** Maps keys that have the same names in theirs. */
const same = (...keys: string[]) =>
  Object.fromEntries(keys.map((key) => [key, lower(key.replace(/File$/, ''))]))

/**
 * Our keys for the DNS providers that Gatehouse has itself, by the names of lego: each key with the end of theirs
 * without separators; `File` marks a secret.
 */
const DNS_KEYS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  cloudflare: { apiTokenFile: 'dnsapitoken', endpoint: 'baseurl' },
  route53: same('accessKeyId', 'secretAccessKeyFile', 'hostedZoneId', 'region'),
  azure: same('subscriptionId', 'resourceGroup', 'tenantId', 'clientId', 'clientSecretFile'),
  'acme-dns': { endpoint: 'apibase' },
  gcloud: same('project', 'serviceAccountFile'),
  rfc2136: {
    server: 'nameserver',
    keyName: 'tsigkey',
    keySecretFile: 'tsigsecret',
    algorithm: 'tsigalgorithm',
  },
  httpreq: same('endpoint', 'username', 'passwordFile', 'mode'),
}
const OTHER_NAMES: Readonly<Record<string, string>> = {
  azuredns: 'azure',
  acmedns: 'acme-dns',
  dnsupdate: 'rfc2136',
}

const CREDENTIALS = 'letsEncrypt.dnsCredentials.'

function setDnsProvider(source: SourceConfig, draft: Draft): void {
  const provider = source.take('letsEncrypt.dnsProvider')
  const theirs = provider?.values[0]?.toLowerCase() ?? ''
  const name = OTHER_NAMES[theirs] ?? theirs
  const keys = DNS_KEYS[name]
  const type = name === 'gcloud' ? 'google' : name
  draft.set([...DNS, 'type'], keys ? type : 'acmesh', provider)
  for (const setting of source.settings.filter(({ name }) => name.startsWith(CREDENTIALS))) {
    if (keys) setCredential(source, draft, keys, setting.name)
    if (source.isTaken(setting)) continue
    draft.remark(
      setting,
      keys ? 'is not needed here' : 'write it as the variable of acme.sh for it',
    )
    source.take(setting.name)
  }
  if (type === 'acme-dns')
    draft.todo(
      [...DNS, 'type'],
      'accounts are missing: list subdomain and username of each account that the storage file of lego has, ' +
        'and write its password to a passwordFile.',
    )
  if (keys) return
  const script = `dns_${theirs.replaceAll(/[^a-z0-9_]/g, '_')}`
  draft.set([...DNS, 'script'], script)
  draft.todo(
    [...DNS, 'type'],
    `the DNS provider ${theirs} is reached by acme.sh: give the path of its folder, see whether ${script} ` +
      'is its script, and write the variables of the script to credentials.',
  )
}

function setCredential(
  source: SourceConfig,
  draft: Draft,
  keys: Readonly<Record<string, string>>,
  name: string,
): void {
  const plain = name
    .slice(CREDENTIALS.length)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')
  const ours = Object.keys(keys).find((key) => {
    const theirs = keys[key] ?? ''
    return plain.endsWith(theirs) || (key.endsWith('File') && plain.endsWith(`${theirs}file`))
  })
  if (ours === undefined || draft.has([...DNS, ours])) return
  const setting = source.take(name)
  if (!ours.endsWith('File') || plain.endsWith('file'))
    draft.copy([...DNS, ours], setting, CHANGES[ours])
  else if (setting) draft.secret([...DNS, ours], `dns-${ours.slice(0, -4).toLowerCase()}`, setting)
}

const CHANGES: Readonly<Record<string, (text: string) => string | undefined>> = {
  endpoint: plainUrl,
  algorithm: (text) => lower(text).replace(/\.$/, ''),
  mode: (text) => (lower(text) === 'raw' ? 'raw' : 'default'),
}

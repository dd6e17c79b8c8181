import { hash } from 'node:crypto'
import { isLoopback, parseHost } from '@gatehouse/net'
import type { Draft, Path } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import { type Given, plainUrl } from '../given.ts'
import { lower, setLog, setTls } from '../server.ts'

const ISSUER: Path = ['issuers', 0]
const CHALLENGE: Path = [...ISSUER, 'challenges', 0]
const DNS: Path = [...CHALLENGE, 'providers', 0]

/** Translates the settings of le-cert-server. */
export const translateLeCertServer: Translate = (given, draft) => {
  setServer(given, draft)
  setLog(given, draft)
  draft.set(['storage'], { path: 'data', masterKeyFile: 'keys/master.key' })
  draft.comment(['storage'], 'New: certificates are issued anew. Keep a copy of the master key.')
  setAuth(given, draft)
  setIssuer(given, draft)
  return [
    'Save this file, and check it: gatehouse-certs check-config --config config.yaml',
    'Give clients the header Content-Type: application/json, and the new address and root if these change.',
  ]
}

/** Nobody may have a certificate before a person has decided: without a method, the file is refused. */
export function refuseCallers(draft: Draft, why: string): void {
  draft.set(['auth'], {})
  draft.todo(['auth'], why)
}

function setServer(given: Given, draft: Draft): void {
  const host = given.text('server.bind') ?? '127.0.0.1'
  draft.set(['server', 'host'], host, given.take('server.bind'))
  draft.copy(['server', 'port'], given.take('server.port'), Number, '7401')
  const name = given.take('server.tls.letsEncryptDomain')
  draft.copy(['server', 'names'], name, (text) => [text])
  if (setTls(given, draft, ['server.tls.path', 'server.tls.certPEM', 'server.tls.keyPEM'])) return
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

function setAuth(given: Given, draft: Draft): void {
  const method = given.text('auth.method')?.toLowerCase()
  const key = given.take('auth.psk.key')
  const issuer = given.take('auth.jwt.issuerUrl') ?? given.take('auth.issuerUrl')
  if (key && method !== 'jwt') {
    const keySha256 = hash('sha256', key.values[0] ?? '', 'hex')
    draft.set(['auth', 'psk', 'keys'], [{ name: 'default', keySha256 }], key)
    draft.comment(['auth', 'psk', 'keys'], 'The hash of the key, which clients go on to send.')
  } else if (issuer && method !== 'psk') {
    const at = (name: string) => ['auth', 'jwt', name]
    draft.copy(at('issuerUrl'), issuer, plainUrl)
    for (const name of ['audience', 'requiredScopes', 'domainsClaim']) {
      const setting = given.take(`auth.jwt.${name}`) ?? given.take(`auth.${name}`)
      const value = name === 'requiredScopes' ? setting?.values : setting?.values[0]
      draft.set(at(name), value, setting)
    }
  } else
    refuseCallers(
      draft,
      `there is no key and no issuer of tokens${method ? ` for the method ${method}` : ''}: say who may call.`,
    )
}

function setIssuer(given: Given, draft: Draft): void {
  const at = (key: string) => [...ISSUER, key]
  const staging = given.ifOn('letsEncrypt.staging')
  draft.set(at('name'), 'letsencrypt')
  draft.set(at('type'), 'acme')
  draft.set(at('directory'), staging ? 'letsencrypt-staging' : 'letsencrypt', staging)
  draft.copy(at('email'), given.take('letsEncrypt.email'))
  draft.set(at('agreeToTerms'), true)
  draft.comment(at('agreeToTerms'), 'le-cert-server agreed to the terms of the CA without asking.')
  draft.set([...CHALLENGE, 'type'], 'dns-01')
  setDnsProvider(given, draft)
}

interface DnsKind {
  readonly type: string
  /** Our key, and the end of theirs without separators; `File` marks a secret. */
  readonly keys: Readonly<Record<string, string>>
}

/** Keys that have the same name in theirs. */
const same = (...keys: string[]) =>
  Object.fromEntries(keys.map((key) => [key, lower(key.replace(/File$/, ''))]))

const RFC2136: DnsKind = {
  type: 'rfc2136',
  keys: {
    server: 'nameserver',
    keyName: 'tsigkey',
    keySecretFile: 'tsigsecret',
    algorithm: 'tsigalgorithm',
  },
}
const AZURE: DnsKind = {
  type: 'azure',
  keys: same('subscriptionId', 'resourceGroup', 'tenantId', 'clientId', 'clientSecretFile'),
}
const ACME_DNS: DnsKind = { type: 'acme-dns', keys: { endpoint: 'apibase' } }

/** The DNS providers that Gatehouse has itself, by the names of lego. */
const DNS_KINDS: Readonly<Record<string, DnsKind>> = {
  cloudflare: { type: 'cloudflare', keys: { apiTokenFile: 'dnsapitoken', endpoint: 'baseurl' } },
  route53: {
    type: 'route53',
    keys: same('accessKeyId', 'secretAccessKeyFile', 'hostedZoneId', 'region'),
  },
  azure: AZURE,
  azuredns: AZURE,
  'acme-dns': ACME_DNS,
  acmedns: ACME_DNS,
  gcloud: { type: 'google', keys: same('project', 'serviceAccountFile') },
  rfc2136: RFC2136,
  dnsupdate: RFC2136,
  httpreq: { type: 'httpreq', keys: same('endpoint', 'username', 'passwordFile', 'mode') },
}

const CREDENTIALS = 'letsEncrypt.dnsCredentials.'

function setDnsProvider(given: Given, draft: Draft): void {
  const provider = given.take('letsEncrypt.dnsProvider')
  const theirs = provider?.values[0]?.toLowerCase() ?? ''
  const kind = DNS_KINDS[theirs]
  draft.set([...DNS, 'type'], kind?.type ?? 'acmesh', provider)
  const credentials = given.all.filter(({ name }) => name.startsWith(CREDENTIALS))
  for (const { name } of kind ? credentials : []) setCredential(given, draft, kind as DnsKind, name)
  for (const setting of credentials)
    if (!given.isTaken(setting)) {
      draft.remark(
        setting,
        kind ? 'is not needed here' : 'write it as the variable of acme.sh for it',
      )
      given.take(setting.name)
    }
  if (kind === ACME_DNS)
    draft.todo(
      [...DNS, 'type'],
      'accounts are missing: list subdomain and username of each account that the storage file of lego has, ' +
        'and write its password to a passwordFile.',
    )
  if (kind) return
  const script = `dns_${theirs.replaceAll(/[^a-z0-9_]/g, '_')}`
  draft.set([...DNS, 'script'], script)
  draft.todo(
    [...DNS, 'type'],
    `the DNS provider ${theirs} is reached by acme.sh: give the path of its folder, see whether ${script} ` +
      'is its script, and write the variables of the script to credentials.',
  )
}

function setCredential(given: Given, draft: Draft, { keys }: DnsKind, name: string): void {
  const plain = name
    .slice(CREDENTIALS.length)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')
  const ours = Object.keys(keys).find((key) => {
    const theirs = keys[key] ?? ''
    return plain.endsWith(theirs) || (key.endsWith('File') && plain.endsWith(`${theirs}file`))
  })
  if (ours === undefined || draft.has([...DNS, ours])) return
  const setting = given.take(name)
  if (!ours.endsWith('File') || plain.endsWith('file'))
    draft.copy([...DNS, ours], setting, CHANGES[ours])
  else if (setting) draft.secret([...DNS, ours], `dns-${ours.slice(0, -4).toLowerCase()}`, setting)
}

const CHANGES: Readonly<Record<string, (text: string) => string | undefined>> = {
  endpoint: plainUrl,
  algorithm: (text) => lower(text).replace(/\.$/, ''),
  mode: (text) => (lower(text) === 'raw' ? 'raw' : 'default'),
}

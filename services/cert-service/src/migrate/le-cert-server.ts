import { hash } from 'node:crypto'
import { isLoopback, parseHost } from '@gatehouse/net'
import { type Draft, type Given, type Path, plainUrl, type Translate } from '@gatehouse/service-kit'

const ISSUER: Path = ['issuers', 0]
const CHALLENGE: Path = [...ISSUER, 'challenges', 0]
const DNS: Path = [...CHALLENGE, 'providers', 0]

/** Translates the settings of le-cert-server. */
export const translateLeCertServer: Translate = (given, draft) => {
  setServer(given, draft)
  const [level, json] = ['logs.level', 'logs.json'].map((name) => given.take(name))
  draft.set(['log', 'level'], level?.values[0]?.toLowerCase(), level)
  if (json) draft.set(['log', 'format'], given.isOn('logs.json') ? 'json' : 'pretty', json)
  draft.set(['storage'], { path: 'data', masterKeyFile: 'keys/master.key' })
  draft.comment(['storage'], 'New: certificates are issued anew. Keep a copy of the master key.')
  setAuth(given, draft)
  setIssuer(given, draft)
  return {
    steps: [
      'Save this file, and check it: gatehouse-certs check-config --config config.yaml',
      'Give clients the header Content-Type: application/json, and the new address and root if these change.',
    ],
  }
}

/** Nobody may have a certificate before a person has decided: without a method, the file is refused. */
export function refuseCallers(draft: Draft, why: string): void {
  draft.set(['auth'], {})
  draft.todo(['auth'], why)
}

function setServer(given: Given, draft: Draft): void {
  const [bind, port] = ['server.bind', 'server.port'].map((name) => given.take(name))
  const host = bind?.values[0] ?? '127.0.0.1'
  draft.set(['server', 'host'], host, bind)
  draft.set(['server', 'port'], Number(port?.values[0] ?? 7401), port)
  const name = given.take('server.tls.letsEncryptDomain')
  draft.set(['server', 'names'], name && [name.values[0]], name)
  const folder = given.take('server.tls.path')
  const [cert, key] = ['server.tls.certPEM', 'server.tls.keyPEM'].map((one) => given.take(one))
  const at = (file: string) => ['server', 'tls', file]
  const parsed = parseHost(host)
  if (cert && key) {
    draft.secret(at('certFile'), 'tls-cert.pem', cert)
    draft.secret(at('keyFile'), 'tls-key.pem', key)
  } else if (folder) {
    const base = folder.values[0]?.replace(/\/$/, '')
    draft.set(at('certFile'), `${base}/tls-cert.pem`, folder)
    draft.set(at('keyFile'), `${base}/tls-key.pem`, folder)
  } else if (!name && parsed && isLoopback(parsed)) {
    draft.set(['server', 'tls'], 'off')
    draft.comment(
      ['server', 'tls'],
      'Plain HTTP on this machine, as before. For HTTPS, remove the line.',
    )
  } else {
    draft.set(['server', 'tls'], 'own')
    const text =
      'A certificate of the own CA, for host and names. Clients need its root: /ca/root.pem.'
    draft.comment(['server', 'tls'], text)
  }
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
    draft.set(at('issuerUrl'), plainUrl(issuer.values[0] ?? ''), issuer)
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
  const [email, staging] = ['letsEncrypt.email', 'letsEncrypt.staging'].map((name) =>
    given.take(name),
  )
  const isStaging = given.isOn('letsEncrypt.staging')
  draft.set([...ISSUER, 'name'], 'letsencrypt')
  draft.set([...ISSUER, 'type'], 'acme')
  draft.set(
    [...ISSUER, 'directory'],
    `letsencrypt${isStaging ? '-staging' : ''}`,
    isStaging ? staging : undefined,
  )
  draft.set([...ISSUER, 'email'], email?.values[0], email)
  draft.set([...ISSUER, 'agreeToTerms'], true)
  draft.comment(
    [...ISSUER, 'agreeToTerms'],
    'le-cert-server agreed to the terms of the CA without asking.',
  )
  draft.set([...CHALLENGE, 'type'], 'dns-01')
  setDnsProvider(given, draft)
}

interface DnsKind {
  readonly type: string
  /** Our key, and the end of theirs without separators; `File` marks a secret. */
  readonly keys: Readonly<Record<string, string>>
}

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
  keys: {
    subscriptionId: 'subscriptionid',
    resourceGroup: 'resourcegroup',
    tenantId: 'tenantid',
    clientId: 'clientid',
    clientSecretFile: 'clientsecret',
  },
}
const ACME_DNS: DnsKind = { type: 'acme-dns', keys: { endpoint: 'apibase' } }

/** The DNS providers that Gatehouse has itself, by the names of lego. */
const DNS_KINDS: Readonly<Record<string, DnsKind>> = {
  cloudflare: { type: 'cloudflare', keys: { apiTokenFile: 'dnsapitoken', endpoint: 'baseurl' } },
  route53: {
    type: 'route53',
    keys: {
      accessKeyId: 'accesskeyid',
      secretAccessKeyFile: 'secretaccesskey',
      hostedZoneId: 'hostedzoneid',
      region: 'region',
    },
  },
  azure: AZURE,
  azuredns: AZURE,
  'acme-dns': ACME_DNS,
  acmedns: ACME_DNS,
  gcloud: { type: 'google', keys: { project: 'project', serviceAccountFile: 'serviceaccount' } },
  rfc2136: RFC2136,
  dnsupdate: RFC2136,
  httpreq: {
    type: 'httpreq',
    keys: { endpoint: 'endpoint', username: 'username', passwordFile: 'password', mode: 'mode' },
  },
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
      'accounts are missing: list subdomain and username of each account that the storage file of lego has, and write its password to a passwordFile.',
    )
  if (kind) return
  const script = `dns_${theirs.replaceAll(/[^a-z0-9_]/g, '_')}`
  draft.set([...DNS, 'script'], script)
  draft.todo(
    [...DNS, 'type'],
    `the DNS provider ${theirs} is reached by acme.sh: give the path of its folder, see whether ${script} is its script, and write the variables of the script to credentials.`,
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
  const text = setting?.values[0]
  if (!setting || text === undefined) return
  const change = CHANGES[ours]
  if (!ours.endsWith('File') || plain.endsWith('file'))
    draft.set([...DNS, ours], change ? change(text) : text, setting)
  else draft.secret([...DNS, ours], `dns-${ours.slice(0, -4).toLowerCase()}`, setting)
}

const CHANGES: Readonly<Record<string, (text: string) => string | undefined>> = {
  endpoint: plainUrl,
  algorithm: (text) => text.toLowerCase().replace(/\.$/, ''),
  mode: (text) => (text.toLowerCase() === 'raw' ? 'raw' : 'default'),
}

import { parseHost } from '@gatehouse/net'
import type { Draft } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import { PORTAL, PROVIDER } from '../forward-auth/access.ts'
import {
  askForIssuer,
  boundedDuration,
  isOn,
  ONLY_HERE,
  readAddress,
  redirectStep,
  setClientSecret,
  setDomains,
  shortened,
  trustEmail,
} from '../forward-auth/settings.ts'
import { plainUrl, type SourceConfig, type SourceSetting } from '../source.ts'
import { words } from '../table.ts'
import { setAccess, setOpenRules } from './access.ts'

/** Our kind of provider for theirs. The others have no counterpart. */
const TYPES: Readonly<Record<string, string>> = {
  oidc: 'openIDConnect',
  adfs: 'openIDConnect',
  keycloak: 'openIDConnect',
  'keycloak-oidc': 'openIDConnect',
  azure: 'microsoftEntraID',
  'entra-id': 'microsoftEntraID',
  google: 'google',
  github: 'github',
  gitlab: 'gitlab',
}
const REALM = /^(https?:\/\/.+\/realms\/[^/]+)\/protocol\/openid-connect\/auth$/
const ENTRA = /^(https:\/\/[^/]+)\/([0-9a-f-]{36})\/v2\.0\/?$/i

export const translateOauth2Proxy: Translate = (source, draft, readFile) => {
  const kind = source.text('provider') ?? 'google'
  const type = TYPES[kind]
  setServer(source, draft)
  setSession(source, draft)
  const authHost = setHosts(source, draft)
  draft.set([...PORTAL, 'name'], 'main')
  setProvider(source, draft, kind)
  setAccess(source, draft, kind, readFile)
  setHeaders(source, draft, kind)
  setOpenRules(source, draft)
  draft.copy([...PORTAL, 'preflight'], source.ifOn('skip-auth-preflight'), () => true)
  return [
    ...(type === undefined ? [`Find an OpenID Connect provider in place of ${kind}.`] : []),
    redirectStep(authHost, nameOf(kind)),
    'Save this file, and check it: gatehouse-auth check-config --config config.yaml',
    'If oauth2-proxy keeps running on this machine for now, change server.port, for example to 4181.',
    'Have your proxy ask /portals/main, or /portals/main/authz/nginx from nginx, in place of /oauth2/auth.',
  ]
}

const nameOf = (kind: string) =>
  kind.replaceAll(/[^a-z0-9-]/g, '-').replace(/^[^a-z]+/, '') || 'corp'

/** Where it listens by default: without a certificate, and with one. */
const PLAIN_LISTENER = { host: '127.0.0.1', port: 4180 }
const TLS_LISTENER = { host: '0.0.0.0', port: 443 }

function setServer(source: SourceConfig, draft: Draft): void {
  const cert = source.take('tls-cert-file')
  const key = source.take('tls-key-file')
  const plain = source.take('http-address')
  const tls = source.take('https-address')
  // With a certificate it only listens on the second address.
  const address = cert ? tls : plain
  const listener = readAddress(address?.values[0])
  const { host, port } = listener ?? (cert ? TLS_LISTENER : PLAIN_LISTENER)
  draft.set(['server', 'host'], host, listener && address)
  draft.set(['server', 'port'], port, listener && address)
  if (address && !listener) draft.remark(address, 'is no address of TCP; the default is set')
  if (cert) {
    draft.copy(['server', 'tls', 'certFile'], cert)
    draft.copy(['server', 'tls', 'keyFile'], key)
  }
  setTrustedProxies(source, draft)
  const metrics = source.take('metrics-address')
  const metricsListener = readAddress(metrics?.values[0])
  draft.set(['metrics', 'host'], metricsListener?.host, metrics)
  draft.set(['metrics', 'port'], metricsListener?.port, metrics)
}

function setTrustedProxies(source: SourceConfig, draft: Draft): void {
  const proxies = source.take('trusted-proxy-ip')
  // Everybody cannot be trusted.
  const narrow = proxies?.values.filter((text) => !/\/[0-6]$/.test(text)) ?? []
  if (narrow.length > 0) draft.set(['server', 'trustedProxies'], narrow, proxies)
  else draft.comment(['server'], ONLY_HERE)
  if (proxies && narrow.length < proxies.values.length)
    draft.remark(
      proxies,
      'trusts nearly everybody, which is left out; list the addresses of the proxy',
    )
}

function setSession(source: SourceConfig, draft: Draft): void {
  const expire = source.take('cookie-expire')
  draft.copy(['session', 'lifetime'], expire, boundedDuration, '168h')
  if (expire && !draft.has(['session', 'lifetime']))
    draft.remark(expire, 'is no duration of a session here; it lasts 8h, or session.lifetime')
}

/** The setting with a host of the sign-in pages that can be one. A path is completed by the request. */
function readRedirectHost(source: SourceConfig, draft: Draft): URL | undefined {
  const setting = source.take('redirect-url')
  const text = setting?.values[0] ?? ''
  const url = URL.parse(text)
  if (url && parseHost(url.hostname)) return url
  if (setting && !text.startsWith('/'))
    draft.remark(setting, 'names no host; give that of the sign-in pages as authHost of its domain')
  return undefined
}

const bare = (domain: string) => domain.replace(/^\*?\./, '').replace(/:[\d*]+$/, '')

/** @returns the host of the sign-in pages, if it can be kept */
function setHosts(source: SourceConfig, draft: Draft): string | undefined {
  const url = readRedirectHost(source, draft)
  const domains = source.list('cookie-domain').map(bare)
  const allowed = source.list('whitelist-domain').map(bare)
  const host = url?.host || undefined
  const names = url?.hostname ? [url.hostname] : []
  const parents = allowed.filter((domain) => names.every((name) => isOn(name, domain)))
  const sites = [domains, parents, names].find((list) => list.length > 0) ?? []
  const upstreams = source.settings.find(({ name }) => name === 'upstream')?.values ?? []
  // It is in front of an app itself, at the host of its pages.
  const isApp = upstreams.some((text) => !/^(static:|file:\/\/\/dev\/null|$)/.test(text))
  for (const domain of sites.length === 0 ? [] : allowed)
    if (!sites.some((site) => isOn(domain, site)))
      draft.comment(['domains'], `People are not sent back to ${domain}: add it if it has apps.`)
  return setDomains(draft, sites, host, isApp)
}

function setProvider(source: SourceConfig, draft: Draft, kind: string): void {
  const type = TYPES[kind] ?? 'openIDConnect'
  const path = (key: string) => [...PROVIDER, key]
  draft.set(path('type'), type, source.take('provider'))
  draft.set(path('name'), nameOf(kind))
  draft.copy(path('title'), source.take('provider-display-name'), shortened)
  setIssuer(source, draft, kind)
  draft.copy(path('clientId'), source.take('client-id'))
  const token = source.ifOn('entra-id-federated-token-auth')
  if (token) draft.set(path('clientAssertion'), { type: 'azureWorkloadIdentity' }, token)
  else setClientSecret(source, draft, PROVIDER, ['client-secret', 'client-secret-file'])
  setParameters(source, draft, type)
  if (type !== 'openIDConnect' && type !== 'microsoftEntraID') return
  const groups = source.take('oidc-groups-claim')
  if (groups?.values[0] !== 'groups') draft.copy(path('groupsClaim'), groups)
  const trust = source.ifOn('insecure-oidc-allow-unverified-email')
  if (trust) draft.set(path('trustEmail'), true, trust)
  // Their older provider for Keycloak does not ask.
  else trustEmail(draft, kind === 'keycloak' ? true : 'unlessFalse')
}

function setParameters(source: SourceConfig, draft: Draft, type: string): void {
  const scope = source.take('scope')
  if (scope && type === 'github') draft.remark(scope, 'GitHub needs none here')
  else draft.copy([...PROVIDER, 'scopes'], scope, words)
  for (const name of ['prompt', 'acr-values', 'resource'])
    draft.copy([...PROVIDER, 'authorizationParameters', name.replace('-', '_')], source.take(name))
  const ca = source.take('provider-ca-file')
  if (ca && ca.values.length > 1) draft.remark(ca, 'join the files into one, and set caFile to it')
  else draft.copy([...PROVIDER, 'caFile'], ca)
}

function setIssuer(source: SourceConfig, draft: Draft, kind: string): void {
  const type = TYPES[kind]
  const issuer = source.take('oidc-issuer-url')
  if (type === 'google' || type === 'github') return
  if (type === 'microsoftEntraID') setTenant(source, draft, issuer)
  else if (type === 'gitlab') draft.copy([...PROVIDER, 'url'], issuer, plainUrl)
  else {
    const path = [...PROVIDER, 'issuerUrl']
    // The issuer of Keycloak is also the start of the address where people sign in.
    draft.copy(path, source.take('login-url'), (text) => plainUrl(REALM.exec(text)?.[1] ?? ''))
    draft.copy(path, issuer, plainUrl)
    askForIssuer(draft, kind)
  }
}

function setTenant(source: SourceConfig, draft: Draft, issuer?: SourceSetting): void {
  const tenant = source.take('azure-tenant')
  const [, authority, id] = ENTRA.exec(plainUrl(issuer?.values[0] ?? '') ?? '') ?? []
  const tenantId = id ?? tenant?.values[0]
  draft.set([...PROVIDER, 'tenantId'], tenantId?.toLowerCase(), id === undefined ? tenant : issuer)
  if (authority !== undefined && authority !== 'https://login.microsoftonline.com')
    draft.set([...PROVIDER, 'authority'], authority, issuer)
  if (tenantId === undefined)
    draft.todo(
      [...PROVIDER, 'type'],
      'tenantId is missing: a provider is for one tenant, by its ID.',
    )
}

/** Sets the headers for apps. Their user is the login name for GitHub, and the subject for the others. */
function setHeaders(source: SourceConfig, draft: Draft, kind: string): void {
  const xauth = source.ifOn('set-xauthrequest')
  draft.copy([...PORTAL, 'headers'], xauth, () => 'x-auth-request-*')
  const prefer = source.ifOn('prefer-email-to-user')
  if (prefer) draft.set([...PORTAL, 'userHeader'], 'email', prefer)
  else if (kind === 'github') draft.set([...PORTAL, 'userHeader'], 'username')
}
